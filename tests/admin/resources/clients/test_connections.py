"""Connections: seen by their users and by monitors, ended with a reason."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest

from tests.admin.conftest import Site
from tests.admin.rabbitmq.test_connections import connect

OTHER_USER = "shop:pass"
PATH = "/api/v1/connections"


async def test_a_connection_is_listed_and_closed_with_a_reason(site: Site) -> None:
    client = await connect(site)
    closed: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    client.close_callbacks.add(lambda _, error: closed.set_result(error))
    await client.channel()
    [item] = (await site.get(PATH)).json()["items"]
    assert (item["user"], item["vhost"], item["client_name"], item["sessions"]) == ("guest", "/", "mine", 1)
    assert (item["protocol"], item["state"], item["tls"], item["unacknowledged"]) == ("AMQP 0-9-1", "running", False, 0)
    path = f"{PATH}/{quote(item['name'], safe='')}"
    assert (await site.get(path)).json().keys() == item.keys()
    for query in ("vhost=other", "user=nobody", "name=nothing"):
        assert (await site.get(f"{PATH}?{query}")).json()["items"] == []
    assert (await site.refused("DELETE", f"{path}?reason={'x' * 201}"))[0] == 400
    assert "line break" in (await site.refused("DELETE", f"{path}?reason=a%0Ab"))[1]
    assert await site.send("DELETE", f"{path}?reason=maintenance") == (200, {"name": item["name"], "closed": True})
    assert "maintenance" in str(await asyncio.wait_for(closed, 5))
    assert await site.status("DELETE", path) == 404
    [entry] = (await site.get("/api/v1/audit")).json()["items"]
    assert (entry["operation"], entry["target"], entry["user"]) == ("close-connection", item["name"], "guest")


async def test_users_see_and_close_their_own_and_monitors_see_all(site: Site) -> None:
    clients = [await connect(site), await connect(site, OTHER_USER)]
    names = {item["user"]: item["name"] for item in (await site.get(PATH)).json()["items"]}
    assert set(names) == {"guest", "shop"}
    assert len((await site.get(PATH, user="watcher:pass")).json()["items"]) == 2
    assert [item["user"] for item in (await site.get(PATH, user=OTHER_USER)).json()["items"]] == ["shop"]
    foreign, own = (f"{PATH}/{quote(names[user], safe='')}" for user in ("guest", "shop"))
    assert await site.status("GET", foreign, user=OTHER_USER) == 404
    assert await site.status("DELETE", foreign, user=OTHER_USER) == 404
    assert await site.status("DELETE", foreign, user="watcher:pass") == 403
    assert await site.status("DELETE", own, user=OTHER_USER) == 200
    for client in clients:
        await client.close()


@pytest.mark.parametrize("column", ["connected_at", "bytes_received", "name", "tls"])
async def test_connections_are_sorted_by_any_column(site: Site, column: str) -> None:
    clients = [await connect(site) for _ in range(3)]
    answer = (await site.get(f"{PATH}?sort={column}&columns=name,{column}&page_size=2")).json()
    assert answer["item_count"] == 2
    rest = (await site.get(f"{PATH}?sort={column}&columns=name&page_size=2&cursor={answer['next']}")).json()
    assert len({item["name"] for item in [*answer["items"], *rest["items"]]}) == 3
    for client in clients:
        await client.close()
