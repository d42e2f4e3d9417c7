"""The order of steps when a message arrives: expiry, key, consumers, ring, limits."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.model.entry import REMOVED
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message, pending, queue_of, removed, send


def test_a_replacement_stands_at_the_tail_or_where_the_replaced_one_stood():
    for place, expected in (("move-to-tail", ["b1", "a2"]), ("keep-place", ["a2", "b1"])):
        queue = queue_of(last_value_key="k", last_value_place=place)
        send(queue, "a1", "b1", "a2")
        assert pending(queue) == expected


def test_a_replacement_of_what_is_in_delivery_has_a_place_of_its_own():
    queue, session = queue_of(last_value_key="k", last_value_place="keep-place"), RecordingSession()
    session.consume(queue, messages=1)
    send(queue, "a1", "b1", "a2")
    assert pending(queue) == ["b1", "a2"]
    session.close(NOW)
    assert pending(queue) == ["b1", "a2"]
    assert removed(queue, RemovalReason.REPLACED_KEY) == 1


def test_a_tombstone_removes_the_value_and_is_shown_to_who_waits():
    queue, session = queue_of(last_value_key="k", tombstone_ttl=0), RecordingSession()
    queue.enqueue(make_message("a1", k="a"), NOW)
    queue.enqueue(make_message("", k="a"), NOW)
    assert pending(queue) == []
    assert queue.key_count == 0
    session.consume(queue)
    queue.enqueue(make_message("", k="a"), NOW)
    assert session.received == [""]
    queue.enqueue(make_message("", other="a"), NOW)
    assert session.received == ["", ""]  # an empty body without key is a message like any other


def test_a_tombstone_with_a_life_is_the_last_value_until_it_ends():
    queue = queue_of(last_value_key="k", tombstone_ttl=10)
    queue.enqueue(make_message("a1", k="a"), NOW)
    queue.enqueue(make_message("", k="a"), NOW)
    assert queue.key_count == 1
    queue.tick(NOW + 10)
    assert (queue.key_count, pending(queue)) == (0, [])


def test_a_ttl_of_zero_is_tried_once_on_every_kind_of_queue():
    for settings in ({}, {"priorities": 3}, {"group_mode": "shared"}, {"non_destructive": True}):
        queue, session = queue_of(message_ttl=0, **settings), RecordingSession()
        send(queue, "gone")
        assert pending(queue) == []
        session.consume(queue, messages=1)
        send(queue, "taken", "gone")
        assert session.received == ["taken"]


def test_consumers_with_credit_are_served_before_anything_is_evicted():
    queue, session = queue_of(ring_size=1, priorities=10), RecordingSession()
    session.consume(queue, messages=2)
    send(queue, "a", "b", "c", "d")
    assert session.received == ["a", "b"]
    assert pending(queue) == ["d"]


def test_a_due_message_that_finds_a_full_ring_goes_itself():
    queue = queue_of(ring_size=1)
    entry = queue.enqueue(make_message("late", deliver_at=NOW + 5), NOW)
    send(queue, "a")
    queue.tick(NOW + 5)
    assert entry.state == REMOVED
    assert pending(queue) == ["a"]


def test_a_delay_in_the_past_is_no_delay():
    queue = queue_of()
    queue.enqueue(make_message("a", deliver_at=NOW - 1), NOW)
    assert pending(queue) == ["a"]


def test_a_due_message_that_replaces_a_pending_one_may_keep_its_place_too():
    queue = queue_of(last_value_key="k", last_value_place="keep-place")
    send(queue, "c", "a")
    queue.enqueue(make_message("A", deliver_at=NOW + 5, k="a"), NOW)
    queue.tick(NOW + 5)
    assert pending(queue) == ["c", "A"]


@pytest.mark.parametrize("arrival", [{"deliver_at": NOW + 100}, {"body": "far too large"}])
def test_what_stood_behind_an_expired_message_is_served_whatever_becomes_of_the_arrival(arrival):
    queue, session = queue_of(max_bytes=12, overflow="ring"), RecordingSession()
    session.consume(queue, octets=10)
    queue.enqueue(make_message("123456"), NOW)
    queue.enqueue(make_message("12345678", expires_at=NOW + 5), NOW)  # too large for what is left of the window
    queue.enqueue(make_message("123"), NOW)
    queue.enqueue(make_message(**arrival), NOW + 10)
    assert session.received == ["123456", "123"]
    check_invariants(queue)


def test_what_stood_behind_an_arrival_that_expires_at_once_is_served():
    """It takes the place of what stood in front and is as large, so that nobody gets anything while it is there."""
    queue, session = queue_of(sort_key="s", last_value_key="k"), RecordingSession()
    session.consume(queue, octets=10)
    queue.enqueue(make_message("123456", s=1, k="a"), NOW)
    queue.enqueue(make_message("12345678", s=2, k="b"), NOW)  # too large for what is left of the window
    queue.enqueue(make_message("123", s=3, k="c"), NOW)
    queue.enqueue(make_message("87654321", expires_at=NOW, s=2, k="b"), NOW)
    assert session.received == ["123456", "123"]
    assert removed(queue, RemovalReason.EXPIRED) == 1
    check_invariants(queue)


def test_very_many_scheduled_messages_fall_due_in_slices():
    """A8: 100,000 that were due at once held the loop for 86 ms."""
    effects, session = SlicingEffects(), RecordingSession()
    queue = queue_of(effects)
    count = 2 * SLICE_MESSAGES + 1
    for number in range(count):
        queue.enqueue(make_message(str(number), deliver_at=NOW + 5), NOW)
    queue.enqueue(make_message("last", deliver_at=NOW + 9), NOW)
    queue.tick(NOW + 5)
    assert queue.order.count == SLICE_MESSAGES
    assert (len(effects.works), queue.next_due_at()) == (1, 0)
    queue.enqueue(make_message("arrival"), NOW + 5)
    queue.tick(NOW + 5)  # for another reason: the slices go on
    assert (queue.order.count, len(effects.works)) == (SLICE_MESSAGES + 1, 1)
    effects.wakes.clear()
    assert effects.turns(NOW + 5) == 2
    assert (effects.wakes, queue.next_due_at()) == ([NOW + 9], NOW + 9)
    session.consume(queue)
    assert session.received == [*map(str, range(count)), "arrival"]
    check_invariants(queue)


def test_a_deleted_queue_lets_no_more_fall_due():
    effects = SlicingEffects()
    queue = queue_of(effects)
    for number in range(SLICE_MESSAGES + 1):
        queue.enqueue(make_message(str(number), deliver_at=NOW + 5), NOW)
    queue.tick(NOW + 5)
    (firing,) = effects.works
    queue.delete(NOW + 5)
    assert not firing.step(NOW + 5)
    assert (queue.order.count, queue.schedule.count) == (0, 0)
