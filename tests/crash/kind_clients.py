"""What clients do to deep queues of every kind: sorted, rings, groups, non-destructive, by key, counted deliveries.

For :mod:`tests.crash.mortal_broker`. A step is a verb and a queue, as ``send:circle``; all a message says of itself
follows from its number. The clock is that of deep clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from annulet.core.sessions.session import Session
from tests.bulk.helpers import Bench
from tests.crash.deep_clients import BURST, LEVELS, DeepClients
from tests.crash.mortal_broker import HOUR, QUEUES, Order, number_of

RING = 40
"""Of bodies of 48 KiB: nearly half of them are on disk only."""

KEYS = 32
PER_KEY = 2
GROUPS = 5
RANKS = 97
ATTEMPTS = 3
TAKEN = 8
HELD = 2


class Kind(NamedTuple):
    """A queue's arguments, and what of them decides what must be there."""

    arguments: dict[str, Any]
    order: str = "fifo"  # or "levels", "sorted", "groups": first in, first out only in each
    ring: int = 0
    per_key: int = 0
    attempts: int = 0
    reads: bool = False  # what is read stays


KINDS: dict[str, Kind] = {
    "sorted": Kind({"x-sort-key": "rank"}, "sorted"),
    "circle": Kind({"x-ring-size": RING}, ring=RING),
    "urgent": Kind({"x-ring-size": RING, "x-max-priority": LEVELS - 1}, "levels", ring=RING),
    "ranked": Kind({"x-ring-size": RING, "x-sort-key": "rank"}, "sorted", ring=RING),
    "groups": Kind({"x-group-mode": "sticky", "x-group-key": "group"}, "groups"),
    "shared": Kind({"x-group-mode": "shared", "x-group-key": "group"}, "groups"),
    "history": Kind({"x-non-destructive": True}, reads=True),
    "readings": Kind({"x-non-destructive": True, "x-ring-size": RING}, ring=RING, reads=True),
    "values": Kind({"x-last-value-key": "key"}, per_key=1),
    "latest": Kind({"x-last-value-key": "key", "x-keep-per-key": PER_KEY}, per_key=PER_KEY),
    "table": Kind({"x-last-value-key": "key", "x-non-destructive": True}, per_key=1, reads=True),
    "tries": Kind({"x-max-delivery-attempts": ATTEMPTS}, attempts=ATTEMPTS),
    "patient": Kind({"x-redelivery-delay": HOUR}),
}


def kind_plan(*names: str, bursts: int = 4, rounds: int = 2) -> tuple[str, ...]:
    """Return steps: each queue is filled beyond what stays in memory, then taken from and filled in turns."""
    steps = [f"send:{name}" for _ in range(bursts) for name in names]
    for _ in range(rounds):
        for verb in ("take", "hold", "send", "take", "send"):
            steps += [f"{verb}:{name}" for name in names if verb != "hold" or not KINDS[name].reads]
            if verb == "hold":
                steps.append("remember")
    return tuple(steps)


def facts_of(number: int) -> dict[str, Any]:
    """What a message says of itself, whatever its queue makes of it."""
    return {
        "priority": number % LEVELS, "rank": number * 31 % RANKS, "key": number % KEYS,
        "group": f"group-{number % GROUPS}",
    }  # fmt: skip


class Taker(Session):
    """Remembers what it is given."""

    def __init__(self) -> None:
        super().__init__("taker")
        self.got: dict[int, int] = {}  # tags by number, in order of delivery
        self.seen: dict[int, tuple[int, bool]] = {}  # count and mark by number

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        number = number_of(entry.message.body)
        assert number not in self.got, "delivered twice"
        self.got[number] = tag
        self.seen[number] = (entry.delivery_count, entry.redelivered)

    def consume(self, queue: Queue, now: int, most: int) -> None:
        """Attach a consumer with credit for so many, -1 for all."""
        self.attach(Consumer(self, queue, "c", window=CreditWindow(most, -1)), now)


def due_in(queue: Queue) -> dict[int, int]:
    """Return by number when what a queue has scheduled is due."""
    return {number_of(entry.message.body): queue.schedule.at(entry) for entry in queue.schedule.entries()}


async def settled_turns(here: Bench) -> None:
    """Let reads that consumers wait for be done, as far as the disk gives them."""
    pager = here.broker.pager
    assert pager is not None
    for _ in range(20):
        await pager.idle()
        pager.run()
        await asyncio.sleep(0)


class KindClients(DeepClients):
    """The verbs of steps; those of deep clients without a queue."""

    queues: ClassVar[dict[str, dict[str, Any]]] = {**QUEUES, **{name: kind.arguments for name, kind in KINDS.items()}}

    def __init__(self, here: Bench, order: Order, tell: Callable[..., None]) -> None:
        super().__init__(here, order, tell)
        self.holders: dict[str, Taker] = {}

    async def do(self, name: str) -> None:
        """Do a step."""
        verb, _, queue = name.partition(":")
        if queue:
            await getattr(self, f"{verb}_some")(queue)
        else:
            await super().do(name)

    async def send_some(self, name: str) -> None:
        """Publish a burst. Told with the sequence of the first: the ledger of losses names them by it."""
        numbers = self.take(BURST)
        facts = [name, numbers, self.here.host.queues[name].next_sequence]
        self.tell("try", "send", facts)
        for number in numbers:
            self.send(name, number, **facts_of(number))
        await self.here.broker.commit.durable()
        self.tell("done", "send", facts)

    async def take_some(self, name: str) -> None:
        """Take some as a consumer, acknowledge half of them and give the others back; or read all that is there."""
        queue, now, taker = self.here.host.queues[name], self.clock(), Taker()
        taker.consume(queue, now, -1 if KINDS[name].reads else TAKEN)
        await settled_turns(self.here)
        got = list(taker.got)
        if KINDS[name].reads:
            self.tell("read", [name, got])
            taker.close(now)
            return
        taker.detach("c", now)  # what is acknowledged would make room for more
        done = self.chance.sample(got, len(got) // 2)
        counts = {number: taker.unacknowledged[tag].delivery_count for number, tag in taker.got.items()}
        back = [number for number in got if number not in done]
        often = [number for number in back if counts[number] + 1 >= KINDS[name].attempts > 0]
        facts = [name, got, done, back, often]
        self.tell("try", "take", facts)
        for number in done:
            taker.acknowledge(taker.got[number], now)
        taker.close(now)
        due = due_in(queue)
        await self.here.broker.commit.durable()
        self.tell("done", "take", [*facts, [[number, due.get(number, 0)] for number in back]])

    async def hold_some(self, name: str) -> None:
        """Take two and keep them to the end."""
        if name in self.holders:
            return
        holder = self.holders[name] = Taker()
        holder.consume(self.here.host.queues[name], self.clock(), HELD)
        await settled_turns(self.here)
        holder.detach("c", self.clock())  # where the disk refused, the rest of its credit would take what comes later
        self.tell("hold", [name, list(holder.got)])

    async def leave(self) -> None:
        """Give back what was kept: a broker that stops closes its clients' connections first."""
        for name, holder in self.holders.items():
            queue, attempts = self.here.host.queues[name], KINDS[name].attempts
            counts = {number: holder.unacknowledged[tag].delivery_count for number, tag in holder.got.items()}
            often = [number for number, count in counts.items() if count + 1 >= attempts > 0]
            facts = [name, list(holder.got), often]
            self.tell("try", "leave", facts)
            holder.close(self.clock())
            due = due_in(queue)
            await self.here.broker.commit.durable()
            self.tell("done", "leave", [*facts, [[number, due.get(number, 0)] for number in holder.got]])
