"""connection.blocked: what publishers and consumers see when the broker is low on memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.clients.below_pika import connection_below
from tests.clients.support import PATIENCE_SECONDS, Peer, Scene, depth, wait_until

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


class Publisher(threading.Thread):
    """Publishes large messages, each confirmed before the next, until it is stopped.

    In a thread, with callbacks below pika's queue of events: while the broker does not read, pika sits in its write.
    """

    def __init__(self, peer: Peer, queue: str) -> None:
        super().__init__(daemon=True)
        self.peer = peer
        self.queue = queue
        self.blocked: list[str] = []  # the reasons given
        self.was_blocked = threading.Event()
        self.was_unblocked = threading.Event()
        self.stopping = threading.Event()

    def run(self) -> None:
        with pika.BlockingConnection(self.peer.parameters()) as connection:
            connection_below(connection).add_on_connection_blocked_callback(self.on_blocked)
            connection_below(connection).add_on_connection_unblocked_callback(lambda *_: self.was_unblocked.set())
            channel = connection.channel()
            channel.confirm_delivery()
            while not self.stopping.is_set():
                channel.basic_publish("", self.queue, bytes(1 << 20))

    def on_blocked(self, _: object, frame: Any) -> None:
        self.blocked.append(frame.method.reason)
        self.was_blocked.set()


def test_publishers_are_blocked_and_told_and_consumers_go_on(small: Scene) -> None:
    consumer = small.connect()
    channel = consumer.channel()
    queue = small.queue(channel)
    publisher = Publisher(small.peer, queue)
    publisher.start()
    assert publisher.was_blocked.wait(PATIENCE_SECONDS)
    assert "memory" in publisher.blocked[0]
    assert publisher.is_alive()

    consumed = 0

    def on_message(*_: object) -> None:
        nonlocal consumed
        consumed += 1

    channel.basic_consume(queue, on_message, auto_ack=True)
    wait_until(publisher.was_unblocked.is_set, consumer, "for the alarm to end, although the queue is drained")
    assert consumed > 10
    publisher.stopping.set()
    wait_until(lambda: not publisher.is_alive(), consumer)
    while depth(channel, queue):
        consumer.process_data_events(time_limit=0.05)
