"""Debian's amqp-tools: command line clients on librabbitmq, the C client library."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.clients.support import PATIENCE_SECONDS, Scene, bodies

pytestmark = [
    pytest.mark.debian,
    pytest.mark.skipif(shutil.which("amqp-publish") is None, reason="amqp-tools is not installed"),
]


def address(scene: Scene) -> list[str]:
    """Return the option that names the peer; librabbitmq reads a final slash as the virtual host without a name."""
    return ["--url", scene.peer.url.rstrip("/")]


def run(
    scene: Scene, program: str, *arguments: str, data: bytes = b"", check: bool = True
) -> subprocess.CompletedProcess[bytes]:
    """Run one of the tools against the peer."""
    command = [f"amqp-{program}", *address(scene), *arguments]
    result = subprocess.run(command, input=data, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    if check:
        assert result.returncode == 0, result.stderr
    return result


def test_declare_publish_get_delete(scene: Scene) -> None:
    queue = scene.name()
    assert run(scene, "declare-queue", "--queue", queue, "--durable").stdout.strip() == queue.encode()
    run(scene, "publish", "--routing-key", queue, "--body", "first", "--persistent")
    run(scene, "publish", "--routing-key", queue, data=b"second\x00\xff")
    assert run(scene, "get", "--queue", queue).stdout == b"first"
    assert run(scene, "get", "--queue", queue).stdout == b"second\x00\xff"
    assert run(scene, "get", "--queue", queue, check=False).returncode == 2  # empty
    run(scene, "publish", "--routing-key", queue, "--body", "third")
    assert run(scene, "delete-queue", "--queue", queue).stdout.strip() == b"1"


def test_properties_come_through(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    run(
        scene, "publish", "--exchange", "amq.direct", "--routing-key", queue, "--body", "x",
        "--content-type", "text/plain", "--content-encoding", "utf-8", "--header", "colour: blue",
    )  # fmt: skip
    channel.queue_bind(queue, "amq.direct")
    run(
        scene, "publish", "--exchange", "amq.direct", "--routing-key", queue, "--body", "y",
        "--content-type", "text/plain", "--content-encoding", "utf-8", "--header", "colour: blue",
    )  # fmt: skip
    _, properties, body = channel.basic_get(queue, auto_ack=True)
    assert (body, properties.content_type, properties.content_encoding) == (b"y", "text/plain", "utf-8")
    assert properties.headers == {"colour": "blue"}
    assert bodies(channel, queue) == []


def test_consume_runs_a_command_for_each_message(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    for number in range(5):
        channel.basic_publish("", queue, f"{number}\n".encode())
    result = run(scene, "consume", "--queue", queue, "--count", "3", "--prefetch-count", "1", "cat")
    assert result.stdout == b"0\n1\n2\n"
    assert bodies(channel, queue) == [b"3\n", b"4\n"]


def test_consume_binds_a_queue_of_its_own(scene: Scene) -> None:
    queue = scene.name()
    command = ["amqp-consume", *address(scene), "--queue", queue, "--exchange", "amq.topic"]
    command += ["--routing-key", f"{queue}.#", "--declare", "--count", "1", "cat"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as consumer:
        channel = scene.channel()
        channel.confirm_delivery()
        while consumer.poll() is None:  # until the consumer has bound its queue, messages go nowhere
            channel.basic_publish("amq.topic", f"{queue}.news", b"news")
            channel.connection.process_data_events(time_limit=0.05)
        output, _ = consumer.communicate(timeout=PATIENCE_SECONDS)
    assert output == b"news"


def test_errors_reach_the_user(scene: Scene) -> None:
    result = run(scene, "get", "--queue", scene.name(), check=False)
    assert result.returncode != 0
    assert b"404" in result.stderr
