"""Rows 25 to 35 of the Broker-J scenarios: last-value queues."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from tests.core.helpers import removed
from tests.scenarios.qpid.stage import Client, Stage, bodies_of, numbers


@pytest.fixture
def stage():
    return Stage()


@pytest.fixture
def queue(stage):
    return stage.declare(arguments={"qpid.last_value_queue_key": "key"})


def send_over_ten_keys(stage, first, last):
    for number in range(first, last):
        stage.send(str(number), key=str(number % 10))


def browser_of(stage, queue):
    client = Client(stage)
    client.listen(queue, browse="follow")
    return client


def test_row_025_the_newest_of_each_key(stage, queue):
    for number, key in enumerate("ABAB", 1):
        stage.send(f"{key}{number}", key=key)
    assert stage.take_all(queue) == ["A3", "B4"]


def test_row_026_as_many_messages_as_keys(stage, queue):
    send_over_ten_keys(stage, 0, 400)
    assert stage.figures("message_count key_count messages_replaced") == (10, 10, 390)
    assert stage.held() == numbers(390, 400)


@pytest.mark.parametrize("late", [False, True], ids=["027-close-then-send", "028-send-then-close"])
def test_values_a_lost_consumer_held_give_way_to_newer_ones(stage, queue, late):
    client = Client(stage)
    send_over_ten_keys(stage, 0, 200)
    client.listen(queue, messages=10)
    assert client.received == numbers(190, 200)
    if not late:
        client.leave()
        assert stage.held() == numbers(190, 200)
    send_over_ten_keys(stage, 200, 400)
    if late:
        assert stage.figures("message_count delivering_count") == (20, 10)
        client.leave()
    assert stage.take_all(queue) == numbers(390, 400)


def test_row_029_a_superseded_value_in_delivery_goes_when_it_is_released(stage, queue):
    client = Client(stage)
    client.listen(queue, messages=1)
    stage.send("one", "two", key="k")
    assert bodies_of(queue) == ["one", "two"]
    client.leave()
    assert bodies_of(queue) == ["two"]
    assert removed(queue, RemovalReason.REPLACED_KEY) == 1


def test_row_030_a_message_without_a_key_makes_no_key(stage, queue):
    stage.send("m")
    assert stage.figures("message_count key_count") == (1, 0)


def test_row_031_a_key_that_is_used_up_is_forgotten(stage, queue):
    client = Client(stage)
    stage.send("m", key="k")
    assert client.pull(queue) == "m"
    assert stage.figures("message_count key_count") == (0, 0)


def test_row_032_a_browser_sees_the_values_and_then_each_new_one(stage, queue):
    send_over_ten_keys(stage, 0, 400)
    client = browser_of(stage, queue)
    stage.send("400", key="0")
    assert client.received == [*numbers(390, 400), "400"]
    assert stage.figures("message_count messages_acknowledged") == (10, 0)


def test_row_033_two_browsers_see_the_same(stage, queue):
    send_over_ten_keys(stage, 0, 400)
    assert [browser_of(stage, queue).received for _ in range(2)] == [numbers(390, 400)] * 2


def test_row_034_the_oldest_message_is_the_value_that_was_not_replaced(stage, queue):
    for after, key in ((10, "Z"), (90, "M"), (900, "Z")):
        stage.pass_time(after)
        stage.send(key, key=key)
    start = stage.now - 1000
    assert min(entry.message.accepted_at for entry in queue.browse()) - start == 100
    assert stage.figures("first_sequence") == (2,)


def test_row_035_the_oldest_after_each_arrival(stage, queue):
    oldest = []
    for body in ("k1", "k2", "k1'", "k2'"):
        stage.send(body, key=body[:2])
        oldest.append(queue.order.first().message.body.decode())
    assert oldest == ["k1", "k1", "k2", "k1'"]


def test_b15_keys_of_different_types_are_different_keys(stage, queue):
    """Integers of every width are one type: AMQP 0-9-1 has many and few clients choose one."""
    for body, key in (("integer", 1), ("text", "1"), ("bytes", b"1"), ("again", 1)):
        stage.send(body, key=key)
    assert stage.held() == ["text", "bytes", "again"]
