"""Publishing: returns, confirms, bodies and properties of every kind; with pika."""

from __future__ import annotations

import datetime as dt
import decimal
import os
from typing import Any

import pika
import pytest
from pika.exceptions import UnroutableError
from pika.spec import Basic

from tests.clients.below_pika import channel_below, send_and_call, send_method
from tests.clients.support import (
    Scene,
    bodies,
    channel_closed,
    connection_closed,
    deliveries,
    wait_until,
)


def test_a_mandatory_message_without_a_queue_comes_back(scene: Scene) -> None:
    channel = scene.channel()
    returned: list[tuple[Any, pika.BasicProperties, bytes]] = []
    channel.add_on_return_callback(lambda _, *message: returned.append(message))
    nowhere = scene.name()
    properties = pika.BasicProperties(message_id="17", headers={"a": 1})
    channel.basic_publish("amq.direct", nowhere, b"body", properties, mandatory=True)
    channel.basic_publish("amq.direct", nowhere, b"not mandatory")
    wait_until(lambda: returned, channel.connection)
    (method, received, body) = returned.pop()
    assert (method.reply_code, method.reply_text) == (312, "NO_ROUTE")
    assert (method.exchange, method.routing_key) == ("amq.direct", nowhere)
    assert (received.message_id, received.headers, body) == ("17", {"a": 1}, b"body")
    channel.basic_get(scene.queue(channel))
    assert returned == []


def test_immediate_is_not_implemented(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    with connection_closed(540, "immediate=true"):
        send_method(
            channel, Basic.Publish(exchange="", routing_key=queue, immediate=True), (pika.BasicProperties(), b"")
        )
        channel.queue_declare(queue, passive=True)


def confirming(scene: Scene) -> tuple[Any, list[Any], list[tuple[str, int, bool]]]:
    """Return a channel that has confirms below pika's waiting publish, with its events in the order they came."""
    channel = scene.channel()
    events: list[tuple[str, int, bool]] = []
    impl = channel_below(channel)

    def on_outcome(frame: Any) -> None:
        events.append((type(frame.method).__name__, frame.method.delivery_tag, frame.method.multiple))

    answered: list[Any] = []
    impl.confirm_delivery(on_outcome, callback=answered.append)
    wait_until(lambda: answered, channel.connection)
    impl.add_on_return_callback(lambda _, method, *rest: events.append(("Return", method.reply_code, False)))
    return channel, answered, events


def confirmed(events: list[tuple[str, int, bool]]) -> set[int]:
    """Return the publish numbers confirmed so far."""
    done: set[int] = set()
    for kind, tag, multiple in events:
        if kind == "Ack":
            done.update(range(1, tag + 1) if multiple else [tag])
    return done


@pytest.mark.parametrize("durable", [False, True], ids=["transient", "durable"])
@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_every_publish_is_confirmed_once(scene: Scene, durable: bool, delivery_mode: int) -> None:
    channel, _, events = confirming(scene)
    queue = scene.queue(channel, durable=durable)
    properties = pika.BasicProperties(delivery_mode=delivery_mode)
    for number in range(500):
        channel_below(channel).basic_publish("", queue, str(number).encode(), properties)
    wait_until(lambda: confirmed(events) == set(range(1, 501)), channel.connection)
    assert sum(1 for kind, _, multiple in events if kind == "Ack" and not multiple) <= 500
    assert all(kind == "Ack" for kind, _, _ in events)
    assert [int(body) for body in bodies(channel, queue)] == list(range(500))


def test_a_return_comes_before_its_confirm(scene: Scene) -> None:
    channel, _, events = confirming(scene)
    channel_below(channel).basic_publish("", scene.name(), b"", mandatory=True)
    wait_until(lambda: confirmed(events) == {1}, channel.connection)
    assert [kind for kind, _, _ in events] == ["Return", "Ack"]
    assert events[0][1] == 312


def test_unroutable_and_routable_publishes_mix(scene: Scene) -> None:
    channel, _, events = confirming(scene)
    queue = scene.queue(channel, durable=True)
    persistent = pika.BasicProperties(delivery_mode=2)
    for number in range(100):
        channel_below(channel).basic_publish("", queue if number % 2 else "nowhere-" + queue, b"", persistent)
    wait_until(lambda: confirmed(events) == set(range(1, 101)), channel.connection)
    assert len(bodies(channel, queue)) == 50


def test_confirm_select_twice_goes_on_counting(scene: Scene) -> None:
    channel, answered, events = confirming(scene)
    queue = scene.queue(channel)
    channel_below(channel).basic_publish("", queue, b"first")
    wait_until(lambda: confirmed(events) == {1}, channel.connection)
    send_and_call(channel, pika.spec.Confirm.Select(), answered.append, pika.spec.Confirm.SelectOk)
    wait_until(lambda: len(answered) == 2, channel.connection)
    channel_below(channel).basic_publish("", queue, b"second")
    wait_until(lambda: confirmed(events) == {1, 2}, channel.connection)


def test_the_blocking_publish_of_pika_waits_for_its_confirm(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"kept", pika.BasicProperties(delivery_mode=2), mandatory=True)
    with pytest.raises(UnroutableError):
        channel.basic_publish("", scene.name(), b"returned", mandatory=True)
    assert bodies(channel, queue) == [b"kept"]


@pytest.mark.parametrize(
    "size",
    [0, 1, 4087, 131_063, 131_064, 131_065, 262_128, 1_000_000, 10_000_000],
)
def test_bodies_of_every_size_come_back_whole(scene: Scene, size: int) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, durable=True)
    body = os.urandom(size)
    channel.confirm_delivery()
    channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))
    received = deliveries(channel, queue)
    wait_until(lambda: received, channel.connection)
    assert received[0][2] == body


