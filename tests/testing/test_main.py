from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pika
import pytest

import annulet
from annulet.testing.__main__ import main

SOURCE = Path(annulet.__file__).parents[1]
COMMAND = [sys.executable, "-m", "annulet.testing", "--print-urls", "--listeners", "amqp"]


def serve(*commands: str, options: tuple[str, ...] = ("--listeners", "amqp")) -> list[str]:
    output = io.StringIO()
    assert main(["--print-urls", *options], io.StringIO("".join(f"{line}\n" for line in commands)), output) == 0
    return output.getvalue().splitlines()


def test_urls_are_printed_and_commands_answered() -> None:
    lines = serve("settle", "advance 1h", "", "reset", "story x", "advance x", "jump")
    assert lines[0].startswith("AMQP_URL=amqp://guest:guest@127.0.0.1:")
    assert lines[1:3] == ["", "ok"]
    assert lines[3].startswith("ok 1")
    assert lines[4:7] == [lines[0], "", "ok"], "the URL stays"
    assert lines[7].startswith("error no queue accepted a message")
    assert lines[8].startswith("error duration='x' is no duration")
    assert lines[9] == "error no command 'jump'; there are settle, advance DURATION, story BODY and reset"


def test_listeners_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    lines = serve(options=("--listeners", "amqp,stomp"))
    assert [line.partition("=")[0] for line in lines] == ["AMQP_URL", "STOMP_URL", ""]
    with pytest.raises(SystemExit):
        main(["--print-urls", "--listeners", "mqtt"])
    assert "no listener 'mqtt'; give some of amqp,stomp,http,bulk" in capsys.readouterr().err


def test_a_port_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["--print-urls", "--port", str(port)], io.StringIO()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"annulet.testing: port={port} cannot be used")


def test_it_ends_with_its_input() -> None:
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    url = process.stdout.readline().strip().partition("=")[2]
    assert process.stdout.readline() == "\n"
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"1")
    process.stdin.write("story 1\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert "published" in json.loads(answer.removeprefix("ok "))[0]
    connection.close()
    process.stdin.close()
    assert process.wait() == 0
    assert process.stdout.read() == ""
    process.stdout.close()


def test_it_ends_with_its_parent_though_the_input_stays_open() -> None:
    reading, writing = os.pipe()
    script = (
        f"import subprocess, sys, time; p = subprocess.Popen({COMMAND!r}); print(p.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdin=reading, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )  # fmt: skip
    assert parent.stdout is not None
    lines = [parent.stdout.readline(), parent.stdout.readline()]
    assert any("AMQP_URL" in line for line in lines)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert parent.stdout.read().count("AMQP_URL") == 0, (
        "it ends when the broker has ended too, which has the same output"
    )
    parent.stdout.close()
    os.close(reading)
    os.close(writing)
