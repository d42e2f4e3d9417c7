from __future__ import annotations

from annulet.admin.rabbitmq.framework.naming import node_name
from tests.admin.conftest import Site


async def test_the_only_node(site: Site) -> None:
    [item] = (await site.get("/api/nodes")).json()
    assert (item["name"], item["running"], item["type"]) == (node_name(), True, "ram")
    assert item["mem_used"] > 0
    assert item["fd_used"] > 0
    assert item["mem_alarm"] is site.broker.memory_blocked
    assert (await site.get(f"/api/nodes/{node_name()}?columns=name")).json() == {"name": node_name()}
    memory = (await site.get(f"/api/nodes/{node_name()}/memory")).json()["memory"]
    assert memory["total"]["rss"] >= memory["other"] > 0
    assert await site.status("GET", "/api/nodes/rabbit@other") == 404
    assert await site.status("GET", "/api/nodes/rabbit@other/memory") == 404


async def test_only_monitors_see_it(site: Site) -> None:
    assert await site.status("GET", "/api/nodes", user="watcher:pass") == 200
    status, answer = await site.send("GET", "/api/nodes", user="shop:pass")
    assert (status, answer["reason"]) == (401, "Not monitor user")
