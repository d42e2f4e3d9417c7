"""A new counter is in ``GET /metrics``, with the right value."""

from __future__ import annotations

import asyncio

import httpx

import annulet.testing

SERIES = 'annulet_vhost_ledger_queries_total{vhost="/"}'


async def series_after_two_queries() -> list[str]:
    async with annulet.testing.broker() as broker, httpx.AsyncClient(base_url=broker.http_url) as client:
        for _ in range(2):
            answer = await client.get("/api/v1/losses", auth=("guest", "guest"))
            answer.raise_for_status()
        answer = await client.get("/metrics")
    return [line for line in answer.text.splitlines() if line.startswith(SERIES)]


assert asyncio.run(series_after_two_queries()) == [f"{SERIES} 2.0"]
