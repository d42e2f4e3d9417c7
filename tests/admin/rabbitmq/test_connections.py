from __future__ import annotations

import asyncio
from urllib.parse import quote

import aio_pika
from aio_pika.abc import AbstractConnection

from tests.admin.conftest import Site

OTHER_USER = "shop:pass"


async def keep(_message: object) -> None:
    """Settle nothing."""


async def connect(site: Site, login: str = "guest:guest", name: str = "mine") -> AbstractConnection:
    host, port = site.broker.amqp_address
    return await aio_pika.connect(f"amqp://{login}@{host}:{port}/", client_properties={"connection_name": name})


async def test_a_connection_is_listed_and_closed_with_the_reason_of_the_header(site: Site) -> None:
    client = await connect(site)
    closed: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    client.close_callbacks.add(lambda _, error: closed.set_result(error))
    await client.channel()
    [item] = (await site.get("/api/connections")).json()
    assert (item["user"], item["vhost"], item["user_provided_name"]) == ("guest", "/", "mine")
    assert (item["protocol"], item["state"], item["channels"], item["ssl"]) == ("AMQP 0-9-1", "running", 1, False)
    assert item["client_properties"]["connection_name"] == "mine"
    path = f"/api/connections/{quote(item['name'], safe='')}"
    one = (await site.get(path)).json()
    assert one["name"] == item["name"]
    assert one.keys() == item.keys()
    assert [each["name"] for each in (await site.get("/api/vhosts/%2F/connections")).json()] == [item["name"]]
    assert (await site.get("/api/vhosts/other/connections")).json() == []
    async with site.client() as http:
        too_long = await http.delete(path, headers={"X-Reason": "x" * 201})
        assert (too_long.status_code, too_long.json()["error"]) == (400, "bad_request")
        assert (await http.delete(path, headers={"X-Reason": "maintenance"})).status_code == 204
    assert "maintenance" in str(await asyncio.wait_for(closed, 5))
    assert await site.status("GET", path) == 404
    assert await site.status("DELETE", path) == 404


async def test_users_see_and_close_their_own_and_monitors_see_all(site: Site) -> None:
    clients = [await connect(site), await connect(site, OTHER_USER)]
    names = {item["user"]: item["name"] for item in (await site.get("/api/connections")).json()}
    assert set(names) == {"guest", "shop"}
    assert {item["user"] for item in (await site.get("/api/connections", user="watcher:pass")).json()} == set(names)
    assert [item["user"] for item in (await site.get("/api/connections", user=OTHER_USER)).json()] == ["shop"]
    foreign, own = (f"/api/connections/{quote(names[user], safe='')}" for user in ("guest", "shop"))
    assert await site.status("GET", foreign, user=OTHER_USER) == 404
    assert await site.status("DELETE", foreign, user=OTHER_USER) == 404
    assert await site.status("DELETE", foreign, user="watcher:pass") == 401
    assert await site.status("DELETE", own, user=OTHER_USER) == 204
    for client in clients:
        await client.close()


async def test_all_connections_of_a_user_are_listed_and_closed_by_an_administrator(site: Site) -> None:
    clients = [await connect(site, OTHER_USER) for _ in range(2)] + [await connect(site)]
    path = "/api/connections/username/shop"
    assert len((await site.get(path)).json()) == 2
    assert await site.status("DELETE", path, user=OTHER_USER) == 401
    assert await site.status("DELETE", path) == 204
    for _ in range(200):
        if not (await site.get(path)).json():
            break
        await asyncio.sleep(0.01)
    assert [item["user"] for item in (await site.get("/api/connections")).json()] == ["guest"]
    for client in clients:
        await client.close()


async def test_a_page_by_a_column(site: Site) -> None:
    clients = [await connect(site, name=f"c{number}") for number in range(3)]
    path = "/api/connections?page=1&page_size=2&sort=user_provided_name&sort_reverse=true&columns=user_provided_name"
    answer = (await site.get(path)).json()
    assert answer["items"] == [{"user_provided_name": "c2"}, {"user_provided_name": "c1"}]
    assert (answer["total_count"], answer["page_count"]) == (3, 2)
    for client in clients:
        await client.close()
