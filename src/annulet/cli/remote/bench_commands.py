"""``annulet bench``: publish and consume a load; rates, latency, order and loss.

The queue is made for it and deleted afterwards. Each body begins with its number and the time at which it was sent.
"""

from __future__ import annotations

import secrets
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol

import click

from annulet.cli.remote.failures import EXIT_REFUSED_BY_BROKER, Failure
from annulet.cli.remote.loads.amqp10_load import Amqp10Load
from annulet.cli.remote.loads.amqp_load import AmqpLoad
from annulet.cli.remote.options import API, Remote, remote_options
from annulet.cli.remote.stomp_client import StompClient
from annulet.cli.remote.values import read_arguments
from annulet.wire.stomp.frames import Frame, encode_frame

BATCH: Final = 200
"""Messages of one write."""

UNCONFIRMED_MAX: Final = 2_000
PREFETCH: Final = 2_000
SILENCE_SECONDS: Final = 10.0
"""Without a message for so long, the rest counts as lost."""

STAMP: Final = struct.Struct(">QQ")
"""Number, and nanoseconds of the monotonic clock."""

SIZE_LEAST: Final = STAMP.size
SIZE_MOST: Final = 128_000
PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)


@dataclass(slots=True)
class Received:
    """The messages that a consumer got. Latencies are nanoseconds."""

    count: int = 0
    out_of_order: int = 0
    duplicates: int = 0
    latencies: list[int] = field(default_factory=list)
    first_at: float = 0.0
    last_at: float = 0.0
    _seen: set[int] = field(default_factory=set)
    _highest: int = -1

    def note(self, body: bytes) -> None:
        """Count a message."""
        now = time.monotonic_ns()
        number, sent_at = STAMP.unpack_from(body)
        if number in self._seen:
            self.duplicates += 1
            return
        self._seen.add(number)
        self.out_of_order += number < self._highest
        self._highest = max(self._highest, number)
        self.count += 1
        self.latencies.append(now - sent_at)
        self.last_at = now / 1e9
        self.first_at = self.first_at or self.last_at


class Load(Protocol):
    """A client of one protocol."""

    def publish(self, queue: str, count: int, body_of: Callable[[int], bytes], pace: Pace) -> None:
        """Publish numbered messages; return when the broker has confirmed all."""

    def consume(self, queue: str, count: int, received: Received) -> None:
        """Consume until all have come, or nothing comes any more."""


