from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pika
import pytest
from click.testing import CliRunner

from annulet.application import build_broker
from annulet.broker.settings.configuration import LOOPBACK, BrokerConfiguration, Endpoint
from annulet.cli import serve
from annulet.cli.main import main
from annulet.cli.serve import (
    EXIT_FAILED,
    EXIT_NOT_STARTED,
    command_line_document,
    describe_os_error,
    until_the_end,
)
from annulet.cli.service_manager import ServiceManager
from annulet.cli.signals import EXIT_SIGNAL
from tests.broker_process import STOP_SECONDS, BrokerProcess
from tests.clients.support import close_quietly

if TYPE_CHECKING:
    from annulet.broker.broker import Broker


def failure(*arguments: str, process: BrokerProcess | None = None) -> str:
    """Run ``annulet serve`` that must not start; return its last line on standard error."""
    command = (process or BrokerProcess(None)).command()
    done = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        timeout=STOP_SECONDS,
        env=BrokerProcess(None).environment,
        check=False,
    )
    assert done.returncode == EXIT_NOT_STARTED, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def refused(*arguments: str) -> str:
    """The same for what is refused before anything is started, without a process."""
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert result.exit_code == EXIT_NOT_STARTED, result.output
    return result.output.strip().splitlines()[-1]


def test_options_take_the_shape_of_the_file() -> None:
    assert command_line_document({"data": None, "memory": False, "amqp": None}) == {}
    assert command_line_document(
        {
            "memory": True,
            "amqp": ":1",
            "bulk": "off",
            "log_format": "json",
            "heartbeat": 0,
            "memory_limit": "1GB",
            "body_budget": "2MiB",
            "spill_limit": "0",
        }
    ) == {
        "memory": True,
        "memory_limit": "1GB",
        "body_budget": "2MiB",
        "spill_limit": "0",
        "heartbeat": 0,
        "listeners": {"amqp": ":1", "bulk": "off"},
        "log": {"format": "json"},
    }


def test_errors_of_the_system_become_one_line() -> None:
    error = OSError(28, "No space left on device", "/data")
    assert describe_os_error(error) == "cannot start: /data No space left on device"


