"""Browsers and non-destructive queues: everybody reads, nothing goes."""

from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import BROWSE_SNAPSHOT
from annulet.core.queue.invariants import check_invariants
from tests.core.deep_doubles import numbers
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, pending, queue_of, removed, send
from tests.core.reading.test_browse_order import deep_queue


def test_every_consumer_of_a_non_destructive_queue_gets_every_message_once():
    queue, one, two = queue_of(non_destructive=True), RecordingSession("1"), RecordingSession("2")
    one.consume(queue)
    send(queue, "a", "b")
    two.consume(queue)
    send(queue, "c")
    one.acknowledge(0, NOW, multiple=True)
    two.reject(1, NOW, requeue=True)
    assert one.received == two.received == ["a", "b", "c"]
    assert pending(queue) == ["a", "b", "c"]
    statistics = queue.statistics()
    assert (statistics.message_count, statistics.delivering_count) == (3, 2)
    check_invariants(queue)


def test_credit_limits_copies_and_settling_frees_it():
    queue, session = queue_of(non_destructive=True), RecordingSession()
    session.consume(queue, messages=2)
    send(queue, "a", "b", "c")
    assert session.received == ["a", "b"]
    session.acknowledge(1, NOW)
    assert session.received == ["a", "b", "c"]


def test_a_ring_may_evict_what_is_out_as_a_copy():
    queue, session = queue_of(non_destructive=True, ring_size=1), RecordingSession()
    session.consume(queue)
    send(queue, "a", "b")
    assert session.received == ["a", "b"]
    assert pending(queue) == ["b"]
    session.close(NOW)
    assert queue.statistics().delivering_count == 0
    assert removed(queue, RemovalReason.REPLACED_RING) == 1
    check_invariants(queue)


def test_a_priority_message_that_arrives_late_is_read_before_what_waits():
    queue, session = queue_of(non_destructive=True, priorities=10), RecordingSession()
    session.consume(queue, messages=1)
    for body, priority in [("a0", 0), ("b0", 0), ("c9", 9)]:
        queue.enqueue(make_message(body, priority=priority), NOW)
    session.acknowledge(1, NOW)
    session.acknowledge(2, NOW)
    assert session.received == ["a0", "c9", "b0"]


def test_an_expired_message_is_shown_to_nobody():
    queue, session = queue_of(non_destructive=True), RecordingSession()
    queue.enqueue(make_message("x", expires_at=NOW + 5), NOW)
    session.consume(queue, now=NOW + 5)
    assert session.received == []
    assert removed(queue, RemovalReason.EXPIRED) == 1


def test_a_snapshot_browser_sees_what_was_there_and_what_is_in_delivery():
    queue, session, browser = queue_of(), RecordingSession(), RecordingSession("browser")
    session.consume(queue, messages=1)
    send(queue, "a", "b", "c")
    browser.consume(queue, browse="snapshot")
    send(queue, "d")
    assert browser.received == ["a", "b", "c"]
    assert pending(queue) == ["b", "c", "d"]
    assert queue.counters.messages_browsed == 3
    assert queue.counters.messages_delivered == 1


def test_a_following_browser_sees_what_arrives_and_is_still_there():
    queue, browser = queue_of(), RecordingSession("browser")
    browser.consume(queue, browse="follow", messages=1)
    send(queue, "a", "b", "c")
    queue.remove(queue.order.entries()[1], RemovalReason.DELETED, NOW)
    browser.acknowledge(1, NOW)
    assert browser.received == ["a", "c"]


def test_a_browser_that_closes_itself_is_cancelled_at_the_end():
    effects = RecordingEffects()
    queue, browser = queue_of(effects), RecordingSession("browser")
    send(queue, "a", "b")
    browser.consume(queue, browse="snapshot", auto_close=True)
    assert browser.received == ["a", "b"]
    assert effects.cancelled == ["c"]
    assert queue.consumers.count == 0


def test_browsers_select():
    queue, browser = queue_of(), RecordingSession("browser")
    send(queue, "a", "b", "c")
    browser.consume(queue, browse="snapshot", selector="k = 'b'")
    assert browser.received == ["b"]


