"""``/api/definitions``."""

from __future__ import annotations

from tests.admin.conftest import Site

DOCUMENT = {"rabbit_version": "3.10.8", "queues": [{"name": "made", "vhost": "/", "arguments": {}}]}


async def test_an_import_is_answered_as_rabbitmq_does(site: Site) -> None:
    async with site.client() as client:
        assert (await client.post("/api/definitions", json=DOCUMENT)).status_code == 204
        assert "made" in site.broker.hosts["/"].queues
        exported = (await client.get("/api/definitions")).json()
        assert [each["name"] for each in exported["queues"]] == ["made"]
        of_host = (await client.get("/api/definitions/%2F")).json()
        assert of_host["queues"] == [{"name": "made", "durable": True, "auto_delete": False, "arguments": {}}]
        assert (await client.post("/api/definitions/%2F", json=of_host)).status_code == 204
        answer = await client.post("/api/definitions", json={"topic_permissions": [{"user": "u", "vhost": "/"}]})
        assert (answer.status_code, len(answer.json()["not_taken"])) == (200, 1)
        assert (await client.post("/api/definitions/nix", json=of_host)).status_code == 404
        assert (await client.post("/api/definitions", content="nix")).status_code == 400


async def test_only_administrators(site: Site) -> None:
    async with site.client(user="manager:pass") as client:
        assert (await client.get("/api/definitions")).status_code == 401
        assert (await client.post("/api/definitions", json=DOCUMENT)).status_code == 401
    assert not site.broker.hosts["/"].queues
