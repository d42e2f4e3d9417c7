"""The expiry index."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.model.entry import PENDING, REMOVED, QueueEntry
from annulet.core.model.loss_ledger import LossLedger
from annulet.core.policies.expiry import BLOCK_BITS, COMPACTION_MINIMUM, ExpiryIndex
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message, make_queue, queue_of
from tests.core.queue.test_pull_waits import Waiting
from tests.core.slice_pairs import SlicedPair
from tests.hypothesis_profiles import fewer_examples


def indexed(*times):
    index, queue = ExpiryIndex(), make_queue()
    entries = [QueueEntry(queue, make_message(), sequence) for sequence in range(1, len(times) + 1)]
    for at, entry in zip(times, entries, strict=True):
        index.add(at, entry)
    return index, entries


def test_due_entries_come_earliest_first_and_leave_the_index():
    index, entries = indexed(30, 10, 20)
    assert index.next_at() == 10
    assert index.due(9) == []
    assert index.due(20) == [entries[1], entries[2]]
    assert [entry.indexed for entry in entries] == [True, False, False]
    assert index.next_at() == 30


def test_removed_entries_are_not_due_and_do_not_pile_up():
    index, entries = indexed(*range(1, 1001))
    for entry in entries[:-1]:
        entry.state = REMOVED
        index.forget(entry)
    assert len(index) <= COMPACTION_MINIMUM + 2
    assert index.due(2000) == [entries[-1]]
    assert index.next_at() == 0


def test_what_left_before_its_time_holds_no_message():
    index, entries = indexed(*range(1, 1001))
    for entry in entries[:400]:
        index.forget(entry)
    assert len(index) == len(entries)
    assert [entry for block in index._blocks.values() for entry in block.entries.values()] == entries[400:]


@pytest.mark.parametrize("every", [1, 2, 3])
def test_the_times_of_those_that_left_are_swept_out_some_at_once(every):
    index, entries = indexed(*range(1, 20_001))
    swept = []
    for entry in [*entries[1000:19_000:every], *entries[1001:19_000:every]]:  # as a queue pages: neither first nor last
        before = len(index)
        if entry.indexed:
            index.forget(entry)
            swept.append(before - len(index))
    assert max(swept) <= 1 << BLOCK_BITS, "all in one turn hold the loop where a budget is full of them"
    left = [entry for entry in entries if entry.indexed]
    assert len(index) <= 2 * len(left) + 20 * COMPACTION_MINIMUM
    assert index.due(30_000) == left


@pytest.mark.parametrize("leave", [range(900), range(899, -1, -1), random.Random(1).sample(range(900), 900)])
def test_what_comes_leaves_and_is_due_while_it_is_swept_is_found(leave):
    index, entries = indexed(*[1 + number * 7 % 1000 for number in range(1000)])
    left = set(entries)
    later = iter([QueueEntry(entries[0].queue, make_message(), 2000 + number) for number in range(900)])
    times = {entry: 1 + number * 7 % 1000 for number, entry in enumerate(entries)}
    for number in leave:
        if entries[number] not in left:  # it was due
            continue
        index.forget(entries[number])
        left.remove(entries[number])
        if number % 3 == 0:
            new = next(later)
            times[new] = 1000 - number
            index.add(times[new], new)
            left.add(new)
        expected = sorted(left, key=lambda entry: (times[entry], entry.sequence))
        assert index.first() == (times[expected[0]], expected[0].sequence) or index.first()[0] < times[expected[0]]
        if number % 50 == 0:
            assert index.due(2000, 1) == expected[:1]
            left.remove(expected[0])
    assert set(index.due(2000)) == left
    assert len(index) == 0


def test_one_that_came_again_while_it_is_swept_expires_at_its_own_time():
    index, entries = indexed(*[50] * 300)
    for entry in entries[:200]:
        index.forget(entry)
    again = [QueueEntry(entry.queue, make_message(expires_at=20), entry.sequence) for entry in entries[:200]]
    for entry in again:
        index.add(20, entry)
    for entry in entries[200:250]:
        index.forget(entry)
    assert index.due(19) == []
    assert index.due(20) == again
    assert index.due(50) == entries[250:]


def test_the_time_of_one_that_left_is_none_for_who_stands_there_now():
    index, (former,) = indexed(10)
    index.forget(former)
    present = QueueEntry(former.queue, make_message(expires_at=30), former.sequence)
    index.add(30, present)
    assert index.due(20) == []
    assert index.due(30) == [present]
    assert index.due(40) == []


def test_very_many_that_expire_at_once_go_in_slices_and_nothing_is_dispatched_meanwhile():
    effects = SlicingEffects()
    queue = queue_of(effects)
    count = 4 * SLICE_MESSAGES
    for number in range(count):
        queue.enqueue(make_message(str(number), expires_at=NOW + 1), NOW)
    queue.enqueue(make_message("lives"), NOW)
    assert queue.tick(NOW + 1) == SLICE_MESSAGES
    session = RecordingSession()
    session.consume(queue, now=NOW + 1)
    turns = 0
    while effects.works:
        assert session.received == []
        check_invariants(queue)
        effects.turn(NOW + 1)
        turns += 1
    assert turns == 3
    assert session.received == ["lives"]
    assert queue.counters.removed[RemovalReason.EXPIRED] == count
    assert queue.ledger.total == count
    check_invariants(queue)


def test_of_very_many_that_expire_the_ledger_gets_what_it_keeps_and_counts_all():
    queues = [queue_of(SlicingEffects()), queue_of()]
    for queue in queues:
        queue.ledger = LossLedger(SLICE_MESSAGES // 2)
        for number in range(3 * SLICE_MESSAGES):
            queue.enqueue(make_message("old", expires_at=NOW + 1 + number % 3), NOW)
        held = queue.acquire(SLICE_MESSAGES, -1, NOW)  # in delivery: none of these expires
        assert len(held) == SLICE_MESSAGES
    queues[0].effects.works.clear()
    queues[0].expire_later(NOW + 3)
    assert queues[0].effects.turns(NOW + 3) == 2
    queues[1].tick(NOW + 3)
    found = [[(record.sequence, record.reason) for record in queue.ledger.query()] for queue in queues]
    assert found[0] == found[1]
    assert len(found[0]) == SLICE_MESSAGES // 2
    assert [queue.ledger.total for queue in queues] == [2 * SLICE_MESSAGES] * 2


def test_another_loss_between_the_slices_of_an_expiry_is_recorded():
    effects = SlicingEffects()
    queue = queue_of(effects, max_length=4 * SLICE_MESSAGES)
    queue.ledger = LossLedger(10)
    for _ in range(3 * SLICE_MESSAGES):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    last = queue.enqueue(make_message("lives"), NOW)
    queue.expire_later(NOW + 1)
    effects.turn(NOW + 1)
    assert queue.expiring is not None
    assert queue.expiring.unrecorded == 2 * SLICE_MESSAGES - 10
    queue.remove(last, RemovalReason.OVERFLOW, NOW + 1)
    assert [record.sequence for record in queue.ledger.query()] == [last.sequence]
    queue.purge(NOW + 1)
    effects.turns(NOW + 1)
    assert queue.expiring is None


def test_a_consumer_that_comes_before_the_tick_waits_for_the_slices_too():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for _ in range(SLICE_MESSAGES + 2):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    queue.enqueue(make_message("lives"), NOW)
    queue.pause(NOW)
    session = RecordingSession()
    session.consume(queue)
    queue.paused = False
    queue.update_gate(NOW)
    queue.wake(NOW + 1)
    assert (session.received, queue.halted) == ([], True)
    effects.turns(NOW + 1)
    assert (session.received, queue.halted) == (["lives"], False)


def test_a_pull_waits_until_all_that_expired_is_removed():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for _ in range(SLICE_MESSAGES + 2):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    queue.enqueue(make_message("lives"), NOW)
    queue.tick(NOW + 1)
    assert queue.acquire(2, -1, NOW + 1) == []
    waiter = Waiting()
    assert queue.await_pull(waiter, queue.next_sequence, NOW + 1)
    effects.turns(NOW + 1)
    assert waiter.told == 1
    assert [entry.message.body for entry in queue.acquire(2, -1, NOW + 1)] == [b"lives"]
    assert not queue.halted


def test_a_queue_that_is_deleted_waits_for_no_slice():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for _ in range(SLICE_MESSAGES + 2):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    queue.tick(NOW + 1)
    queue.delete(NOW + 1)
    effects.turns(NOW + 1)
    assert queue.order.count == 0


def test_a_defect_while_many_expire_stops_nobody():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for _ in range(SLICE_MESSAGES + 2):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    queue.tick(NOW + 1)
    effects.works.pop().abandon(NOW + 1)
    assert not queue.halted
    assert queue.tick(NOW + 1) == 2
    assert queue.order.count == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"ring_size": 3 * SLICE_MESSAGES},
        {"ring_size": 3 * SLICE_MESSAGES, "priorities": 3},
        {"max_length": 3 * SLICE_MESSAGES, "overflow": "ring"},
        {"max_bytes": 9 * SLICE_MESSAGES, "overflow": "ring", "evict": "newest"},
        {"max_length": 3 * SLICE_MESSAGES, "overflow": "block"},
        {"max_length": 3 * SLICE_MESSAGES, "overflow": "reject"},
    ],
)
def test_what_expires_in_slices_takes_no_room_of_what_lives(settings: dict[str, Any]):
    """The queue is full, mostly of what has just expired: as much of it goes at once as the arrivals need."""
    effects = SlicingEffects()
    queue = queue_of(effects, **settings)
    lives = [queue.enqueue(make_message("liv"), NOW) for _ in range(SLICE_MESSAGES)]
    for _ in range(2 * SLICE_MESSAGES):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    queue.tick(NOW + 1)
    arrivals = []
    for _ in range(2 * SLICE_MESSAGES):
        message = make_message("new")
        assert queue.refusal(message) == ""
        arrivals.append(queue.enqueue(message, NOW + 1))
        assert not queue.blocked
    assert queue.order.count == 3 * SLICE_MESSAGES
    effects.turns(NOW + 1)
    assert {entry.state for entry in lives + arrivals} == {PENDING}
    assert queue.counters.removed[RemovalReason.EXPIRED] == queue.ledger.total == 2 * SLICE_MESSAGES
    check_invariants(queue)


@pytest.mark.parametrize("overflow", ["ring", "block"])
def test_a_large_arrival_that_comes_before_the_tick_has_room_made_too(overflow: str):
    effects = SlicingEffects()
    queue = queue_of(effects, max_bytes=9 * SLICE_MESSAGES + 3, overflow=overflow)
    lives = queue.enqueue(make_message("liv"), NOW)
    for _ in range(3 * SLICE_MESSAGES):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    large = queue.enqueue(make_message("x" * 8 * SLICE_MESSAGES), NOW + 1)
    assert not queue.blocked
    effects.turns(NOW + 1)
    assert (lives.state, large.state) == (PENDING, PENDING)
    assert queue.counters.removed[RemovalReason.EXPIRED] == 3 * SLICE_MESSAGES


@pytest.mark.parametrize(
    "settings",
    [
        {"ring_size": 3 * SLICE_MESSAGES},
        {"max_length": 3 * SLICE_MESSAGES, "overflow": "ring", "evict": "newest"},
    ],
    ids=str,
)
def test_what_comes_back_before_the_tick_is_not_dropped_for_what_expired(settings: dict[str, Any]):
    effects = SlicingEffects()
    queue = queue_of(effects, **settings)
    for _ in range(3 * SLICE_MESSAGES):
        queue.enqueue(make_message("liv"), NOW)
    held = queue.acquire(-1, -1, NOW)
    for _ in range(3 * SLICE_MESSAGES):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    queue.return_entries(list(held), NOW + 1)
    effects.turns(NOW + 1)
    assert REMOVED not in {entry.state for entry in held}
    assert queue.tick(NOW + 1) <= SLICE_MESSAGES
    effects.turns(NOW + 1)
    assert queue.counters.removed[RemovalReason.EXPIRED] == queue.ledger.total == 3 * SLICE_MESSAGES


def test_who_asks_a_non_destructive_queue_before_the_tick_gets_nothing_that_expired():
    queue = queue_of(SlicingEffects(), non_destructive=True)
    for _ in range(2 * SLICE_MESSAGES):
        queue.enqueue(make_message("old", expires_at=NOW + 1), NOW)
    queue.enqueue(make_message("lives"), NOW)
    assert [entry.message.body for entry in queue.acquire(2, -1, NOW + 1)] == [b"lives"]


def test_a_consumer_with_a_selector_meets_many_expired_in_slices_too():
    effects = SlicingEffects()
    queue, session = queue_of(effects), RecordingSession()
    consumer = session.consume(queue, messages=0, selector="k = 'a'")
    for _ in range(2 * SLICE_MESSAGES):
        queue.enqueue(make_message("old", expires_at=NOW + 1, k="a"), NOW)
    queue.enqueue(make_message("lives", k="a"), NOW)
    consumer.window.messages_max = 5
    queue.wake(NOW + 1)
    assert (session.received, len(effects.works)) == ([], 1)
    assert queue.counters.removed[RemovalReason.EXPIRED] == SLICE_MESSAGES
    effects.turns(NOW + 1)
    assert session.received == ["lives"]


KINDS: list[dict[str, Any]] = [
    {},
    {"priorities": 3},
    {"ring_size": 4},
    {"ring_size": 4, "priorities": 3},
    {"ring_size": 4, "evict": "least-important", "priorities": 3},
    {"max_length": 4, "overflow": "ring"},
    {"max_length": 5, "overflow": "ring", "limit_counts": "all"},
    {"max_bytes": 6, "overflow": "ring", "evict": "newest"},
    {"max_length": 4, "overflow": "reject"},
    {"max_length": 4, "overflow": "block"},
    {"group_mode": "sticky"},
    {"non_destructive": True},
]


class ExpiryInSlices(SlicedPair):
    """A queue that has what expired removed turns later beside one that has it at once: nobody can tell them apart."""

    def __init__(self, settings: dict[str, Any], chance: random.Random) -> None:
        super().__init__(settings, chance)
        self.actions = [
            self.publish, self.publish, self.publish, self.many_expire, self.many_expire, self.take, self.give_back,
            self.effects_turn, self.consume, self.die,
        ]  # fmt: skip

    def publish(self) -> None:
        self.number += 1
        life, delay = self.chance.choice([0, 0, 1, 4, 9]), self.chance.choice([0, 0, 0, 5])
        refusals = []
        for queue in self.queues:
            message = make_message(
                str(self.number), accepted_at=self.now, expires_at=life and self.now + life,
                deliver_at=delay and self.now + delay, priority=self.number % 3, k=str(self.number % 3),
            )  # fmt: skip
            refusals.append(queue.refusal(message))
            if not refusals[-1]:
                queue.enqueue(message, self.now)
        assert refusals[0] == refusals[1]
        assert self.queues[0].blocked == self.queues[1].blocked

    def many_expire(self) -> None:
        """Time goes on. The one queue has what has expired there still, and slices to come."""
        self.effects.turns(self.now)  # or what consumers wait for might expire
        self.now += self.chance.randint(1, 5)
        if self.queues[0].has_expired(self.now):
            self.queues[0].expire_later(self.now)
        for queue in self.queues:
            queue.tick(self.now)

    def take(self) -> None:
        self.take_some(3)

    def give_back(self) -> None:
        self.effects.turns(self.now)  # or consumers that wait for the slices would be offered it first
        for queue, held in zip(self.queues, self.held, strict=True):
            if held:
                queue.return_entries(held.pop(0), self.now)

    def end(self) -> None:
        self.effects.turns(self.now)
        for queue in self.queues:
            queue.tick(self.now)
        super().end()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@fewer_examples(15)
@given(seed=st.integers(0, 1 << 32))
def test_nobody_can_tell_expiry_in_slices_from_that_at_once(kind: dict[str, Any], seed: int):
    pair = ExpiryInSlices(kind, random.Random(seed))
    for _ in range(50):
        pair.step()
    pair.end()
