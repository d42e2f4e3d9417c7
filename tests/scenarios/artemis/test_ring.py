"""Rows R1 to R4, R6 to R16 and R18 to R22 of the Artemis scenarios: rings.

Where Artemis settles its counts some time after the send, every number here holds when the call returns.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from annulet.core.base.settings import UNLIMITED
from annulet.core.host.transaction import Transaction
from tests.scenarios.artemis.scene import Client, Scene


@pytest.fixture
def scene():
    return Scene()


def resize(scene, size):
    queue = scene.host.queues["q"]
    scene.host.update_queue(queue, replace(queue.settings, ring_size=size), scene.now)


def test_r1_a_ring_of_one_keeps_the_newest(scene):
    queue, client = scene.queue(ring_size=1), Client(scene)
    for turn in range(1, 251):
        scene.send("h0")
        assert scene.figures("message_count") == (1,)
        scene.send("h1")
        assert scene.figures("messages_replaced message_count") == (turn, 1)
        assert client.pull(queue) == "h1"


def test_r2_an_uncommitted_acknowledgement_is_in_delivery_and_the_ring_cannot_take_it(scene):
    queue, client = scene.queue(ring_size=1), Client(scene)
    scene.send("h0")
    transaction = Transaction(client)
    client.pull(queue, settle=False)
    transaction.acknowledge(1)
    scene.send("h1")
    figures = "delivering_count messages_replaced message_count"
    assert scene.figures(figures) == (1, 0, 2)
    transaction.rollback()
    client.leave()
    assert scene.figures(figures) == (0, 1, 1)
    other = Client(scene)
    assert other.pull(queue, settle=False) == "h1"
    other.commit_all()
    assert scene.figures("messages_acknowledged message_count") == (1, 0)


def test_r3_what_a_waiting_consumer_took_gives_way_to_what_it_took_later(scene):
    queue, client = scene.queue(ring_size=1), Client(scene)
    client.listen(queue)
    scene.send("h0", "h1")
    assert scene.figures("message_count delivering_count") == (2, 2)
    client.leave()
    assert scene.figures("message_count delivering_count messages_replaced") == (1, 0, 1)
    other = Client(scene)
    assert other.pull(queue, settle=False) == "h1"
    other.commit_all()
    assert scene.figures("messages_acknowledged message_count messages_replaced") == (1, 0, 1)


@pytest.mark.parametrize("apart", [pytest.param(1, id="R4-apart"), pytest.param(0, id="R4-together")])
def test_of_scheduled_messages_the_first_that_falls_due_takes_the_place(scene, apart):
    """Artemis keeps the last one when both fall due in one sweep (§2.6); here both cases obey one rule."""
    scene.queue(ring_size=1)
    scene.send("first", delay=500)
    assert scene.figures("scheduled_count pending_count") == (1, 0)
    scene.clock.advance(apart)
    scene.send("second", delay=500)
    assert scene.figures("scheduled_count pending_count") == (2, 0)
    scene.pass_time(500 - apart)
    scene.pass_time(apart)
    assert scene.held() == ["first"]
    assert scene.figures("messages_replaced pending_count scheduled_count") == (1, 1, 0)


def test_r6_r7_r8_resizing_trims_nothing_and_gives_room_at_once(scene):
    queue, client = scene.queue(), Client(scene)

    def consume(count):
        for _ in range(count):
            assert client.pull(queue) == "m"

    def figures():
        return scene.figures("message_count messages_replaced")

    scene.send(*["m"] * 100)
    resize(scene, 10)
    assert figures() == (100, 0)
    consume(95)
    assert figures() == (5, 0)
    scene.send(*["m"] * 5)
    assert figures() == (10, 0)
    for turn in range(1, 6):
        scene.send("m")
        assert figures() == (10, turn)
    consume(1)  # R7
    resize(scene, 5)
    assert figures() == (9, 5)
    consume(4)
    assert figures() == (5, 5)
    scene.send("m")
    assert figures() == (5, 6)
    resize(scene, 10)  # R8
    scene.send(*["m"] * 5)
    assert figures() == (10, 6)
    scene.send("m")
    assert figures() == (10, 7)
    resize(scene, UNLIMITED)
    scene.send("m")
    assert figures() == (11, 7)


def test_r11_many_producers_leave_exactly_the_ring(scene):
    """Their sends and commits take turns: one loop owns all state, so nothing else can happen at once."""
    scene.queue(ring_size=25)
    transactions = [Transaction(Client(scene)) for _ in range(25)]
    for turn in range(25):
        for producer, transaction in enumerate(transactions):
            if producer % 2:
                scene.send(f"{producer}:{turn}")
            else:
                scene.collect(transaction, f"{producer}:{turn}")
                transaction.commit(scene.host, scene.now)
            assert scene.figures("message_count")[0] <= 25
    assert scene.held() == [f"{producer}:24" for producer in range(25)]
    assert scene.figures("messages_added messages_replaced") == (625, 600)


def test_r12_a_ring_of_three_keeps_the_last_three(scene):
    scene.queue(ring_size=3)
    scene.send(*"ABCD")
    assert scene.held() == ["B", "C", "D"]


def test_r13_what_is_in_delivery_does_not_count_until_it_comes_back(scene):
    queue, client = scene.queue(ring_size=3), Client(scene)
    client.listen(queue)
    for count, body in enumerate("ABCD", 1):
        scene.send(body)
        assert scene.figures("message_count delivering_count messages_replaced") == (count, count, 0)
    client.leave()
    assert scene.held() == ["B", "C", "D"]
    assert scene.figures("message_count delivering_count messages_replaced") == (3, 0, 1)


def test_r14_a_scheduled_message_that_falls_due_into_a_full_ring_is_dropped(scene):
    scene.queue(ring_size=3)
    scene.send("A", delay=500)
    scene.send(*"BCD")
    assert scene.figures("message_count scheduled_count") == (4, 1)
    scene.pass_time(500)
    assert scene.held() == ["B", "C", "D"]
    assert scene.figures("message_count scheduled_count messages_replaced") == (3, 0, 1)


def test_r15_a_commit_of_five_leaves_three_and_a_rollback_leaves_no_trace(scene):
    queue = scene.queue(ring_size=3)
    transaction = Transaction(Client(scene))
    for body in "ABCDE":
        scene.collect(transaction, body)
    transaction.rollback()
    assert not any(queue.counters.as_dict().values())
    for body in "ABCDE":
        scene.collect(transaction, body)
    assert scene.figures("message_count messages_added") == (0, 0)
    transaction.commit(scene.host, scene.now)
    assert scene.held() == ["C", "D", "E"]
    assert scene.figures("messages_added messages_replaced") == (5, 2)


def test_r16_what_is_pending_stays_when_older_messages_return(scene):
    queue, client = scene.queue(ring_size=3), Client(scene)
    client.listen(queue, messages=4)
    scene.send(*"ABCDE")
    client.leave()
    assert scene.held() == ["C", "D", "E"]
    assert scene.figures("messages_replaced") == (2,)


def test_r18_the_key_is_replaced_before_the_ring_applies(scene):
    """Artemis: the ring takes A1, then the key takes B1, and only B2 is left."""
    scene.queue(ring_size=2, last_value_key="k")
    scene.send("A1", "B1", "B2")
    assert scene.held() == ["A1", "B2"]
    assert (scene.removed("replaced-key"), scene.removed("replaced-ring")) == (1, 0)


@pytest.mark.parametrize(
    ("size", "bodies", "left"),
    [
        pytest.param(3, [("9a", 9), ("0a", 0), ("0b", 0), ("0c", 0)], ["9a", "0b", "0c"], id="R19"),
        pytest.param(1, [("4a", 4), ("9a", 9)], ["9a"], id="R19-the-more-important-newcomer-stays"),
        pytest.param(1, [("9a", 9), ("4a", 4)], ["9a"], id="R19-the-less-important-newcomer-goes"),
    ],
)
def test_the_least_important_goes_first(scene, size, bodies, left):
    """Artemis takes the victim from the highest priority: it would drop 9a each time."""
    scene.queue(ring_size=size, priorities=10)
    for body, priority in bodies:
        scene.send(body, priority=priority)
    assert scene.held() == left


def test_r20_a_rollback_into_a_full_ring_drops_now_whatever_the_redelivery_delay(scene):
    queue, client = scene.queue(ring_size=1, redelivery_delay=1000), Client(scene)
    scene.send("h0")
    client.pull(queue, settle=False)
    scene.send("h1")
    client.roll_back_all()
    assert scene.held() == ["h1"]
    assert scene.figures("scheduled_count messages_replaced") == (0, 1)


def test_r21_the_last_attempt_is_tested_before_the_ring():
    scene = Scene({"q": {"max-delivery-attempts": 1, "dead-letter-address": "DLA"}})
    queue, client = scene.queue(ring_size=2), Client(scene)
    scene.queue("dead", address="DLA")
    client.listen(queue)
    scene.send(*"ABC")
    client.roll_back_all()
    assert scene.held("dead") == ["A", "B", "C"]
    assert scene.figures("message_count messages_replaced messages_killed") == (0, 0, 3)


def test_r22_a_released_message_obeys_the_ring(scene):
    """What AMQP 1.0 will call ``released``, at the level of the core. Artemis shows 3 pending."""
    queue = scene.queue(ring_size=2)
    scene.send("A")
    taken = queue.acquire(1, UNLIMITED, scene.now)
    scene.send("B", "C")
    queue.return_entries(taken, scene.now, counted=False)
    assert scene.held() == ["B", "C"]
    assert scene.figures("messages_replaced") == (1,)
    assert taken[0].delivery_count == 0
