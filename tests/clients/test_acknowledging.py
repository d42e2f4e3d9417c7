"""Acknowledging, rejecting and recovering deliveries; with pika."""

from __future__ import annotations

import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.spec import Basic

from tests.clients.below_pika import send_method
from tests.clients.support import (
    Scene,
    bodies,
    channel_closed,
    connection_closed,
    deliveries,
    depth,
    wait_until,
)


def holding(scene: Scene, count: int) -> tuple[BlockingChannel, str, list[int]]:
    """Return a channel that holds ``count`` deliveries of a queue, and their tags."""
    channel = scene.channel()
    queue = scene.queue(channel)
    for number in range(count):
        channel.basic_publish("", queue, str(number).encode())
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(count)]
    assert tags == list(range(1, count + 1))
    return channel, queue, tags


def left(scene: Scene, channel: BlockingChannel, queue: str) -> list[int]:
    """Return what the queue holds once the channel is gone."""
    channel.close()
    return [int(body) for body in bodies(scene.channel(), queue)]


def test_an_acknowledged_message_is_gone(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 3)
    channel.basic_ack(2)
    assert left(scene, channel, queue) == [0, 2]


def test_multiple_takes_all_up_to_the_tag(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 5)
    channel.basic_ack(3, multiple=True)
    assert left(scene, channel, queue) == [3, 4]


def test_multiple_with_tag_zero_takes_all(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 5)
    channel.basic_ack(0, multiple=True)
    assert left(scene, channel, queue) == []


def test_multiple_with_tag_zero_and_nothing_outstanding_is_fine(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 0)
    channel.basic_ack(0, multiple=True)
    assert depth(channel, queue) == 0


def test_nack_drops_or_returns(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 6)
    channel.basic_nack(1, requeue=False)
    channel.basic_nack(3, multiple=True, requeue=True)
    wait_until(lambda: depth(channel, queue) == 2, channel.connection)  # RabbitMQ's counts may lag behind
    channel.basic_nack(0, multiple=True, requeue=False)
    assert left(scene, channel, queue) == [1, 2]


def test_reject_drops_or_returns_to_the_original_place(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 3)
    channel.basic_publish("", queue, b"3")
    channel.basic_reject(3, requeue=True)
    channel.basic_reject(2, requeue=False)
    channel.basic_reject(1, requeue=True)
    method, _, body = channel.basic_get(queue)
    assert (body, method.redelivered) == (b"0", True)
    method, _, body = channel.basic_get(queue)
    assert (body, method.redelivered) == (b"2", True)
    method, _, body = channel.basic_get(queue)
    assert (body, method.redelivered) == (b"3", False)


@pytest.mark.parametrize("requeue", [True, False])
@pytest.mark.parametrize("tag", [1, 7])
def test_a_tag_that_is_not_outstanding_is_an_error(scene: Scene, tag: int, requeue: bool) -> None:
    channel, queue, _ = holding(scene, 2)
    channel.basic_ack(1)
    with channel_closed(406, "unknown delivery tag", str(tag)):
        channel.basic_reject(tag, requeue=requeue)
        depth(channel, queue)
    assert bodies(scene.channel(), queue) == [b"1"]


def test_a_tag_may_be_acknowledged_once(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 1)
    channel.basic_ack(1)
    with channel_closed(406, "unknown delivery tag"):
        channel.basic_ack(1)
        depth(channel, queue)


def test_a_multiple_beyond_what_was_delivered_is_an_error(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 2)
    with channel_closed(406, "unknown delivery tag"):
        channel.basic_ack(3, multiple=True)
        depth(channel, queue)
    assert bodies(scene.channel(), queue) == [b"0", b"1"]


def test_tags_belong_to_their_channel(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 1)
    other = channel.connection.channel()
    with channel_closed(406, "unknown delivery tag"):
        other.basic_ack(1)
        depth(other, queue)
    channel.basic_ack(1)
    assert left(scene, channel, queue) == []


def test_an_error_returns_what_the_channel_held(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 3)
    with channel_closed(404):
        channel.queue_declare("missing-" + queue, passive=True)
    again = channel.connection.channel()  # the connection goes on
    assert bodies(again, queue) == [b"0", b"1", b"2"]


def test_recover_delivers_again(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 3)
    channel.basic_ack(2)
    channel.basic_recover(requeue=True)
    taken = [channel.basic_get(queue) for _ in range(2)]
    assert [(body, method.redelivered) for method, _, body in taken] == [(b"0", True), (b"2", True)]
    assert [method.delivery_tag for method, _, _ in taken] == [4, 5]


def test_recover_serves_a_consumer_of_the_channel_again(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    received = deliveries(channel, queue)
    channel.basic_publish("", queue, b"once")
    wait_until(lambda: len(received) == 1, channel.connection)
    channel.basic_recover(requeue=True)
    wait_until(lambda: len(received) == 2, channel.connection)
    assert [(method.redelivered, body) for method, _, body in received] == [(False, b"once"), (True, b"once")]


def test_recover_without_requeue_is_not_implemented(scene: Scene) -> None:
    channel = scene.channel()
    with connection_closed(540, "NOT_IMPLEMENTED"):
        channel.basic_recover(requeue=False)


def test_recover_async_requeues_without_an_answer(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 2)
    send_method(channel, Basic.RecoverAsync(requeue=True))
    assert bodies(channel, queue) == [b"0", b"1"]


def test_redelivered_is_set_for_consumers_too(scene: Scene) -> None:
    channel, queue, _ = holding(scene, 2)
    channel.basic_nack(1, requeue=True)
    received = deliveries(channel, queue)
    wait_until(lambda: len(received) == 1, channel.connection)
    channel.basic_publish("", queue, b"fresh")
    wait_until(lambda: len(received) == 2, channel.connection)
    assert [(body, method.redelivered) for method, _, body in received] == [(b"0", True), (b"fresh", False)]


def test_a_consumer_that_returns_gets_it_back_only_once_at_a_time(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.basic_qos(prefetch_count=1)
    received = deliveries(channel, queue)
    channel.basic_publish("", queue, b"a")
    channel.basic_publish("", queue, b"b")
    for attempt in range(1, 4):
        wait_until(lambda count=attempt: len(received) == count, channel.connection)
        channel.basic_reject(received[-1][0].delivery_tag, requeue=True)
    wait_until(lambda: len(received) == 4, channel.connection)
    assert [body for _, _, body in received] == [b"a"] * 4
