"""A broker in the test's event loop whose budget is far below what its queues hold, and what is asked of it each time.

The check numbers (A1 ...) of the tests beside this file are those of ``python -m benchmarks.deep``, which runs the same
checks with ten million messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pamqp import commands
from pamqp.body import ContentBody

from annulet import testing
from annulet.broker.broker import Broker
from annulet.core.message.message import DEFAULT_PRIORITY, Message, Origin
from annulet.core.model.entry import PENDING
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.row_conditions import ENTRY_BYTES
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.budget import MIB, body_bytes, drift_of
from annulet.residency.bodies.memory_figures import Residence, residence_of
from annulet.residency.loading.figures import PagingFigures
from annulet.residency.pages.pages import LOAD_BYTES
from annulet.store.files.files import OsFile
from annulet.testing.clock import VirtualClock
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.broker.amqp091.peer import Peer, is_reading, turns
from tests.broker.conftest import leave

QUEUE, BASIC = commands.Queue, commands.Basic
SIZE = 1024
WINDOW = 500
"""Messages that become durable together."""


def refuse(file: OsFile, offset: int, length: int) -> bytes:
    """Stand in for :meth:`OsFile.read` on a disk that gives nothing."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def body_of(number: int, size: int = SIZE) -> bytes:
    return (b"%012d" % number).ljust(size, b".")


def number_of(body: bytes) -> int:
    return int(body[:12])


def size_of(message: Message) -> int:
    """Return the body's length without bringing it into memory, where a message can tell."""
    return message.size if hasattr(message, "size") else len(message.body)


PATIENCE = 10.0
"""Seconds for what is done in slices on a busy machine; who waits goes on as soon as it is done."""


async def until(happened: Callable[[], bool]) -> None:
    """Let slices have their turns."""
    deadline = time.monotonic() + PATIENCE
    while not happened() and time.monotonic() < deadline:
        await turns(5)
    assert happened()


