"""Consumers: credit, order among them, cancelling; with pika."""

from __future__ import annotations

import socket
import time
from collections import Counter
from typing import Any

import amqp
import pika
import pytest

from tests.clients.below_pika import channel_below, send_method
from tests.clients.support import (
    PATIENCE_SECONDS,
    Peer,
    Scene,
    bodies,
    channel_closed,
    connection_closed,
    deliveries,
    depth,
    wait_until,
)


def fill(
    scene: Scene, count: int, size: int = 1, **settings: Any
) -> tuple[str, pika.adapters.blocking_connection.BlockingChannel]:
    """Declare a queue with ``count`` messages."""
    channel = scene.channel()
    queue = scene.queue(channel, **settings)
    for number in range(count):
        channel.basic_publish("", queue, str(number).encode().ljust(size, b"."))
    channel.queue_declare(queue, passive=True)
    return queue, channel


def settled(channel: pika.adapters.blocking_connection.BlockingChannel, queue: str) -> None:
    """Have all deliveries that are due read: they are on the wire before the answer of this."""
    channel.queue_declare(queue, passive=True)
    channel.connection.process_data_events(time_limit=0)


def test_messages_come_in_order_with_their_envelope(scene: Scene) -> None:
    queue, channel = fill(scene, 100)
    received = deliveries(channel, queue, consumer_tag="tag of mine")
    wait_until(lambda: len(received) == 100, channel.connection)
    assert [int(body) for _, _, body in received] == list(range(100))
    assert [method.delivery_tag for method, _, _ in received] == list(range(1, 101))
    method = received[0][0]
    assert (method.consumer_tag, method.exchange, method.routing_key, method.redelivered) == (
        "tag of mine",
        "",
        queue,
        False,
    )


def test_the_broker_names_a_consumer_that_has_no_name(scene: Scene) -> None:
    queue, channel = fill(scene, 1)
    received: list[str] = []
    # Below pika's consume, which always makes up a tag of its own.
    channel_below(channel).add_callback(
        lambda frame: received.append(frame.method.consumer_tag), [pika.spec.Basic.ConsumeOk]
    )
    send_method(channel, pika.spec.Basic.Consume(queue=queue, consumer_tag=""))
    wait_until(lambda: received, channel.connection)
    assert received[0].startswith("amq.ctag-")


@pytest.mark.parametrize("prefetch", [1, 2, 5])
def test_prefetch_limits_each_consumer(scene: Scene, prefetch: int) -> None:
    queue, channel = fill(scene, 20)
    channel.basic_qos(prefetch_count=prefetch)
    first = deliveries(channel, queue)
    wait_until(lambda: len(first) == prefetch, channel.connection)
    second = deliveries(channel, queue)
    wait_until(lambda: len(second) == prefetch, channel.connection)
    settled(channel, queue)
    assert (len(first), len(second), depth(channel, queue)) == (prefetch, prefetch, 20 - 2 * prefetch)
    channel.basic_ack(first[0][0].delivery_tag)
    wait_until(lambda: len(first) == prefetch + 1, channel.connection)
    settled(channel, queue)
    assert len(second) == prefetch


def test_a_later_prefetch_leaves_consumers_as_they_are(scene: Scene) -> None:
    queue, channel = fill(scene, 10)
    channel.basic_qos(prefetch_count=2)
    first = deliveries(channel, queue)
    channel.basic_qos(prefetch_count=3)
    wait_until(lambda: len(first) == 2, channel.connection)
    second = deliveries(channel, queue)
    wait_until(lambda: len(second) == 3, channel.connection)
    settled(channel, queue)
    assert (len(first), len(second)) == (2, 3)


def test_global_prefetch_is_shared_by_the_channel(scene: Scene) -> None:
    queue, channel = fill(scene, 10)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    received = deliveries(channel, queue)
    others = deliveries(channel, queue)
    wait_until(lambda: len(received) + len(others) == 3, channel.connection)
    settled(channel, queue)
    assert (len(received) + len(others), depth(channel, queue)) == (3, 7)
    channel.basic_qos(prefetch_count=5, global_qos=True)
    wait_until(lambda: len(received) + len(others) == 5, channel.connection)
    channel.basic_ack(0, multiple=True)
    wait_until(lambda: len(received) + len(others) == 10, channel.connection)


def test_automatic_acknowledgement_needs_no_credit(scene: Scene) -> None:
    queue, channel = fill(scene, 10)
    channel.basic_qos(prefetch_count=1)
    received = deliveries(channel, queue, auto_ack=True)
    wait_until(lambda: len(received) == 10, channel.connection)
    channel.connection.close()
    assert bodies(scene.channel(), queue) == []