def test_who_pulls_from_a_non_destructive_queue_gets_the_first_again_and_again():
    queue, session = queue_of(non_destructive=True), RecordingSession()
    send(queue, "a", "b")
    bodies = [session.get(queue, NOW, auto_acknowledge=True)[0].message.body for _ in range(2)]
    assert bodies == [b"a", b"a"]
    assert queue.statistics().delivering_count == 0


def test_the_short_way_comes_back_when_the_last_browser_leaves():
    queue, browser = queue_of(), RecordingSession("browser")
    consumer = browser.consume(queue, browse="follow")
    assert not queue.simple
    browser.close_consumer(consumer.tag, NOW)
    assert queue.simple


def test_browsers_that_have_seen_everything_at_the_same_time_all_end():
    effects = RecordingEffects()
    queue, session = queue_of(effects), RecordingSession()
    send(queue, "a", "b")
    session.writable = False
    session.consume(queue, "one", browse="snapshot", auto_close=True)
    session.consume(queue, "two", browse="snapshot", auto_close=True)
    session.writable = True
    session.wake(NOW)
    assert session.by_consumer == {"one": ["a", "b"], "two": ["a", "b"]}
    assert sorted(effects.cancelled) == ["one", "two"]
    assert queue.consumers.count == 0
    check_invariants(queue)


def test_copies_outlive_their_queue_until_they_are_settled():
    queue, browser, reader = queue_of(non_destructive=True), RecordingSession("1"), RecordingSession("2")
    send(queue, "a", "b")
    browser.consume(queue, browse="follow")
    reader.consume(queue)
    queue.delete(NOW)
    browser.acknowledge(1, NOW)
    browser.reject(2, NOW, requeue=False)
    reader.close(NOW)
    assert (len(browser.unacknowledged), len(reader.unacknowledged)) == (0, 0)
    check_invariants(queue)


def test_nothing_is_kept_once_the_last_reader_and_its_last_copy_are_gone():
    queue, session = queue_of(), RecordingSession()
    send(queue, "a", "b")
    session.consume(queue, "reader", browse="follow")
    session.detach("reader", NOW)
    session.acknowledge(1, NOW)
    assert queue.copies is not None
    session.acknowledge(2, NOW)
    assert queue.copies is None
    assert queue.simple
    check_invariants(queue)


def test_what_waits_for_redelivery_when_a_browser_comes_to_it_is_shown_when_it_is_back():
    queue, session, browser = queue_of(redelivery_delay=10), RecordingSession(), RecordingSession("browser")
    session.consume(queue, messages=1)
    send(queue, "a", "b")
    browser.consume(queue, browse="snapshot", messages=0)
    queue.pause(NOW)
    session.reject(1, NOW, requeue=True)
    browser.consumers["c"].window.messages_max = 5
    browser.wake(NOW)
    assert browser.received == ["b"]
    queue.tick(NOW + 10)
    assert browser.received == ["b", "a"]


def test_what_changes_while_all_browsers_wait_for_a_turn_is_seen_to_at_once() -> None:
    deep, taker, session, other = deep_queue(3000), RecordingSession(), RecordingSession(), RecordingSession()
    browser = session.consume(deep.queue, browse=BROWSE_SNAPSHOT, auto_acknowledge=True, auto_close=True)
    taker.consume(deep.queue, messages=1)
    for tag in (1, 2, 3):  # they are not looked at any more
        taker.acknowledge(tag, NOW)
    late = other.consume(deep.queue, browse=BROWSE_SNAPSHOT, auto_acknowledge=True, auto_close=True)
    taker.acknowledge(4, NOW)
    assert session.received == other.received == []
    deep.take_turns()
    assert numbers(session) == numbers(other) == list(range(5, 3001))
    assert browser.cancelled
    assert late.cancelled


def test_browsers_that_wait_for_a_turn_end_with_a_purge() -> None:
    deep, taker, session = deep_queue(3000), RecordingSession(), RecordingSession()
    browser = session.consume(deep.queue, browse=BROWSE_SNAPSHOT, auto_acknowledge=True, auto_close=True)
    taker.consume(deep.queue, messages=1)
    taker.acknowledge(1, NOW)
    deep.queue.purge(NOW)
    taker.acknowledge(2, NOW)
    assert browser.cancelled, "without a turn"
