"""connection.blocked: what publishers and consumers see when the broker is low on memory."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.clients.support import Peer, Scene, deliveries, wait_until

LIMIT = 160 * 1024 * 1024
"""Bytes: above what an idle broker takes, and quickly filled."""

pytestmark = pytest.mark.usefixtures("ours")


@pytest.fixture
def small(ours: Peer) -> Iterator[Scene]:
    """A broker of its own with little memory."""
    with BrokerProcess(None, "--memory-limit", str(LIMIT)) as process:
        scene = Scene(Peer(process.amqp_url, ours=True))
        yield scene
        scene.close_connections()


def test_publishers_are_blocked_and_told_and_consumers_go_on(small: Scene) -> None:
    publisher, consumer = small.connect(), small.connect()
    events: list[str] = []
    publisher.add_on_connection_blocked_callback(lambda _, frame: events.append("blocked " + frame.method.reason))
    publisher.add_on_connection_unblocked_callback(lambda *_: events.append("unblocked"))
    channel = publisher.channel()
    queue = small.queue(channel)
    body = bytes(1 << 20)
    sent = 0
    while not events and sent < 2 * LIMIT:
        channel.basic_publish("", queue, body)
        sent += len(body)
        publisher.process_data_events(time_limit=0)
    wait_until(lambda: events, publisher)
    assert events[0].startswith("blocked ")
    assert "memory" in events[0]

    received = deliveries(consumer.channel(), queue, auto_ack=True)
    wait_until(lambda: len(received) > 10, consumer)
    deadline_events = 0
    while "unblocked" not in events:
        received.clear()
        consumer.process_data_events(time_limit=0.05)
        publisher.process_data_events(time_limit=0.05)
        deadline_events += 1
        assert deadline_events < 600, "the alarm never ended although the queue was drained"
    probe = small.queue(channel)
    channel.confirm_delivery()
    channel.basic_publish("", probe, b"works again", pika.BasicProperties())
