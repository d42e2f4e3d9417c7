"""Clean restarts, a second broker on the same data, progress of a recovery."""

from __future__ import annotations

import subprocess

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.clients.support import PATIENCE_SECONDS, Scene
from tests.crash.workload import PERSISTENT, contents, encode


def test_a_clean_restart_loses_nothing_and_marks_nothing(process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("kept", durable=True)
    channel.confirm_delivery()
    for number in range(200):
        channel.basic_publish("", "kept", encode(number), PERSISTENT)
    channel.connection.close()
    for _ in range(2):
        assert process.terminate() == 0, process.log_end()
        process.start()
    assert contents(scene.channel(), "kept") == [(number, False) for number in range(200)]


def test_a_clean_stop_tells_its_clients(process: BrokerProcess, scene: Scene) -> None:
    connection = scene.connect()
    assert process.terminate() == 0
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        connection.process_data_events(time_limit=PATIENCE_SECONDS)
    assert caught.value.reply_code == 320


def test_publishes_without_confirms_before_a_clean_stop_are_kept(process: BrokerProcess, scene: Scene) -> None:
    """They were accepted: the broker writes what it has before it ends."""
    channel = scene.channel()
    channel.queue_declare("kept", durable=True)
    for number in range(500):
        channel.basic_publish("", "kept", encode(number), PERSISTENT)
    assert channel.queue_declare("kept", passive=True).method.message_count == 500
    channel.connection.close()
    assert process.terminate() == 0
    process.start()
    assert [number for number, _ in contents(scene.channel(), "kept")] == list(range(500))


def test_a_second_broker_on_the_same_data_is_refused(process: BrokerProcess, scene: Scene) -> None:
    second = BrokerProcess(process.data)
    result = subprocess.run(
        second.command(), env=second.environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 2
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("annulet:")]
    assert str(process.data) in line
    assert str(process.pid) in line
    assert "Traceback" not in result.stderr
    scene.queue(scene.channel(), durable=True)  # the first one goes on


def test_a_recovery_says_how_far_it_is(process: BrokerProcess, scene: Scene) -> None:
    channel = scene.channel()
    channel.queue_declare("deep", durable=True)
    channel.tx_select()
    for number in range(3000):
        channel.basic_publish("", "deep", encode(number), PERSISTENT)
    channel.tx_commit()
    process.restart()
    assert "messages restored" in process.log_end(100_000)
    assert "3000" in process.log_end(100_000)
    assert process.get("/api/v1/queues/%2F/deep")["message_count"] == 3000
