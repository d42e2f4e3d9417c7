"""Sends and settlements that take effect together."""

from __future__ import annotations

import pytest

from annulet.core.base.errors import TransactionRefused, TransactionTooLarge
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.transaction import Transaction
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.sessions.session import UnknownDeliveryTag
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, pending
from tests.core.management.bench import letter


@pytest.fixture
def host():
    host = VirtualHost("/", RecordingEffects())
    host.declare_queue("q", now=NOW, durable=True)
    return host


def test_commit_stores_and_settles_inside_one_bracket_and_names_the_unroutable(host):
    session = RecordingSession()
    session.consume(host.queues["q"], messages=1)
    host.publisher.publish(make_message("old", durable=True), host.route("", "q"), NOW)
    host.effects.calls.clear()
    transaction, lost = Transaction(session), make_message("lost")
    transaction.send(make_message("new", durable=True), host.route("", "q"))
    transaction.send(lost, host.route("", "nowhere"))
    transaction.acknowledge(1)
    assert not transaction.empty
    assert transaction.commit(host, NOW) == [lost]
    assert host.effects.calls == [("begin", None), ("store", b"new"), ("settle", b"old"), ("end", None)]
    assert transaction.empty
    assert session.received == ["old", "new"]


def test_sends_and_settlements_are_operations(host):
    session = RecordingSession()
    session.consume(host.queues["q"])
    for body in "ABC":
        host.publisher.publish(make_message(body), host.route("", "q"), NOW)
    transaction = Transaction(session)
    transaction.send(make_message("lost"), host.route("", "nowhere"))
    transaction.acknowledge(1)
    transaction.reject(2, requeue=True)
    transaction.give_back(3, counted=True)
    assert transaction.operations == 4
    transaction.rollback()
    assert transaction.operations == 0


def counted(host, session, collect, most):
    """Return whether a commit of what ``collect`` collects is within the bound, and check that else nothing is done."""
    transaction = Transaction(session)
    before = list(session.unacknowledged)
    collect(transaction)
    try:
        transaction.commit(host, NOW, operations_max=most)
    except TransactionTooLarge as error:
        assert f"at most {most} are allowed (max_transaction_operations)" in str(error)  # noqa: PT017 - either is right
        assert transaction.empty
        assert list(session.unacknowledged) == before
        return False
    return True


@pytest.mark.parametrize("duplicate_id", ["", "once"], ids=["static", "planned"])
def test_a_send_counts_for_each_queue_that_is_bound_when_it_is_committed(host, duplicate_id):
    host.bind_queue(host.queues["q"], "amq.fanout", "")
    session = RecordingSession()

    def collect(transaction):
        transaction.send(make_message("lost"), host.route("", "nowhere"))
        transaction.send(make_message("thrice"), host.route("amq.fanout", ""), duplicate_id=duplicate_id)
        for name in ("other", "third"):
            host.bind_queue(host.declare_queue(name, now=NOW), "amq.fanout", "")

    assert not counted(host, session, collect, 3)
    assert pending(host.queues["third"]) == []
    assert counted(host, session, collect, 4)
    assert pending(host.queues["third"]) == ["thrice"]


@pytest.mark.parametrize("ending", ["reject", "last attempt", "give back"])
@pytest.mark.parametrize("exchange", ["amq.fanout", "amq.headers"])
def test_a_dead_letter_counts_for_each_queue_it_goes_to(host, ending, exchange):
    arguments = {"x-dead-letter-exchange": exchange, "x-delivery-limit": 0}
    dying = host.declare_queue("dying", now=NOW, arguments=arguments)
    for name in ("one", "two"):
        host.bind_queue(host.declare_queue(name, now=NOW), exchange, "", {"x-match": "all"})
    session = RecordingSession()
    session.consume(dying)
    host.publisher.publish(letter("A"), host.route("", "dying"), NOW)

    def collect(transaction):
        if ending == "give back":
            transaction.give_back(1, counted=True)
        else:
            transaction.reject(1, requeue=ending == "last attempt")

    assert not counted(host, session, collect, 2)
    assert pending(host.queues["two"]) == []
    assert counted(host, session, collect, 3)
    assert pending(host.queues["two"]) == ["A"]


def test_a_delivery_that_dies_nowhere_counts_once(host):
    session = RecordingSession()
    session.consume(host.queues["q"])
    host.publisher.publish(make_message("A"), host.route("", "q"), NOW)
    assert counted(host, session, lambda transaction: transaction.reject(1, requeue=False), 1)


def test_rollback_gives_deliveries_back_in_order_of_their_tags(host):
    session = RecordingSession()
    session.consume(host.queues["q"])
    for body in "ABC":
        host.publisher.publish(make_message(body), host.route("", "q"), NOW)
    transaction = Transaction(session)
    transaction.reject(3, requeue=False)
    transaction.acknowledge(1)
    with pytest.raises(UnknownDeliveryTag):
        transaction.acknowledge(1)
    transaction.rollback()
    assert list(session.unacknowledged) == [1, 2, 3]
    session.close(NOW)
    assert pending(host.queues["q"]) == ["A", "B", "C"]


def full_after(host, name, length):
    return host.declare_queue(name, now=NOW, arguments={"x-max-length": length, "x-overflow": "reject-publish"})


def test_a_full_queue_refuses_the_whole_transaction_counting_its_earlier_sends(host):
    full_after(host, "small", 2)
    session = RecordingSession()
    session.consume(host.queues["q"])
    host.publisher.publish(make_message("held"), host.route("", "q"), NOW)
    host.publisher.publish(make_message("A"), host.route("", "small"), NOW)
    transaction = Transaction(session)
    transaction.send(make_message("other"), host.route("", "q"))
    for body in "BC":
        transaction.send(make_message(body), host.route("", "small"))
    transaction.acknowledge(1)
    with pytest.raises(
        TransactionRefused, match="nothing of it was done: send 3: queue 'small' is full: with this message 3"
    ):
        transaction.commit(host, NOW)
    assert pending(host.queues["small"]) == ["A"]
    assert session.received == ["held"]
    assert list(session.unacknowledged) == [1]
    assert transaction.empty
    assert host.effects.calls == []


