"""Queues: declaring, naming, owning, purging, deleting; with pika."""

from __future__ import annotations

import pytest
from pika.exceptions import ChannelClosedByBroker
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


def test_declare_answers_with_counts(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.name()
    answer = channel.queue_declare(queue).method
    assert (answer.queue, answer.message_count, answer.consumer_count) == (queue, 0, 0)
    channel.confirm_delivery()  # RabbitMQ may count before it has heard of a publish
    for _ in range(3):
        channel.basic_publish("", queue, b"x")
    assert depth(channel, queue) == 3
    received = deliveries(channel, queue)
    wait_until(lambda: len(received) == 3, channel.connection)
    answer = channel.queue_declare(queue).method
    assert (answer.message_count, answer.consumer_count) == (0, 1)  # what is delivered is not pending


def test_passive_finds_or_fails(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, auto_delete=True)
    channel.queue_declare(queue, passive=True)
    with channel_closed(404, "no queue", "missing"):
        channel.queue_declare("missing-" + queue, passive=True)


def test_the_broker_names_a_queue_that_has_no_name(scene: Scene) -> None:
    channel = scene.channel()
    first = channel.queue_declare("", exclusive=True).method.queue
    second = channel.queue_declare("", exclusive=True).method.queue
    assert first.startswith("amq.gen-")
    assert first != second
    channel.queue_declare(first, passive=True)


def test_an_empty_name_means_the_last_declared_queue(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.queue_bind("", "amq.direct", routing_key="")
    channel.basic_publish("amq.direct", queue, b"bound by its own name")
    method, _, body = channel.basic_get("", auto_ack=True)
    assert method is not None
    assert body == b"bound by its own name"


def test_an_empty_name_without_a_declaration_is_an_error(scene: Scene) -> None:
    with channel_closed(404, "no previously declared queue"):
        scene.channel().basic_get("")


@pytest.mark.parametrize("change", ["durable", "auto_delete"])
def test_another_declaration_of_the_same_name_is_refused(scene: Scene, change: str) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.queue_declare(queue)
    with channel_closed(406, "inequivalent arg", f"'{change}'", queue):
        channel.queue_declare(queue, **{change: True})


def test_other_arguments_of_the_same_name_are_refused(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-message-ttl": 60_000})
    channel.queue_declare(queue, arguments={"x-message-ttl": 60_000})
    with channel_closed(406, "inequivalent arg", "'x-message-ttl'", "60000", "1000", queue):
        channel.queue_declare(queue, arguments={"x-message-ttl": 1000})


def test_a_queue_that_another_connection_owns_is_locked(scene: Scene) -> None:
    owner = scene.channel()
    queue = scene.queue(owner, exclusive=True)
    owner.connection.channel().queue_declare(queue, exclusive=True)  # any channel of the owner may
    for attempt in ("declare", "passive", "get", "consume", "bind", "purge", "delete"):
        other = scene.channel()
        with channel_closed(405, queue):
            match attempt:
                case "declare":
                    other.queue_declare(queue)
                case "passive":
                    other.queue_declare(queue, passive=True)
                case "get":
                    other.basic_get(queue)
                case "consume":
                    other.basic_consume(queue, lambda *_: None)
                case "bind":
                    other.queue_bind(queue, "amq.direct", "key")
                case "purge":
                    other.queue_purge(queue)
                case "delete":
                    other.queue_delete(queue)
    other = scene.channel()
    other.basic_publish("", queue, b"anyone may send")
    other.queue_declare(scene.name())  # answered after the publish was handled
    assert bodies(owner, queue) == [b"anyone may send"]


def test_an_exclusive_queue_goes_with_its_connection(scene: Scene) -> None:
    owner = scene.channel()
    queue = scene.queue(owner, exclusive=True)
    owner.connection.close()
    with channel_closed(404, queue):
        scene.channel().queue_declare(queue, passive=True)


def test_an_auto_delete_queue_goes_with_its_last_consumer(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, auto_delete=True)
    channel.queue_declare(queue, passive=True)  # never had a consumer: stays
    first = channel.basic_consume(queue, lambda *_: None)
    second = channel.basic_consume(queue, lambda *_: None)
    channel.basic_cancel(first)
    channel.queue_declare(queue, passive=True)
    channel.basic_cancel(second)
    with channel_closed(404, queue):
        channel.queue_declare(queue, passive=True)


def test_an_auto_delete_queue_goes_when_the_consumer_disconnects(scene: Scene) -> None:
    channel, watcher = scene.channel(), scene.connect()
    queue = scene.queue(channel, auto_delete=True)
    channel.basic_consume(queue, lambda *_: None)
    channel.connection.close()

    def gone() -> bool:
        try:
            watcher.channel().queue_declare(queue, passive=True)
        except ChannelClosedByBroker as error:
            return error.reply_code == 404
        return False

    wait_until(gone, watcher)


def test_names_of_the_broker_are_reserved(scene: Scene) -> None:
    with channel_closed(403, "amq."):
        scene.channel().queue_declare("amq.mine")


def test_binding_to_what_is_not_there_is_an_error(scene: Scene) -> None:
    missing = scene.name()
    with channel_closed(404, missing):
        scene.channel().queue_bind(missing, "amq.direct", "key")
    with channel_closed(404, missing):
        scene.channel().queue_bind(scene.queue(scene.channel()), missing, "key")


def test_purge_takes_what_is_pending_and_leaves_what_is_delivered(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    for number in range(5):
        channel.basic_publish("", queue, str(number).encode())
    method, _, _ = channel.basic_get(queue)
    assert channel.queue_purge(queue).method.message_count == 4
    assert depth(channel, queue) == 0
    channel.basic_nack(method.delivery_tag, requeue=True)
    assert bodies(channel, queue) == [b"0"]
    with channel_closed(404):
        channel.queue_purge("missing-" + queue)


def test_delete_answers_with_the_count_and_twice_is_fine(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.basic_publish("", queue, b"one")
    channel.basic_publish("", queue, b"two")
    assert channel.queue_delete(queue).method.message_count == 2
    assert channel.queue_delete(queue).method.message_count == 0
    channel.queue_declare(queue)
    assert bodies(channel, queue) == []


def test_if_empty_and_if_unused_protect_a_queue(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.basic_publish("", queue, b"one")
    with channel_closed(406, queue, "empty"):
        channel.queue_delete(queue, if_empty=True)
    channel = scene.channel()
    channel.queue_purge(queue)
    consumer = scene.channel()
    tag = consumer.basic_consume(queue, lambda *_: None)
    with channel_closed(406, queue, "in use"):
        channel.queue_delete(queue, if_unused=True)
    consumer.basic_cancel(tag)
    channel = scene.channel()
    channel.queue_delete(queue, if_unused=True, if_empty=True)


def test_deleting_a_queue_cancels_its_consumers(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, lambda *_: None)
    scene.channel().queue_delete(queue)
    wait_until(lambda: cancelled, channel.connection)
    assert cancelled == [tag]
    channel.queue_declare(queue)  # the channel lives on
    assert channel.consumer_tags == []


def test_a_name_too_long_for_a_short_string_never_leaves_the_client(scene: Scene) -> None:
    channel = scene.channel()
    name = "q" * 255
    channel.queue_declare(name, exclusive=True)
    channel.basic_publish("", name, b"long name")
    assert bodies(channel, name) == [b"long name"]


def test_names_are_utf8(scene: Scene) -> None:
    channel = scene.channel()
    name = scene.name("żółć-очередь-队列")
    channel.queue_declare(name)
    channel.queue_bind(name, "amq.topic", "clé.*")
    channel.basic_publish("amq.topic", "clé.été", "été".encode())
    assert [body.decode() for body in bodies(channel, name)] == ["été"]


def test_a_duplicate_consumer_tag_closes_the_connection(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel)
    channel.basic_consume(queue, lambda *_: None, consumer_tag="twice")
    other = channel.connection.channel()
    other.basic_consume(queue, lambda *_: None, consumer_tag="twice")  # tags belong to channels
    with connection_closed(530, "twice"):
        # pika itself refuses the duplicate, so the method goes out below its checks.
        send_method(channel, Basic.Consume(queue=queue, consumer_tag="twice"))
        channel.queue_declare(queue, passive=True)
