"""Pulls: what is passed over stays in its place, bounds hold, and expired messages are not taken."""

from __future__ import annotations

from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.pulling import Pull
from tests.core.helpers import NOW, make_message, make_queue, queue_of, send


def test_a_pull_takes_up_to_its_bounds_in_order():
    queue = make_queue()
    send(queue, "aa", "bb", "cc")
    taken = Pull(queue, None, NOW).take(-1, 4, 0)
    assert [entry.message.body for entry in taken] == [b"aa", b"bb"]
    assert [entry.message.body for entry in Pull(queue, None, NOW).take(1, 1, 0)] == [b"cc"], "one always fits"
    check_invariants(queue)


def test_messages_above_a_sequence_are_passed_over_and_stay_in_their_places():
    queue = queue_of(priorities=5)
    send(queue, "a", "b")
    late = queue.enqueue(make_message("c", priority=9), NOW)
    taken = Pull(queue, None, NOW).take(-1, -1, late.sequence - 1)
    assert [entry.message.body for entry in taken] == [b"a", b"b"]
    assert queue.order.entries() == [late]
    check_invariants(queue)


def test_nothing_is_taken_while_dispatch_is_halted_nor_what_has_expired():
    queue = make_queue()
    queue.enqueue(make_message("m", expires_at=NOW + 5), NOW)
    queue.pause(NOW)
    assert Pull(queue, None, NOW).take(1, -1, 0) == []
    queue.resume(NOW)
    assert Pull(queue, None, NOW + 5).take(1, -1, 0) == []
    check_invariants(queue)
