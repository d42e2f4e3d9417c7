"""What a batch puts into a queue is seen by nobody before the batch is shown, in every composition of policies."""

from __future__ import annotations

import random

import pytest

from annulet.core.entry import PENDING, REMOVED, SCHEDULED
from annulet.core.hidden import HIDES_NOTHING, HiddenBatch, take_back
from annulet.core.invariants import check_invariants
from annulet.core.management.scan import Scan
from annulet.core.message import Message, StandardProperties
from annulet.core.queue import Queue
from annulet.core.reasons import RemovalReason
from annulet.core.settings import BROWSE_FOLLOW, BROWSE_OFF, BROWSE_SNAPSHOT, COUNT_ALL, QueueSettings
from annulet.core.why_not import Obstacle, why_not
from tests.core.deep_doubles import ALL, Deep, numbers
from tests.core.helpers import (
    NOW,
    RecordingEffects,
    RecordingSession,
    SlicingEffects,
    TableView,
    make_message,
    queue_of,
)
from tests.core.model.compositions import Composition, compositions
from tests.core.model.policies import BROWSERS, COLOUR, FAIR_KEY, LAST_VALUE_KEY, LIFETIMES, SCHEDULES, SORT_KEY


class GroupView(TableView):
    """Application properties, of which one is the group."""

    def properties(self, message: Message) -> StandardProperties:
        return StandardProperties(application=self.application, group_id=str(self.application.get("group", "")))


