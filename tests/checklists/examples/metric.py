"""A new counter is in ``GET /metrics``, with the right value."""

from __future__ import annotations

import asyncio

import aio_pika
import httpx

import annulet.testing

SERIES = 'annulet_vhost_queues_deleted_total{vhost="/"}'


async def series_after_two_deletions() -> list[str]:
    async with annulet.testing.broker() as broker, await aio_pika.connect(broker.amqp_url) as connection:
        channel = await connection.channel()
        for name in ("first", "second"):
            queue = await channel.declare_queue(name)
            await queue.delete()
        async with httpx.AsyncClient(base_url=broker.http_url) as client:
            answer = await client.get("/metrics")
    return [line for line in answer.text.splitlines() if line.startswith(SERIES)]


assert asyncio.run(series_after_two_deletions()) == [f"{SERIES} 2.0"]