class Deep:
    """A running broker. Messages are numbered; their bodies begin with the number."""

    def __init__(self, broker: Broker, clock: VirtualClock) -> None:
        self.broker = broker
        self.clock = clock
        self.largest = 0  # body bytes of the largest message that was published

    async def declare(self, name: str, **arguments: Any) -> Queue:
        """Declare a durable queue."""
        peer = await Peer(self.broker).open(1)
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        await peer.send(1, QUEUE.Declare(queue=name, durable=True, arguments=given))
        peer.connection.abort()
        await turns()
        return self.queue(name)

    def queue(self, name: str = "q") -> Queue:
        return self.broker.hosts["/"].queues[name]

    async def publish(
        self,
        numbers: Iterable[int],
        name: str = "q",
        *,
        size: int = SIZE,
        durable: bool = True,
        priority: int = DEFAULT_PRIORITY,
        expires_at: int = 0,
        **headers: Any,
    ) -> None:
        """Publish and return when all is on disk, and in memory no more than may be; the account is checked."""
        properties = BasicProperties()
        properties.headers = {key.replace("_", "-"): value for key, value in headers.items()}
        header = encode_properties(properties)
        self.largest = max(self.largest, size)
        origin = Origin("", name, "guest@test", VIEW)
        host, now = self.broker.hosts["/"], self.broker.clock()
        targets = host.route("", name)
        for place, number in enumerate(numbers):
            message = Message(
                header, body_of(number, size), origin,
                durable=durable, priority=priority, expires_at=expires_at, accepted_at=now,
            )  # fmt: skip
            host.publisher.publish(message, targets, now)
            if place % WINDOW == WINDOW - 1:
                await self.written()
        await self.written()

    async def written(self) -> None:
        """Return when everything is on disk and paging has come to rest. The account is checked."""
        pager = self.broker.pager
        assert pager is not None
        calm = 0
        while calm < 2:  # what was read is handed out in the next turn, and may exceed the budget then
            await self.broker.commit.durable()  # each time: copies of what died are stored later than it died
            writing = pager.spilling is not None and pager.spilling.works
            calm = 0 if pager.run() or writing or is_reading(self.broker) or self._in_slices() else calm + 1
            await pager.idle()
            await turns(2)
        self.check()
        if pager.spilling is not None and not pager.figures.spill_refused:  # else what is transient may stay
            self.check_budget()

    def _in_slices(self) -> bool:
        """Say whether a part of what happened is still to be done, by a worker whose time is that of the machine.

        Returns and expiries say so too, dead letters do not.
        """
        return self.broker.worker.waiting > 0 or any(
            queue.returns or queue.expiring is not None for queue in self.broker.queues()
        )

    def check_budget(self) -> None:
        """V1: what is in memory of large queues is no more than the budget, or their floors, and one load.

        A floor, which is less when there are very many queues, and a load, 1 MiB, are one message at least (V6). The
        load is what a read brought and nobody took, or what came back from who had pulled it and is less than that;
        what he still has is his.
        """
        assert self.broker.pager is not None
        budget = self.broker.pager.budget
        queues = budget.counted()
        there = sum((residence_of(queue, budget.front_of(queue)) for queue in queues), Residence())
        assert there.total == sum(map(body_bytes, queues))
        assert min(there.as_dict().values()) >= 0
        bound = max(budget.limit, len(queues) * (budget.floor + self.largest))
        bound += max(LOAD_BYTES, self.largest)
        pulled = [entry for queue in queues for entry in queue.delivering if entry.consumer is None and not entry.away]
        bound += sum(entry.message.size for entry in pulled)  # whoever took them reads them when he likes
        assert there.total <= bound, (there, bound, [self._account_of(queue) for queue in queues])

    def _account_of(self, queue: Queue) -> dict[str, object]:
        """Return what may tell why a queue has not paged."""
        assert self.broker.pager is not None
        budget = self.broker.pager.budget
        return {
            "queue": queue.name, "in memory": residence_of(queue, budget.front_of(queue)), "bytes": body_bytes(queue),
            "cost": budget.cost_of(queue), "stuck": queue in self.broker.pager._stuck, "returns": len(queue.returns),
            "rows": queue.order.paged_count(), "stalled": [pages.stalled for pages in queue.order.page_parts()],
            "came back": queue.order.came_back(), "written below": self.broker.log.written_below,
        }  # fmt: skip

    async def settled(self) -> None:
        """Return when all that may page has done so: a queue that had nothing durable is asked again with a tick."""
        await self.written()
        self.tick()
        await self.written()

    def tick(self) -> None:
        """Let the pager look again: at queues that shrank, at the disk."""
        assert self.broker.pager is not None
        self.broker.pager.tick(self.broker.clock())

    def broker_tick(self) -> None:
        """Have the broker's own tick come, which else it does not: see :func:`deep_broker`."""
        self.broker.tick()
        self.broker.stop_ticks()

    @property
    def paging(self) -> PagingFigures:
        assert self.broker.pager is not None
        return self.broker.pager.figures

    def check(self) -> None:
        """Every message is somewhere and the bytes are those of what is there: the account never drifts.

        And no tick found anything that it alone is not there for.
        """
        assert self.paging.found_by_tick == 0
        for queue in self.broker.hosts["/"].queues.values():
            figures = queue.statistics()
            there = figures.pending_count + figures.scheduled_count + len(queue.delivering)
            assert figures.messages_added == there + sum(figures.removed.values()), "each is there or went for a reason"
            order = queue.order
            entries = [entry for entry in order.in_memory() if entry.state == PENDING]
            assert len(entries) + figures.messages_paged == figures.pending_count
            size = sum(size_of(entry.message) for entry in entries)
            assert size + order.paged_bytes() == figures.pending_bytes
            assert drift_of(queue) == 0

    async def live_records(self) -> int:
        """Return how many records the log holds that are not settled, after its upkeep."""
        await self.written()
        await self.broker.commit.maintain()
        return self.broker.log.statistics().live_records

    def cost(self, name: str = "q") -> int:
        """Return the bytes that pending messages of a plain queue take in memory."""
        order = self.queue(name).order
        assert isinstance(order, PagedFifo)
        return sum(size_of(entry.message) + ENTRY_BYTES for entry in order.in_memory() if entry.state == PENDING)

    async def consumer(self, name: str = "q", prefetch: int = 100, **arguments: Any) -> Consumer:
        """Attach a consumer on a connection of its own."""
        peer = await Peer(self.broker).open(1)
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        await peer.send(1, BASIC.Qos(prefetch_count=prefetch), BASIC.Consume(queue=name, arguments=given))
        return Consumer(peer)

    async def drained(self, name: str = "q") -> list[int]:
        """Take and acknowledge everything; return the numbers as they came."""
        consumer = await self.consumer(name, 300)
        found: list[int] = []
        while got := await consumer.take():
            found += [number for number, _, _ in got]
            await consumer.acknowledge_all()
        await self.broker.commit.durable()
        await consumer.leave()
        self.check()
        return found


