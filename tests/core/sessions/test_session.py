"""Settlement by tag, windows and closing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.model.consumer import Consumer, LinkCredit
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.return_batch import EndedDeliveries
from annulet.core.sessions.session import UnknownDeliveryTag, end_together
from tests.core.helpers import (
    NOW,
    RecordingSession,
    SlicingEffects,
    make_message,
    make_queue,
    pending,
    queue_of,
    removed,
    send,
)
from tests.core.queue.test_pull_waits import Waiting
from tests.hypothesis_profiles import fewer_examples

MANY = AT_ONCE_MAX + 1


@pytest.fixture
def queue():
    return make_queue()


@pytest.fixture
def session(queue):
    session = RecordingSession()
    session.consume(queue)
    send(queue, "A", "B", "C")
    return session


def test_one_and_multiple_acknowledgements(queue, session):
    session.acknowledge(2, NOW)
    assert list(session.unacknowledged) == [1, 3]
    with pytest.raises(UnknownDeliveryTag, match="2"):
        session.acknowledge(2, NOW)
    session.acknowledge(3, NOW, multiple=True)
    assert not session.unacknowledged
    session.acknowledge(0, NOW, multiple=True)
    for tag in (3, 4):
        with pytest.raises(UnknownDeliveryTag):
            session.acknowledge(tag, NOW, multiple=True)


def test_requeued_messages_are_redelivered_in_order_and_marked(queue, session):
    session.reject(2, NOW, requeue=True, multiple=True)
    assert session.received == ["A", "B", "C", "A", "B"]
    again = [entry for tag, entry in session.deliveries if tag > 3]
    assert [(entry.redelivered, entry.delivery_count) for entry in again] == [(True, 1), (True, 1)]


def test_a_stalled_connection_is_served_when_it_wakes(queue, session):
    session.writable = False
    session.recover(NOW)
    assert pending(queue) == ["A", "B", "C"]
    session.writable = True
    session.wake(NOW)
    assert list(session.unacknowledged) == [4, 5, 6]


def test_byte_window_lets_one_oversized_message_through_and_then_waits(queue):
    session = RecordingSession()
    session.consume(queue, octets=3)
    send(queue, "large", "x")
    assert session.received == ["large"]
    session.acknowledge(1, NOW)
    assert session.received == ["large", "x"]


def test_closing_twice_is_closing_once(queue, session):
    session.close(NOW)
    session.close(NOW)
    assert pending(queue) == ["A", "B", "C"]
    assert queue.counters.messages_returned == 3


def test_settling_after_the_queue_went_changes_nothing(queue, session):
    queue.delete(NOW)
    session.acknowledge(1, NOW)
    session.reject(2, NOW, requeue=True)
    session.close(NOW)
    assert {reason.value: count for reason, count in queue.counters.removed.items() if count} == {"deleted": 3}


def test_a_message_pulled_without_acknowledgement_makes_room_at_once():
    queue = queue_of(max_length=1, resume_length=1, overflow="block", limit_counts="all")
    session = RecordingSession()
    send(queue, "A", "B")
    assert queue.blocked
    assert session.get(queue, NOW, auto_acknowledge=True) is not None
    assert not queue.blocked


def test_a_pulled_message_keeps_its_tag_when_it_makes_room_for_a_delivery_to_the_same_session():
    queue, session = queue_of(in_flight_max=1, priorities=10), RecordingSession()
    queue.pause(NOW)
    send(queue, "a", "b")
    session.consume(queue)
    queue.paused = False  # as if the gate opened between two calls: the pull is the first to notice
    queue.update_gate(NOW)
    pulled = session.get(queue, NOW, auto_acknowledge=True)
    assert pulled is not None
    assert (pulled[0].message.body, pulled[1]) == (b"a", 1)
    assert [(tag, entry.message.body) for tag, entry in session.deliveries] == [(2, b"b")]


# ---------------------------------------------------------------------- very much at once


def numbers(first: int, behind: int) -> list[str]:
    return [str(number) for number in range(first, behind)]


def publish(queue, first: int, behind: int) -> None:
    for number in range(first, behind):
        queue.enqueue(make_message(str(number), accepted_at=NOW), NOW)


def holding(queue, count: int = MANY, more: int = 1) -> RecordingSession:
    """A session that holds so many, and ``more`` wait."""
    session = RecordingSession()
    session.consume(queue, messages=count)
    publish(queue, 0, count + more)
    assert len(session.unacknowledged) == count
    return session


def test_very_much_that_a_session_held_is_not_looked_at_when_it_ends():
    effects = SlicingEffects()
    queue = queue_of(effects)
    session = holding(queue)
    session.close(NOW)
    assert (queue.order.count, len(queue.delivering), len(session.unacknowledged)) == (1, MANY, 0)
    assert queue.halted
    session.close(NOW)
    effects.turns()
    assert pending(queue) == numbers(0, MANY + 1)
    assert queue.counters.messages_returned == MANY
    assert not queue.halted
    check_invariants(queue)


def test_a_queue_that_gets_all_back_never_looks_empty():
    queue = queue_of(SlicingEffects())
    holding(queue, more=0).close(NOW)
    assert 0 < queue.order.count < MANY


def test_what_comes_and_is_settled_meanwhile_changes_no_order():
    effects = SlicingEffects()
    queue, other = queue_of(effects), RecordingSession("other")
    session = holding(queue)
    other.consume(queue, messages=2)
    publish(queue, MANY + 1, MANY + 3)
    session.close(NOW)
    while effects.works:
        effects.turn()
        check_invariants(queue)
        if effects.works and other.unacknowledged:
            other.acknowledge(next(iter(other.unacknowledged)), NOW)
        publish(queue, MANY + 3 + len(effects.works), MANY + 4 + len(effects.works))
        assert effects.works == [] or len(other.received) == 2
    assert other.received == [*numbers(MANY, MANY + 2), "0", "1"]
    assert [body for body in pending(queue) if int(body) < MANY] == numbers(2, MANY)


def test_a_pull_waits_until_all_of_it_is_back():
    effects = SlicingEffects()
    queue = queue_of(effects)
    holding(queue).close(NOW)
    waiter = Waiting()
    assert RecordingSession().get(queue, NOW, auto_acknowledge=True) is None
    assert queue.await_pull(waiter, queue.next_sequence, NOW)
    effects.turns()
    assert waiter.told == 1
    found = RecordingSession().get(queue, NOW, auto_acknowledge=True)
    assert found is not None
    assert found[0].message.body == b"0"
    assert not queue.delivering


@pytest.mark.parametrize("turns", [0, 2])
def test_a_purge_takes_what_is_on_its_way_back(turns: int):
    effects = SlicingEffects()
    queue = queue_of(effects)
    holding(queue).close(NOW)
    for _ in range(turns):
        effects.turn()
    assert queue.purge(NOW) == MANY + 1
    effects.turns()
    assert (queue.order.count, len(queue.delivering), queue.returns) == (0, 0, [])
    assert removed(queue, RemovalReason.PURGED) == MANY + 1
    check_invariants(queue)


@pytest.mark.parametrize("turns", [0, 2])
def test_a_deleted_queue_takes_nothing_back(turns: int):
    effects = SlicingEffects()
    queue = queue_of(effects)
    holding(queue).close(NOW)
    for _ in range(turns):
        effects.turn()
    queue.delete(NOW)
    effects.turns()
    assert (queue.order.count, len(queue.delivering), queue.returns) == (0, 0, [])
    assert removed(queue, RemovalReason.DELETED) == MANY + 1


def test_each_of_several_queues_gets_its_own():
    effects = SlicingEffects()
    queues = [queue_of(effects) for _ in range(3)]
    session = RecordingSession()
    for queue, tag in zip(queues, "abc", strict=True):
        session.consume(queue, tag)
    for number in range(MANY):
        for queue in queues:
            queue.enqueue(make_message(str(number)), NOW)
    session.detach("b", NOW)  # what it holds stays with the session
    queues[2].delete(NOW)
    waiting = RecordingSession("waiting")
    for queue, tag in zip(queues, "ab", strict=False):
        waiting.consume(queue, tag)
    session.close(NOW)
    while effects.works:
        halted = [tag for queue, tag in zip(queues, "ab", strict=False) if queue.returns]
        assert not [tag for tag in halted if waiting.by_consumer.get(tag)]
        effects.turn()
    assert waiting.by_consumer == {"a": numbers(0, MANY), "b": numbers(0, MANY)}
    for queue in queues[:2]:
        check_invariants(queue)


def test_what_was_pulled_comes_back_too():
    effects = SlicingEffects()
    queue, pulled = queue_of(effects), queue_of(effects)
    session = holding(queue, more=0)
    send(pulled, "x")
    session.get(pulled, NOW, auto_acknowledge=False)
    session.close(NOW)
    effects.turns()
    assert (pending(queue), pending(pulled)) == (numbers(0, MANY), ["x"])


def test_a_consumer_with_link_credit_gets_none_back():
    effects = SlicingEffects()
    queue, session = queue_of(effects), RecordingSession()
    credit = LinkCredit()
    credit.grant(MANY)
    consumer = Consumer(session, queue, "link", window=credit)
    session.attach(consumer, NOW)
    publish(queue, 0, MANY)
    session.close(NOW)
    effects.turns()
    assert (credit.messages_max, credit.messages, consumer.held, session.window.messages) == (0, 0, 0, 0)
    assert queue.order.count == MANY


@pytest.mark.parametrize("count", [AT_ONCE_MAX, AT_ONCE_MAX + 1])
def test_sessions_of_a_connection_give_back_in_slices_what_is_many_together(count: int):
    effects = SlicingEffects()
    queue, waiting = queue_of(effects), RecordingSession("waiting")
    sessions = [RecordingSession() for _ in range(100)]
    consumers = [session.consume(queue, messages=0) for session in sessions]
    publish(queue, 0, count + 1)
    for number in range(count):
        consumers[number % len(consumers)].window.messages_max += 1
        queue.wake(NOW)
    waiting.consume(queue, messages=0)
    end_together(sessions)
    for session in sessions:
        session.close(NOW)
    assert bool(effects.works) == (count > AT_ONCE_MAX)
    assert len(queue.delivering) == (count if effects.works else 0)
    effects.turns()
    assert pending(queue) == numbers(0, count + 1)
    check_invariants(queue)


@pytest.mark.parametrize("room", [0, 1])
def test_sessions_come_back_in_slices_to_a_ring_with_and_without_room_for_all(room: int):
    effects = SlicingEffects()
    count = 2 * MANY
    queue = queue_of(effects, ring_size=count + room)
    sessions = [RecordingSession(), RecordingSession()]
    for session in sessions:
        session.consume(queue, messages=MANY)
    publish(queue, 0, count + 1)
    end_together(sessions)
    for session in sessions:
        session.close(NOW)
    assert len(queue.returns) == 2
    effects.turns()
    dropped = [] if room else ["0"]  # the oldest of those that came back together
    assert pending(queue) == [body for body in numbers(0, count + 1) if body not in dropped]
    check_invariants(queue)


def taking_turns(queue, *sessions):
    """Let sessions hold ``MANY`` messages each, one after the other in turns; return the consumers."""
    consumers = [session.consume(queue, messages=MANY) for session in sessions]
    publish(queue, 0, MANY * len(sessions) + 1)
    return consumers


def test_what_sessions_of_several_connections_held_comes_back_together_in_order():
    effects = SlicingEffects()
    queue = queue_of(effects)
    one, two, alive = sessions = [RecordingSession() for _ in range(3)]
    consumers = taking_turns(queue, *sessions)
    kept = [entry.sequence for entry in alive.unacknowledged.values()]
    one.close(NOW)
    two.close(NOW)
    assert len(queue.returns) == 2
    back: list[int] = [queue.order.count]
    while effects.works:
        effects.turn()
        assert [work for work in queue.returns if work.gathers] == []
        check_invariants(queue)
        back.append(queue.order.count)
    assert len(back) > 3
    assert back == sorted(back)
    assert [entry.sequence for entry in queue.delivering] == kept
    assert [entry.sequence for entry in queue.order.entries()] == [
        sequence for sequence in range(1, queue.next_sequence) if sequence not in kept
    ]
    for consumer in consumers[:2]:
        assert (consumer.held, consumer.window.bytes, consumer.window.messages) == (0, 0, 0)
    assert {entry.delivery_count for entry in queue.order.entries()} == {0, 1}


def test_where_others_hold_most_only_tables_are_looked_at():
    effects = SlicingEffects()
    queue = queue_of(effects)
    sessions = [RecordingSession() for _ in range(4)]
    taking_turns(queue, *sessions)
    for session in sessions[:1]:
        session.close(NOW)
    (work,) = queue.returns
    effects.turn()
    assert not isinstance(work._batch, EndedDeliveries)
    effects.turns()
    assert len(queue.delivering) == 3 * MANY
    check_invariants(queue)


def test_a_session_that_ends_while_others_come_back_together_comes_back_too():
    effects = SlicingEffects()
    queue = queue_of(effects)
    first, late = sessions = [RecordingSession(), RecordingSession()]
    taking_turns(queue, *sessions)
    first.close(NOW)
    effects.turn()
    late.close(NOW)
    effects.turns()
    assert (len(queue.delivering), queue.order.count) == (0, 2 * MANY + 1)
    assert [int(body) for body in pending(queue)] == list(range(2 * MANY + 1))
    assert {entry.delivery_count for entry in queue.order.entries()} == {0, 1}
    check_invariants(queue)


def test_a_purge_and_a_delete_meet_what_comes_back_together():
    effects = SlicingEffects()
    queue = queue_of(effects)
    sessions = [RecordingSession(), RecordingSession()]
    taking_turns(queue, *sessions)
    for session in sessions:
        session.close(NOW)
    effects.turn()
    assert queue.purge(NOW) == 2 * MANY + 1
    effects.turns()
    assert (len(queue.delivering), queue.order.count, queue.returns) == (0, 0, [])
    check_invariants(queue)


class Endings:
    """Sessions that end in slices, beside such that do it at once."""

    def __init__(self, settings: dict[str, Any], chance: random.Random) -> None:
        self.chance = chance
        self.effects = SlicingEffects()
        self.sides = [[queue_of(effects, **settings) for _ in range(2)] for effects in (self.effects, SlicingEffects())]
        self.connections: list[list[list[RecordingSession]]] = []
        self.number = 0
        self.now = NOW

    def step(self) -> None:
        self.chance.choice([self.publish, self.publish, self.hold, self.settle, self.end, self.turn, self.tick])()
        for queues in self.sides:
            for queue in queues:
                check_invariants(queue)

    def publish(self) -> None:
        for _ in range(self.chance.randint(1, 20)):
            self.number += 1
            name = self.chance.randint(0, 1)
            for queues in self.sides:
                message = make_message(str(self.number), accepted_at=self.now, priority=self.number % 3)
                queues[name].enqueue(message, self.now)

    def hold(self) -> None:
        """Let a connection's sessions take some of both queues."""
        self.effects.turns(self.now)  # who comes meanwhile waits, and would get the same in another order
        counts = [(self.chance.randint(0, 6), self.chance.randint(0, 3)) for _ in range(self.chance.randint(1, 4))]
        kept = self.chance.random() < 0.7
        connection: list[list[RecordingSession]] = []
        for queues in self.sides:
            sessions = [RecordingSession() for _ in counts]
            for session, (first, second) in zip(sessions, counts, strict=True):
                for tag, queue, count in zip("ab", queues, (first, second), strict=True):
                    session.consume(queue, tag, messages=count, now=self.now)
                    if not kept:
                        session.detach(tag, self.now)
            connection.append(sessions)
        self.connections.append(connection)
        assert [held.received for held in connection[0]] == [held.received for held in connection[1]]

    def settle(self) -> None:
        self.effects.turns(self.now)
        for connection in self.connections[:1]:
            for sessions in connection:
                for session in sessions:
                    for tag in list(session.unacknowledged)[::3]:
                        session.acknowledge(tag, self.now)

    def end(self) -> None:
        if not self.connections:
            return
        sliced, whole = self.connections.pop(self.chance.randrange(len(self.connections)))
        for connection in self.connections:  # who waits would be offered what one session returns before the next does
            for sessions in connection:
                for consumer in [consumer for session in sessions for consumer in session.consumers.values()]:
                    consumer.window.messages_max = consumer.window.messages
        end_together(sliced)
        for session in sliced:
            session.gives_back_many = True
            session.close(self.now)
            if self.sides[0][0].settings.ring_size >= 0:  # or their excess would be that of all together
                self.effects.turns(self.now)
        end_together(whole)
        for session in whole:
            session.close(self.now)

    def turn(self) -> None:
        self.effects.turn(self.now)

    def tick(self) -> None:
        self.effects.turns(self.now)
        self.now += self.chance.randint(1, 30)
        for queues in self.sides:
            for queue in queues:
                queue.tick(self.now)

    def states(self) -> list[list[Any]]:
        self.effects.turns(self.now)
        return [
            [
                [
                    [(entry.sequence, entry.delivery_count, entry.redelivered) for entry in queue.order.entries()],
                    sorted(entry.sequence for entry in queue.delivering),
                    queue.counters.as_dict(),
                ]
                for queue in queues
            ]
            for queues in self.sides
        ]


@pytest.mark.parametrize(
    "kind",
    [{}, {"ring_size": 9}, {"priorities": 3}, {"message_ttl": 50}, {"redelivery_delay": 5}, {"fair_key": "k"}],
    ids=str,
)
@fewer_examples(15)
@given(seed=st.integers(0, 1 << 32))
def test_nobody_can_tell_sessions_that_end_in_slices_from_those_that_do_at_once(kind: dict[str, Any], seed: int):
    pair = Endings(kind, random.Random(seed))
    for _ in range(30):
        pair.step()
    sliced, whole = pair.states()
    assert sliced == whole
