"""A producer and a consumer that remember what the broker promised them, for tests that kill the broker.

What is promised (docs/durability.md):

- A persistent message in a durable queue is there once its publish was confirmed.
- An acknowledgement sent on a connection is durable once a persistent publish or a tx.commit that follows it, on the
  same channel, was confirmed or answered.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import AMQPError

from tests.clients.below_pika import channel_below
from tests.clients.support import Peer, close_quietly, deliveries, depth, wait_until

PERSISTENT = pika.BasicProperties(delivery_mode=2)
PADDING = bytes(range(256)) * 2


def encode(number: int) -> bytes:
    """Return the body of message ``number``: it names itself and notices damage."""
    text = b"%d|" % number + PADDING
    return text + zlib.crc32(text).to_bytes(4, "big")


def decode(body: bytes) -> int:
    """Return the number in a body; fails when the body was damaged."""
    assert zlib.crc32(body[:-4]) == int.from_bytes(body[-4:], "big"), "a body was damaged"
    return int(body.split(b"|", 1)[0])


class Client(threading.Thread):
    """A client in a thread of its own that works until the broker is gone or it is told to stop."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(daemon=True)
        self.peer = peer
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Connect and work; the broker's death is the expected end."""
        connection: BlockingConnection | None = None
        try:
            connection = BlockingConnection(self.peer.parameters(heartbeat=0))
            self.work(connection, connection.channel())
        except (AMQPError, OSError, AssertionError) as error:
            # pika fails an assertion of its own when the socket breaks while it writes.
            if not self.stopping.is_set():
                self.failure = error
        finally:
            if connection is not None:
                close_quietly(connection)

    def work(self, connection: BlockingConnection, channel: BlockingChannel) -> None:
        """Do what this client does until ``stopping``."""
        raise NotImplementedError

    def expect_death(self) -> None:
        """Say that errors are expected from now on: the broker is about to be killed."""
        self.stopping.set()


class Producer(Client):
    """Publishes numbers from ``first`` on, and knows which were confirmed."""

    def __init__(self, peer: Peer, exchange: str, keys: Iterable[str], first: int, *, window: int = 100) -> None:
        super().__init__(peer)
        self.exchange = exchange
        self.keys = list(keys)
        self.first = first
        self.window = window
        self.sent = first  # numbers below were handed to the socket, perhaps
        self.confirmed: set[int] = set()
        self.enough = threading.Event()
        self.wanted = 1 << 62  # confirms after which ``enough`` is set

    def work(self, connection: BlockingConnection, channel: BlockingChannel) -> None:
        """Keep ``window`` publishes unconfirmed."""
        lowest = 1

        def on_outcome(frame: Any) -> None:
            nonlocal lowest
            outcome = frame.method
            assert isinstance(outcome, pika.spec.Basic.Ack), "a publish was refused"
            last = outcome.delivery_tag
            for tag in range(lowest, last + 1) if outcome.multiple else (last,):
                self.confirmed.add(self.first + tag - 1)
            if outcome.multiple:
                lowest = last + 1
            if len(self.confirmed) >= self.wanted:
                self.enough.set()

        answered: list[Any] = []
        channel_below(channel).confirm_delivery(on_outcome, callback=answered.append)
        while not answered:
            connection.process_data_events(time_limit=1)
        while not self.stopping.is_set():
            while self.sent - self.first - len(self.confirmed) < self.window:
                number = self.sent
                self.sent += 1
                channel_below(channel).basic_publish(
                    self.exchange, self.keys[number % len(self.keys)], encode(number), self.properties(number)
                )
            connection.process_data_events(time_limit=0.2)

    def properties(self, number: int) -> pika.BasicProperties:
        """Return the properties of one message."""
        return PERSISTENT


class Consumer(Client):
    """Acknowledges batches, and knows which acknowledgements are durable: a confirmed marker followed them."""

    def __init__(self, peer: Peer, queue: str, markers: str, *, batch: int = 20) -> None:
        super().__init__(peer)
        self.queue = queue
        self.markers = markers
        self.batch = batch
        self.received: list[int] = []
        self.acknowledged: set[int] = set()  # the acknowledgement was sent: the message may be gone
        self.settled: set[int] = set()  # it is durable: the message must be gone

    def work(self, connection: BlockingConnection, channel: BlockingChannel) -> None:
        """Acknowledge one by one or many at once, in turns, and publish a marker after each batch."""
        waiting: list[tuple[int, int]] = []

        def on_message(_: BlockingChannel, method: Any, __: pika.BasicProperties, body: bytes) -> None:
            number = decode(body)
            self.received.append(number)
            waiting.append((method.delivery_tag, number))

        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=self.batch * 2)
        channel.basic_consume(self.queue, on_message)
        multiple = False
        while not self.stopping.is_set():
            connection.process_data_events(time_limit=0.05)
            if len(waiting) < self.batch:
                continue
            multiple = not multiple
            batch, waiting[:] = waiting[: self.batch], waiting[self.batch :]
            self.acknowledged.update(number for _, number in batch)
            if multiple:
                channel.basic_ack(batch[-1][0], multiple=True)
            else:
                for tag, _ in batch:
                    channel.basic_ack(tag)
            channel.basic_publish("", self.markers, b"marker", PERSISTENT)  # returns when confirmed
            self.settled.update(number for _, number in batch)


def contents(channel: BlockingChannel, queue: str) -> list[tuple[int, bool]]:
    """Return number and redelivered flag of everything pending, in order; all of it stays in the queue."""
    count = depth(channel, queue)
    taken: list[tuple[int, bool]] = []
    if count:
        received = deliveries(channel, queue, consumer_tag="contents")
        wait_until(lambda: len(received) >= count, channel.connection)
        channel.basic_cancel("contents")
        taken = [(decode(body), method.redelivered) for method, _, body in received]
        channel.basic_nack(received[-1][0].delivery_tag, multiple=True, requeue=True)
    return taken
