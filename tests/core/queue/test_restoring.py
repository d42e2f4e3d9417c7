"""Recovery puts back what was there, in every state, and trims nothing but what a torn window had trimmed."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import DELIVERING, PENDING, REMOVED, SCHEDULED
from annulet.core.paging.front_limits import FrontBounds
from annulet.core.paging.paged_fifo import KEEP_BYTES, KEEP_MESSAGES
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.restoring import front_room, restore_rows
from tests.core.helpers import NOW, RecordingSession, make_message, pending, queue_of
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


def test_messages_take_their_ranks_again():
    queue = queue_of(priorities=10)
    for sequence, priority in [(3, 1), (5, 9), (9, 1)]:
        queue.restore(make_message(f"{sequence}", priority=priority), sequence, redelivered=True)
    queue.finish_restore(20)
    assert pending(queue) == ["5", "3", "9"]
    assert queue.next_sequence == 20
    check_invariants(queue)


def test_a_schedule_and_a_redelivery_delay_go_on():
    queue = queue_of(last_value_key="k")
    fresh = queue.restore(make_message("new", deliver_at=NOW + 10, k="a"), 1, redelivered=True)
    back = queue.restore(make_message("old", k="a"), 2, redelivered=True, delivery_count=2, deliver_at=NOW + 5)
    queue.finish_restore(3)
    assert (fresh.state, back.state, back.delivery_count) == (SCHEDULED, SCHEDULED, 2)
    queue.tick(NOW + 5)
    assert back.state == PENDING
    queue.tick(NOW + 10)
    assert (back.state, fresh.state) == (REMOVED, PENDING)
    check_invariants(queue)


def test_an_overdue_schedule_fires_with_the_first_tick():
    queue = queue_of()
    queue.restore(make_message("late", deliver_at=NOW - 10), 1, redelivered=False)
    queue.restore(make_message("plain"), 2, redelivered=False)
    queue.finish_restore(3)
    queue.tick(NOW)
    assert pending(queue) == ["late", "plain"]


def test_an_operator_had_let_it_fall_due():
    queue = queue_of()
    queue.restore(make_message("first"), 1, redelivered=False)
    queue.restore(make_message("now", deliver_at=NOW + 1000), 2, redelivered=False, deliver_at=NOW - 5)
    queue.restore(make_message("revised", deliver_at=NOW + 1000), 3, redelivered=False, deliver_at=0)
    queue.finish_restore(4)
    queue.tick(NOW)
    assert pending(queue) == ["now", "first", "revised"]
    check_invariants(queue)


def test_leased_messages_are_in_delivery():
    queue = queue_of(group_mode="shared")
    queue.expect_leased([2])
    queue.restore(make_message("a", JMSXGroupID="g"), 1, redelivered=True)
    entry = queue.restore(make_message("b", JMSXGroupID="g"), 2, redelivered=True)
    queue.finish_restore(3)
    assert entry.state == DELIVERING
    assert queue.leased_entries() == [entry]
    check_invariants(queue)


def test_lowered_limits_trim_nothing_at_recovery():
    queue = queue_of(ring_size=1, max_length=1, overflow="block")
    for sequence in (1, 2, 3):
        queue.restore(make_message(str(sequence)), sequence, redelivered=False)
    queue.finish_restore(4)
    assert queue.order.count == 3
    assert queue.blocked


@pytest.mark.parametrize("settings", [{"group_mode": "shared"}, {"fair_key": "JMSXGroupID", "in_flight_per_key": 1}])
@pytest.mark.parametrize("end", ["acknowledge", "return"])
def test_what_a_lease_holds_counts_in_its_group_and_against_its_keys_cap(settings, end):
    queue, session = queue_of(**settings), RecordingSession()
    queue.expect_leased([1])
    for sequence, group in [(1, "g"), (2, "g"), (3, "h")]:
        queue.restore(make_message(str(sequence), JMSXGroupID=group), sequence, redelivered=True)
    queue.finish_restore(4)
    session.consume(queue)
    assert session.received == ["3"]
    [leased] = queue.unsettled()[:1]
    if end == "acknowledge":
        queue.acknowledge(leased)
        queue.wake(NOW)
        assert session.received == ["3", "2"]
    else:
        queue.return_entries([leased], NOW)
        assert session.received[:2] == ["3", "1"]
    check_invariants(queue)


def test_what_was_added_is_what_has_left_and_what_is_there():
    """After a crash what is there may be more, and less, than when counters were written."""
    queue = queue_of()
    queue.counters.restore({"messages_added": 9, "bytes_added": 90, "bytes_removed": 50, "removed.acknowledged": 5})
    message = make_message("0123456789")
    for sequence in (7, 8):
        queue.restore(message, sequence, redelivered=True)
    queue.finish_restore(9)
    counters = queue.counters
    assert (counters.messages_added, counters.bytes_added) == (5 + 2, 50 + 2 * message.size)
    assert (counters.bytes_removed, counters.removed[RemovalReason.ACKNOWLEDGED]) == (50, 5)
    check_invariants(queue)


def test_rows_count_as_messages_do():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 30)
    queue.next_sequence = 1
    for entry in entries[:10]:
        queue.restore(entry.message, entry.sequence, redelivered=False)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    records = [entry.message.record for entry in entries[10:]]
    origins = [entry.message.origin for entry in entries[10:]]
    restore_rows(queue, order, (range(11, 31), records, [10] * 20, origins), redelivered=True)
    queue.finish_restore(7)
    assert (queue.order.count, queue.pending_bytes, queue.next_sequence) == (30, 300, 31)
    assert (queue.counters.messages_added, queue.counters.bytes_added) == (30, 300)
    assert queue.order.paged_count() == 20
    assert [entry.redelivered for entry in queue.browse()] == [False] * 10 + [True] * 20
    check_invariants(queue)


@pytest.mark.parametrize(("torn", "left"), [(0, "12345"), (1, "2345"), (2, "345"), (4, "345")])
def test_what_a_torn_window_brought_replaces_again(torn: int, left: str):
    """And no more than that: a ring that was lowered and not trimmed keeps what it has."""
    queue = queue_of(ring_size=3)
    for sequence in range(1, 6):
        queue.restore(make_message(f"{sequence}"), sequence, redelivered=True)
    queue.finish_restore(6, torn, NOW)
    assert pending(queue) == list(left)
    assert queue.counters.removed.get(RemovalReason.REPLACED_RING, 0) == 5 - len(left)
    assert queue.counters.messages_added == 5
    check_invariants(queue)


def test_the_front_of_a_restored_queue_is_what_never_pages():
    queue, disk = durable_queue(), Disk()
    assert front_room(queue, [10] * 5000, FrontBounds()) == KEEP_MESSAGES
    assert front_room(queue, [KEEP_BYTES // 2] * 5, FrontBounds()) == 2
    assert front_room(queue, [KEEP_BYTES * 2] * 5, FrontBounds()) == 1, "one message always fits"
    for entry in stored_entries(queue, disk, 1000):
        queue.insert(entry, arrival=True)
    assert front_room(queue, [10] * 5000, FrontBounds()) == KEEP_MESSAGES - 1000
    queue.pending_bytes = KEEP_BYTES
    assert front_room(queue, [10], FrontBounds()) == 0
    queue, disk = durable_queue(), Disk()
    for entry in stored_entries(queue, disk, 100):
        queue.insert(entry, arrival=True)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 1
    assert order.page_out(1 << 60, 1000)
    assert front_room(queue, [10], FrontBounds()) == 0, "there are rows, which come first"
