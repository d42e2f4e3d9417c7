from __future__ import annotations

from urllib.parse import quote

from tests.admin.conftest import Site
from tests.admin.rabbitmq.test_connections import connect


async def test_sessions_by_connection_and_number(site: Site) -> None:
    clients = [await connect(site), await connect(site, "shop:pass")]
    for client in clients:
        await client.channel(publisher_confirms=True)
        await client.channel(publisher_confirms=False)
    items = (await site.get("/api/v1/sessions")).json()["items"]
    assert [item["number"] for item in items] == [1, 2, 1, 2]
    assert [item["confirms"] for item in items] == [True, False, True, False]
    assert {item["user"] for item in (await site.get("/api/v1/sessions", user="shop:pass")).json()["items"]} == {"shop"}
    name = quote(items[0]["connection"], safe="")
    assert len((await site.get(f"/api/v1/sessions?connection={name}")).json()["items"]) == 2
    one = (await site.get(f"/api/v1/sessions/{name}/2")).json()
    assert (one["number"], one["held"], "next" in one) == (2, [], False)
    for client in clients:
        await client.close()
