from __future__ import annotations

import aio_pika

from tests.admin.conftest import Site
from tests.admin.rabbitmq.test_connections import connect, keep

PATH = "/api/v1/queues/%2F/board/groups"


async def test_groups_with_their_owners(site: Site) -> None:
    site.queue("board", group_mode="sticky", group_key="team")
    for team in ("a", "b", "a"):
        site.publish("board", team=team)
    items = (await site.get(PATH)).json()["items"]
    assert [(item["group"], item["owner"], item["pending"]) for item in items] == [("a", "", 2), ("b", "", 1)]
    client = await connect(site)
    channel = await client.channel()
    await channel.set_qos(1)
    tag = await (await channel.get_queue("board")).consume(keep)
    assert isinstance(client, aio_pika.abc.AbstractConnection)
    [item] = (await site.get(f"{PATH}?name=a")).json()["items"]
    assert (item["owner"], item["unacknowledged"]) == (tag, 1)
    assert item["owner_connection"] == (await site.get("/api/v1/connections")).json()["items"][0]["name"]
    await client.close()


async def test_a_queue_without_groups_says_so(site: Site) -> None:
    site.queue("board")
    status, reason = await site.refused("GET", PATH)
    assert (status, "group-mode is not set" in reason) == (409, True)
    assert await site.status("GET", PATH, user="shop:pass") == 403
