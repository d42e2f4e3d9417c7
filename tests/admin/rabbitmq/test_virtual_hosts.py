"""``/api/vhosts``."""

from __future__ import annotations

from tests.admin.conftest import Site
from tests.admin.rabbitmq.test_users import status_of


async def test_one_is_put_shown_and_deleted(site: Site) -> None:
    assert await status_of(site, "PUT", "/api/vhosts/shop", {"description": "of the shop", "tags": "a,b"}) == 201
    assert await status_of(site, "PUT", "/api/vhosts/shop") == 204
    assert await status_of(site, "PUT", "/api/vhosts/shop", {"description": "again"}) == 204
    shown = (await site.send("GET", "/api/vhosts/shop"))[1]
    assert (shown["name"], shown["description"], shown["tags"], shown["tracing"]) == ("shop", "again", [], False)
    assert shown["metadata"] == {"description": "again", "tags": []}
    assert set(shown["cluster_state"].values()) == {"running"}
    assert await status_of(site, "DELETE", "/api/vhosts/shop") == 204
    assert await status_of(site, "DELETE", "/api/vhosts/shop") == 404


async def test_totals(site: Site) -> None:
    queue = site.queue()
    site.fill(queue, 3)
    (shown,) = [host for host in (await site.send("GET", "/api/vhosts"))[1] if host["name"] == "/"]
    assert (shown["messages"], shown["messages_ready"], shown["messages_unacknowledged"]) == (3, 3, 0)
    assert "messages" not in (await site.send("GET", "/api/vhosts/%2F?disable_stats=true"))[1]


async def test_users_see_those_they_may_enter(site: Site) -> None:
    assert [host["name"] for host in (await site.send("GET", "/api/vhosts", user="manager:pass"))[1]] == ["other"]
    assert (await site.refused("GET", "/api/vhosts/%2F", user="manager:pass"))[0] == 401
    for method in ("PUT", "DELETE"):
        assert await site.refused(method, "/api/vhosts/other", user="manager:pass") == (401, "Not administrator user")


async def test_what_is_not_available_is_refused_in_words(site: Site) -> None:
    assert "the firehose is not available" in (await site.refused("PUT", "/api/vhosts/shop", {"tracing": True}))[1]
    assert "never down" in (await site.refused("POST", "/api/vhosts/%2F/start/rabbit@localhost"))[1]
    assert "the default virtual host '/' stays" in (await site.refused("DELETE", "/api/vhosts/%2F"))[1]
