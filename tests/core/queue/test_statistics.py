"""Counters: every message is counted where it came in and where it went, and survives a restart."""

from __future__ import annotations

from annulet.core.queue.statistics import lag_of
from tests.core.deep_doubles import Deep
from tests.core.helpers import NOW, RecordingSession, make_message, make_queue, send


def test_one_message_of_each_fate():
    queue, session = make_queue(ring=2, key="k"), RecordingSession()
    send(queue, "ack", "rej")
    for _ in range(2):
        session.get(queue, NOW, auto_acknowledge=False)
    session.acknowledge(1, NOW)
    session.reject(2, NOW, requeue=False)
    send(queue, "k1", "k2")  # replaced by key
    send(queue, "x", "y")  # the ring takes k2
    queue.enqueue(make_message("late", expires_at=NOW, k="z"), NOW)  # dead on arrival
    queue.purge(NOW)
    send(queue, "last")
    queue.delete(NOW)
    view = queue.statistics()
    assert (view.messages_added, view.bytes_added) == (8, 3 + 3 + 2 + 2 + 1 + 1 + 4 + 4)
    assert view.removed == {
        "acknowledged": 1, "rejected": 1, "replaced-key": 1, "replaced-ring": 1, "expired": 1, "purged": 2,
        "deleted": 1,
    }  # fmt: skip
    assert (view.messages_acknowledged, view.messages_rejected, view.messages_expired) == (1, 1, 1)
    assert (view.messages_replaced, view.messages_killed) == (2, 3)
    assert (view.messages_dropped, view.messages_dead_lettered) == (0, 0)
    assert (view.message_count, view.pending_bytes, view.delivering_bytes, view.key_count) == (0, 0, 0, 0)


def test_a_redelivery_counts_again_and_a_return_once():
    queue, session = make_queue(), RecordingSession()
    session.consume(queue)
    send(queue, "A")
    session.reject(1, NOW, requeue=True)
    session.reject(2, NOW, requeue=True)
    assert (queue.counters.messages_delivered, queue.counters.messages_returned) == (3, 2)
    assert queue.counters.messages_added == 1


def test_sizes_and_places_at_this_moment():
    queue, session = make_queue(key="k"), RecordingSession()
    assert (queue.statistics().first_sequence, queue.statistics().next_sequence) == (0, 1)
    send(queue, "a", "bb", "ccc")
    session.get(queue, NOW, auto_acknowledge=False)
    session.consume(queue, messages=0)
    view = queue.statistics()
    assert (view.name, view.message_count, view.pending_count, view.delivering_count) == ("q", 3, 2, 1)
    assert (view.pending_bytes, view.delivering_bytes) == (5, 1)
    assert (view.consumer_count, view.key_count, view.first_sequence, view.next_sequence) == (1, 3, 2, 4)


def test_the_count_alone_is_that_of_the_statistics():
    queue, session = make_queue(key="k"), RecordingSession()
    send(queue, "a", "bb", "ccc")
    session.get(queue, NOW, auto_acknowledge=False)
    session.consume(queue, messages=0)
    queue.enqueue(make_message("later", deliver_at=NOW + 5, k="l"), NOW)
    view = queue.statistics()
    assert (view.message_count, view.scheduled_count) == (queue.message_count(), 1)
    queue.purge(NOW)
    assert queue.message_count() == queue.statistics().message_count == 1


def test_the_time_of_the_oldest_that_waits():
    queue, session = make_queue(), RecordingSession()
    assert lag_of(queue, NOW) == 0
    for later in range(3):
        queue.enqueue(make_message(accepted_at=NOW + later), NOW + later)
    assert (lag_of(queue, NOW), lag_of(queue, NOW + 60_000)) == (0, 60_000)
    session.get(queue, NOW, auto_acknowledge=False)
    assert lag_of(queue, NOW + 60_000) == 59_999, "what is in delivery does not wait"
    session.reject(1, NOW, requeue=True)
    assert lag_of(queue, NOW + 60_000) == 60_000
    assert lag_of(queue, NOW - 1) == 0, "the clock was set back"
    queue.purge(NOW)
    assert lag_of(queue, NOW + 60_000) == 0


def test_the_lag_is_not_known_while_the_disk_does_not_tell():
    deep = Deep(5, keep=0)
    deep.disk.failing = True
    assert lag_of(deep.queue, NOW + 7) is None
    deep.disk.failing = False
    assert lag_of(deep.queue, NOW + 7) == 7
