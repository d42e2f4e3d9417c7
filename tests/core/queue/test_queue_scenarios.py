"""What expires between a send or a delivery and the commit it belongs to."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.transaction import Transaction
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.model.consumer import Consumer
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import (
    NOW,
    RecordingEffects,
    RecordingSession,
    make_message,
    pending,
    removed,
    send,
)

EXPIRED = RemovalReason.EXPIRED


@pytest.fixture
def host():
    return VirtualHost("/", RecordingEffects())


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
    assert (len(session.unacknowledged), removed(queue, EXPIRED)) == (0, 1)
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
