"""The one return path under every policy that has a say."""

from __future__ import annotations

from annulet.core.invariants import check_invariants
from annulet.core.reasons import RemovalReason
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, pending, queue_of, removed, send


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
