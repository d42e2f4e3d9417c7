"""How a broker takes back what a dead connection held: how long it takes, how long the loop is held, what it weighed.

``python -m benchmarks.returns`` runs a broker in its own event loop, lets the channels of one connection hold a million
stored messages of one queue, and ends the connection. There is no client, so what is measured is the broker's own work:
bytes of memory for each message that is held, milliseconds until all are back, and the longest turns meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
import time
from pathlib import Path
from typing import Final

import click

from annulet import testing
from annulet.broker.broker import Broker
from annulet.broker.settings.clock import system_clock
from annulet.core.message.message import Message, Origin
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from annulet.core.sessions.session import Session, end_together
from annulet.wire.amqp091.messages.properties import VIEW

HEADER: Final = b"\x10\x00\x02"
"""Content header of AMQP 0-9-1 with delivery mode 2 and nothing else."""

PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
BODY_BYTES: Final = 100
BATCH: Final = 1000
"""Messages that are published, or delivered, in one turn."""


class Holder(Session):
    """A channel whose client takes everything and acknowledges nothing."""

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        """Send nothing."""


class TurnWatch:
    """Notes how long each turn of the loop took, without a pause, until all of a queue is back."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: Queue) -> None:
        self.back: asyncio.Future[str] = loop.create_future()
        self._loop = loop
        self._queue = queue
        self._seconds: list[float] = []
        self._first = self._last = time.perf_counter()
        self._computed = time.thread_time()
        self._own = 0.0
        loop.call_soon(self._look)

    def note_ended(self) -> None:
        """The call that ends the connection has returned."""
        self._own = time.perf_counter() - self._first

    def _look(self) -> None:
        now = time.perf_counter()
        self._seconds.append(now - self._last)
        self._last = now
        if self._queue.delivering:
            self._loop.call_soon(self._look)
            return
        computed = time.thread_time() - self._computed
        self.back.set_result(
            f"back after {(now - self._first) * 1000:.0f} ms, {computed * 1000:.0f} ms of processor time; the end "
            f"itself {self._own * 1000:.1f} ms, longest turn {max(self._seconds) * 1000:.1f} ms"
        )


def resident() -> int:
    """Return this process's resident set in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


async def fill(broker: Broker, queue: Queue, count: int) -> None:
    """Publish so many stored messages."""
    host = broker.hosts["/"]
    route = host.route("", queue.name)
    origin = Origin("", queue.name, "benchmark", VIEW)
    for first in range(0, count, BATCH):
        now = system_clock()
        for number in range(first, min(first + BATCH, count)):
            body = number.to_bytes(8, "big") * (BODY_BYTES // 8)
            host.publisher.publish(Message(HEADER, body, origin, durable=True, accepted_at=now), route, now)
        await asyncio.sleep(0)
    await broker.commit.durable()


async def hold(queue: Queue, channels: int, count: int) -> list[Session]:
    """Let as many sessions hold all of it, in parts of a turn each."""
    sessions: list[Session] = [Holder(f"channel {number}") for number in range(channels)]
    consumers = [Consumer(session, queue, "c", window=CreditWindow(0)) for session in sessions]
    for session, consumer in zip(sessions, consumers, strict=True):
        session.attach(consumer, system_clock())
    while len(queue.delivering) < count:
        for consumer in consumers:
            consumer.window.messages_max += BATCH // channels
        queue.wake(system_clock())
        await asyncio.sleep(0)
    return sessions


def end(sessions: list[Session]) -> None:
    """End the sessions as a lost connection does."""
    now = system_clock()
    end_together(sessions)
    for session in sessions:
        session.close(now)


async def measured(count: int, channels: int, budget: int, folder: str) -> None:
    """Fill, hold, end, take again; print a line for each."""
    async with testing.broker(data_dir=folder, http=False, body_budget_bytes=budget) as running:
        broker = running.broker
        queue = broker.hosts["/"].declare_queue("held", now=system_clock(), durable=True)
        queue.queue_id = queue.queue_id or 1  # as one of the catalogue
        gc.collect()
        before = resident()
        await fill(broker, queue, count)
        sessions = await hold(queue, channels, count)
        await asyncio.sleep(2.0)
        gc.collect()
        click.echo(f"{len(queue.delivering):,} held: {(resident() - before) / count:.0f} bytes each")
        watch = TurnWatch(asyncio.get_running_loop(), queue)
        before = resident()
        end(sessions)
        watch.note_ended()
        sessions.clear()
        text = await watch.back
        await asyncio.sleep(0.5)
        click.echo(f"{text}; {(resident() - before) / (1 << 20):+.0f} MiB")
        click.echo(f"taken again in order, {await take_again(queue, count):.2f} us of processor time each")


async def take_again(queue: Queue, count: int) -> float:
    """Take all of it, see that it is what it was, and return the microseconds of processor time for each."""
    took, last = 0.0, 0
    while queue.order.count:
        began = time.thread_time()
        entries = queue.acquire(BATCH, -1, system_clock())
        took += time.thread_time() - began
        if entries[0].sequence <= last or not all(entry.redelivered for entry in entries):
            raise click.ClickException(f"wrong order or mark behind message {last}")
        last = entries[-1].sequence
        for entry in entries:
            queue.acknowledge(entry)
        await asyncio.sleep(0)
    return took / count * 1e6


@click.command()
@click.option("--count", type=click.IntRange(1000), default=1_000_000, show_default=True, help="Messages.")
@click.option("--channels", type=click.IntRange(1, 1000), default=20, show_default=True, help="That hold them.")
@click.option("--body-budget", type=click.IntRange(1), default=16, show_default=True, help="MiB of bodies in memory.")
def main(count: int, channels: int, body_budget: int) -> None:
    """Hold, end, take again."""
    with tempfile.TemporaryDirectory(prefix="annulet-load-") as folder:
        asyncio.run(measured(count, channels, body_budget << 20, folder))


if __name__ == "__main__":
    main()
