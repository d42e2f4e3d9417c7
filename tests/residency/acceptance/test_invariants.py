"""V1 to V10, W1 to W6 and R1 to R7 of the design, asked after each event of random histories with consumers.

Which rule is asked where, and what this broker does instead of those that it does not have, stands in
docs/internals/deep-backlogs.md.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from annulet.core.model.entry import PENDING
from annulet.core.paging.front_limits import FrontBounds
from annulet.core.paging.paged_fifo import KEEP_BYTES, KEEP_MESSAGES, PagedFifo
from annulet.core.paging.paged_priorities import PagedLevels
from annulet.core.paging.paged_sorted import PagedSorted
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.budget import MIB, cost_of
from annulet.residency.bodies.memory_figures import residence_of
from annulet.residency.pages.pages import LOAD_BYTES, LOAD_MESSAGES
from annulet.store.files.files import OsFile
from annulet.testing.clock import VirtualClock
from tests.residency.acceptance.deep import PATIENCE, Consumer, Deep, deep_broker, number_of, refuse
from tests.residency.acceptance.soaking import INVARIANTS_SHARE, lives_of, soak_events, soak_seconds

EVENTS = 40
SOAK_EVENTS_A_BROKER = 1000
ATTEMPTS = 3
"""Of the queue ``limited``; what came back as often is in ``dead``."""

TICKS = 2
"""With the first one it is noted who waits, with the second he is served."""

CONSUMERS = 3
DRAINED = 300
SIZES = (700, 700, 700, 60_000)


@dataclass
class Holder:
    """A consumer and what it has: numbers by delivery tag."""

    consumer: Consumer
    credit: int
    held: dict[int, int] = field(default_factory=dict)

    @property
    def free(self) -> int:
        return self.credit - len(self.held)


@dataclass
class Model:
    """One queue as a list."""

    name: str
    attempts: int = 0
    ready: list[int] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)  # how often each came back
    holders: list[Holder] = field(default_factory=list)

    def come_back(self, numbers: list[int]) -> list[int]:
        """Take them back; return those that came back too often (R5)."""
        for number in numbers:
            self.counts[number] = self.counts.get(number, 0) + 1
        dead = [number for number in numbers if self.attempts and self.counts[number] >= self.attempts]
        self.ready = sorted({*self.ready, *numbers} - {*dead})
        return dead


class History:
    """Random events on three queues."""

    def __init__(self, deep: Deep, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.deep = deep
        self.random = random.Random(seed)
        self.where = f"seed {seed}"
        self.models = [Model("one"), Model("two"), Model("limited", attempts=ATTEMPTS)]
        self.dead: list[int] = []
        self.next = 0
        self.sizes: dict[int, int] = {}  # body bytes by number
        self.patch = patch
        self.refusing = False
        self.names = [*[model.name for model in self.models], "dead"]
        self.bounds: dict[Queue, list[FrontBounds]] = {}  # of their fronts, that they were told since the last event
        self.arrived: Queue | None = None  # the queue of the last event, if that brought messages

    # ------------------------------------------------------------------ events

    async def publish(self, model: Model) -> None:
        """V10: whatever memory holds, what is persistent is taken at once."""
        numbers = range(self.next, self.next + self.random.choice([1, 30, 300, 700]))
        size = self.random.choice(SIZES)
        if size > MIB // 100:
            numbers = numbers[:20]
        self.next = numbers.stop
        self.sizes.update(dict.fromkeys(numbers, size))
        await self.deep.publish(numbers, model.name, size=size)
        model.ready += numbers

    async def attach(self, model: Model) -> None:
        if len(model.holders) < CONSUMERS:
            credit = self.random.choice([1, 50, 400, 2000])
            model.holders.append(Holder(await self.deep.consumer(model.name, credit), credit))

    async def leave(self, model: Model) -> None:
        """R1 to R3: all that was sent comes back to its place, and knows that it was delivered."""
        if model.holders:
            holder = model.holders.pop(self.random.randrange(len(model.holders)))
            await self.given_back(model, list(holder.held.values()), holder.consumer.leave())

    async def acknowledge(self, model: Model) -> None:
        for holder in model.holders:
            tags = self.some_of(holder)
            for tag in tags:
                del holder.held[tag]
            await holder.consumer.acknowledge(tags)

    async def give_back(self, model: Model) -> None:
        for holder in model.holders:
            tags = self.some_of(holder)
            await self.given_back(model, [holder.held.pop(tag) for tag in tags], holder.consumer.refuse(tags))

    async def refuse(self, _: Model) -> None:
        """The disk refuses to read, or does so no more."""
        self.refusing = not self.refusing
        if self.refusing:
            self.patch.setattr(OsFile, "read", refuse)
        else:
            self.patch.undo()
            self.deep.broker_tick()

    def some_of(self, holder: Holder) -> list[int]:
        tags = list(holder.held)
        self.random.shuffle(tags)
        return tags[: self.random.randint(0, len(tags))]

    async def given_back(self, model: Model, numbers: list[int], action: Coroutine[Any, Any, None]) -> None:
        """R6: a return alone reads nothing."""
        read = self.deep.paging.loaded
        self.dead += model.come_back(numbers)
        await action
        if not any(holder.free for holder in model.holders):
            assert self.deep.paging.loaded == read, self.where

    # ------------------------------------------------------------------ what holds after each

    async def settle(self) -> None:
        """Come to rest, and compare each queue with its model. V1 and V8 are asked on the way."""
        await self.deep.written()
        for model in self.models:
            await self.compare(model)
        if not self.refusing:
            await self.tick_finds_nothing()
        for model in self.models:
            queue = self.deep.queue(model.name)
            held = [number for holder in model.holders for number in holder.held.values()]
            figures = queue.statistics()
            assert (figures.pending_count, figures.delivering_count) == (len(model.ready), len(held)), self.where
            if isinstance(queue.order, PagedFifo):
                self.check_order(queue.order)
        dead = self.deep.queue("dead").statistics().pending_count
        assert dead == len(self.dead) or (self.refusing and dead < len(self.dead)), self.where  # their bodies are read

    async def compare(self, model: Model) -> None:
        """V6, V9, W6: whoever has credit has been given the next ones, wherever their bodies were. R2, R3: in order.

        While the disk refuses it may be others, and fewer.
        """
        wanted = model.ready[: sum(holder.free for holder in model.holders)]
        came = await self.handed_out(model)
        deadline = time.monotonic() + PATIENCE
        while not self.refusing and len(came) < len(wanted) and time.monotonic() < deadline:
            came += await self.handed_out(model)  # a turn of the loop has so much time for deliveries, and no more
        if self.refusing:  # what came back and is in memory goes out before what is not
            assert {*came} <= {*model.ready}, self.where
        else:
            assert sorted(came) == wanted, self.where
        model.ready = sorted({*model.ready} - {*came})

    async def handed_out(self, model: Model) -> list[int]:
        """Return what consumers were sent since the last look, and let them hold it. No tick comes meanwhile."""
        came: list[int] = []
        for holder in model.holders:
            for number, tag, redelivered in await holder.consumer.take():
                holder.held[tag] = number
                assert redelivered is (model.counts.get(number, 0) > 0), self.where
                came.append(number)
            assert holder.free >= 0, self.where
        return came

    def in_memory(self, model: Model) -> set[int]:
        """Return what waits in a queue with its body in memory."""
        waiting = self.deep.queue(model.name).order.in_memory()
        return {number_of(entry.message.body) for entry in waiting if entry.state == PENDING and not entry.away}

    def kept(self, model: Model) -> dict[int, tuple[int, int]]:
        """Return what of the front has its body in memory, of 1 MiB or 1024 messages at most, and how far it reaches
        with each: messages and bytes, those counted too whose bodies are on disk, and rows, which what came back may
        stand between.
        """
        front = self.deep.queue(model.name).order.upcoming(KEEP_MESSAGES)
        there = {number_of(entry.message.body) for entry in front if not entry.away}
        found, size = {}, 0
        for place, number in enumerate(model.ready[:KEEP_MESSAGES], 1):
            size += self.sizes[number]
            if size > KEEP_BYTES:
                break
            if number in there:
                found[number] = (place, size)
        return found

    def lowest(self, model: Model) -> tuple[int, int]:
        """Return how many messages and bytes of its front a queue kept at least since the last event.

        That goes by what waits and by the floor, which both change on the way.
        """
        queue = self.deep.queue(model.name)
        messages, size = KEEP_MESSAGES, KEEP_BYTES
        if isinstance(queue.order, (PagedFifo, PagedLevels, PagedSorted)):
            messages, size = queue.order.keep_messages, queue.order.keep_bytes
        some = self.bounds.get(queue, [])
        return min([messages, *[each.messages for each in some]]), min([size, *[each.size for each in some]])

    @contextlib.contextmanager
    def noting_bounds(self) -> Iterator[None]:
        """Note whatever a queue is told to keep of its front meanwhile."""
        assert self.deep.broker.pager is not None
        budget = self.deep.broker.pager.budget
        front_of = budget.front_of

        def noted(queue: Queue, sizes: Sequence[int] = ()) -> FrontBounds:
            bounds = front_of(queue, sizes)
            self.bounds.setdefault(queue, []).append(bounds)
            return bounds

        with pytest.MonkeyPatch.context() as patch:  # not the one that the disk's refusals are undone with
            patch.setattr(budget, "front_of", noted)
            yield

    def check_floors(self, before: list[tuple[Model, dict[int, tuple[int, int]]]]) -> None:
        """V7: what of a front was not taken is in memory still, whatever was published and whatever others did, but for
        what was beyond the floor if that sank: the queues may be more than the budget has room for.
        """
        for model, front in before:
            messages, size = self.lowest(model)
            within = {number for number, (place, reach) in front.items() if place <= messages and reach <= size}
            assert within & {*model.ready} <= self.in_memory(model), self.where

    async def tick_finds_nothing(self) -> None:
        """The loader's safety tick has nothing to do: whatever could be delivered has been, whatever could page has.

        Which queues may page with it all the same: see :meth:`left_to_the_tick`.
        """
        paging = self.deep.paging
        before = (paging.loaded, paging.bodies_brought_back)
        for _ in range(TICKS):
            queues = [queue for queue in map(self.deep.queue, self.names) if not self.left_to_the_tick(queue)]
            there = [on_disk(queue) for queue in queues]
            waiting = [self.waiting(queue) for queue in map(self.deep.queue, self.names)]
            self.deep.broker_tick()
            await self.deep.written()
            assert (paging.loaded, paging.bodies_brought_back) == before, (self.where, waiting)
            assert [on_disk(queue) for queue in queues] == there, self.where
            assert paging.found_by_tick == 0, self.where
        for holder in itertools.chain.from_iterable(model.holders for model in self.models):
            assert await holder.consumer.take() == [], self.where

    def waiting(self, queue: Queue) -> dict[str, object]:
        """Return what may tell why a queue had something to read with a tick."""
        assert self.deep.broker.pager is not None
        return {
            "queue": queue.name, "ready": [consumer.ready for consumer in queue.consumers], "halted": queue.halted,
            "count": queue.order.count, "rows": queue.order.paged_count(), "came back": queue.order.came_back(),
            "away": None if queue.bodies is None else (queue.bodies.count, queue.bodies.stalled),
            "stalled": [(pages.stalled, pages.awaits_read()) for pages in queue.order.page_parts()],
            "turn": (queue.turn_asked, self.deep.broker.pager.scanning.asked(queue)),
        }  # fmt: skip

    def left_to_the_tick(self, queue: Queue) -> bool:
        """Say whether a queue may page with the tick, though nothing was missed.

        One that was over its share with nothing to page is not asked again before a message of it is written, or the
        tick: what was on its way to a client, or came back, may leave by then. Nor is one measured that only took what
        it had on disk, for its consumers, before that is a load. Until then both take what V1 says. What came to a
        queue it has paged, or never will: so after an arrival nothing is left. What came back by the thousand, which
        nobody counts at the return, becomes rows with the tick. And whoever is over his share pages with the tick when
        the budget or the share is kept only because some of what others have was not counted yet. Who is below the
        floor pages with it when all together have more than the budget: the round that comes with it sinks the floor.
        """
        pager = self.deep.broker.pager
        assert pager is not None
        budget = pager.budget
        unasked = queue in pager._stuck or cost_of(queue) > budget.cost_of(queue)
        if (unasked and queue is not self.arrived) or pager._foldable(queue):
            return True
        everybody = list(map(self.deep.queue, self.names))
        if cost_of(queue) < budget.floor and sum(map(cost_of, everybody)) > budget.limit:
            return True
        others = [other for other in everybody if other is not queue]
        uncounted = sum([max(0, cost_of(other) - budget.cost_of(other)) for other in others])
        kept = budget.over <= 0 or budget.cost_of(queue) <= budget.share
        return kept and uncounted > max(0, -budget.over)

    def check_order(self, order: PagedFifo) -> None:
        """W1, V5: the front stands in order before all rows, these before what is late; W4, R7: it is not long."""
        front = [entry for entry in order._front if entry.state == PENDING]
        late = [entry.place for entry in order._late if entry.state == PENDING]
        rows = order.pages
        places = [entry.place for entry in front]
        assert places == sorted(places), self.where
        if rows.items:
            assert not places or places[-1] < rows.first_sequence(), self.where
            assert not late or rows.last_sequence() < late[0], self.where
            assert len(front) <= KEEP_MESSAGES + LOAD_MESSAGES, self.where
            largest = self.deep.largest
            assert sum(entry.message.size for entry in front) <= KEEP_BYTES + max(LOAD_BYTES, largest) + largest
        assert late == sorted(late), self.where

    async def check_caches(self) -> None:
        """V2 to V4: while somebody is over his share nothing of him is late that could be a row.

        That is once the tick has had him looked at, which does not come here while the disk refuses. A front is late
        until then when bodies on disk came back before it: it stays where it is, and takes no more memory than before.
        """
        pager = self.deep.broker.pager
        assert pager is not None
        if self.refusing:
            for queue in pager.budget.to_page():
                pager.note(queue)
            await self.deep.written()
        for queue in pager.budget.to_page():
            assert residence_of(queue).late <= max(LOAD_BYTES, self.deep.largest), self.where

    # ------------------------------------------------------------------ running

    async def run(self, events: int) -> None:
        choices: list[Callable[[Model], Coroutine[Any, Any, None]]] = [
            self.publish, self.publish, self.publish, self.attach, self.attach, self.acknowledge, self.acknowledge,
            self.give_back, self.leave, self.refuse,
        ]  # fmt: skip
        calm = (self.publish, self.attach, self.acknowledge)  # others change what is next in their queue
        for number in range(events):
            event, model = self.random.choice(choices), self.random.choice(self.models)
            self.where = f"{self.where.split(',')[0]}, event {number}: {event.__name__} {model.name}"
            fronts = [(other, self.kept(other)) for other in self.models if event in calm or other is not model]
            self.bounds.clear()
            self.arrived = self.deep.queue(model.name) if event == self.publish else None
            await event(model)
            await self.settle()
            self.arrived = None
            self.check_floors(fronts if event != self.refuse else [])
            await self.check_caches()
        if self.refusing:
            await self.refuse(self.models[0])
            await self.settle()

    async def end(self) -> None:
        """Everything comes out of each queue, in order and once."""
        for model in self.models:
            while model.holders:
                await self.leave(model)
                await self.settle()
            left, model.ready = model.ready, []
            assert await self.drained(model.name, len(left)) == left, self.where
        assert sorted(await self.drained("dead", len(self.dead))) == sorted(self.dead), self.where
        assert await self.deep.live_records() == 0, self.where

    async def drained(self, name: str, count: int) -> list[int]:
        """Take so many, which may be on their way back still, and look whether there are more."""
        consumer = await self.deep.consumer(name, DRAINED)
        found: list[int] = []
        while len(found) < count and (some := await consumer.all(min(DRAINED, count - len(found)))):
            found += some
            await consumer.acknowledge_all()
        await self.deep.broker.commit.durable()
        found += await consumer.numbers()
        await consumer.leave()
        return found


def on_disk(queue: Queue) -> tuple[int, int]:
    """Return how many rows a queue has, and entries without their bodies."""
    return queue.order.paged_count(), 0 if queue.bodies is None else queue.bodies.count


async def run_history(directory: Path, seed: int, events: int, patch: pytest.MonkeyPatch) -> None:
    async with deep_broker(directory, budget=MIB, clock=VirtualClock()) as deep:
        for name in ("one", "two", "dead"):
            await deep.declare(name)
        letters = {"x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
        await deep.declare("limited", x_max_delivery_attempts=ATTEMPTS, **letters)
        history = History(deep, seed, patch)
        with history.noting_bounds():
            await history.run(events)
        await history.end()


@pytest.mark.parametrize("refusing", [False, True])
async def test_a_front_before_which_bodies_on_disk_came_back_pages_when_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, refusing: bool
) -> None:
    async with deep_broker(tmp_path / "data", budget=MIB, clock=VirtualClock()) as deep:
        await deep.declare("one")
        queue = deep.queue("one")
        history = History(deep, 0, monkeypatch)
        held, count = KEEP_MESSAGES + 76, 0
        consumer = await deep.consumer("one", held)
        for more, size in ((held, 700), (17, 60_000), (19, 700), (5, 60_000)):
            await deep.publish(range(count, count + more), "one", size=size)
            count += more
        assert len(await consumer.all(held)) == held
        front = 18 * 60_000 + 19 * 700  # 1 MiB and most of a message: as much as a front may have
        assert residence_of(queue).as_dict() == {"in_delivery": 0, "direct": front, "late": 0, "head": 0}
        if refusing:
            await history.refuse(Model("one"))
        await consumer.leave()
        await deep.written()
        late = residence_of(queue)
        assert late.late == late.total == front > MIB, "it is late now, and takes no more memory"
        if not refusing:
            await deep.settled()  # with the tick
        await history.check_caches()
        assert residence_of(queue).late == 0
        if refusing:
            await history.refuse(Model("one"))
        assert await deep.drained("one") == list(range(count)), "in order"


@pytest.mark.parametrize("seed", range(4))
async def test_the_rules_of_the_design_hold_after_each_random_event(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_history(tmp_path / "data", seed, EVENTS, monkeypatch)


@pytest.mark.soak
@pytest.mark.timeout(soak_seconds(soak_events()))
async def test_the_rules_of_the_design_hold_after_very_many_random_events(
    tmp_path: Path, moments: random.Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    for events in lives_of(max(1, soak_events() // INVARIANTS_SHARE), SOAK_EVENTS_A_BROKER):
        await run_history(tmp_path / "data", moments.getrandbits(32), events, monkeypatch)
        shutil.rmtree(tmp_path / "data")
