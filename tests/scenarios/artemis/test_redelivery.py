"""Rows D1 to D7 and M1 to M3 of the Artemis scenarios: dead letters, and what the outcomes of a delivery do.

M1 to M3 are outcomes of AMQP 1.0: proven for the calls of the core they will be, until that protocol is here.
"""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import UNLIMITED
from tests.scenarios.artemis.scene import Client, Scene, headers_of, numbers


def roll_back(scene, queue, *, messages=1):
    """Take messages in one transaction, roll it back and close. Returns what was taken."""
    client = Client(scene)
    client.listen(queue, messages=messages)
    taken = list(client.received)
    client.detach("c", scene.now)
    client.roll_back_all()
    client.leave()
    return taken


# ---------------------------------------------------------------------- dead letters


@pytest.mark.parametrize("attempts", [pytest.param(1, id="D1"), pytest.param(2, id="D2")])
def test_the_last_attempt_that_comes_back_is_a_dead_letter(attempts):
    scene = Scene({"ad1": {"max-delivery-attempts": attempts, "dead-letter-address": "DLA"}})
    (queue,) = scene.address("ad1", "q1")
    (dead,) = scene.address("DLA", "dead")
    scene.send("m", to="ad1")
    for _ in range(attempts - 1):
        assert roll_back(scene, queue) == ["m"]
        assert (scene.held("q1"), scene.held("dead")) == (["m"], [])
    assert roll_back(scene, queue) == ["m"]
    assert (scene.held("q1"), scene.held("dead")) == ([], ["m"])
    headers = headers_of(dead.order.first())
    assert (headers["_AMQ_ORIG_QUEUE"], headers["_AMQ_ORIG_ADDRESS"]) == ("q1", "ad1")
    assert headers["x-first-death-reason"] == "delivery_limit"
    assert scene.figures("messages_dead_lettered messages_killed message_count", "q1") == (1, 1, 0)


@pytest.mark.parametrize("there", [pytest.param(True, id="D3-unbound"), pytest.param(False, id="D3-missing")])
def test_without_a_queue_at_the_dead_letter_address_the_message_is_gone_with_a_record(there):
    scene = Scene({"q": {"max-delivery-attempts": 1, "dead-letter-address": "DLA"}})
    queue = scene.queue()
    if there:
        scene.address("DLA")
    scene.send("m")
    assert roll_back(scene, queue) == ["m"]
    assert scene.figures("message_count delivering_count") == (0, 0)
    assert scene.host.dead_letters.messages_unroutable == 1
    (record,) = scene.host.ledger.query(queue="q", reason=RemovalReason.DEAD_LETTERED)
    assert record.rule == "dead-letter-address 'DLA' leads to no queue"


def test_d4_each_queue_at_the_dead_letter_address_gets_a_copy():
    scene = Scene({"q": {"max-delivery-attempts": 1, "dead-letter-address": "DLA"}})
    queue = scene.queue()
    scene.address("DLA", "dead", "buried")
    scene.send("m")
    roll_back(scene, queue)
    assert (scene.held("dead"), scene.held("buried")) == (["m"], ["m"])
    assert scene.host.dead_letters.messages_forwarded == 1


def test_d5_dead_letters_keep_their_order_and_their_original_ids():
    scene = Scene({"q": {"max-delivery-attempts": 16, "dead-letter-address": "DLA"}})
    queue = scene.queue()
    (dead,) = scene.address("DLA", "dead")
    bodies = numbers(0, 5)
    scene.send(*bodies)
    sequences = [entry.sequence for entry in queue.order.entries()]
    for _ in range(16):
        assert scene.held("dead") == []
        assert roll_back(scene, queue, messages=5) == bodies
    assert (scene.held("dead"), scene.held()) == (bodies, [])
    assert [headers_of(entry)["_AMQ_ORIG_MESSAGE_ID"] for entry in dead.order.entries()] == sequences


def test_d6_the_exact_address_decides_and_a_star_is_one_word():
    scene = Scene(
        {
            "*": {"max-delivery-attempts": 3, "dead-letter-address": "general"},
            "prefix.address": {"max-delivery-attempts": 4, "dead-letter-address": "special"},
        }
    )
    (queue,) = scene.address("prefix.address", "q1")
    scene.address("general", "generally dead")
    scene.address("special", "specially dead")
    scene.send("m", to="prefix.address")
    for _ in range(3):
        assert roll_back(scene, queue) == ["m"]
    assert scene.held("q1") == ["m"]
    assert roll_back(scene, queue) == ["m"]
    assert [scene.held(name) for name in ("q1", "generally dead", "specially dead")] == [[], [], ["m"]]


def test_d7_each_attempt_sees_how_many_came_before_it():
    """Artemis's delivery count is one more than this one: it counts the delivery under way."""
    scene = Scene({"q": {"max-delivery-attempts": 3, "dead-letter-address": "DLA"}})
    queue, client = scene.queue(), Client(scene)
    scene.address("DLA", "dead")
    client.listen(queue, messages=1)
    scene.send("m")
    for tag in (1, 2, 3):
        client.reject(tag, scene.now, requeue=True)
    assert [count + 1 for count in client.counts] == [1, 2, 3]
    assert scene.held("dead") == ["m"]


# ---------------------------------------------------------------------- outcomes


@pytest.fixture
def scene():
    return Scene()


def test_m1_a_released_message_is_delivered_again_and_nothing_is_counted(scene):
    queue = scene.queue(max_delivery_attempts=1)
    scene.send("m")
    for _ in range(3):
        (entry,) = queue.acquire(1, UNLIMITED, scene.now)
        assert (entry.message.body, entry.delivery_count) == (b"m", 0)
        queue.return_entries([entry], scene.now, counted=False)
    assert scene.held() == ["m"]


def test_m2_a_rejected_message_is_delivered_to_nobody_else(scene):
    queue, one, two = scene.queue(), Client(scene), Client(scene)
    one.listen(queue)
    scene.send("m")
    two.listen(queue)
    one.reject(1, scene.now, requeue=False)
    assert (one.received, two.received) == (["m"], [])
    assert scene.figures("message_count messages_rejected") == (0, 1)


@pytest.mark.parametrize(
    ("failed", "count"), [pytest.param(True, 1, id="M3-failed"), pytest.param(False, 0, id="M3-not-failed")]
)
def test_a_modified_message_counts_only_if_its_delivery_failed(scene, failed, count):
    queue = scene.queue()
    scene.send("m")
    (entry,) = queue.acquire(1, UNLIMITED, scene.now)
    queue.return_entries([entry], scene.now, counted=failed)
    assert (scene.held(), entry.delivery_count) == (["m"], count)


def test_m3_who_declares_a_message_undeliverable_never_gets_it_again(scene):
    queue, one, two = scene.queue(), Client(scene), Client(scene)
    consumer = one.listen(queue)
    scene.send("A", "B")
    refused = one.take(1, multiple=False)
    queue.return_entries(refused, scene.now, exclude=consumer)
    one.wake(scene.now)
    assert (one.received, scene.held()) == (["A", "B"], ["A"])
    scene.send("C")  # nothing waits behind it
    assert one.received == ["A", "B", "C"]
    two.listen(queue)
    assert two.received == ["A"]
