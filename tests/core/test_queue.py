"""What a queue does beside the scenarios: resizing, recovery, expiry of what waits or returns, shared credit."""

from __future__ import annotations

from annulet.core.invariants import check_invariants
from annulet.core.reasons import RemovalReason
from annulet.core.settings import QueueSettings
from tests.core.helpers import (
    NOW,
    RecordingSession,
    make_message,
    make_queue,
    pending,
    removed,
    send,
)

RING = RemovalReason.REPLACED_RING
KEY = RemovalReason.REPLACED_KEY


def resize(queue, size, *, trim_now=False):
    queue.update(QueueSettings(ring_size=size, ring_trim_now=trim_now), NOW)


def test_lowering_trims_nothing_unless_told_to():
    queue = make_queue(ring=10)
    send(queue, *"abcdefghij")
    resize(queue, 3)
    send(queue, "k")
    assert queue.order.count == 10
    resize(queue, 3, trim_now=True)
    assert pending(queue) == ["i", "j", "k"]


def test_only_the_last_stored_value_comes_back():
    queue = make_queue(key="k")
    for sequence, body in enumerate(["a1", "a2"], 1):
        queue.restore(make_message(body, k="a"), sequence, redelivered=True)
    queue.finish_restore(7)
    assert pending(queue) == ["a2"]
    assert send(queue, "a3")[0].sequence == 7
    assert pending(queue) == ["a3"]
    check_invariants(queue)


def test_an_old_value_does_not_come_back_even_if_the_newer_one_is_gone():
    queue, session = make_queue(key="k"), RecordingSession()
    send(queue, "a1")
    session.get(queue, NOW, auto_acknowledge=False)
    send(queue, "a2")
    session.get(queue, NOW, auto_acknowledge=True)
    session.close(NOW)
    assert (pending(queue), removed(queue, KEY), queue.statistics().key_count) == ([], 1, 0)


def test_a_message_handed_over_on_arrival_expires_after_it_came_back():
    queue, session = make_queue(), RecordingSession()
    session.consume(queue, messages=1)
    queue.enqueue(make_message("A", expires_at=NOW + 10), NOW)
    session.close(NOW)
    assert queue.next_due_at() == NOW + 10
    assert queue.expire(NOW + 10) == 1
    assert removed(queue, RemovalReason.EXPIRED) == 1


def test_a_new_time_to_live_applies_to_what_waits():
    queue = make_queue()
    send(queue, "A")
    queue.update(QueueSettings(message_ttl=5), NOW)
    assert queue.next_due_at() == NOW + 5
    queue.update(QueueSettings(), NOW)
    assert (queue.next_due_at(), queue.expire(NOW + 5), pending(queue)) == (0, 0, ["A"])


def test_time_to_live_of_zero_that_replaces_a_blocking_head_frees_what_waits_behind_it():
    queue, session = make_queue(key="k"), RecordingSession()
    session.consume(queue, octets=4)
    send(queue, "c12", "a12", "b")
    assert session.received == ["c12"]
    queue.enqueue(make_message("a99", expires_at=NOW, k="a"), NOW)
    assert session.received == ["c12", "b"]
    assert removed(queue, RemovalReason.EXPIRED) == 1


def test_what_expired_does_not_count_for_the_ring():
    queue = make_queue(ring=2)
    send(queue, "A")
    queue.enqueue(make_message("B", expires_at=NOW + 1), NOW)
    send(queue, "C", now=NOW + 1)
    assert pending(queue) == ["A", "C"]


def test_deleting_a_queue_frees_shared_credit_for_other_queues():
    first, second, session = make_queue(), make_queue(name="other"), RecordingSession()
    session.set_window(1, -1, NOW)
    session.consume(first, "1")
    session.consume(second, "2")
    send(first, "A")
    send(second, "B")
    assert session.received == ["A"]
    first.delete(NOW)
    assert session.received == ["A", "B"]
    assert first.effects.cancelled == ["1"]


def test_closing_a_consumer_frees_shared_credit_for_other_queues():
    first, second, session = make_queue(), make_queue(name="other"), RecordingSession()
    session.set_window(1, -1, NOW)
    session.consume(first, "1")
    session.consume(second, "2")
    send(first, "A")
    send(second, "B")
    session.close_consumer("1", NOW)
    assert (pending(first), session.received) == (["A"], ["A", "B"])