class Consumer:
    """One consumer. ``take`` looks at what came since: (number, tag, redelivered). Nothing came only when nothing is on
    its way: a turn of a walk is put off, by a clock that no test has, while others have work."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.last = 0

    async def take(self) -> list[tuple[int, int, bool]]:
        found = await self._came()
        deadline = time.monotonic() + PATIENCE
        while not found and self._turn_is_due() and time.monotonic() < deadline:
            await asyncio.sleep(0.001)
            found = await self._came()
        if found:
            self.last = found[-1][1]
        return found

    def _turn_is_due(self) -> bool:
        broker = self.peer.broker
        return broker.pager is not None and any(map(broker.pager.scanning.asked, broker.queues()))

    async def _came(self) -> list[tuple[int, int, bool]]:
        found: list[tuple[int, int, bool]] = []
        method, parts = BASIC.Deliver(), 0
        for item in await self.peer.take():
            if isinstance(item, BASIC.Deliver):
                method, parts = item, 0
            elif isinstance(item, ContentBody):
                if not parts:
                    found.append((number_of(item.value), method.delivery_tag, method.redelivered))
                parts += 1
        return found

    async def numbers(self) -> list[int]:
        return [number for number, _, _ in await self.take()]

    async def all(self, count: int) -> list[int]:
        """Take without acknowledging until so many came, and look whether more do. What is slow gets ten seconds."""
        found = await self.numbers()
        deadline = time.monotonic() + PATIENCE
        while len(found) < count and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
            found += await self.numbers()
        await turns(20)
        return found + await self.numbers()

    async def acknowledge(self, tags: Sequence[int]) -> None:
        await self.peer.send(1, *[BASIC.Ack(tag) for tag in tags])

    async def acknowledge_all(self) -> None:
        await self.peer.send(1, BASIC.Ack(self.last, multiple=True))

    async def refuse(self, tags: Sequence[int]) -> None:
        """Give back."""
        await self.peer.send(1, *[BASIC.Nack(tag, requeue=True) for tag in tags])

    async def leave(self) -> None:
        """Go as a client does whose process was killed."""
        self.peer.connection.abort()
        await turns(20)


@contextlib.asynccontextmanager
async def deep_broker(
    directory: Path, *, budget: int = MIB, clock: VirtualClock | None = None, **settings: Any
) -> AsyncIterator[Deep]:
    """Start a broker on a directory; its clients are cut at the end, and it is stopped cleanly.

    Its timer is stopped: whatever a test waits for comes without the safety tick, or the test fails. So a lost wake-up
    is seen, and a seed repeats a history. For that the loop itself does what a thread would read ahead, in later turns.
    """
    clock = clock or VirtualClock()
    settings |= {"http": False, "data_dir": directory, "clock": clock, "body_budget_bytes": budget}
    async with testing.broker(**settings) as running:
        try:
            deep = Deep(running.broker, clock)
            running.broker.stop_ticks()
            running.broker.log.read_ahead_with(running.broker.loop.call_soon)
            yield deep
        finally:
            leave(running.broker)
