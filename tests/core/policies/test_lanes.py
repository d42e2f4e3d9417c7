"""Lanes: one order made of many, where not everybody may have everything."""

from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.ordering.order import FifoOrder
from annulet.core.policies.lanes import Lanes
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, make_message, pending, queue_of, removed, send


def coloured(queue, *bodies):
    for body in bodies:
        queue.enqueue(make_message(body, color=body[0]), NOW)


def test_a_consumer_gets_what_it_selects_from_behind_what_it_does_not():
    queue, red, blue = queue_of(), RecordingSession("red"), RecordingSession("blue")
    coloured(queue, "r1", "b1", "r2", "b2", "g1")
    blue.consume(queue, selector="color = 'b'")
    assert blue.received == ["b1", "b2"]
    red.consume(queue, selector="color = 'r'", messages=1)
    assert red.received == ["r1"]
    assert pending(queue) == ["r2", "g1"]
    check_invariants(queue)
    RecordingSession().consume(queue)
    assert pending(queue) == []


def test_a_snapshot_holds_every_entry_of_every_lane():
    queue, session = queue_of(), RecordingSession()
    session.consume(queue, selector="color = 'x'")
    coloured(queue, "r1", "b1", "r2")
    assert sorted(queue.order.snapshot()) == queue.order.entries()


def test_order_and_ring_go_across_lanes():
    queue = queue_of(ring_size=3)
    session = RecordingSession()
    consumer = session.consume(queue, selector="color = 'x'")
    coloured(queue, "r1", "b1", "g1")
    coloured(queue, "y1")
    assert pending(queue) == ["b1", "g1", "y1"]
    assert removed(queue, RemovalReason.REPLACED_RING) == 1
    session.close_consumer(consumer.tag, NOW)
    check_invariants(queue)


def test_what_comes_back_is_known_and_takes_its_place():
    queue, red = queue_of(), RecordingSession("red")
    coloured(queue, "r1", "b1", "r2", "b2")
    consumer = red.consume(queue, selector="color = 'r'")
    asked = queue.matchers.evaluations
    red.close_consumer(consumer.tag, NOW)
    assert pending(queue) == ["r1", "b1", "r2", "b2"]
    again = red.consume(queue, selector="color  =  'r'")
    assert queue.matchers.evaluations == asked
    assert again.held == 2


def test_a_queue_leaves_its_lanes_when_nothing_needs_them():
    queue, session = queue_of(), RecordingSession()
    consumer = session.consume(queue, selector="color = 'r'")
    assert isinstance(queue.order, Lanes)
    session.close_consumer(consumer.tag, NOW)
    assert isinstance(queue.order, FifoOrder)
    send(queue, "a")
    assert pending(queue) == ["a"]


def test_a_consumer_whose_next_message_is_too_large_waits_while_others_go_on():
    queue, small, large = queue_of(), RecordingSession("small"), RecordingSession("large")
    small.consume(queue, octets=3, selector="color IS NOT NULL")
    coloured(queue, "a", "bbbb", "c")
    assert small.received == ["a"]
    large.consume(queue, messages=1)
    assert large.received == ["bbbb"]
    assert small.received == ["a", "c"]


def test_lanes_go_with_their_last_entry():
    queue, session = queue_of(group_mode="sticky"), RecordingSession()
    session.consume(queue, auto_acknowledge=True)
    for number in range(100):
        queue.enqueue(make_message("x", JMSXGroupID=str(number)), NOW)
    assert not queue.lanes.by_key()
    assert not queue.lanes._shelves


def test_a_fair_key_keeps_its_turn_when_its_messages_change_lanes():
    queue, session = queue_of(fair_key="color"), RecordingSession()
    coloured(queue, "a1", "a2", "b1")
    session.consume(queue, messages=1)  # takes a1, so it is b's turn
    lanes = queue.lanes
    assert lanes is not None
    assert lanes.fairness is not None
    turns = lanes.fairness.in_turn()
    assert [key.key for key in turns] == [("str", "b"), ("str", "a")]
    head = lanes.first_free()
    assert head is not None
    head.evaluated = 1 << 40
    lanes.resort(head)
    assert lanes.fairness.in_turn() == turns
    lanes.forget(1 << 40)
    assert lanes.fairness.in_turn() == turns
    assert [key.pending for key in turns] == [1, 1]


def test_what_is_next_comes_from_all_lanes_that_somebody_may_have():
    queue = queue_of(group_mode="sticky")
    for number in range(300):
        queue.enqueue(make_message(str(number), JMSXGroupID=str(number % 3)), NOW)
    upcoming = queue.order.upcoming(30)
    assert [int(entry.message.body) for entry in upcoming] == list(range(30))
    queue = queue_of(fair_key="tenant", in_flight_per_key=1)
    for number in range(6):
        queue.enqueue(make_message(str(number), tenant="a" if number < 4 else "b"), NOW)
    queue.acquire(1, -1, NOW)
    assert [int(entry.message.body) for entry in queue.order.upcoming(10)] == [4, 5], (
        "the key of the other is at its cap"
    )
    queue.acquire(1, -1, NOW)
    assert len(queue.order.upcoming(10)) == 4, "nobody may have any: then any will do"