def test_a_transaction_that_just_fits_is_done(host):
    full_after(host, "small", 2)
    transaction = Transaction(RecordingSession())
    for body in "AB":
        transaction.send(make_message(body), host.route("", "small"))
    transaction.send(make_message("C"), host.route("", "none"))
    assert [message.body for message in transaction.commit(host, NOW)] == [b"C"]
    assert pending(host.queues["small"]) == ["A", "B"]


def test_turns_taken_while_planning_are_those_that_count(host):
    host.nodes.declare_address("work", ("anycast",))
    for name in ("one", "two"):
        host.nodes.attach_queue(host.declare_queue(name, now=NOW), "work")
    transaction = Transaction(RecordingSession())
    for body in "ABC":
        transaction.send(make_message(body), host.route_to("work", ""))
    assert transaction.commit(host, NOW) == []
    assert [pending(host.queues[name]) for name in ("one", "two")] == [["A", "C"], ["B"]]


def test_a_route_from_before_a_change_is_looked_up_anew(host):
    transaction = Transaction(RecordingSession())
    transaction.send(make_message("A"), host.route("", "late"))
    late = host.declare_queue("late", now=NOW)
    assert transaction.commit(host, NOW) == []
    assert pending(late) == ["A"]


def test_further_keys_go_along(host):
    transaction = Transaction(RecordingSession())
    two = host.declare_queue("two", now=NOW)
    transaction.send(make_message("A"), host.route("", "q"), further_keys=("two",))
    assert transaction.commit(host, NOW) == []
    assert pending(host.queues["q"]) == pending(two) == ["A"]


class FullLog(RecordingEffects):
    """A log that has no room for sends, and says so when it is too late to ask."""

    full = False

    def store(self, message, entries):
        if self.full:
            raise OSError("no space left")
        super().store(message, entries)

    def abort_transaction(self) -> None:
        self.calls.append(("abort", None))


def test_deliveries_of_a_commit_that_could_not_be_stored_are_still_held():
    effects = FullLog()
    host = VirtualHost("/", effects)
    source, target = (host.declare_queue(name, now=NOW, durable=True) for name in ("source", "target"))
    session = RecordingSession()
    session.consume(source)
    for body in ("acknowledged", "rejected"):
        host.publisher.publish(make_message(body, durable=True), host.route("", "source"), NOW)
    transaction = Transaction(session)
    transaction.send(make_message("sent", durable=True), host.route("", "target"))
    transaction.reject(2, requeue=False)
    transaction.acknowledge(1)
    effects.full = True
    with pytest.raises(OSError, match="no space left"):
        transaction.commit(host, NOW)
    assert effects.calls[-1] == ("abort", None)
    assert list(session.unacknowledged) == [1, 2]
    assert transaction.empty
    session.close(NOW)
    assert pending(source) == ["acknowledged", "rejected"]
    assert target.counters.messages_added == 1  # it reached the queue; its sender is told that it is not durable


def test_a_returned_delivery_goes_back_at_commit_and_not_before():
    host = VirtualHost("/", RecordingEffects())
    queue = host.declare_queue("q", now=NOW)
    session = RecordingSession()
    consumer = session.consume(queue)
    host.publisher.publish(make_message("A"), host.route("", "q"), NOW)
    transaction = Transaction(session)
    transaction.give_back(1, counted=False, exclude=consumer)
    assert (len(session.unacknowledged), pending(queue), transaction.empty) == (0, [], False)
    assert transaction.commit(host, NOW) == []
    assert pending(queue) == ["A"]  # and not delivered again to the one that refused it
    (entry,) = queue.order.entries()
    assert (entry.delivery_count, entry.redelivered) == (0, True)


def test_rollback_holds_a_returned_delivery_again():
    host = VirtualHost("/", RecordingEffects())
    queue = host.declare_queue("q", now=NOW)
    session = RecordingSession()
    session.consume(queue)
    host.publisher.publish(make_message("A"), host.route("", "q"), NOW)
    transaction = Transaction(session)
    transaction.give_back(1, counted=True)
    transaction.rollback()
    assert (list(session.unacknowledged), transaction.empty) == ([1], True)


@pytest.mark.parametrize("acknowledged", [True, False])
def test_many_deliveries_are_collected_at_once(host: VirtualHost, acknowledged: bool):
    """A8: 50,000 tags of a STOMP ACK in a transaction, each taken in by its own call, held the loop for 248 ms."""
    session = RecordingSession()
    session.consume(host.queues["q"])
    for number in range(5):
        host.publisher.publish(make_message(str(number)), host.route("", "q"), NOW)
    transaction = Transaction(session)
    with pytest.raises(UnknownDeliveryTag):
        transaction.settle_all([1, 3, 9, 4], acknowledged=acknowledged, requeue=False)
    assert list(session.unacknowledged) == [2, 4, 5]
    transaction.settle_all([4], acknowledged=acknowledged, requeue=False)
    transaction.rollback()
    assert list(session.unacknowledged) == [1, 2, 3, 4, 5]
    transaction.settle_all([1, 3], acknowledged=acknowledged, requeue=False)
    transaction.commit(host, NOW)
    assert list(session.unacknowledged) == [2, 4, 5]
    reason = RemovalReason.ACKNOWLEDGED if acknowledged else RemovalReason.REJECTED
    assert host.queues["q"].counters.removed[reason] == 2
