"""More queue behaviour by scenario: consumer priority (P), expiry (E), settlement (M, D), the rest of R and L."""

from __future__ import annotations

import pytest

from annulet.core.consumer import Consumer
from annulet.core.invariants import check_invariants
from annulet.core.reasons import RemovalReason
from annulet.core.transaction import Transaction
from annulet.core.virtual_host import VirtualHost
from tests.core.helpers import (
    NOW,
    RecordingEffects,
    RecordingSession,
    make_message,
    make_queue,
    pending,
    removed,
    send,
)

EXPIRED = RemovalReason.EXPIRED


@pytest.fixture
def host():
    return VirtualHost("/", RecordingEffects())


def numbers(first, last):
    return [str(number) for number in range(first, last)]


# ---------------------------------------------------------------------- ring and last value


def test_r11_many_producers_leave_exactly_the_ring(host):
    queue = host.declare_queue("q", now=NOW, arguments={"x-ring-size": 25})
    route = host.route("", "q")
    for turn in range(25):
        for producer in range(25):
            host.publish(make_message(f"{producer}:{turn}"), route, NOW)
            assert queue.order.count <= 25
    assert pending(queue) == [f"{producer}:24" for producer in range(25)]
    assert (queue.counters.messages_added, removed(queue, RemovalReason.REPLACED_RING)) == (625, 600)


def test_l2_an_exclusive_consumer_without_credit_gets_the_newer_value():
    queue, session = make_queue(key="k"), RecordingSession()
    consumer = session.consume(queue, messages=0, exclusive=True)
    send(queue, "a1", "a2")
    assert session.received == []
    consumer.window.messages_max = 1
    session.wake(NOW)
    assert session.received == ["a2"]


def test_l6_ten_rollbacks_deliver_the_value_ten_times_and_then_a_newer_one(host):
    queue = host.declare_queue("q", now=NOW, arguments={"x-last-value-key": "k"})
    session = RecordingSession()
    send(queue, "a1")
    for attempt in range(10):
        entry, tag = session.get(queue, NOW, auto_acknowledge=False)
        assert (entry.message.body, entry.delivery_count) == (b"a1", attempt)
        transaction = Transaction(session)
        transaction.acknowledge(tag)
        transaction.rollback()
        session.recover(NOW)
    send(queue, "a2")
    assert session.get(queue, NOW, auto_acknowledge=True)[0].message.body == b"a2"
    assert session.get(queue, NOW, auto_acknowledge=True) is None
    assert removed(queue, RemovalReason.REPLACED_KEY) == 1


def test_l15_large_values_replace_each_other_and_their_bytes_go(host):
    queue = host.declare_queue("q", now=NOW, arguments={"x-last-value-key": "k"})
    for size in range(1, 6):
        transaction = Transaction(RecordingSession())
        transaction.send(make_message(b"x" * (size << 20), k="a"), host.route("", "q"))
        transaction.commit(host, NOW)
    assert (queue.order.count, queue.pending_bytes) == (1, 5 << 20)
    assert queue.counters.bytes_added == 15 << 20


# ---------------------------------------------------------------------- consumer priority


@pytest.mark.parametrize("order", [(3, 2, 1), (1, 2, 3), (2, 3, 1)])
def test_p1_the_highest_priority_gets_everything(order):
    queue, session = make_queue(), RecordingSession()
    for priority in order:
        session.consume(queue, str(priority), priority=priority)
    send(queue, *numbers(0, 100))
    assert session.by_consumer == {"3": numbers(0, 100)}


def test_p2_two_of_the_highest_take_turns():
    queue, session = make_queue(), RecordingSession()
    for tag, priority in (("x", 3), ("y", 3), ("z", 1)):
        session.consume(queue, tag, priority=priority)
    send(queue, *numbers(0, 100))
    assert session.by_consumer == {"x": numbers(0, 100)[::2], "y": numbers(0, 100)[1::2]}


