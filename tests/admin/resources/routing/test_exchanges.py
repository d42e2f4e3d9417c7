from __future__ import annotations

import pytest

from tests.admin.conftest import Site

PATH = "/api/v1/exchanges"


async def test_an_exchange_is_made_listed_and_deleted(site: Site) -> None:
    path = f"{PATH}/%2F/shop"
    status, made = await site.send("PUT", path, {"type": "topic"})
    assert (status, made["type"], made["durable"], made["bindings"]) == (201, "topic", True, 0)
    assert (await site.send("PUT", path, {"type": "topic"}))[0] == 200
    status, reason = await site.refused("PUT", path, {"type": "fanout"})
    assert (status, "'type'" in reason) == (409, True)
    listed = (await site.get(f"{PATH}?name=shop&columns=name,type")).json()["items"]
    assert listed == [{"name": "shop", "type": "topic"}]
    assert (await site.get(path)).json() == made
    site.queue("q")
    assert await site.status("POST", "/api/v1/bindings/%2F/shop/queue/q", {"routing_key": "a"}) == 201
    assert (await site.refused("DELETE", f"{path}?if_unused=true"))[0] == 409
    assert (await site.send("DELETE", path))[1] == {"vhost": "/", "name": "shop", "deleted": True}
    assert await site.status("DELETE", path) == 404
    trail = (await site.get("/api/v1/audit")).json()["items"]
    assert [item["operation"] for item in trail] == ["delete-exchange", "bind", "create-exchange"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"type": "topik"}, "topik"),
        ({"durable": "yes"}, "field 'durable' must be true or false"),
        ({"arguments": {"x": None}}, "argument 'x' is null"),
        ({"typ": "topic"}, "did you mean 'type'?"),
    ],
)
async def test_wrong_bodies(site: Site, body: object, words: str) -> None:
    status, reason = await site.refused("PUT", f"{PATH}/%2F/shop", body)
    assert (status, words in reason) == (400, True), reason
    assert "shop" not in site.broker.hosts["/"].exchanges


async def test_an_exchange_takes_the_permission_to_configure_it(site: Site) -> None:
    assert await site.status("PUT", f"{PATH}/%2F/shop.orders", {}, user="shop:pass") == 201
    for method in ("PUT", "DELETE"):
        status, reason = await site.refused(method, f"{PATH}/%2F/orders", None, user="shop:pass")
        assert (status, "configure access to 'orders'" in reason) == (403, True)


async def test_only_unused_if_match_holds(site: Site) -> None:
    path = f"{PATH}/%2F/shop"
    assert (await site.send("PUT", path, {}, **{"If-None-Match": "*"}))[0] == 201
    assert (await site.send("PUT", path, {}, **{"If-None-Match": "*"}))[0] == 412
    tag = (await site.get(path)).headers["etag"]
    assert (await site.send("DELETE", path, **{"If-Match": tag}))[0] == 200
