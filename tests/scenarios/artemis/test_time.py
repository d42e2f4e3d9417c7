"""Rows S1 to S5 and E1 to E6 of the Artemis scenarios: scheduled messages and expiry."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.message.filters import Verdicts, compile_filter
from tests.scenarios.artemis.scene import SECOND, Client, Scene, headers_of, numbers

FAR_FUTURE = 1_000_000_000


@pytest.fixture
def scene():
    return Scene()


# ---------------------------------------------------------------------- scheduled messages


def test_s1_messages_of_one_time_keep_the_order_of_their_arrival(scene):
    queue, client = scene.queue(), Client(scene)
    client.listen(queue)
    scene.send(*numbers(0, 10), delay=SECOND)
    assert client.received == []
    scene.pass_time(SECOND)
    assert client.received == numbers(0, 10)


def test_s2_an_operator_delivers_a_message_of_the_far_future_by_its_id(scene):
    queue, client = scene.queue(), Client(scene)
    client.listen(queue)
    scene.send("other", "wanted", delay=FAR_FUTURE)
    wanted = next(entry for entry in queue.schedule.entries() if entry.sequence == 2)
    assert queue.deliver_now(wanted, scene.now)
    assert client.received == ["wanted"]
    assert scene.figures("scheduled_count delivering_count") == (1, 1)


def test_s3_an_operator_removes_a_message_of_the_far_future(scene):
    queue = scene.queue()
    scene.send("m", delay=FAR_FUTURE)
    assert scene.figures("message_count scheduled_count") == (1, 1)
    (entry,) = queue.schedule.entries()
    assert queue.remove(entry, RemovalReason.DELETED, scene.now)
    assert scene.figures("message_count scheduled_count") == (0, 0)
    assert not queue.remove(entry, RemovalReason.DELETED, scene.now)


def test_s4_an_operator_delivers_what_a_filter_selects(scene):
    queue, client = scene.queue(), Client(scene)
    client.listen(queue)
    for body, colour in (("0", "green"), ("1", "red"), ("2", "green")):
        scene.send(body, delay=FAR_FUTURE, colour=colour)
    selector = compile_filter("colour = 'green'", "the operator's filter")
    for entry in queue.schedule.entries():
        if Verdicts(entry.message).admits(selector):
            assert queue.deliver_now(entry, scene.now)
    assert client.received == ["0", "2"]
    assert scene.figures("scheduled_count") == (1,)


def test_s5_a_delay_holds_a_message_back_until_its_time(scene):
    """In AMQP 0-9-1 the header ``x-delay``; the annotation of AMQP 1.0 will set the same time."""
    queue, client = scene.queue(), Client(scene)
    client.listen(queue)
    scene.send("m", delay=5 * SECOND)
    assert scene.figures("scheduled_count message_count") == (1, 1)
    scene.pass_time(5 * SECOND - 1)
    assert client.received == []
    scene.pass_time(1)
    assert client.received == ["m"]


# ---------------------------------------------------------------------- expiry


def test_e1_a_hundred_expired_messages_go_together(scene):
    scene.queue()
    scene.send(*numbers(0, 100), ttl=10)
    scene.pass_time(9)
    assert scene.figures("message_count") == (100,)
    scene.pass_time(1)
    assert scene.figures("message_count delivering_count messages_expired") == (0, 0, 100)


def test_e2_every_second_of_a_hundred_expires_wherever_it_stands(scene):
    scene.queue()
    for number in range(100):
        scene.send(str(number), ttl=10 if number % 2 else -1)
    scene.pass_time(10)
    assert scene.held() == numbers(0, 100)[::2]
    assert scene.figures("message_count messages_expired") == (50, 50)


def test_e3_what_was_acknowledged_does_not_expire(scene):
    queue, client = scene.queue(), Client(scene)
    scene.send(*numbers(0, 100), ttl=SECOND)
    for number in range(50):
        assert client.pull(queue) == str(number)
    scene.pass_time(SECOND)
    assert scene.figures("messages_expired messages_acknowledged message_count") == (50, 50, 0)


def test_e4_two_queues_of_one_address_expire_to_the_same_place():
    scene = Scene({"a1": {"expiry-address": "EXP"}})
    scene.address("a1", "q1", "q2")
    scene.queue("expired", address="EXP")
    assert scene.send(*numbers(0, 100), to="a1", ttl=SECOND) == 2
    scene.pass_time(SECOND)
    assert scene.figures("message_count", "expired") == (200,)
    for name in ("q1", "q2"):
        assert scene.figures("messages_expired message_count", name) == (100, 0)
    records = list(scene.host.ledger.query(reason=RemovalReason.EXPIRED))
    assert [record.forwarded_to for record in records] == ["expiry-address 'EXP'"] * 200


def test_e5_a_thousand_queues_expire_at_once():
    """Artemis walks every message of one queue after another; here each queue knows what is due."""
    scene = Scene({"in.*": {"expiry-address": "EXP"}})
    names = [f"in.{number}" for number in range(1000)]
    for name in names:
        scene.queue(name)
        scene.send("stays", to=name)
        scene.send(name, to=name, ttl=SECOND)
    scene.queue("expired", address="EXP")
    scene.pass_time(SECOND)
    assert scene.held("expired") == names
    assert all(scene.held(name) == ["stays"] for name in names)


def test_e6_an_expired_copy_says_where_it_came_from_and_lives_on():
    scene = Scene({"a1": {"expiry-address": "EXP"}})
    scene.address("a1", "q1")
    expired = scene.queue("expired", address="EXP")
    scene.send("m", to="a1", ttl=SECOND)
    scene.pass_time(SECOND)
    headers = headers_of(expired.order.first())
    assert (headers["_AMQ_ORIG_QUEUE"], headers["_AMQ_ORIG_ADDRESS"]) == ("q1", "a1")
    assert headers["_AMQ_ACTUAL_EXPIRY"] == scene.now
    scene.pass_time(1000 * SECOND)
    assert scene.held("expired") == ["m"]
