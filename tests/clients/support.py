"""What the client tests share: names that do not collide, connections that are closed, waiting with a deadline."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import AMQPError, ChannelClosedByBroker, ConnectionClosedByBroker

PATIENCE_SECONDS = 30.0
"""How long a test waits for what must happen; only a failing test ever waits this long."""


@dataclass(frozen=True)
class Peer:
    """The broker under test: ours as a process of its own, or the one that ANNULET_TEST_PEER names."""

    url: str
    ours: bool
    stomp_port: int = 61613

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or "127.0.0.1"

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 5672

    def parameters(self, **settings: Any) -> pika.ConnectionParameters:
        """Return pika's parameters as guest on ``/``; ``settings`` are those of ``pika.ConnectionParameters``."""
        given: dict[str, Any] = {"credentials": pika.PlainCredentials("guest", "guest"), **settings}
        return pika.ConnectionParameters(self.host, self.port, **given)


class Scene:
    """One test's part of the broker: its connections are closed and its queues and exchanges deleted afterwards."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._connections: list[BlockingConnection] = []
        self._names: list[str] = []

    def name(self, label: str = "queue") -> str:
        """Return a name nobody else uses."""
        name = f"{label}-{uuid.uuid4().hex[:12]}"
        self._names.append(name)
        return name

    def connect(self, **settings: Any) -> BlockingConnection:
        """Open a connection."""
        connection = BlockingConnection(self.peer.parameters(**settings))
        self._connections.append(connection)
        return connection

    def channel(self) -> BlockingChannel:
        """Open a channel on a connection of its own."""
        return self.connect().channel()

    def queue(self, channel: BlockingChannel, **settings: Any) -> str:
        """Declare a queue with a fresh name and return the name."""
        name = self.name()
        channel.queue_declare(name, **settings)
        return name

    def close_connections(self) -> None:
        """Close the connections, those too that the broker has left without pika knowing yet."""
        for connection in self._connections:
            close_quietly(connection)
        self._connections.clear()

    def close(self) -> None:
        """Close the connections and delete what has the names handed out."""
        self.close_connections()
        if self._names:
            with BlockingConnection(self.peer.parameters()) as connection:
                channel = connection.channel()
                for name in self._names:
                    channel.queue_delete(name)
                    channel.exchange_delete(name)


def close_quietly(connection: BlockingConnection) -> None:
    """Close a connection whose peer may be gone: an open one gives its sockets back only by trying to close it."""
    if connection.is_open:
        with suppress(AMQPError, OSError, AssertionError):  # pika fails an assertion of its own on a broken socket
            connection.close()


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Take and acknowledge everything pending."""
    taken: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return taken
        taken.append(body)


def depth(channel: BlockingChannel, queue: str) -> int:
    """Return how many messages are pending."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def wait_until(condition: Callable[[], Any], connection: BlockingConnection, what: str = "") -> None:
    """Handle the connection's events until ``condition`` holds; fail after ``PATIENCE_SECONDS``."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {PATIENCE_SECONDS} seconds in vain {what}")
        connection.process_data_events(time_limit=0.05)


def deliveries(channel: BlockingChannel, queue: str, **settings: Any) -> list[tuple[Any, pika.BasicProperties, bytes]]:
    """Start a consumer and return the list that its deliveries are appended to."""
    received: list[tuple[Any, pika.BasicProperties, bytes]] = []

    def on_message(_: BlockingChannel, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        received.append((method, properties, body))

    channel.basic_consume(queue, on_message, **settings)
    return received


@contextmanager
def channel_closed(code: int, *words: str) -> Iterator[None]:
    """Expect that the block gets its channel closed with ``code`` and a text that has all ``words``."""
    with pytest.raises(ChannelClosedByBroker) as caught:
        yield
    assert caught.value.reply_code == code, caught.value
    for word in words:
        assert word in caught.value.reply_text


@contextmanager
def connection_closed(code: int, *words: str) -> Iterator[None]:
    """Expect that the block gets its connection closed with ``code`` and a text that has all ``words``."""
    with pytest.raises(ConnectionClosedByBroker) as caught:
        yield
    assert caught.value.reply_code == code, caught.value
    for word in words:
        assert word in caught.value.reply_text
