"""aio-pika: its ordinary and its robust connections."""

from __future__ import annotations

import asyncio

import aio_pika
import pytest
from aiormq.exceptions import DeliveryError, PublishError

from tests.broker_process import BrokerProcess
from tests.clients.support import PATIENCE_SECONDS, Peer, Scene


async def test_publish_and_iterate(scene: Scene) -> None:
    connection = await aio_pika.connect(scene.peer.url)
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=10)
        queue = await channel.declare_queue(scene.name(), durable=True)
        for number in range(50):
            message = aio_pika.Message(
                str(number).encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT, headers={"share": number / 4}
            )
            await channel.default_exchange.publish(message, routing_key=queue.name)
        received = []
        async with queue.iterator(timeout=PATIENCE_SECONDS) as iterator:
            async for message in iterator:
                async with message.process():
                    received.append((int(message.body), message.headers["share"]))
                if len(received) == 50:
                    break
        assert received == [(number, number / 4) for number in range(50)]


async def test_exchanges_rejections_and_returns(scene: Scene) -> None:
    async with await aio_pika.connect(scene.peer.url) as connection:
        channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
        exchange = await channel.declare_exchange(scene.name("exchange"), aio_pika.ExchangeType.TOPIC)
        queue = await channel.declare_queue(scene.name())
        await queue.bind(exchange, "orders.*")
        with pytest.raises((DeliveryError, PublishError)):
            await exchange.publish(aio_pika.Message(b"nobody"), routing_key="other", mandatory=True)
        await exchange.publish(aio_pika.Message(b"order", priority=3, expiration=3600), routing_key="orders.new")
        first = await queue.get(timeout=PATIENCE_SECONDS)
        assert (first.body, first.priority, first.redelivered) == (b"order", 3, False)
        await first.reject(requeue=True)
        second = await queue.get(timeout=PATIENCE_SECONDS)
        assert second.redelivered
        await second.ack()
        assert await queue.get(fail=False) is None


async def test_a_transaction_commits_or_not(scene: Scene) -> None:
    async with await aio_pika.connect(scene.peer.url) as connection:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(scene.name())
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"committed"), routing_key=queue.name)

        async def change_my_mind() -> None:
            async with channel.transaction():
                await channel.default_exchange.publish(aio_pika.Message(b"rolled back"), routing_key=queue.name)
                raise RuntimeError("changed my mind")

        with pytest.raises(RuntimeError, match="changed my mind"):
            await change_my_mind()
        assert (await queue.get()).body == b"committed"
        assert await queue.get(fail=False) is None


async def test_request_and_reply(scene: Scene) -> None:
    """RPC by hand: an exclusive server-named reply queue and correlation ids."""
    async with await aio_pika.connect(scene.peer.url) as connection:
        channel = await connection.channel()
        requests = await channel.declare_queue(scene.name("multiply"), auto_delete=True)
        replies = await channel.declare_queue(exclusive=True)
        answers: dict[str | None, asyncio.Future[bytes]] = {}

        async def serve(request: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with request.process():
                reply = aio_pika.Message(str(int(request.body) * 2).encode(), correlation_id=request.correlation_id)
                await channel.default_exchange.publish(reply, routing_key=str(request.reply_to))

        async def receive(reply: aio_pika.abc.AbstractIncomingMessage) -> None:
            answers[reply.correlation_id].set_result(reply.body)

        await requests.consume(serve)
        await replies.consume(receive, no_ack=True)
        for number in range(20):
            answers[str(number)] = asyncio.get_running_loop().create_future()
            request = aio_pika.Message(str(number).encode(), correlation_id=str(number), reply_to=replies.name)
            await channel.default_exchange.publish(request, routing_key=requests.name)
        async with asyncio.timeout(PATIENCE_SECONDS):
            results = await asyncio.gather(*answers.values())
        assert results == [str(number * 2).encode() for number in range(20)]


async def test_the_rpc_pattern_of_aio_pika(scene: Scene) -> None:
    """It gives its request queues a dead-letter exchange."""
    async with await aio_pika.connect(scene.peer.url) as connection:
        rpc = await aio_pika.patterns.RPC.create(await connection.channel())
        name = scene.name("multiply")

        async def multiply(*, x: int, y: int) -> int:
            return x * y

        await rpc.register(name, multiply, auto_delete=True)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await rpc.call(name, {"x": 6, "y": 7}) == 42
        await rpc.close()


async def test_a_robust_connection_survives_a_restart(mortal: BrokerProcess, ours: Peer) -> None:
    """The broker is killed and started again: the client comes back by itself, with its queues and consumers."""
    connection = await aio_pika.connect_robust(mortal.amqp_url, reconnect_interval=0.2)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("kept", durable=True)
        temporary = await channel.declare_queue("made again", auto_delete=True)
        received: asyncio.Queue[bytes] = asyncio.Queue()

        async def on_message(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                received.put_nowait(message.body)

        message = aio_pika.Message(b"persistent", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await channel.default_exchange.publish(message, routing_key=queue.name)
        await temporary.consume(on_message)
        lost, returned = asyncio.Event(), asyncio.Event()
        connection.close_callbacks.add(lambda *_: lost.set())
        connection.reconnect_callbacks.add(lambda *_: returned.set())
        await asyncio.to_thread(mortal.kill)
        await asyncio.to_thread(mortal.start)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await returned.wait()
            await connection.connected.wait()
            await queue.consume(on_message)
            assert await received.get() == b"persistent"
            await channel.default_exchange.publish(aio_pika.Message(b"after"), routing_key=temporary.name)
            assert await received.get() == b"after"
