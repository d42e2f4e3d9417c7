"""A new health check of RabbitMQ's API answers users that log in, and tells when no connection is accepted any more."""

from __future__ import annotations

import asyncio

import aio_pika
import httpx

import annulet.testing
from annulet.broker.settings.limits import Limits

PATH = "/api/health/checks/below-node-connection-limit"


async def use() -> None:
    limits = Limits(max_connections=1)
    async with (
        annulet.testing.broker(limits=limits) as broker,
        httpx.AsyncClient(base_url=broker.http_url) as client,
    ):
        stranger = await client.get(PATH)
        assert stranger.status_code == 401, stranger.text
        client.auth = httpx.BasicAuth("guest", "guest")
        before = await client.get(PATH)
        assert (before.status_code, before.json()) == (200, {"status": "ok", "limit": 1, "current": 0})
        async with await aio_pika.connect(broker.amqp_url):
            during = await client.get(PATH)
        assert (during.status_code, during.json()) == (503, {"status": "failed", "limit": 1, "current": 1})


asyncio.run(use())
