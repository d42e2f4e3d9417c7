"""Ring and last-value queues as an ordinary client meets them; with pika."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.clients.support import Scene, bodies, channel_closed, deliveries, depth, wait_until

pytestmark = pytest.mark.usefixtures("ours")


def publish(channel: Any, queue: str, body: str, **headers: Any) -> None:
    channel.basic_publish("", queue, body.encode(), pika.BasicProperties(headers=headers or None))


def test_a_ring_keeps_the_last(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-ring-size": 3})
    channel.confirm_delivery()
    for number in range(10):
        publish(channel, queue, str(number))
        assert depth(channel, queue) == min(number + 1, 3)  # the limit holds when the send is confirmed
    assert bodies(channel, queue) == [b"7", b"8", b"9"]


def test_a_ring_does_not_count_what_is_delivered(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-ring-size": 2})
    received = deliveries(channel, queue)
    for number in range(5):
        publish(channel, queue, str(number))
    wait_until(lambda: len(received) == 5, channel.connection)  # served before anything is dropped
    channel.basic_cancel(received[0][0].consumer_tag)
    for number in (5, 6, 7):
        publish(channel, queue, str(number))
    assert depth(channel, queue) == 2
    channel.basic_nack(0, multiple=True, requeue=True)  # comes back as far as there is room: there is none
    assert bodies(channel, queue) == [b"6", b"7"]


def test_a_returned_message_finds_its_place_while_there_is_room(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-ring-size": 3})
    for number in range(3):
        publish(channel, queue, str(number))
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    publish(channel, queue, "3")
    channel.basic_nack(tags[-1], multiple=True, requeue=True)  # newest first: 2 and 1 fit, 0 does not
    assert bodies(channel, queue) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("name", ["x-last-value-key", "qpid.last_value_queue_key"])
def test_a_last_value_queue_keeps_one_of_each_key(scene: Scene, name: str) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={name: "tail"})
    publish(channel, queue, "a1", tail="a")
    publish(channel, queue, "b1", tail="b")
    publish(channel, queue, "a2", tail="a")
    publish(channel, queue, "without a key")
    publish(channel, queue, "also without")
    assert sorted(bodies(channel, queue)) == [b"a2", b"also without", b"b1", b"without a key"]


def test_keys_of_different_types_differ(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-last-value-key": "key"})
    for key in (1, "1", True, b"1\xff"):
        publish(channel, queue, repr(key), key=key)
        publish(channel, queue, repr(key), key=key)
    assert len(bodies(channel, queue)) == 4


def test_the_last_several_of_each_key(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-last-value-key": "sensor", "x-keep-per-key": 2})
    for number in range(4):
        publish(channel, queue, f"a{number}", sensor="a")
    publish(channel, queue, "b0", sensor="b")
    assert sorted(bodies(channel, queue)) == [b"a2", b"a3", b"b0"]


def test_replace_by_key_first_then_the_ring(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-last-value-key": "key", "x-ring-size": 2})
    for body, key in (("a1", "a"), ("b1", "b"), ("a2", "a"), ("c1", "c")):
        publish(channel, queue, body, key=key)
    assert len(bodies(channel, queue)) == 2


def test_an_older_value_never_returns(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-last-value-key": "key"})
    publish(channel, queue, "old", key="k")
    tag = channel.basic_get(queue)[0].delivery_tag
    publish(channel, queue, "new", key="k")
    channel.basic_nack(tag, requeue=True)
    assert bodies(channel, queue) == [b"new"]


def test_a_ring_in_a_transaction_counts_at_commit(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-ring-size": 2})
    publish(channel, queue, "before")
    channel.tx_select()
    for number in range(5):
        publish(channel, queue, str(number))
    assert depth(channel, queue) == 1
    channel.tx_commit()
    assert bodies(scene.channel(), queue) == [b"3", b"4"]


def test_a_durable_ring_confirms_what_it_drops_too(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, durable=True, arguments={"x-ring-size": 5})
    channel.confirm_delivery()
    for number in range(50):
        channel.basic_publish("", queue, str(number).encode(), pika.BasicProperties(delivery_mode=2), mandatory=True)
    assert bodies(channel, queue) == [b"45", b"46", b"47", b"48", b"49"]


def test_another_ring_size_of_the_same_name_is_refused(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-ring-size": 5})
    channel.queue_declare(queue, arguments={"ring-size": 5})  # an alias of the same setting
    with channel_closed(406, "inequivalent arg", "ring-size", queue):
        channel.queue_declare(queue, arguments={"x-ring-size": 6})