def test_get_takes_no_credit(scene: Scene) -> None:
    queue, channel = fill(scene, 5)
    channel.basic_qos(prefetch_count=1)
    assert [channel.basic_get(queue)[0].message_count for _ in range(5)] == [4, 3, 2, 1, 0]
    assert channel.basic_get(queue) == (None, None, None)


def test_prefetch_size_is_a_window_in_bytes(scene: Scene, ours: Peer) -> None:
    queue, channel = fill(scene, 10, size=1000)
    channel.basic_qos(prefetch_size=3500)
    received = deliveries(channel, queue)
    wait_until(lambda: len(received) >= 3, channel.connection)
    settled(channel, queue)
    held = len(received)
    assert held in (3, 4)  # a window may be overdrawn by the message that fills it, never by more
    channel.basic_ack(received[0][0].delivery_tag)
    wait_until(lambda: len(received) == held + 1, channel.connection)
    settled(channel, queue)
    assert len(received) == held + 1


def test_consumers_take_turns(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    consumers = [deliveries(channel, queue, auto_ack=True) for _ in range(4)]
    for number in range(40):
        channel.basic_publish("", queue, str(number).encode())
    wait_until(lambda: sum(map(len, consumers)) == 40, channel.connection)
    assert [len(received) for received in consumers] == [10, 10, 10, 10]


def test_a_consumer_of_higher_priority_is_served_first(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.basic_qos(prefetch_count=2)
    low = deliveries(channel, queue)
    high = deliveries(channel, queue, arguments={"x-priority": 10})
    for number in range(5):
        channel.basic_publish("", queue, str(number).encode())
    wait_until(lambda: len(low) + len(high) == 4, channel.connection)
    settled(channel, queue)
    assert [body for _, _, body in high] == [b"0", b"1"]
    assert [body for _, _, body in low] == [b"2", b"3"]


def test_an_exclusive_consumer_is_alone(scene: Scene) -> None:
    queue, channel = fill(scene, 0)
    tag = channel.basic_consume(queue, lambda *_: None, exclusive=True)
    with channel_closed(403, queue, "exclusive"):
        scene.channel().basic_consume(queue, lambda *_: None)
    channel.basic_cancel(tag)
    channel.basic_consume(queue, lambda *_: None)
    with channel_closed(403, queue, "exclusive"):
        scene.channel().basic_consume(queue, lambda *_: None, exclusive=True)


def test_cancel_keeps_what_was_delivered_and_stops_the_rest(scene: Scene) -> None:
    queue, channel = fill(scene, 4)
    channel.basic_qos(prefetch_count=2)
    received = deliveries(channel, queue, consumer_tag="one")
    wait_until(lambda: len(received) == 2, channel.connection)
    channel.basic_cancel("one")
    channel.basic_ack(received[0][0].delivery_tag)
    assert depth(channel, queue) == 2
    channel.close()
    assert bodies(scene.channel(), queue) == [b"1", b"2", b"3"]


def test_cancelling_an_unknown_consumer_is_answered(scene: Scene) -> None:
    channel = scene.channel()
    answered: list[str] = []
    channel_below(channel).add_callback(
        lambda frame: answered.append(frame.method.consumer_tag), [pika.spec.Basic.CancelOk]
    )
    send_method(channel, pika.spec.Basic.Cancel(consumer_tag="nobody"))
    wait_until(lambda: answered, channel.connection)
    assert answered == ["nobody"]


def test_consuming_from_a_missing_queue_is_an_error(scene: Scene) -> None:
    missing = scene.name()
    with channel_closed(404, missing):
        scene.channel().basic_consume(missing, lambda *_: None)


def test_a_priority_that_is_no_number_is_refused(scene: Scene) -> None:
    queue, channel = fill(scene, 0)
    with channel_closed(406, "x-priority"):
        channel.basic_consume(queue, lambda *_: None, arguments={"x-priority": "high"})


def test_a_closing_channel_returns_its_deliveries_in_order(scene: Scene) -> None:
    queue, channel = fill(scene, 6)
    first, second = channel.connection.channel(), channel.connection.channel()
    held = [deliveries(each, queue) for each in (first,)]
    wait_until(lambda: len(held[0]) == 6, channel.connection)
    first.close()
    taken = []
    for _ in range(6):
        method, _, body = second.basic_get(queue)
        taken.append((body, method.redelivered))
    assert taken == [(str(number).encode(), True) for number in range(6)]


def test_a_lost_connection_returns_its_deliveries(scene: Scene) -> None:
    queue, channel = fill(scene, 3)
    received: list[object] = []
    with amqp.Connection(f"{scene.peer.host}:{scene.peer.port}") as lost:
        lost.channel().basic_consume(queue, callback=received.append)
        while len(received) < 3:
            lost.drain_events(timeout=PATIENCE_SECONDS)
        lost.transport.sock.shutdown(socket.SHUT_RDWR)  # no close method: the socket just ends
        lost.collect()
    wait_until(lambda: depth(channel, queue) == 3, channel.connection)
    method, _, body = channel.basic_get(queue)
    assert (body, method.redelivered) == (b"0", True)


def test_many_channels_of_one_connection_work_side_by_side(scene: Scene) -> None:
    connection = scene.connect()
    channels = [connection.channel() for _ in range(50)]
    queue = scene.queue(channels[0])
    received: list[bytes] = []
    for channel in channels[:25]:
        channel.basic_consume(queue, lambda _c, _m, _p, body: received.append(body), auto_ack=True)
    for number, channel in enumerate(channels):
        channel.basic_publish("", queue, str(number).encode())
    wait_until(lambda: len(received) == 50, connection)
    assert Counter(received) == Counter(str(number).encode() for number in range(50))


def test_deliveries_go_on_while_a_consumer_publishes(scene: Scene) -> None:
    """A chain: each delivery publishes the next message from inside the callback."""
    channel = scene.channel()
    queue = scene.queue(channel)
    seen: list[int] = []

    def on_message(_: object, method: pika.spec.Basic.Deliver, __: object, body: bytes) -> None:
        seen.append(int(body))
        if int(body) < 50:
            channel.basic_publish("", queue, str(int(body) + 1).encode())
        channel.basic_ack(method.delivery_tag)

    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, on_message)
    channel.basic_publish("", queue, b"0")
    wait_until(lambda: len(seen) == 51, channel.connection)
    assert seen == list(range(51))


def test_no_local_keeps_a_connection_s_own_messages_from_it(scene: Scene, peer: Peer) -> None:
    """RabbitMQ ignores it."""
    channel = scene.channel()
    queue = scene.queue(channel)
    received: list[str] = []
    channel_below(channel).add_callback(lambda frame: received.append("started"), [pika.spec.Basic.ConsumeOk])
    send_method(channel, pika.spec.Basic.Consume(queue=queue, consumer_tag="mine", no_local=True))
    wait_until(lambda: received, channel.connection)
    channel.basic_publish("", queue, b"own")
    assert depth(channel, queue) == (1 if peer.ours else 0)


def test_prefetch_size_is_refused_by_rabbitmq_only(scene: Scene, peer: Peer) -> None:
    if peer.ours:
        scene.channel().basic_qos(prefetch_size=1)
        return
    with connection_closed(540, "prefetch_size"):
        scene.channel().basic_qos(prefetch_size=1)


def test_a_consumer_that_does_not_settle_in_time_is_ended(scene: Scene, ours: Peer) -> None:
    """B15: RabbitMQ looks once a minute, and at whole minutes only."""
    queue, channel = fill(scene, 2, arguments={"x-consumer-timeout": 500})
    received = deliveries(channel, queue)
    wait_until(lambda: len(received) == 2, channel.connection)
    channel.basic_ack(received[0][0].delivery_tag)
    ended: list[Any] = []
    channel_below(channel).add_on_close_callback(lambda _, reason: ended.append(reason))
    wait_until(lambda: ended, channel.connection)
    assert ended[0].reply_code == 406
    assert "delivery 2" in ended[0].reply_text
    assert "500 ms" in ended[0].reply_text
    assert bodies(scene.channel(), queue) == [received[1][2]]


def test_a_consumer_that_extends_the_time_of_a_delivery_keeps_it(scene: Scene, ours: Peer) -> None:
    """B15: a publish with a header, on the channel that holds the delivery."""
    queue, channel = fill(scene, 1, arguments={"x-consumer-timeout": 3000})
    received = deliveries(channel, queue)
    wait_until(lambda: len(received) == 1, channel.connection)
    tag = received[0][0].delivery_tag
    until = time.monotonic() + 9  # longer than the time and the broker's longest distance of looks
    while time.monotonic() < until:
        channel.basic_publish("", "", b"", pika.BasicProperties(headers={"x-extend-delivery": tag}))
        channel.connection.process_data_events(time_limit=0.5)
    channel.basic_ack(tag)
    assert bodies(channel, queue) == []
