"""A20: random events against a list. After each, every message is where the list says and the account is exact."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from annulet.broker.recovery import recovery
from annulet.core.model.entry import QueueEntry
from annulet.residency.bodies.budget import MIB
from annulet.store.files.files import OsFile
from annulet.store.spill.spill import SpillStore
from annulet.testing.clock import VirtualClock
from tests.residency.acceptance.deep import Deep, deep_broker, number_of, refuse
from tests.residency.acceptance.soaking import lives_of, soak_events, soak_seconds

EVENTS = 60
SOAK_EVENTS_A_BROKER = 500


class History:
    """``ready`` and ``held`` are the model: numbers by place, and entries that were given out.

    The broker's ticks are events as all others.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.ready: list[int] = []
        self.held: list[tuple[int, QueueEntry]] = []
        self.transient: set[int] = set()
        self.next = 0
        self.largest = 0
        self.refusing = False
        self.patch = pytest.MonkeyPatch()
        self.deep: Deep

    def use(self, deep: Deep) -> None:
        """Go on with a broker that was started anew: what was held is back, what is transient is gone."""
        deep.largest = self.largest  # messages of that size may be there still
        self.deep = deep
        self.refusing = False
        self.ready = sorted({*self.ready, *[number for number, _ in self.held]} - self.transient)
        self.held = []

    def now(self) -> int:
        return self.deep.broker.clock()

    # ------------------------------------------------------------------ events

    async def publish(self) -> None:
        count = self.random.choice([1, 20, 200, 600])
        kind = self.random.choice(["plain", "plain", "plain", "large", "expiring", "transient", "transient"])
        numbers = range(self.next, self.next + (count if kind != "large" else 3))
        self.next = numbers.stop
        expires_at = self.now() + 1_000_000_000 if kind == "expiring" else 0  # never due
        durable = kind != "transient"
        if not durable:
            self.transient.update(numbers)
        size = 300_000 if kind == "large" else 700 if durable else 2500
        await self.deep.publish(numbers, size=size, expires_at=expires_at, durable=durable)
        self.largest = self.deep.largest
        self.ready += numbers

    async def take(self) -> None:
        wanted = self.random.choice([1, 10, 300, 900])
        taken = self.deep.queue().acquire(wanted, -1, self.now())
        numbers = [number_of(entry.message.body) for entry in taken]
        if self.refusing:
            assert len(numbers) <= wanted
        else:
            assert len(numbers) == min(wanted, len(self.ready)), f"seed {self.seed}"
        assert numbers == self.ready[: len(numbers)], f"seed {self.seed}"
        del self.ready[: len(numbers)]
        self.held += zip(numbers, taken, strict=True)

    async def acknowledge(self) -> None:
        for _, entry in self.some():
            self.deep.queue().acknowledge(entry)

    async def give_back(self) -> None:
        chosen = self.some()
        self.deep.queue().return_entries([entry for _, entry in chosen], self.now())
        self.ready = sorted([*self.ready, *[number for number, _ in chosen]])

    async def refuse(self) -> None:
        """The disk refuses to read, or does so no more."""
        self.refusing = not self.refusing
        if self.refusing:
            self.patch.setattr(OsFile, "read", refuse)
        else:
            self.patch.undo()
            self.deep.tick()

    async def rest(self) -> None:
        """The tick that comes four times a second, whatever the disk does."""
        self.deep.broker_tick()

    async def purge(self) -> None:
        if self.random.random() < 0.2:
            assert self.deep.queue().purge(self.now()) == len(self.ready)
            self.ready = []

    def some(self) -> list[tuple[int, QueueEntry]]:
        """Return some of what is held, in any order, and hold it no more."""
        self.random.shuffle(self.held)
        count = self.random.randint(0, len(self.held))
        chosen, self.held = self.held[:count], self.held[count:]
        return chosen

    # ------------------------------------------------------------------ running

    async def run(self, events: int) -> None:
        choices: list[Callable[[], Coroutine[Any, Any, None]]] = [
            self.publish, self.publish, self.take, self.take, self.acknowledge, self.give_back,
            self.refuse, self.rest, self.purge,
        ]  # fmt: skip
        for _ in range(events):
            event = self.random.choice(choices)
            await event()
            await self.deep.written()
            figures = self.deep.queue().statistics()
            where = f"seed {self.seed}, {event.__name__}"
            assert (figures.pending_count, figures.delivering_count) == (len(self.ready), len(self.held)), where
            assert self.deep.paging.found_by_tick == 0, where
        if self.refusing:
            await self.refuse()

    async def end(self) -> None:
        """Everything that is left comes out, in order and once."""
        self.deep.queue().return_entries([entry for _, entry in self.held], self.now())
        self.ready = sorted([*self.ready, *[number for number, _ in self.held]])
        assert await self.deep.drained() == self.ready, f"seed {self.seed}"
        assert await self.deep.live_records() == 0
        assert self.deep.broker.pager is not None
        self.deep.tick()
        assert self.deep.broker.pager.budget.used == 0


async def run_history(directory: Path, seed: int, lives: list[int]) -> None:
    """Run so many events in each life of a broker, all on one data directory."""
    history, clock = History(seed), VirtualClock()
    small_files = functools.partial(SpillStore, file_bytes=MIB)  # so that they are ended, moved and removed often
    for part, events in enumerate(lives):
        history.patch.setattr(recovery, "SpillStore", small_files)
        async with deep_broker(directory, budget=MIB, clock=clock) as deep:
            if part == 0:
                await deep.declare("q")
            history.use(deep)
            deep.check()
            try:
                await history.run(events)
            finally:
                history.patch.undo()
            if part == len(lives) - 1:
                await history.end()
            await deep.written()


@pytest.mark.parametrize("seed", range(3))
async def test_a20_random_events_leave_every_message_where_it_belongs(tmp_path: Path, seed: int) -> None:
    await run_history(tmp_path / "data", seed, [EVENTS // 2] * 2)


@pytest.mark.soak
@pytest.mark.timeout(soak_seconds(soak_events()))
async def test_a20_very_many_random_events(tmp_path: Path, moments: random.Random) -> None:
    await run_history(tmp_path / "data", moments.getrandbits(32), lives_of(soak_events(), SOAK_EVENTS_A_BROKER))