class Pace:
    """Keeps a rate of messages a second; 0 is as fast as possible."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._begun = time.monotonic()

    def batch(self) -> int:
        """Return how many messages to send in one write: of a rate a hundredth of a second's."""
        return min(BATCH, max(1, self._rate // 100)) if self._rate else BATCH

    def keep(self, sent: int) -> None:
        """Wait until ``sent`` messages are due."""
        if self._rate:
            time.sleep(max(0.0, self._begun + sent / self._rate - time.monotonic()))


class AmqpBench:
    """AMQP 0-9-1 with confirms."""

    client: ClassVar[type[AmqpLoad | Amqp10Load]] = AmqpLoad

    def __init__(self, remote: Remote, *, persistent: bool) -> None:
        self._remote = remote
        self._persistent = persistent

    def publish(self, queue: str, count: int, body_of: Callable[[int], bytes], pace: Pace) -> None:
        """Publish in batches, with a bound on unconfirmed messages."""
        with self.client(self._remote) as client:
            client.prepare(queue)
            sent = 0
            while client.confirmed < count:
                upto = min(sent + min(pace.batch(), client.room(UNCONFIRMED_MAX)), count)
                if upto > sent:
                    client.publish([body_of(number) for number in range(sent, upto)], persistent=self._persistent)
                    sent = upto
                    pace.keep(sent)
                    continue
                _wait_for_room(client)
            client.close()

    def consume(self, queue: str, count: int, received: Received) -> None:
        """Acknowledge with each read."""
        with self.client(self._remote) as client:
            client.consume(queue, PREFETCH)
            heard_at = time.monotonic()
            while received.count < count and time.monotonic() - heard_at < SILENCE_SECONDS:
                found = client.read(SILENCE_SECONDS)
                if not found:
                    continue  # a part of a message, or silence
                heard_at = time.monotonic()
                for _, body in found:
                    received.note(body)
                client.acknowledge(found[-1][0])
            client.close()


class Amqp10Bench(AmqpBench):
    """AMQP 1.0 with unsettled messages: the outcome is the confirm."""

    client = Amqp10Load


def _wait_for_room(client: AmqpLoad | Amqp10Load) -> None:
    """Wait for a confirm, or until more may be sent."""

    def state() -> tuple[int, int]:
        return client.confirmed, client.room(UNCONFIRMED_MAX)

    before, until = state(), time.monotonic() + SILENCE_SECONDS
    while state() == before:
        if time.monotonic() > until:
            raise Failure(EXIT_REFUSED_BY_BROKER, f"no confirm for {SILENCE_SECONDS:.0f} s; is the disk full?")
        client.read(SILENCE_SECONDS)


class StompBench:
    """STOMP 1.2 with a receipt for all."""

    def __init__(self, remote: Remote, *, persistent: bool) -> None:
        self._remote = remote
        self._headers = {"persistent": "true"} if persistent else {}

    def publish(self, queue: str, count: int, body_of: Callable[[int], bytes], pace: Pace) -> None:
        """Publish in batches; the receipt of the end is the confirm."""
        with StompClient(self._remote) as client:
            destination = f"/amq/queue/{queue}"
            sent = 0
            while sent < count:
                upto = min(sent + pace.batch(), count)
                bodies = [body_of(number) for number in range(sent, upto)]
                head = {"destination": destination, **self._headers}
                client.send_many([encode_frame(Frame("SEND", head, body)) for body in bodies])
                sent = upto
                pace.keep(sent)
            client.finish()

    def consume(self, queue: str, count: int, received: Received) -> None:
        """Acknowledge every hundred, all up to there."""
        with StompClient(self._remote) as client:
            client.subscribe(f"/amq/queue/{queue}", ack="client", headers={"prefetch-count": str(PREFETCH)})
            client.set_wait(SILENCE_SECONDS)
            with suppress(TimeoutError):  # the rest is lost: it is counted
                while received.count < count:
                    message = client.next_frame()
                    if message.command != "MESSAGE":
                        continue
                    received.note(message.body)
                    if received.count % 100 == 0 or received.count == count:
                        client.acknowledge(message)
            client.finish()


LOADS: Final[dict[str, Callable[..., Load]]] = {"amqp": AmqpBench, "amqp10": Amqp10Bench, "stomp": StompBench}


@click.command()
@click.option(
    "--protocol",
    type=click.Choice(list(LOADS)),
    default="amqp",
    show_default=True,
    help="AMQP 0-9-1, AMQP 1.0 or STOMP.",
)
@click.option("--messages", "-n", type=click.IntRange(1, 10_000_000), default=20_000, show_default=True)
@click.option("--size", type=click.IntRange(SIZE_LEAST, SIZE_MOST), default=200, show_default=True, metavar="BYTES")
@click.option("--rate", type=click.IntRange(0), default=0, metavar="N", help="Messages a second.  [default: no limit]")
@click.option("--transient", is_flag=True, help="A queue and messages that need not survive a restart.")
@click.option("--argument", "-a", "arguments", multiple=True, metavar="NAME=VALUE", help="Of the queue; repeat it.")
@remote_options
def bench(remote: Remote, protocol: str, messages: int, size: int, **options: Any) -> None:
    """Measure the broker: a queue is made, loaded, emptied at the same time, and deleted.

    Ends with exit code 1 when a message was lost, came twice or out of order.
    """
    queue = f"annulet.bench.{secrets.token_hex(4)}"
    persistent = not options["transient"]
    path = (*API, "queues", remote.vhost, queue)
    declared = {"durable": persistent, "arguments": read_arguments(options["arguments"])}
    remote.client.ask("PUT", path, declared)
    try:
        _ = remote.listeners  # before there are two threads
        load = LOADS[protocol](remote, persistent=persistent)
        result = measure(load, queue, messages, size, options["rate"])
    finally:
        remote.client.ask("DELETE", path)
    result = {"protocol": protocol, "messages": messages, "size": size, "persistent": persistent, **result}
    remote.output.members(result)
    if result["lost"] or result["duplicates"] or result["out_of_order"]:
        raise Failure(EXIT_REFUSED_BY_BROKER, "messages were lost, came twice or out of order")


def measure(load: Load, queue: str, messages: int, size: int, rate: int) -> dict[str, Any]:
    """Publish and consume at the same time; return rates a second, latency in milliseconds, and what went wrong."""
    rest = bytes(size - STAMP.size)
    received = Received()
    failures: list[BaseException] = []

    def consume() -> None:
        try:
            load.consume(queue, messages, received)
        except (Failure, OSError) as error:
            failures.append(error)

    consumer = threading.Thread(target=consume)
    consumer.start()
    begun = time.monotonic()
    try:
        load.publish(queue, messages, lambda number: STAMP.pack(number, time.monotonic_ns()) + rest, Pace(rate))
        published = time.monotonic() - begun
    finally:
        consumer.join()
    for error in failures:
        raise error
    latencies = sorted(received.latencies)
    percentiles = {f"p{share:g}": round(percentile(latencies, share) / 1e6, 2) for share in PERCENTILES}
    return {
        "published_per_second": round(messages / published),
        "consumed_per_second": round(received.count / max(received.last_at - begun, 1e-9)),
        "latency_milliseconds": {**percentiles, "max": round(percentile(latencies, 100.0) / 1e6, 2)},
        "lost": messages - received.count,
        "duplicates": received.duplicates,
        "out_of_order": received.out_of_order,
    }


def percentile(ordered: list[int], share: float) -> int:
    """Return the value that ``share`` percent of an ordered list do not exceed; 0 for an empty list."""
    if not ordered:
        return 0
    return ordered[min(len(ordered) - 1, max(0, -int(-len(ordered) * share // 100) - 1))]