def test_p3_when_the_highest_closes_the_next_goes_on():
    queue, session = make_queue(), RecordingSession()
    for priority in (3, 2, 1):
        session.consume(queue, str(priority), priority=priority)
    send(queue, *numbers(0, 50))
    session.acknowledge(0, NOW, multiple=True)
    session.close_consumer("3", NOW)
    send(queue, *numbers(50, 100))
    assert session.by_consumer == {"3": numbers(0, 50), "2": numbers(50, 100)}


def test_p3_what_the_highest_did_not_settle_goes_to_the_next_first():
    queue, session = make_queue(), RecordingSession()
    session.consume(queue, "high", priority=9, messages=3)
    session.consume(queue, "low", priority=-9)
    send(queue, "A", "B", "C")
    session.close_consumer("high", NOW)
    assert session.by_consumer == {"high": ["A", "B", "C"], "low": ["A", "B", "C"]}


# ---------------------------------------------------------------------- expiry


def test_e1_a_hundred_expired_messages_go_in_one_scan():
    queue = make_queue()
    for _ in range(100):
        queue.enqueue(make_message("m", expires_at=NOW + 10), NOW)
    assert queue.expire(NOW + 9) == 0
    assert queue.expire(NOW + 10) == 100
    assert (queue.statistics().message_count, len(queue.delivering), removed(queue, EXPIRED)) == (0, 0, 100)


def test_e2_every_second_of_a_hundred_expires_wherever_it_stands():
    queue = make_queue()
    for number in range(100):
        queue.enqueue(make_message(str(number), expires_at=NOW + 10 if number % 2 else 0), NOW)
    assert queue.expire(NOW + 10) == 50
    assert pending(queue) == numbers(0, 100)[::2]
    check_invariants(queue)


def test_e3_what_was_acknowledged_before_does_not_expire():
    queue, session = make_queue(), RecordingSession()
    for _ in range(100):
        queue.enqueue(make_message("m", expires_at=NOW + 1000), NOW)
    for _ in range(50):
        session.get(queue, NOW, auto_acknowledge=True)
    queue.expire(NOW + 1000)
    assert (removed(queue, EXPIRED), removed(queue, RemovalReason.ACKNOWLEDGED), queue.order.count) == (50, 50, 0)


# ---------------------------------------------------------------------- expiry within a commit


def test_a_send_that_expired_before_its_commit_is_added_and_expires(host):
    queue = host.declare_queue("q", now=NOW, durable=True)
    transaction = Transaction(RecordingSession())
    transaction.send(make_message("late", durable=True, expires_at=NOW + 5), host.route("", "q"))
    transaction.send(make_message("kept", durable=True, expires_at=NOW + 6), host.route("", "q"))
    assert transaction.commit(host, NOW + 5) == []  # it reached a queue: expired is not unroutable
    assert pending(queue) == ["kept"]
    assert (queue.counters.messages_added, removed(queue, EXPIRED)) == (2, 1)
    assert [message.body for message, _ in host.effects.stored] == [b"kept"]
    check_invariants(queue)


def test_a_send_that_expired_before_its_commit_goes_to_no_consumer(host):
    queue = host.declare_queue("q", now=NOW)
    session = RecordingSession()
    session.attach(Consumer(session, queue, "c"), NOW)
    transaction = Transaction(RecordingSession())
    transaction.send(make_message("late", expires_at=NOW + 5), host.route("", "q"))
    transaction.commit(host, NOW + 6)
    assert (session.unacknowledged, removed(queue, EXPIRED)) == ({}, 1)
    check_invariants(queue)


def test_the_queues_time_to_live_runs_from_the_send_not_from_the_commit(host):
    queue = host.declare_queue("q", now=NOW, arguments={"x-message-ttl": 10})
    transaction = Transaction(RecordingSession())
    for accepted_at in (NOW, NOW + 8):
        transaction.send(make_message(str(accepted_at - NOW), accepted_at=accepted_at), host.route("", "q"))
    transaction.commit(host, NOW + 10)
    assert pending(queue) == ["8"]
    assert queue.next_due_at() == NOW + 18


