"""RabbitMQ's direct reply-to: clients that ask by it, and answers by every protocol."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import aio_pika
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from tests.clients.amqp10 import Client, data
from tests.clients.stomp_client import StompClient
from tests.clients.support import PATIENCE_SECONDS, Peer, Scene, channel_closed, wait_until

REPLY_TO = "amq.rabbitmq.reply-to"


class Asking:
    """RabbitMQ's tutorial 6 in Python, with direct reply-to: pika's half that asks."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.connection = connection
        self.channel = connection.channel()
        self.answers: dict[str | None, bytes] = {}
        self.channel.basic_consume(REPLY_TO, self._take, auto_ack=True)

    def _take(self, _: BlockingChannel, __: object, properties: pika.BasicProperties, body: bytes) -> None:
        self.answers[properties.correlation_id] = body

    def send(self, queue: str, body: bytes) -> str:
        """Send a request; return its correlation id."""
        identifier = uuid.uuid4().hex
        properties = pika.BasicProperties(reply_to=REPLY_TO, correlation_id=identifier)
        self.channel.basic_publish("", queue, body, properties)
        return identifier

    def answer(self, identifier: str) -> bytes:
        """Wait for the answer to a request."""
        wait_until(lambda: identifier in self.answers, self.connection)
        return self.answers[identifier]


def serve_one(channel: BlockingChannel, queue: str, answer: Callable[[bytes], bytes]) -> str:
    """Answer the request that waits in a queue; return its reply-to."""
    method, properties, body = channel.basic_get(queue, auto_ack=True)
    assert method is not None
    properties_of_answer = pika.BasicProperties(correlation_id=properties.correlation_id)
    channel.basic_publish("", str(properties.reply_to), answer(body), properties_of_answer, mandatory=True)
    return str(properties.reply_to)


def test_tutorial_six(scene: Scene) -> None:
    """B13."""
    server = scene.channel()
    queue = scene.queue(server)
    asking = Asking(scene.connect())
    for number in range(10):
        identifier = asking.send(queue, b"%d" % number)
        asking.channel.connection.process_data_events(time_limit=0)
        wait_until(lambda: server.queue_declare(queue, passive=True).method.message_count, server.connection)
        name = serve_one(server, queue, lambda body: b"fib " + body)
        assert name.startswith(f"{REPLY_TO}.")
        assert asking.answer(identifier) == b"fib %d" % number


def test_a_server_can_see_that_nobody_waits_any_more(scene: Scene) -> None:
    server = scene.channel()
    queue = scene.queue(server)
    asking = Asking(scene.connect())
    asking.send(queue, b"?")
    wait_until(lambda: server.queue_declare(queue, passive=True).method.message_count, server.connection)
    _, properties, _ = server.basic_get(queue, auto_ack=True)
    server.queue_declare(str(properties.reply_to), passive=True)
    asking.connection.close()
    with channel_closed(404):
        server.queue_declare(str(properties.reply_to), passive=True)


def test_a_request_without_a_consumer_is_channel_closed(scene: Scene) -> None:
    channel = scene.channel()
    with channel_closed(406, "fast reply consumer does not exist"):
        channel.basic_publish("", "anywhere", b"?", pika.BasicProperties(reply_to=REPLY_TO))
        channel.queue_declare("", exclusive=True)


async def test_aio_pika_asks(scene: Scene) -> None:
    async with await aio_pika.connect(scene.peer.url) as connection:
        channel = await connection.channel()
        replies = await channel.get_queue(REPLY_TO)
        requests = await channel.declare_queue(scene.name(), auto_delete=True)
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

        async def receive(reply: aio_pika.abc.AbstractIncomingMessage) -> None:
            answered.set_result(reply.body)

        async def serve(request: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with request.process():
                await channel.default_exchange.publish(aio_pika.Message(b"!"), routing_key=str(request.reply_to))

        await replies.consume(receive, no_ack=True)
        await requests.consume(serve)
        await channel.default_exchange.publish(aio_pika.Message(b"?", reply_to=REPLY_TO), routing_key=requests.name)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await answered == b"!"


async def test_faststream_asks_and_answers(scene: Scene) -> None:
    """B13: FastStream declares the reply queue passively when it starts, and ``request`` uses it."""
    rabbit = pytest.importorskip(
        "faststream.rabbit", reason="faststream is not installed; pip install 'faststream[rabbit]'"
    )
    queue = rabbit.RabbitQueue(scene.name(), auto_delete=True)
    broker = rabbit.RabbitBroker(scene.peer.url, logger=None)

    @broker.subscriber(queue)  # type: ignore[untyped-decorator] # the library need not be there
    async def double(number: int) -> int:
        return number * 2

    async with broker:
        await broker.start()
        for number in range(3):
            answer = await broker.request(number, queue, timeout=PATIENCE_SECONDS)
            assert await answer.decode() == number * 2


def test_an_answer_by_amqp_1_0(client: Client, scene: Scene, ours: Peer) -> None:
    """B13: a request's reply-to resolves as the address of a sender, and nobody else's is created for it."""
    queue = scene.queue(scene.channel())
    asking = Asking(scene.connect())
    identifier = asking.send(queue, b"?")
    connection = client.connect()
    (request,) = connection.receiver(queue).take()
    reply = connection.sender(request["reply_to"])
    reply.accepted(data(b"!", correlation_id=request["correlation_id"]))
    assert asking.answer(identifier) == b"!"
    asking.connection.close()
    with channel_closed(404):
        scene.channel().queue_declare(request["reply_to"], passive=True)


def test_an_answer_by_stomp(scene: Scene, ours: Peer) -> None:
    """B13."""
    queue = scene.queue(scene.channel())
    asking = Asking(scene.connect())
    identifier = asking.send(queue, b"?")
    server = StompClient(ours.stomp_port).connect()
    try:
        server.subscribe(f"/queue/{queue}")
        request = server.next()
        assert request.body == "?"
        server.send(request.headers["reply-to"], "!", correlation_id=request.headers["correlation-id"])
        assert asking.answer(identifier) == b"!"
    finally:
        server.close()
