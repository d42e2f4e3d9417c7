"""A shop that sends orders to a queue and bills them, with aio-pika."""

import json

import aio_pika


async def place(url, order):
    """Send an order and wait for its confirm."""
    connection = await aio_pika.connect_robust(url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("orders", arguments={"x-redelivery-delay": 30_000})
        await channel.default_exchange.publish(aio_pika.Message(json.dumps(order).encode()), queue.name)


async def bill(url, pay, count):
    """Bill so many orders; one whose payment fails comes back after 30 seconds."""
    connection = await aio_pika.connect_robust(url)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("orders", arguments={"x-redelivery-delay": 30_000})
        async with queue.iterator() as messages:
            async for message in messages:
                try:
                    await pay(json.loads(message.body))
                except ConnectionError:
                    await message.nack()
                    continue
                await message.ack()
                count -= 1
                if not count:
                    return