def test_a_small_frame_size_splits_more(scene: Scene) -> None:
    writer, reader = scene.connect(frame_max=4096).channel(), scene.channel()
    queue = scene.queue(writer)
    body = os.urandom(100_000)
    writer.basic_publish("", queue, body)
    writer.queue_declare(queue, passive=True)
    received = deliveries(reader, queue)
    wait_until(lambda: received, reader.connection)
    assert received[0][2] == body
    reader.basic_nack(received[0][0].delivery_tag)
    reader.connection.close()
    _, _, again = writer.basic_get(queue)
    assert again == body


STANDARD = {
    "content_type": "application/json",
    "content_encoding": "gzip",
    "delivery_mode": 2,
    "priority": 7,
    "correlation_id": "żółć",
    "reply_to": "amq.rabbitmq.nothing",
    "expiration": "3600000",
    "message_id": "0b9a6b0e",
    "timestamp": 1_700_000_000,
    "type": "order.created",
    "user_id": "guest",
    "app_id": "tests",
    "cluster_id": "obsolete",
}


@pytest.mark.parametrize("name", sorted(STANDARD))
def test_each_property_alone_comes_back(scene: Scene, name: str) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.basic_publish("", queue, b"", pika.BasicProperties(**{name: STANDARD[name]}))
    _, received, _ = channel.basic_get(queue)
    assert {key: value for key, value in vars(received).items() if value is not None} == {name: STANDARD[name]}


def test_all_properties_together_come_back(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, durable=True)
    sent = pika.BasicProperties(**STANDARD, headers={"x": "y"})
    channel.basic_publish("", queue, b"all", sent)
    _, received, _ = channel.basic_get(queue)
    assert received == sent


def test_every_type_of_a_header_comes_back(scene: Scene) -> None:
    """All that pika can write; test_kombu.py has floating point."""
    headers = {
        "text": "été 日本",
        "empty": "",
        "octets": b"\x00\xff",
        "true": True,
        "false": False,
        "small": 1,
        "negative": -1,
        "long": 2**31,
        "longer": -(2**63),
        "decimal": decimal.Decimal("3.14"),
        "time": dt.datetime(2013, 1, 1, 12, 30, tzinfo=dt.UTC),
        "nothing": None,
        "array": [1, "two", None, [3, {"four": 4}]],
        "table": {"a": {"b": {"c": [True]}}},
        "long text": "x" * 70_000,
        "": "empty name",
    }
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.basic_publish("", queue, b"", pika.BasicProperties(headers=headers))
    _, received, _ = channel.basic_get(queue)
    assert received.headers.pop("octets") in (b"\x00\xff", "\x00\xff")
    del headers["octets"]
    assert received.headers == headers


def test_a_user_id_must_be_the_own_one(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    with channel_closed(406, "user_id", "somebody", "guest"):
        channel.basic_publish("", queue, b"", pika.BasicProperties(user_id="somebody"))
        channel.queue_declare(queue, passive=True)
    assert bodies(scene.channel(), queue) == []


@pytest.mark.parametrize("expiration", ["soon", "-1", "1.5", ""])
def test_an_expiration_that_is_no_number_is_refused(scene: Scene, expiration: str) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    with channel_closed(406, "expiration"):
        channel.basic_publish("", queue, b"", pika.BasicProperties(expiration=expiration))
        channel.queue_declare(queue, passive=True)


def test_a_message_goes_to_many_queues_as_one(scene: Scene) -> None:
    channel = scene.channel()
    exchange = scene.name("exchange")
    channel.exchange_declare(exchange, "fanout")
    queues = [scene.queue(channel, durable=bool(number % 2)) for number in range(10)]
    for queue in queues:
        channel.queue_bind(queue, exchange)
    channel.confirm_delivery()
    channel.basic_publish(exchange, "", b"copy", pika.BasicProperties(delivery_mode=2), mandatory=True)
    assert [bodies(channel, queue) for queue in queues] == [[b"copy"]] * 10
