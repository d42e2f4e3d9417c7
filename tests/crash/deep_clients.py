"""What clients do to queues of which most is on disk: rows, levels, times to live, spilled bodies, selectors, purges.

For :mod:`tests.crash.mortal_broker`. Bodies are large, so that few messages are more than the body budget. The clock
stands still between steps and is a function of the numbers used so far, so that the next broker's goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

from annulet.core.base.settings import ConsumerSettings
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from annulet.core.sessions.session import Session
from annulet.residency.bodies.budget import MIB
from annulet.testing.clock import START, VirtualClock
from tests.bulk.helpers import Bench
from tests.crash.mortal_broker import DEEP_SCALE, PADDING, QUEUES, Clients, Order, number_of

COPIES = (48 << 10) // len(PADDING)
"""Bodies of 48 KiB: 22 of them are what a queue keeps in memory."""

BURST = 20
NUMBER_MILLISECONDS = 10
"""By so much the clock goes on with each number: what is scheduled is not due in hundreds of rounds."""

LIFE = 250 * NUMBER_MILLISECONDS
LEVELS = 4
PARTS = 5
DEEP_QUEUES: dict[str, dict[str, Any]] = {
    "rows": {},
    "levels": {"x-max-priority": LEVELS - 1},
    "brief": {"x-message-ttl": LIFE},
    "mixed": {},
}
DEEP_ROUND = (
    "rows", "levels", "brief", "mixed", "rows", "levels", "brief", "mixed", "select", "lease", "settle_rows", "rows",
    "remember", "settle_levels", "levels", "later", "settle_mixed", "brief", "expire", "mixed", "staged", "purge",
    "rows", "levels",
)  # fmt: skip
"""The first eight make two queues' worth of what stays in memory; what follows goes around on what is on disk."""


def deep_clock(numbers: int) -> VirtualClock:
    """The clock when so many numbers have been used."""
    return VirtualClock(START + numbers * NUMBER_MILLISECONDS)


def shard_of(number: int) -> str:
    """The text that selectors look for in headers, which the files of heads keep."""
    return f"shard-{number % PARTS}"


def deep_settings(numbers: int) -> dict[str, Any]:
    """Settings of a broker whose queues are mostly on disk."""
    return {"clock": deep_clock(numbers), "body_budget_bytes": MIB}


class Choosy(Session):
    """Notes the numbers that it is given."""

    def __init__(self) -> None:
        super().__init__("choosy")
        self.got: list[int] = []

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        self.got.append(number_of(entry.message.body))

    def select(self, queue: Queue, selector: str, now: int, most: int = -1) -> None:
        """Consume what a selector means."""
        settings = ConsumerSettings(selector=selector)
        self.attach(Consumer(self, queue, "c", window=CreditWindow(most, -1), settings=settings), now)


class DeepClients(Clients):
    """The steps of ``DEEP_ROUND``, and those of shallow queues."""

    queues: ClassVar[dict[str, dict[str, Any]]] = {**QUEUES, **DEEP_QUEUES}
    copies = COPIES
    scale = DEEP_SCALE

    @classmethod
    def settings(cls, first: int) -> dict[str, Any]:
        return deep_settings(first)

    def __init__(self, here: Bench, order: Order, tell: Callable[..., None]) -> None:
        super().__init__(here, order, tell)
        clock = here.broker.clock
        assert isinstance(clock, VirtualClock)
        self.clock = clock

    async def step(self, name: str) -> None:
        """Do one step, let paging come to rest, go on with the clock and ask the disk again where it refused."""
        await super().step(name)
        await self.rest()

    async def rest(self) -> None:
        """Let the pager do all there is to do, and tell what it did so far."""
        pager = self.here.broker.pager
        assert pager is not None
        pager.tick(self.clock())
        while pager.run() or (pager.spilling is not None and pager.spilling.works):
            await pager.idle()
            await asyncio.sleep(0)
        figures = pager.figures
        self.tell("figures", [figures.paged_out, figures.spilled, figures.selected, figures.postponed])

    def take(self, count: int) -> list[int]:
        numbers = super().take(count)
        self.clock.advance(max(0, deep_clock(numbers[-1]).now - self.clock.now))
        return numbers

    async def _burst(self, queue: str, facts: Callable[[int], dict[str, Any]], *, transient: bool = False) -> None:
        numbers = self.take(BURST)
        sent = [[number, self.clock(), facts(number).get("priority", 0)] for number in numbers]
        self.tell("try", queue, sent)
        for number in numbers:
            self.send(queue, number, durable=not transient or not number % 4, **facts(number))
        await self.here.broker.commit.durable()
        self.tell("done", queue, [fact for fact in sent if not transient or not fact[0] % 4])

    async def rows(self) -> None:
        await self._burst("rows", lambda number: {"part": number % PARTS, "shard": shard_of(number)})

    async def levels(self) -> None:
        await self._burst("levels", lambda number: {"priority": number % LEVELS})

    async def brief(self) -> None:
        await self._burst("brief", lambda _: {})

    async def mixed(self) -> None:
        """Of four messages three are transient: their bodies are spilled."""
        await self._burst("mixed", lambda _: {}, transient=True)

    async def _settle(self, name: str) -> None:
        """Take eight, give two back and keep two; the others are done with, in any order."""
        queue, now = self.here.host.queues[name], self.clock()
        entries = queue.acquire(8, -1, now)
        self.chance.shuffle(entries)
        done = entries[4:]
        numbers = [number_of(entry.message.body) for entry in done]
        self.tell("try", "finish", [name, numbers])
        for entry in done:
            queue.acknowledge(entry)
        queue.return_entries(entries[:2], now)
        await self.here.broker.commit.durable()
        self.tell("done", "finish", [name, numbers])

    async def settle_rows(self) -> None:
        await self._settle("rows")

    async def settle_levels(self) -> None:
        await self._settle("levels")

    async def settle_mixed(self) -> None:
        await self._settle("mixed")

    async def select(self) -> None:
        """Consume with a selector whose matches are among the rows; what comes is one of five."""
        queue, session = self.here.host.queues["rows"], Choosy()
        part = self.chance.randrange(PARTS)
        session.select(queue, f"part = {part}", self.clock(), 12)
        for _ in range(50):
            await asyncio.sleep(0)
        numbers = session.got
        assert all(number % PARTS == part for number in numbers)
        assert numbers == sorted(numbers)
        self.tell("try", "finish", ["rows", numbers[:5]])
        for tag in range(1, len(numbers[:5]) + 1):
            session.acknowledge(tag, self.clock())
        session.close(self.clock())
        await self.here.broker.commit.durable()
        self.tell("done", "finish", ["rows", numbers[:5]])

    async def expire(self) -> None:
        """Let time pass until about half of what lives briefly has gone."""
        (number,) = self.take(1)
        self.clock.advance(LIFE // 2)
        (number,) = super().take(LIFE // 2 // NUMBER_MILLISECONDS)[-1:]
        self.tell("try", "expire", [number, self.clock()])
        self.here.host.queues["brief"].expire_due(self.clock())
        await self.here.broker.commit.durable()
        self.tell("done", "expire", [number, self.clock()])

    async def purge(self) -> None:
        """What was there goes by ranges of records; what was taken and not settled stays."""
        queue = self.here.host.queues["rows"]
        facts = ["rows", [number_of(entry.message.body) for entry in queue.delivering]]
        self.tell("try", "purge", facts)
        queue.purge(self.clock())
        await self.here.broker.commit.durable()
        self.tell("done", "purge", facts)
