"""Fair dispatch: turns and caps."""

from __future__ import annotations

from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, make_message, pending, queue_of, send


def received(queue, *, messages=-1):
    session = RecordingSession()
    session.consume(queue, messages=messages)
    return session


def test_keys_take_turns_and_inside_a_key_the_order_decides():
    queue = queue_of(fair_key="k")
    send(queue, "a1", "a2", "a3", "b1", "c1", "b2")
    assert received(queue).received == ["a1", "b1", "c1", "a2", "b2", "a3"]
    check_invariants(queue)


def test_a_quantum_lets_a_key_send_that_many_bytes_per_turn():
    queue = queue_of(fair_key="k", fair_quantum=4)
    send(queue, "a1", "a2", "a3", "b1", "b2", "b3")
    assert received(queue).received == ["a1", "a2", "b1", "b2", "a3", "b3"]


def test_what_exceeds_the_quantum_is_taken_off_the_next_turn():
    queue = queue_of(fair_key="k", fair_quantum=4)
    send(queue, "a12345", "a1", "a2", "b1", "b2", "b3", "b4")
    assert received(queue).received == ["a12345", "b1", "b2", "a1", "b3", "b4", "a2"]


def test_the_cap_holds_one_key_back_and_no_other():
    queue = queue_of(fair_key="k", in_flight_per_key=1)
    send(queue, "a1", "a2", "b1")
    session = received(queue)
    assert session.received == ["a1", "b1"]
    assert pending(queue) == ["a2"]
    session.acknowledge(1, NOW)
    assert session.received == ["a1", "b1", "a2"]


def test_the_cap_of_the_queue_holds_all_back():
    queue = queue_of(in_flight_max=2)
    send(queue, "a1", "a2", "b1")
    session = received(queue)
    assert session.received == ["a1", "a2"]
    session.reject(1, NOW, requeue=False)
    assert session.received == ["a1", "a2", "b1"]


def test_keys_of_which_nothing_is_left_are_forgotten():
    queue = queue_of(fair_key="k")
    session = received(queue)
    send(queue, *[f"{letter}1" for letter in "abcdef"])
    session.acknowledge(0, NOW, multiple=True)
    fairness = queue.lanes.fairness
    assert not fairness._keys
    assert not fairness.in_turn()


def test_who_pulls_takes_turns_as_well():
    queue = queue_of(fair_key="k")
    send(queue, "x1", "y1", "x2", "x3", "y2")
    pulled = [queue.acquire(1, -1, NOW)[0].message.body.decode() for _ in range(5)]
    assert pulled == ["x1", "y1", "x2", "y2", "x3"]


def test_a_key_that_nobody_could_be_served_from_keeps_its_turn():
    queue, red = queue_of(fair_key="k"), RecordingSession("red")
    red.consume(queue, selector="color = 'red'", messages=3)
    for body, color in [("x1", "red"), ("y1", "blue"), ("x2", "red"), ("x3", "red"), ("x4", "red")]:
        queue.enqueue(make_message(body, k=body[0], color=color), NOW)
    assert red.received == ["x1", "x2", "x3"]
    other = RecordingSession("other")
    other.consume(queue)
    assert other.received == ["y1", "x4"]


def test_who_lacks_room_for_one_keys_message_has_room_for_the_next_keys():
    queue = queue_of(fair_key="k", in_flight_max=3)
    messages = [("s", "w", "blue"), ("large", "x", "blue"), ("x", "x", "red"), ("b", "y", "blue"), ("r", "y", "red")]
    for body, key, colour in messages:
        queue.enqueue(make_message(body, k=key, colour=colour), NOW)
    queue.pause(NOW)
    blue, red = RecordingSession("blue"), RecordingSession("red")
    blue.consume(queue, messages=10, octets=2, selector="colour = 'blue'")
    red.consume(queue, messages=10, selector="colour = 'red'")
    queue.resume(NOW)
    assert (red.received, blue.received) == (["x"], ["s", "b"]), "it was y's turn, whose first is for blue"
