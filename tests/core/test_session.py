"""Settlement by tag, windows and closing."""

from __future__ import annotations

import pytest

from annulet.core.session import UnknownDeliveryTag
from tests.core.helpers import NOW, RecordingSession, make_queue, pending, queue_of, send


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
