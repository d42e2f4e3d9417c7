from __future__ import annotations

import asyncio
from pathlib import Path

import aio_pika
import httpx
import pytest

import annulet.testing


async def test_a_message_goes_through_and_the_listing_counts_it() -> None:
    async with annulet.testing.broker() as broker:
        connection = await aio_pika.connect(broker.amqp_url)
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue("greetings")
            await channel.default_exchange.publish(aio_pika.Message(b"hello"), "greetings")
            message = await queue.get(timeout=10)
            await message.ack()
            async with httpx.AsyncClient(auth=("guest", "guest")) as client:
                listed = (await client.get(f"{broker.http_url}/api/v1/queues/%2F/greetings")).json()
    assert message.body == b"hello"
    assert listed["messages_added"] == 1


async def test_two_brokers_side_by_side() -> None:
    async with annulet.testing.broker() as one, annulet.testing.broker() as two:
        assert one.amqp_url != two.amqp_url
        assert one.http_url != two.http_url


async def test_nobody_listens_afterwards() -> None:
    async with annulet.testing.broker() as broker:
        url = broker.http_url
        host, port = broker.broker.amqp_address
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{url}/health/ready")).status_code == 200
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{url}/health/ready")
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)


async def test_data_survives_in_a_directory(tmp_path: Path) -> None:
    for round_number in (1, 2):
        async with annulet.testing.broker(data_dir=tmp_path, http=False) as broker:
            connection = await aio_pika.connect(broker.amqp_url)
            async with connection:
                channel = await connection.channel()
                queue = await channel.declare_queue("kept", durable=True)
                if round_number == 1:
                    message = aio_pika.Message(b"1", delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
                    await channel.default_exchange.publish(message, "kept")
                else:
                    found = await queue.get(timeout=10)
                    assert found.body == b"1"


async def test_listeners_that_were_not_started_have_no_address() -> None:
    async with annulet.testing.broker(http=False) as broker:
        with pytest.raises(LookupError, match="http=True"):
            _ = broker.http_url
