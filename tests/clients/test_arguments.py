"""Queue arguments: time to live, expiry, RabbitMQ's choices, and what is refused; with pika."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker

from tests.clients.support import Peer, Scene, bodies, channel_closed, deliveries, depth, wait_until


def publish(channel: Any, queue: str, body: bytes, **properties: Any) -> None:
    channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def test_the_queue_gives_its_messages_a_time_to_live(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-message-ttl": 50})
    channel.confirm_delivery()  # RabbitMQ may count a queue's messages before it has heard of a publish
    publish(channel, queue, b"short-lived")
    wait_until(lambda: depth(channel, queue) == 0, channel.connection)
    assert bodies(channel, queue) == []


def test_a_time_to_live_of_zero_needs_a_waiting_consumer(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-message-ttl": 0})
    publish(channel, queue, b"nobody waits")
    assert bodies(channel, queue) == []
    received = deliveries(channel, queue, auto_ack=True)
    publish(channel, queue, b"somebody waits")
    wait_until(lambda: received, channel.connection)
    assert [body for _, _, body in received] == [b"somebody waits"]


def test_a_message_may_expire_before_others(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.confirm_delivery()
    publish(channel, queue, b"first", expiration="40")
    publish(channel, queue, b"second")
    publish(channel, queue, b"third", expiration="3600000")
    wait_until(lambda: depth(channel, queue) == 2, channel.connection)
    assert bodies(channel, queue) == [b"second", b"third"]


def test_the_shorter_time_to_live_counts(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-message-ttl": 40})
    channel.confirm_delivery()
    publish(channel, queue, b"own wish is longer", expiration="3600000")
    wait_until(lambda: depth(channel, queue) == 0, channel.connection)
    queue = scene.queue(channel, arguments={"x-message-ttl": 3_600_000})
    publish(channel, queue, b"own wish is shorter", expiration="40")
    wait_until(lambda: depth(channel, queue) == 0, channel.connection)


def test_a_message_in_delivery_does_not_expire(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-message-ttl": 200})
    channel.confirm_delivery()
    probe = scene.queue(channel, arguments={"x-message-ttl": 400})
    publish(channel, queue, b"held")
    received = deliveries(channel, queue)
    wait_until(lambda: received, channel.connection)
    publish(channel, probe, b"clock")
    wait_until(lambda: depth(channel, probe) == 0, channel.connection)  # by now the other's time is over
    channel.basic_ack(received[0][0].delivery_tag)
    channel.queue_declare(queue, passive=True)  # the channel lives: the tag was known


@pytest.mark.parametrize("expiry", [100])
def test_an_unused_queue_expires(scene: Scene, expiry: int) -> None:
    channel, watcher = scene.channel(), scene.connect()
    queue = scene.queue(channel, arguments={"x-expires": expiry})
    used = scene.queue(channel, arguments={"x-expires": expiry})
    channel.basic_consume(used, lambda *_: None)

    def gone() -> bool:
        return scene_has_no(watcher, queue)

    # Passive declarations count as use, so the watcher looks by publishing mandatory messages.
    wait_until(gone, watcher)
    channel.queue_declare(used, passive=True)


def scene_has_no(connection: pika.BlockingConnection, queue: str) -> bool:
    """Say whether a mandatory message to the queue comes back."""
    channel = connection.channel()
    channel.confirm_delivery()
    try:
        channel.basic_publish("", queue, b"", mandatory=True)
    except pika.exceptions.UnroutableError:
        return True
    finally:
        channel.close()
    return False


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-type": "classic"},
        {"x-queue-type": "quorum"},
        {"x-queue-mode": "default"},
        {"x-queue-mode": "lazy"},
    ],
    ids=str,
)
def test_storage_choices_of_rabbitmq_are_accepted(scene: Scene, arguments: dict[str, Any]) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, durable=True, arguments=arguments)
    channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.confirm_delivery()
    publish(channel, queue, b"kept", delivery_mode=2)
    assert bodies(channel, queue) == [b"kept"]


def test_streams_are_refused_with_a_reason(scene: Scene, ours: Peer) -> None:
    with channel_closed(406, "stream", "x-queue-type"):
        scene.queue(scene.channel(), durable=True, arguments={"x-queue-type": "stream"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x-sort-key": "a", "x-max-priority": 3}, ["x-sort-key", "x-max-priority"]),
        ({"x-overflow": "block"}, ["x-overflow", "x-max-length"]),
        ({"x-dead-letter-routing-key": "dead"}, ["x-dead-letter-routing-key", "x-dead-letter-exchange"]),
        ({"x-max-length": 5, "max-length": 6}, ["x-max-length", "5", "6"]),
    ],
)
def test_contradictory_arguments_are_refused_by_name(
    scene: Scene, ours: Peer, arguments: dict[str, Any], words: list[str]
) -> None:
    queue = scene.name()
    with channel_closed(406, *words):
        scene.channel().queue_declare(queue, arguments=arguments)
    with channel_closed(404):  # nothing was created
        scene.channel().queue_declare(queue, passive=True)


def test_an_unknown_argument_is_refused_with_the_nearest_known_one(scene: Scene, ours: Peer) -> None:
    with channel_closed(406, "x-mesage-ttl", "x-message-ttl"):
        scene.queue(scene.channel(), arguments={"x-mesage-ttl": 1000})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-message-ttl", -1),
        ("x-message-ttl", "soon"),
        ("x-message-ttl", 2**40),
        ("x-expires", 0),
        ("x-expires", "later"),
        ("x-queue-type", "unheard-of"),
    ],
)
def test_a_value_out_of_range_names_the_argument(scene: Scene, name: str, value: Any) -> None:
    with pytest.raises(ChannelClosedByBroker) as caught:
        scene.queue(scene.channel(), durable=True, arguments={name: value})
    assert caught.value.reply_code == 406
    assert name in caught.value.reply_text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-ring-size", 0),
        ("x-ring-size", -2),
        ("x-ring-size", "ten"),
        ("x-last-value-key", 5),
        ("x-keep-per-key", 3),  # without a key
    ],
)
def test_a_wrong_retention_argument_names_itself(scene: Scene, ours: Peer, name: str, value: Any) -> None:
    with channel_closed(406, name):
        scene.queue(scene.channel(), arguments={name: value})