class History:
    """A queue, those who look at it in every way there is, and a batch that is being put into it."""

    def __init__(self, composition: Composition, seed: int) -> None:
        self.random = random.Random(f"{composition.identifier} {seed}")
        self.effects = RecordingEffects()
        self.settings = composition.settings
        self.traits = composition.traits
        self.queue = Queue("q", self.settings, self.effects)
        self.session = RecordingSession()
        self.now = NOW
        self.batch = HiddenBatch()
        self.numbers = 0
        self.hidden: set[str] = set()  # bodies of what arrived since the batch began
        self.tags = 0
        self.taken: list[str] = []
        self.commands = [
            self.publish, self.publish, self.publish, self.attach, self.cancel, self.settle, self.give_back,
            self.acquire, self.pass_time, self.purge, self.pause, self.remove, self.reprioritise,
        ]  # fmt: skip

    def message(self) -> Message:
        choose = self.random.choice
        self.numbers += 1
        message = make_message(
            str(self.numbers),
            accepted_at=self.now,
            priority=choose([0, 4, 9]),
            expires_at=choose([0, self.now + 4, self.now + 20]) if LIFETIMES in self.traits else 0,
            deliver_at=choose([0, self.now + 3, self.now + 9]) if SCHEDULES in self.traits else 0,
        )
        view = GroupView(
            {
                "given_priority": message.priority,
                "group": choose(["a", "b", ""]),
                LAST_VALUE_KEY: choose(["a", "b", "c"]),
                SORT_KEY: choose([3, 1, 2]),
                FAIR_KEY: choose(["x", "y"]),
                COLOUR: choose(["red", "blue"]),
            }
        )
        message.origin.view = view
        return message

    def enqueue(self, *, hidden: bool) -> None:
        message = self.message()
        if hidden or self.queue.hidden:
            self.hidden.add(message.body.decode())
        self.queue.batches.current = self.batch if hidden else None
        try:
            self.queue.enqueue(message, self.now)
        finally:
            self.queue.batches.current = None

    def publish(self) -> None:
        self.enqueue(hidden=False)

    def attach(self) -> None:
        if self.queue.consumers.count >= 3:
            return
        choose = self.random.choice
        browse = choose([BROWSE_OFF, BROWSE_FOLLOW, BROWSE_SNAPSHOT]) if BROWSERS in self.traits else BROWSE_OFF
        selector = "colour = 'red'" if "selectors" in self.traits and choose([True, False]) else ""
        self.tags += 1
        if self.settings.exclusive_consumer and self.queue.consumers.count:
            return
        self.session.consume(
            self.queue, f"c{self.tags}", messages=choose([1, 2, 5]), now=self.now, browse=browse, selector=selector
        )

    def cancel(self) -> None:
        consumers = list(self.queue.consumers)
        if consumers:
            self.session.detach(self.random.choice(consumers).tag, self.now)

    def settle(self) -> None:
        if self.session.unacknowledged:
            self.session.acknowledge(next(iter(self.session.unacknowledged)), now=self.now)

    def give_back(self) -> None:
        if self.session.unacknowledged:
            self.session.reject(next(iter(self.session.unacknowledged)), now=self.now, requeue=True)

    def acquire(self) -> None:
        for entry in self.queue.acquire(self.random.choice([1, 3]), -1, self.now):
            self.taken.append(entry.message.body.decode())
            self.queue.acknowledge(entry)
        self.queue.wake(self.now)

    def pass_time(self) -> None:
        self.now += 2
        self.queue.tick(self.now)

    def purge(self) -> None:
        shown = self.queue.statistics()
        assert self.queue.purge(self.now) == shown.pending_count + shown.scheduled_count
        left = self.queue.statistics()
        assert (left.pending_count, left.scheduled_count, left.pending_bytes) == (0, 0, 0)

    def pause(self) -> None:
        self.queue.pause(self.now)
        self.check()
        self.queue.resume(self.now)

    def _shown(self) -> list[str]:
        scan = Scan(self.queue, pending=True, scheduled=True)
        while not scan.prepare(100):
            pass
        entries = list(iter(scan.following, None))
        return [entry.message.body.decode() for entry in entries if entry.state in (PENDING, SCHEDULED)]

    def remove(self) -> None:
        entries = [entry for entry in self.queue.browse() if entry.state == PENDING]
        if entries:
            self.queue.remove(self.random.choice(entries), RemovalReason.PURGED, self.now)

    def reprioritise(self) -> None:
        entries = [entry for entry in self.queue.browse() if entry.state == PENDING]
        if entries:
            entry = self.random.choice(entries)
            if self.queue.reprioritise(entry, 7, self.now) is not None and self.queue.hidden:
                self.hidden.add(entry.message.body.decode())  # it stands behind the batch now, as what arrives later

    def check(self) -> None:
        check_invariants(self.queue)
        if self.queue.hidden:
            there = {entry.message.body.decode() for entry in self.queue.browse()} | set(self._shown())
            held = {entry.message.body.decode() for entry in self.queue.delivering}
            assert not (there - held) & self.hidden
        statistics = self.queue.statistics()
        shown = len(self._shown())
        assert statistics.pending_count + statistics.scheduled_count == shown
        there = statistics.message_count
        assert statistics.messages_added == sum(statistics.removed.values()) + there
        assert 0 <= statistics.first_sequence < statistics.next_sequence

    def run(self, steps: int, *, hiding: bool) -> None:
        for _ in range(steps):
            if hiding and self.random.random() < 0.4:
                self.enqueue(hidden=True)
            else:
                self.random.choice(self.commands)()
            self.check()


BATCHED = compositions()


@pytest.mark.parametrize("composition", BATCHED, ids=[one.identifier for one in BATCHED])
def test_nobody_sees_anything_of_a_batch_before_it_is_shown(composition: Composition) -> None:
    for seed in range(2):
        history = History(composition, seed)
        history.run(12, hiding=False)
        before = len(history.session.received), len(history.taken)
        history.run(30, hiding=True)
        seen = {*history.session.received[before[0] :], *history.taken[before[1] :]}
        new = {entry.message.body.decode() for entry in history.batch.entries}
        assert not seen & new
        history.batch.show(history.now)
        assert history.queue.hidden_from == HIDES_NOTHING
        history.check()
        history.run(12, hiding=False)


@pytest.mark.parametrize("composition", BATCHED, ids=[one.identifier for one in BATCHED])
def test_a_batch_that_fails_is_taken_back_whole(composition: Composition) -> None:
    history = History(composition, 0)
    history.run(12, hiding=False)
    history.run(20, hiding=True)
    new = {entry.message.body.decode() for entry in history.batch.entries}
    take_back(history.batch, history.effects, history.now)
    assert history.queue.hidden_from == HIDES_NOTHING
    history.check()
    assert not {*history._shown(), *history.session.received, *history.taken} & new
    history.run(12, hiding=False)
