"""Rows 17 to 24 of the Broker-J scenarios: sorted queues."""

from __future__ import annotations

from random import Random

import pytest

from tests.scenarios.qpid.stage import Client, Stage, numbers


@pytest.fixture
def stage():
    return Stage()


@pytest.fixture
def queue(stage):
    return stage.declare(arguments={"qpid.queue_sort_key": "key"})


def test_row_017_text_keys_come_in_the_order_of_their_code_points(stage, queue):
    keys = [f"{number:3}" for number in range(200)]
    shuffled = Random(17).sample(keys, len(keys))
    for key in shuffled:
        stage.send(key, key=key)
    assert stage.take_all(queue) == sorted(keys)


def test_row_018_equal_keys_keep_their_order_of_arrival(stage, queue):
    for number in range(200):
        stage.send(str(number), key="samesortkeyvalue")
    assert stage.take_all(queue) == numbers(0, 200)


def test_row_019_ten_of_each_key_in_the_order_of_the_keys(stage, queue):
    keys = [f"{number % 10 * 100:03}" for number in range(100)]
    for key in keys:
        stage.send(key, key=key)
    assert stage.take_all(queue) == sorted(keys)


def test_row_020_messages_without_a_key_keep_their_order_of_arrival(stage, queue):
    stage.send(*numbers(0, 200))
    assert stage.take_all(queue) == numbers(0, 200)


def test_row_021_a_smaller_key_that_arrives_later_comes_first(stage, queue):
    stage.send("b", key="B")
    stage.send("a", key="A")
    assert stage.held() == ["a", "b"]


def test_row_022_no_key_comes_before_every_key(stage, queue):
    stage.send("x", key="x")
    stage.send("none")
    stage.send("a", key="a")
    assert stage.held() == ["none", "a", "x"]


def test_row_023_recovering_gives_back_what_was_not_acknowledged(stage, queue):
    client = Client(stage)
    client.listen(queue, messages=1)
    for number in range(1, 11):
        stage.send(str(number), key=f"{number:02}")
    for tag in (1, 2, 3):
        client.acknowledge(tag, stage.now)
    client.recover(stage.now)
    assert client.received == ["1", "2", "3", "4", "4"]


def test_row_024_what_comes_back_is_sorted_in_again(stage, queue):
    """With one message of credit 7 was handed over before 5 and 6 were there; on its return all three are sorted.

    Broker-J's 0-10 does the same; its 0-9-1 and 1.0 keep the client's copy and deliver 7 first.
    """
    client = Client(stage)
    client.listen(queue, messages=1)
    for key in ("7", "6", "5"):
        stage.send(key, key=key)
    assert client.received == ["7"]
    client.recover(stage.now)
    while client.unacknowledged:
        client.settle_all()
    assert client.received == ["7", "5", "6", "7"]