def test_an_expired_send_still_replaces_the_value_of_its_key(host):
    queue = host.declare_queue("q", now=NOW, arguments={"x-last-value-key": "k"})
    send(queue, "a1")
    transaction = Transaction(RecordingSession())
    transaction.send(make_message("a2", k="a", expires_at=NOW + 1), host.route("", "q"))
    transaction.commit(host, NOW + 1)
    assert (pending(queue), queue.key_count) == ([], 0)
    assert (removed(queue, RemovalReason.REPLACED_KEY), removed(queue, EXPIRED)) == (1, 1)


def test_what_expired_in_the_queue_makes_room_in_the_ring_for_a_commit(host):
    queue = host.declare_queue("q", now=NOW, arguments={"x-ring-size": 2})
    queue.enqueue(make_message("old", expires_at=NOW + 5), NOW)
    send(queue, "B")
    transaction = Transaction(RecordingSession())
    transaction.send(make_message("C"), host.route("", "q"))
    transaction.commit(host, NOW + 5)
    assert pending(queue) == ["B", "C"]
    assert (removed(queue, EXPIRED), removed(queue, RemovalReason.REPLACED_RING)) == (1, 0)


def test_settlements_of_a_commit_after_the_time_is_up(host):
    queue, session = host.declare_queue("q", now=NOW), RecordingSession()
    session.consume(queue)
    for body in "ABC":
        queue.enqueue(make_message(body, expires_at=NOW + 5), NOW)
    transaction = Transaction(session)
    transaction.acknowledge(1)
    transaction.reject(2, requeue=True)
    transaction.reject(3, requeue=False)
    transaction.commit(host, NOW + 5)
    assert session.received == ["A", "B", "C"]  # nothing comes again
    fates = {reason.value: count for reason, count in queue.counters.removed.items() if count}
    assert fates == {"acknowledged": 1, "expired": 1, "rejected": 1}
    check_invariants(queue)


def test_a_commit_serves_what_waits_behind_an_expired_head(host):
    queue, session = host.declare_queue("q", now=NOW), RecordingSession()
    session.consume(queue, messages=1)
    send(queue, "A")
    queue.enqueue(make_message("B", expires_at=NOW + 5), NOW)
    send(queue, "C")
    transaction = Transaction(session)
    transaction.acknowledge(1)
    transaction.commit(host, NOW + 5)
    assert session.received == ["A", "C"]
    assert removed(queue, EXPIRED) == 1


def test_a_rollback_after_the_time_is_up_changes_nothing_until_the_delivery_comes_back(host):
    queue, session = host.declare_queue("q", now=NOW), RecordingSession()
    session.consume(queue)
    queue.enqueue(make_message("A", expires_at=NOW + 5), NOW)
    transaction = Transaction(session)
    transaction.acknowledge(1)
    transaction.rollback()
    assert queue.expire(NOW + 5) == 0
    assert len(queue.delivering) == 1
    session.recover(NOW + 5)
    assert (session.received, removed(queue, EXPIRED)) == (["A"], 1)


# ---------------------------------------------------------------------- settlement


def test_m1_a_released_message_is_delivered_again_uncounted():
    queue = make_queue()
    send(queue, "A")
    for _ in range(2):
        (entry,) = queue.acquire(1, -1, NOW)
        assert entry.delivery_count == 0
        queue.return_entries([entry], NOW, counted=False)
    assert (pending(queue), queue.order.first().redelivered) == (["A"], True)


def test_m2_a_rejected_message_is_delivered_to_nobody_else():
    queue, session, other = make_queue(), RecordingSession(), RecordingSession("other")
    session.consume(queue)
    send(queue, "A")
    other.consume(queue)
    session.reject(1, NOW, requeue=False)
    assert (session.received, other.received, queue.statistics().message_count) == (["A"], [], 0)


def test_d7_each_attempt_that_comes_back_counts():
    queue, session = make_queue(), RecordingSession()
    send(queue, "A")
    seen = []
    for _ in range(3):
        entry, tag = session.get(queue, NOW, auto_acknowledge=False)
        seen.append(entry.delivery_count + 1)
        session.reject(tag, NOW, requeue=True)
    assert seen == [1, 2, 3]