def test_serve_stops_cleanly_on_sigterm_and_keeps_its_data(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", "--log-format", "json") as process:
        connection = pika.BlockingConnection(pika.URLParameters(process.amqp_url))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("kept", durable=True)
        channel.basic_publish("", "kept", b"1", pika.BasicProperties(delivery_mode=2))
        connection.close()
        assert process.terminate() == 0
        assert process.log_file is not None
        lines = [json.loads(line) for line in process.log_file.read_text().splitlines()]
        events = [line["event"] for line in lines]
        serving = lines[events.index("serving")]
        assert serving["amqp"] == f"amqp://127.0.0.1:{process.amqp_port}"
        assert serving["http"] == process.http_url
        assert events[-1] == "stopped"
        process.start()
        assert process.get("/api/v1/queues/%2F/kept")["messages"] == 1
        process.kill()
        process.start()
        assert process.get("/api/v1/queues/%2F/kept")["messages"] == 1


def test_sigint_stops_cleanly_too(tmp_path: Path) -> None:
    with BrokerProcess(None, log_file=tmp_path / "log") as process:
        assert process.process is not None
        process.process.send_signal(signal.SIGINT)
        assert process.process.wait(STOP_SECONDS) == 0


def test_a_second_signal_ends_a_stop_that_waits_for_a_client(tmp_path: Path) -> None:
    with BrokerProcess(None, log_file=tmp_path / "log") as process:
        assert process.process is not None
        connection = pika.BlockingConnection(pika.URLParameters(process.amqp_url))  # answers no close while idle
        process.process.send_signal(signal.SIGTERM)
        process.wait_for_log("a second signal ends at once")
        process.process.send_signal(signal.SIGTERM)
        assert process.process.wait(STOP_SECONDS) == EXIT_SIGNAL + signal.SIGTERM
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            connection.channel()


class FailingBroker:
    """Stands in for a broker whose disk fails at once."""

    def __init__(self) -> None:
        self.stopped = False

    async def failed(self) -> BaseException:
        return OSError(5, "Input/output error")

    async def stop(self) -> None:
        self.stopped = True


async def test_what_start_up_made_is_collected_before_clients_can_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers: list[Broker] = []
    listening: list[bool] = []

    def build(configuration: BrokerConfiguration) -> Broker:
        brokers.append(build_broker(configuration))
        return brokers[0]

    monkeypatch.setattr(serve, "build_broker", build)
    monkeypatch.setattr(serve, "settle_collector", lambda: listening.append(brokers[0].amqp_address[1] > 0))
    monkeypatch.setattr(serve, "log_addresses", lambda _broker: os.kill(os.getpid(), signal.SIGTERM))
    configuration = BrokerConfiguration(data_directory=None, amqp=Endpoint(LOOPBACK, 0), http=None, bulk=None)
    assert await serve.run(configuration, lambda: configuration) == 0
    assert listening == [False]


async def test_a_failed_disk_stops_the_broker_with_its_own_exit_code() -> None:
    broker = FailingBroker()
    stopping = asyncio.create_task(asyncio.Event().wait())
    assert await until_the_end(cast("Broker", broker), stopping, ServiceManager({})) == EXIT_FAILED
    assert broker.stopped
    stopping.cancel()


def test_configuration_errors_name_the_setting(tmp_path: Path) -> None:
    assert refused("--amqp", "here:there") == (
        "annulet: --amqp: 'here:there': port 'there' is not a number from 0 to 65535"
    )
    file = tmp_path / "annulet.toml"
    file.write_text("hartbeat = 1\n")
    assert refused("--config", str(file)) == (f"annulet: {file}: unknown setting 'hartbeat'; did you mean 'heartbeat'?")


@pytest.mark.parametrize("listener", ["amqp", "http"])
def test_a_port_in_use_is_named(listener: str) -> None:
    process = BrokerProcess(None)
    port = {"amqp": process.amqp_port, "http": process.http_port}[listener]
    with socket.create_server(("127.0.0.1", port)):
        line = failure(process=process)
    assert f"127.0.0.1:{port}" in line or f"('127.0.0.1', {port})" in line
    assert "in use" in line


def test_a_data_directory_in_use_is_named_with_its_holder(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as process:
        line = failure(process=BrokerProcess(tmp_path / "data"))
        assert str(process.pid) in line
    assert str(tmp_path / "data") in line


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in failure(process=BrokerProcess(tmp_path / "file" / "data"))


DEFINITIONS = """
ledger_queue = true

[[address_settings]]
match = "orders.#"
max-delivery-attempts = 1
dead-letter-address = "DLA"

[[policies]]
name = "short"
pattern = "^short"
definition = { max-length = 1 }

[[addresses]]
name = "DLA"

[[queues]]
name = "dead"
bindings = [{ exchange = "DLA" }]

[[queues]]
name = "orders.new"
arguments = { ring-size = 2 }

[[queues]]
name = "short.list"

[[queues]]
name = "dropped"

[[queues]]
name = "latest"
arguments = { last-value-key = "k", dropped-address = "dropped" }
"""


def test_definitions_of_the_file_are_there_and_kept_over_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "annulet.toml"
    file.write_text(DEFINITIONS)
    with BrokerProcess(tmp_path / "data", "--config", str(file)) as process:
        connection = pika.BlockingConnection(pika.URLParameters(process.amqp_url))
        channel = connection.channel()
        channel.confirm_delivery()
        for number in range(3):
            for queue in ("orders.new", "short.list"):
                persistent = pika.BasicProperties(delivery_mode=2)
                channel.basic_publish("", queue, str(number).encode(), persistent, mandatory=True)
        channel.basic_nack(channel.basic_get("orders.new")[0].delivery_tag, requeue=True)  # its only attempt
        properties = pika.BasicProperties(delivery_mode=2, headers={"k": 1})
        channel.basic_publish("", "dropped", b"first", properties)
        channel.basic_publish("", "latest", b"old", properties)
        channel.basic_get("latest")  # in delivery when the newer one comes, and when the broker dies
        channel.basic_publish("", "latest", b"new", properties)
        process.kill()
        close_quietly(connection)
        process.restart()
        with pika.BlockingConnection(pika.URLParameters(process.amqp_url)) as connection:
            channel = connection.channel()
            left = {queue: channel.basic_get(queue)[2] for queue in ("dead", "orders.new", "short.list", "latest")}
            dropped = [channel.basic_get("dropped")[2] for _ in range(2)]
        assert left == {"dead": b"1", "orders.new": b"2", "short.list": b"2", "latest": b"new"}
        assert dropped == [b"first", b"old"]


def test_a_definition_that_contradicts_the_data_is_named(tmp_path: Path) -> None:
    file = tmp_path / "annulet.toml"
    file.write_text(DEFINITIONS)
    data = tmp_path / "data"
    with BrokerProcess(data, "--config", str(file)) as process:
        assert process.terminate() == 0
    file.write_text(DEFINITIONS.replace("ring-size = 2", "ring-size = 3"))
    line = failure("--config", str(file), process=BrokerProcess(data))
    assert line.startswith(f"annulet: {file}: [[queues]] 'orders.new': inequivalent arg 'x-ring-size'"), line


def test_serve_adds_the_definitions_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [{"name": "defined"}], "exchanges": [{"name": "e", "type": "nix"}]}))
    with BrokerProcess(tmp_path / "data", "--definitions", str(file)) as process:
        process.wait_for_log("definitions applied")
        assert process.get("/api/v1/queues/%2F/defined")["durable"]
        process.wait_for_log("a definition is not taken")
        process.restart()
        assert process.get("/api/v1/queues/%2F/defined")["durable"]
    file.write_text(json.dumps({"queues": [{"name": "defined", "durable": False}]}))
    assert "1 conflicts" in failure("--definitions", str(file), process=BrokerProcess(tmp_path / "data"))
    file.write_text("nix")
    assert "no JSON object" in failure("--definitions", str(file))
    assert "nix.json" in refused("--definitions", str(tmp_path / "nix.json"))
