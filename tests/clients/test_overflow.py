"""Limits of a queue and what happens at them, as clients meet it."""

from __future__ import annotations

import asyncio
from typing import Any

import aio_pika
import pika
import pytest
from aiormq.exceptions import DeliveryError
from pika.exceptions import NackError

from tests.clients.support import (
    PATIENCE_SECONDS,
    Peer,
    Scene,
    bodies,
    channel_closed,
    depth,
    wait_until,
)


def fill(channel: Any, queue: str, count: int, size: int = 1) -> None:
    for number in range(count):
        channel.basic_publish("", queue, str(number).encode() * size)


def test_drop_head_keeps_the_newest(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-max-length": 2})
    channel.confirm_delivery()
    fill(channel, queue, 5)
    assert bodies(channel, queue) == [b"3", b"4"]


def test_bytes_are_those_of_bodies(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-max-length-bytes": 25})
    channel.confirm_delivery()
    fill(channel, queue, 4, size=10)
    assert bodies(channel, queue) == [b"2" * 10, b"3" * 10]


def test_reject_publish_is_a_nack(scene: Scene) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    fill(channel, queue, 1)
    with pytest.raises(NackError):
        fill(channel, queue, 1)
    assert depth(channel, queue) == 1
    assert len(bodies(channel, queue)) == 1
    fill(channel, queue, 1)  # there is room again


async def test_reject_publish_is_an_error_in_aio_pika(scene: Scene) -> None:
    async with await aio_pika.connect(scene.peer.url) as connection:
        channel = await connection.channel()
        arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
        queue = await channel.declare_queue(scene.name(), arguments=arguments)
        with pytest.raises(DeliveryError):
            await channel.default_exchange.publish(aio_pika.Message(b"x"), routing_key=queue.name)


def test_without_confirms_a_refused_mandatory_message_comes_back(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-max-length": 0, "x-overflow": "reject"})
    returned: list[Any] = []
    channel.add_on_return_callback(lambda *what: returned.append(what))
    channel.basic_publish("", queue, b"x", mandatory=True)
    wait_until(lambda: returned, channel.connection)
    assert (returned[0][1].reply_code, returned[0][3]) == (506, b"x")


def test_a_refused_transaction_sends_nothing(scene: Scene, ours: Peer) -> None:
    channel, other = scene.channel(), scene.channel()
    queue = scene.queue(channel, arguments={"x-max-length": 2, "x-overflow": "reject"})
    channel.tx_select()
    fill(channel, queue, 3)
    with channel_closed(406, "send 3", queue):
        channel.tx_commit()
    assert depth(other, queue) == 0


# ---------------------------------------------------------------------- block

BLOCK = {"x-max-length": 5, "x-overflow": "block"}


def test_pika_is_held_back_until_the_queue_has_drained(scene: Scene, ours: Peer) -> None:
    sender, reader = scene.channel(), scene.channel()
    queue = scene.queue(reader, arguments=BLOCK)
    events: list[str] = []
    sender.connection.add_on_connection_blocked_callback(lambda _, method: events.append(method.method.reason))
    sender.connection.add_on_connection_unblocked_callback(lambda *_: events.append("unblocked"))
    fill(sender, queue, 6)
    wait_until(lambda: events, sender.connection)
    assert events == [f"queue '{queue}' full"]
    fill(sender, queue, 4)  # stays in the socket
    assert depth(reader, queue) == 6
    taken: list[bytes] = []
    while len(taken) < 10:
        wait_until(lambda: depth(reader, queue), reader.connection)
        taken += bodies(reader, queue)
    wait_until(lambda: events[-1] == "unblocked", sender.connection)
    assert taken == [str(number).encode() for number in (0, 1, 2, 3, 4, 5, 0, 1, 2, 3)]


async def test_aio_pika_is_held_back_until_the_queue_has_drained(scene: Scene, ours: Peer) -> None:
    async with await aio_pika.connect(scene.peer.url) as sending, await aio_pika.connect(scene.peer.url) as reading:
        sender, reader = await sending.channel(), await reading.channel()
        queue = await reader.declare_queue(scene.name(), arguments=BLOCK)

        async def send() -> None:
            for number in range(20):
                await sender.default_exchange.publish(aio_pika.Message(str(number).encode()), routing_key=queue.name)

        task = asyncio.create_task(send())
        received: list[int] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(received) < 20:
                message = await queue.get(no_ack=True, fail=False)
                if message is not None:
                    received.append(int(message.body))
            await task
        assert received == list(range(20))


def test_a_connection_that_also_consumes_is_not_locked_up(scene: Scene, ours: Peer) -> None:
    """Its own acknowledgements make the room, so they have to be read."""
    channel = scene.channel()
    queue = scene.queue(channel, arguments=BLOCK)
    channel.basic_qos(prefetch_count=1)
    handled: list[bytes] = []

    def handle(_: Any, method: Any, __: Any, body: bytes) -> None:
        handled.append(body)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(queue, handle)
    fill(channel, queue, 30)
    wait_until(lambda: len(handled) == 30, channel.connection)


def test_deleting_the_full_queue_frees_its_publishers(scene: Scene, ours: Peer) -> None:
    sender, other = scene.channel(), scene.channel()
    queue = scene.queue(other, arguments=BLOCK)
    fill(sender, queue, 6)
    wait_until(lambda: depth(other, queue) == 6, other.connection)
    fill(sender, queue, 4)
    other.queue_delete(queue)
    assert sender.queue_declare(queue).method.message_count == 0  # is answered: the connection is read again


def test_messages_larger_than_the_limit_are_refused_alone(scene: Scene, ours: Peer) -> None:
    channel = scene.channel()
    queue = scene.queue(channel, arguments={"x-max-bytes": 10, "x-overflow": "ring"})
    channel.basic_publish("", queue, b"small")
    channel.basic_publish("", queue, b"much too large", pika.BasicProperties())
    assert bodies(channel, queue) == [b"small"]
