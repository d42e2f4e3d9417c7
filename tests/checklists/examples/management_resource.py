"""A new resource of the HTTP API declares two queues, for users with the permission, and is in the audit trail."""

from __future__ import annotations

import asyncio

import httpx

import annulet.testing

PAIR = {"queues": ["shop.requests", "shop.answers"]}


async def use() -> None:
    async with annulet.testing.broker() as broker, httpx.AsyncClient(base_url=broker.http_url) as client:
        stranger = await client.post("/api/v1/pairs", json={"name": "shop"})
        assert stranger.status_code == 401, stranger.text
        assert not broker.broker.hosts["/"].queues
        client.auth = httpx.BasicAuth("guest", "guest")
        created = await client.post("/api/v1/pairs", json={"name": "shop"})
        assert (created.status_code, created.json()) == (201, PAIR)
        incomplete = await client.post("/api/v1/pairs", json={})
        assert (incomplete.status_code, "'name'" in incomplete.text) == (400, True)
        listed = await client.get("/api/v1/queues")
        assert sorted(item["name"] for item in listed.json()["items"]) == sorted(PAIR["queues"])
        trail = await client.get("/api/v1/audit")
        assert [(item["operation"], item["target"]) for item in trail.json()["items"]] == [("create-pair", "shop")]


asyncio.run(use())
