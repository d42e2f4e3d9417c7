"""Consumers and sessions: what each has unsettled, since when; and the end of a consumer."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import aio_pika
import pytest

from tests.admin.conftest import Site
from tests.admin.rabbitmq.test_connections import connect, keep

HELD = 5


async def deliveries(site: Site, path: str) -> list[int]:
    answer = (await site.get(path)).json()
    assert all(item["queue"] == "board" for item in answer["held"])
    return [item["message"] for item in answer["held"]]


async def test_what_a_consumer_has_and_its_end(site: Site) -> None:
    queue = site.queue("board")
    client = await connect(site)
    channel = await client.channel()
    await channel.set_qos(HELD)
    tag = await (await channel.get_queue("board")).consume(keep)
    for number in range(HELD + 2):
        site.publish("board", f"{number}".encode())
    [item] = (await site.get("/api/v1/consumers")).json()["items"]
    assert (item["tag"], item["queue"], item["vhost"], item["user"]) == (tag, "board", "/", "guest")
    assert (item["unacknowledged"], item["credit"], item["acknowledges"]) == (HELD, HELD, True)
    assert item["attached_at"] > 0
    session = f"/api/v1/sessions/{quote(item['connection'], safe='')}/{item['session']}"
    path = f"/api/v1/consumers/{quote(item['connection'], safe='')}/{item['session']}/{tag}"
    assert await deliveries(site, path) == await deliveries(site, session) == list(range(1, HELD + 1))
    part = (await site.get(f"{path}?limit=2")).json()
    assert ([each["message"] for each in part["held"]], part["next"]) == ([1, 2], 2)
    assert await deliveries(site, f"{path}?limit=3&after=2") == [3, 4, 5]
    assert part["held"][0]["bytes"] == 1
    assert (await site.refused("DELETE", f"{path}?reason=a%0Db"))[0] == 400
    assert await site.status("DELETE", path, user="watcher:pass") == 403
    assert await site.send("DELETE", f"{path}?reason=too+slow") == (200, {"tag": tag, "ended": True})
    assert queue.consumers.count == 0
    assert await site.status("GET", path) == 404
    assert await deliveries(site, session) == [1, 2, 3, 4, 5]
    assert (await site.get("/api/v1/consumers?queue=board")).json()["items"] == []
    [entry] = (await site.get("/api/v1/audit")).json()["items"]
    assert (entry["operation"], entry["target"]) == ("end-consumer", tag)
    await client.close()
    for _ in range(100):
        await asyncio.sleep(0)
    assert queue.statistics().pending_count == HELD + 2


async def test_the_client_is_told(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.queue("board")
    client = await connect(site)
    tag = await (await (await client.channel()).get_queue("board")).consume(keep)
    [item] = (await site.get("/api/v1/consumers")).json()["items"]
    path = f"/api/v1/consumers/{quote(item['connection'], safe='')}/{item['session']}/{tag}"
    assert await site.status("DELETE", path) == 200
    await client.channel()  # its answer comes behind the notice
    assert any(tag in line and "cancelled by the broker" in line for line in caplog.messages)
    await client.close()


async def test_names_that_are_none(site: Site) -> None:
    client = await connect(site)
    [item] = (await site.get("/api/v1/connections")).json()["items"]
    name = quote(item["name"], safe="")
    assert isinstance(client, aio_pika.abc.AbstractConnection)
    assert "no session '7'" in (await site.refused("GET", f"/api/v1/sessions/{name}/7"))[1]
    assert "no connection 'x'" in (await site.refused("GET", "/api/v1/sessions/x/7"))[1]
    await client.channel()
    assert "no consumer 'x' of session 1" in (await site.refused("GET", f"/api/v1/consumers/{name}/1/x"))[1]
    await client.close()
