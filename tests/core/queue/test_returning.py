"""The one return path under every policy that has a say."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX, SLICE_MESSAGES
from annulet.core.queue import returning
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import (
    NOW,
    RecordingEffects,
    RecordingSession,
    SlicingEffects,
    make_message,
    pending,
    queue_of,
    removed,
    send,
)
from tests.core.slice_pairs import SlicedPair
from tests.hypothesis_profiles import fewer_examples


def held(queue, *bodies, **consumer):
    session = RecordingSession()
    session.consume(queue, messages=len(bodies), **consumer)
    send(queue, *bodies)
    assert session.received == list(bodies)
    return session


def test_survivors_are_the_most_important_then_the_newest():
    queue, session = queue_of(priorities=10, ring_size=3), RecordingSession()
    session.consume(queue, messages=4)
    for body, priority in [("a9", 9), ("b0", 0), ("c0", 0), ("d4", 4)]:
        queue.enqueue(make_message(body, priority=priority), NOW)
    session.close(NOW)
    assert pending(queue) == ["a9", "d4", "c0"]
    assert removed(queue, RemovalReason.REPLACED_RING) == 1


def test_what_waits_already_is_never_displaced():
    queue = queue_of(ring_size=2)
    session = held(queue, "a", "b")
    send(queue, "c", "d")
    session.close(NOW)
    assert pending(queue) == ["c", "d"]
    assert removed(queue, RemovalReason.REPLACED_RING) == 2


def test_limits_are_checked_as_the_ring_is():
    queue = queue_of(max_bytes=3, overflow="ring")
    session = held(queue, "aa", "bb")
    send(queue, "c")
    session.close(NOW)
    assert pending(queue) == ["bb", "c"]
    assert removed(queue, RemovalReason.OVERFLOW) == 1
    check_invariants(queue)


def test_r21_attempts_are_tested_before_the_ring():
    queue = queue_of(ring_size=2, max_delivery_attempts=1)
    session = held(queue, "a", "b", "c")
    session.close(NOW)
    assert pending(queue) == []
    assert removed(queue, RemovalReason.REJECTED) == 3
    assert removed(queue, RemovalReason.REPLACED_RING) == 0


def test_attempts_count_deliveries_that_come_back():
    effects = RecordingEffects()
    queue, session = queue_of(effects, max_delivery_attempts=3), RecordingSession()
    session.consume(queue, messages=1)
    send(queue, "a")
    for tag in (1, 2, 3):
        session.reject(tag, NOW, requeue=True)
    assert session.received == ["a", "a", "a"]
    assert removed(queue, RemovalReason.REJECTED) == 1


def test_released_deliveries_count_nothing_and_are_not_delayed():
    queue = queue_of(max_delivery_attempts=1, redelivery_delay=100)
    session = held(queue, "a")
    queue.return_entries([session.unacknowledged.pop(1)], NOW, counted=False)
    assert session.received == ["a", "a"]


def test_the_redelivery_delay_grows_and_ends_at_the_old_place():
    effects = RecordingEffects()
    queue, session = queue_of(effects, redelivery_delay=100, redelivery_multiplier=2.0), RecordingSession()
    session.consume(queue, messages=1)
    send(queue, "a", "b")
    session.reject(1, NOW, requeue=True)
    assert session.received == ["a", "b"]
    assert queue.next_due_at() == NOW + 100
    queue.tick(NOW + 100)
    assert pending(queue) == ["a"]
    session.acknowledge(2, NOW + 100)
    session.reject(3, NOW + 100, requeue=True)
    assert queue.next_due_at() == NOW + 300
    assert effects.wakes == [NOW + 100, NOW + 300]


def test_r20_a_full_ring_drops_at_once_what_would_come_back_later():
    queue = queue_of(ring_size=1, redelivery_delay=1000)
    one = RecordingSession()
    consumer = one.consume(queue, messages=1)
    send(queue, "a", "b")
    one.close_consumer(consumer.tag, NOW)
    assert pending(queue) == ["b"]
    assert queue.schedule.count == 0
    assert removed(queue, RemovalReason.REPLACED_RING) == 1


def test_with_room_it_is_scheduled_and_tested_again_when_it_falls_due():
    queue, session = queue_of(ring_size=1, redelivery_delay=10), RecordingSession()
    consumer = session.consume(queue, messages=1)
    send(queue, "a")
    session.close_consumer(consumer.tag, NOW)
    assert queue.schedule.count == 1
    send(queue, "b")
    queue.tick(NOW + 10)
    assert pending(queue) == ["b"]
    assert removed(queue, RemovalReason.REPLACED_RING) == 1


def test_without_consumers_a_purging_queue_takes_nothing_back():
    queue = queue_of(purge_on_no_consumers=True)
    send(queue, "nobody")
    session = held(queue, "a", "b")
    session.close(NOW)
    assert pending(queue) == []
    assert removed(queue, RemovalReason.PURGED) == 3


def test_very_many_are_purged_in_slices_whoever_comes_meanwhile():
    effects = SlicingEffects()
    queue, session = queue_of(effects, purge_on_no_consumers=True), RecordingSession()
    session.consume(queue)
    for number in range(2 * SLICE_MESSAGES):
        queue.enqueue(make_message(str(number)), NOW)
    session.close(NOW)
    assert removed(queue, RemovalReason.PURGED) == SLICE_MESSAGES
    other = RecordingSession()
    other.consume(queue)
    effects.turns(NOW)
    assert removed(queue, RemovalReason.PURGED) == 2 * SLICE_MESSAGES
    assert other.received == []
    check_invariants(queue)


def test_a_superseded_value_that_waits_for_redelivery_goes_at_once():
    queue, session = queue_of(last_value_key="k", redelivery_delay=100), RecordingSession()
    session.consume(queue, messages=1)
    queue.enqueue(make_message("a1", k="a"), NOW)
    session.reject(1, NOW, requeue=True)
    assert queue.schedule.count == 1
    queue.enqueue(make_message("a2", k="a"), NOW)
    assert queue.schedule.count == 0
    assert removed(queue, RemovalReason.REPLACED_KEY) == 1


def test_stored_entries_report_their_attempts():
    effects = RecordingEffects()
    queue, session = queue_of(effects), RecordingSession()
    session.consume(queue, messages=1)
    message = make_message("a")
    message.record = 7
    queue.enqueue(message, NOW)
    session.close(NOW)
    assert effects.changed == [("q", 1, 1)]


def test_a_browser_does_not_wait_for_what_is_delayed():
    queue, browser, taker = queue_of(redelivery_delay=5), RecordingSession("a"), RecordingSession("b")
    send(queue, "x", "yyy", "zz")
    browser.consume(queue, browse="snapshot", octets=3)
    taker.consume(queue)
    taker.reject(2, NOW, requeue=True)
    assert browser.received == ["x", "zz"]


def test_many_come_back_in_slices_and_nobody_gets_one_before_the_last_is_back():
    effects = SlicingEffects()
    queue, session = queue_of(effects), RecordingSession()
    session.consume(queue)
    count = AT_ONCE_MAX + 1
    for number in range(count + 10):
        queue.enqueue(make_message(str(number)), NOW)
    held = list(session.unacknowledged)[count:]
    for tag in held:
        session.acknowledge(tag, NOW)
    session.close(NOW)
    assert 0 < queue.order.count < count
    other = RecordingSession("other")
    other.consume(queue)
    queue.enqueue(make_message("new"), NOW)
    turns = 0
    while effects.works:
        assert other.received == []
        check_invariants(queue)
        effects.turn(NOW)
        turns += 1
    assert turns == 3, "of whole blocks, so that a slice is a little more"
    assert other.received == [*[str(number) for number in range(count)], "new"]
    assert [entry.redelivered for entry in other.unacknowledged.values()] == [True] * count + [False]
    assert {entry.delivery_count for entry in list(other.unacknowledged.values())[:count]} == {1}
    check_invariants(queue)


def test_what_is_judged_together_comes_back_at_once():
    effects = SlicingEffects()
    queue, session = queue_of(effects, last_value_key="k", last_value_place="keep"), RecordingSession()
    session.consume(queue)
    for number in range(SLICE_MESSAGES + 1):
        queue.enqueue(make_message(str(number)), NOW)
    session.close(NOW)
    assert effects.works == []
    assert len(queue.delivering) == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"ring_size": SLICE_MESSAGES + 1},
        {"ring_size": 9999, "redelivery_delay": 5},
        {"redelivery_delay": 5},
        {"max_length": SLICE_MESSAGES + 1, "overflow": "ring"},
        {"max_length": 1, "overflow": "block"},
        {"in_flight_max": 9999},
        {"priorities": 3},
        {"group_mode": "sticky"},
        {"consumers_before_dispatch": 1, "group_rebalance_pause": True, "group_mode": "sticky"},
    ],
)
def test_a_queue_of_any_kind_takes_many_back_in_slices_where_all_have_room(settings: dict[str, Any]):
    effects = SlicingEffects()
    queue, session = queue_of(effects, **settings), RecordingSession()
    session.consume(queue)
    for number in range(SLICE_MESSAGES + 1):
        queue.enqueue(make_message(str(number)), NOW)
    session.close(NOW)
    assert len(queue.delivering) == 1
    assert queue.halted
    effects.turns(NOW)
    assert len(queue.delivering) == 0
    assert queue.order.count + queue.schedule.count == SLICE_MESSAGES + 1
    check_invariants(queue)


FULL = 3 * SLICE_MESSAGES
"""Messages, of four bytes each, that come back to a queue with room for a third of them."""


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ring_size": SLICE_MESSAGES}, RemovalReason.REPLACED_RING),
        ({"max_length": SLICE_MESSAGES, "overflow": "ring"}, RemovalReason.OVERFLOW),
        ({"max_bytes": 4 * SLICE_MESSAGES, "overflow": "ring"}, RemovalReason.OVERFLOW),
    ],
)
def test_a_full_queue_takes_many_back_in_slices_and_drops_the_excess_in_slices(
    settings: dict[str, Any], reason: RemovalReason
):
    effects = SlicingEffects()
    queue, session = queue_of(effects, **settings), RecordingSession()
    session.consume(queue)
    for number in range(FULL):
        queue.enqueue(make_message(f"{number:04}"), NOW)
    session.close(NOW)
    lengths = []
    while effects.works:
        lengths.append(queue.order.count)
        check_invariants(queue)
        effects.turn(NOW)
    assert lengths == [500, 1000, 1000, 500]  # the slice that brings the last drops the first of the excess
    assert pending(queue) == [f"{number:04}" for number in range(2 * SLICE_MESSAGES, FULL)]
    assert removed(queue, reason) == 2 * SLICE_MESSAGES
    assert queue.ring_debt is None


def test_arrivals_of_a_full_ring_wait_for_what_comes_back_and_drop_the_oldest_then():
    effects = SlicingEffects()
    queue, session = queue_of(effects, ring_size=SLICE_MESSAGES), RecordingSession()
    session.consume(queue)
    for number in range(FULL):
        queue.enqueue(make_message(f"{number:04}"), NOW)
    session.close(NOW)
    for number in range(3):
        queue.enqueue(make_message(f"new {number}"), NOW)
        assert len(queue.delivering) == FULL - SLICE_MESSAGES
    effects.turns(NOW)
    last = [f"{number:04}" for number in range(2 * SLICE_MESSAGES + 3, FULL)]
    assert pending(queue) == [*last, "new 0", "new 1", "new 2"]
    assert removed(queue, RemovalReason.REPLACED_RING) == 2 * SLICE_MESSAGES + 3


def test_what_waits_in_a_full_ring_is_not_displaced_by_what_comes_back_in_slices():
    effects = SlicingEffects()
    queue, session = queue_of(effects, ring_size=SLICE_MESSAGES), RecordingSession()
    session.consume(queue, messages=FULL)
    for number in range(FULL + SLICE_MESSAGES):
        queue.enqueue(make_message(f"{number:04}"), NOW)
    session.close(NOW)
    effects.turns(NOW)
    assert pending(queue) == [f"{number:04}" for number in range(FULL, FULL + SLICE_MESSAGES)]


def test_new_settings_end_the_drops_of_what_came_back_at_once():
    effects = SlicingEffects()
    queue, session = queue_of(effects, ring_size=SLICE_MESSAGES), RecordingSession()
    session.consume(queue)
    for number in range(FULL):
        queue.enqueue(make_message(str(number)), NOW)
    session.close(NOW)
    queue.update(replace(queue.settings, ring_size=FULL), NOW)
    assert queue.order.count == SLICE_MESSAGES
    assert queue.ring_debt is None
    assert effects.turns(NOW) == 1


def test_a_full_ring_that_is_deleted_waits_for_no_slice():
    effects = SlicingEffects()
    queue, session = queue_of(effects, ring_size=SLICE_MESSAGES), RecordingSession()
    session.consume(queue)
    for number in range(FULL):
        queue.enqueue(make_message(str(number)), NOW)
    session.close(NOW)
    queue.delete(NOW)
    effects.turns(NOW)
    assert queue.ring_debt is None


def test_a_defect_in_the_drops_of_what_came_back_lets_arrivals_drop_again():
    effects = SlicingEffects()
    queue, session = queue_of(effects, ring_size=SLICE_MESSAGES), RecordingSession()
    session.consume(queue)
    for number in range(FULL):
        queue.enqueue(make_message(str(number)), NOW)
    session.close(NOW)
    effects.turn(NOW)
    assert queue.ring_debt is not None
    queue.ring_debt.abandon(NOW)
    effects.works = []
    before = queue.order.count
    queue.returns[0].abandon(NOW)
    queue.enqueue(make_message("new"), NOW)
    assert queue.order.count == before


def test_publishers_that_are_held_back_anyhow_end_no_slices():
    effects = SlicingEffects()
    queue, session = queue_of(effects, max_length=2, overflow="block"), RecordingSession()
    session.consume(queue)
    for number in range(3 * SLICE_MESSAGES):
        queue.enqueue(make_message(str(number)), NOW)
    session.close(NOW)
    queue.enqueue(make_message("more"), NOW)
    queue.tick(NOW)
    assert len(queue.delivering) == 2 * SLICE_MESSAGES
    assert queue.blocked


def test_a_scheduled_message_that_is_not_due_ends_no_slices():
    effects = SlicingEffects()
    queue, session = queue_of(effects, ring_size=3 * SLICE_MESSAGES), RecordingSession()
    session.consume(queue)
    for number in range(3 * SLICE_MESSAGES):
        queue.enqueue(make_message(str(number)), NOW)
    queue.enqueue(make_message("later", deliver_at=NOW + 9), NOW)
    session.close(NOW)
    queue.tick(NOW)
    assert len(queue.delivering) == 2 * SLICE_MESSAGES
    queue.tick(NOW + 9)
    assert len(queue.delivering) == 2 * SLICE_MESSAGES
    effects.turns(NOW + 9)
    assert [loss.sequence for loss in queue.ledger.query()] == [3 * SLICE_MESSAGES + 1]  # which fell due
    assert removed(queue, RemovalReason.REPLACED_RING) == 1


def test_a_shared_window_that_slices_empty_serves_the_other_queues_of_its_session():
    effects = SlicingEffects()
    many, other = queue_of(effects), queue_of(effects)
    session = RecordingSession()
    session.consume(many)
    count = AT_ONCE_MAX + SLICE_MESSAGES
    for number in range(count):
        many.enqueue(make_message(str(number)), NOW)
    session.set_window(SLICE_MESSAGES, -1, NOW)
    session.consume(other, "other")
    other.enqueue(make_message("waits"), NOW)
    session.close_consumer("c", NOW)
    assert session.window.messages >= SLICE_MESSAGES
    effects.turns()
    assert session.received[count:] == ["waits"]


def test_a_defect_in_a_return_stops_nobody_else():
    effects = SlicingEffects()
    queue = queue_of(effects)
    send(queue, *"abcd")
    returning.return_many(queue, queue.acquire(3, -1, NOW), NOW, 1, counted=True)
    assert queue.halted
    effects.works.pop().abandon(NOW)
    assert not queue.halted
    assert [entry.message.body for entry in queue.acquire(9, -1, NOW)] == [b"a", b"d"]


def test_a_queue_deleted_meanwhile_takes_nothing_back():
    effects = SlicingEffects()
    queue = queue_of(effects)
    send(queue, *"abcd")
    returning.return_many(queue, queue.acquire(3, -1, NOW), NOW, 1, counted=True)
    assert queue.delete(NOW) == 2
    effects.turn(NOW)
    assert (effects.works, queue.returns, queue.order.count) == ([], [], 0)
    assert removed(queue, RemovalReason.DELETED) == 4


KINDS: list[dict[str, Any]] = [
    {},
    {"last_value_key": "k"},
    {"message_ttl": 50},
    {"max_delivery_attempts": 2},
    {"priorities": 3},
    {"ring_size": 6},
    {"ring_size": 6, "priorities": 3},
    {"max_length": 6, "overflow": "ring"},
    {"max_length": 8, "overflow": "ring", "limit_counts": "all"},
    {"max_bytes": 8, "overflow": "ring", "evict": "newest"},
    {"max_length": 6, "overflow": "block"},
    {"redelivery_delay": 5},
    {"in_flight_max": 5},
    {"group_mode": "sticky"},
    {"fair_key": "k"},
    {"consumers_before_dispatch": 2},
    {"consumers_before_dispatch": 3, "delay_before_dispatch": 20},
    {"group_mode": "sticky", "group_rebalance": True, "group_rebalance_pause": True},
    {"purge_on_no_consumers": True},
]


class ReturnsInSlices(SlicedPair):
    """A queue whose returns take many turns beside one that has them at once: nobody can tell them apart."""

    def __init__(self, settings: dict[str, Any], chance: random.Random) -> None:
        super().__init__(settings, chance)
        self.actions = [
            self.publish, self.publish, self.take, self.take, self.give_back, self.give_back, self.acknowledge,
            self.effects_turn, self.effects_turn, self.tick, self.consume, self.die, self.purge,
        ]  # fmt: skip

    def publish(self) -> None:
        if self.queues[0].settings.fair_key:  # or a key of it gets its turn before those that are not back
            self.effects.turns(self.now)
        for _ in range(self.chance.randint(1, 6)):
            self.number += 1
            for queue in self.queues:
                kind = self.number % 3
                message = make_message(str(self.number), accepted_at=self.now, priority=kind, k=str(kind))
                queue.enqueue(message, self.now)

    def take(self) -> None:
        self.take_some(8)

    def give_back(self) -> None:
        if not self.held[0]:
            return
        if self.sessions:  # who waits for the slices would be offered these first
            self.effects.turns(self.now)
        if self.queues[0].ring_debt is not None:  # or their excess would be that of both together
            self.effects.turns(self.now)
        queue, entries = self.queues[0], self.held[0].pop(0)
        counted = self.chance.random() < 0.7
        if returning.each_alone(queue):
            returning.return_many(queue, entries, self.now, self.chance.randint(1, 3), counted=counted)
        else:
            queue.return_entries(entries, self.now, counted=counted)
        self.queues[1].return_entries(self.held[1].pop(0), self.now, counted=counted)

    def acknowledge(self) -> None:
        if self.queues[0].ring_debt is not None:  # or what it frees need not be dropped for an earlier arrival
            self.effects.turns(self.now)
        for queue, held in zip(self.queues, self.held, strict=True):
            for entry in held.pop(0) if held else []:
                queue.acknowledge(entry)
            queue.wake(self.now)

    def tick(self) -> None:
        self.effects.turns(self.now)  # or what consumers wait for might expire
        self.now += self.chance.randint(1, 30)
        for queue in self.queues:
            queue.tick(self.now)

    def purge(self) -> None:
        if self.queues[0].ring_debt is not None:  # or what is too many is purged, too
            self.effects.turns(self.now)
        if self.chance.random() < 0.3:
            assert self.queues[0].purge(self.now) == self.queues[1].purge(self.now)

    def consume(self) -> None:
        if self.queues[0].ring_debt is not None:  # or it would be served before what arrived drops others
            self.effects.turns(self.now)
        if self.queues[0].retention is None:  # what a consumer would have, a newer value may replace
            super().consume()


@pytest.mark.parametrize("kind", KINDS, ids=str)
@fewer_examples(15)
@given(seed=st.integers(0, 1 << 32))
def test_nobody_can_tell_returns_in_slices_from_those_at_once(kind: dict[str, Any], seed: int):
    pair = ReturnsInSlices(kind, random.Random(seed))
    for _ in range(40):
        pair.step()
    pair.end()


def test_very_many_of_a_queue_with_fair_keys_come_back_in_slices_and_keep_their_turns():
    effects = SlicingEffects()
    queue, session = queue_of(effects, fair_key="k"), RecordingSession()
    session.consume(queue)
    count = AT_ONCE_MAX + SLICE_MESSAGES
    for number in range(count):
        queue.enqueue(make_message(str(number), k="ab"[number * 2 // count]), NOW)
    session.close_consumer("c", NOW)
    session.reject(0, NOW, multiple=True, requeue=True)
    back = 0
    while effects.works:
        assert 0 < queue.order.count - back <= SLICE_MESSAGES
        back = queue.order.count
        effects.turn()
    assert (back, queue.order.count, len(queue.delivering)) == (count - SLICE_MESSAGES, count, 0)
    half = count // 2
    assert [int(entry.message.body) for entry in queue.acquire(4, -1, NOW)] == [0, half, 1, half + 1]
