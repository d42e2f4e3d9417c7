from __future__ import annotations

import pytest

from tests.admin.conftest import Site

E = "/api/exchanges/%2F/e"


async def test_an_exchange_is_declared_read_and_deleted(site: Site) -> None:
    body = {"type": "topic", "durable": True, "arguments": {"alternate-exchange": "amq.fanout"}}
    assert (await site.status("PUT", E, body), await site.status("PUT", E, body)) == (201, 204)
    assert (await site.get(E)).json() == {
        "name": "e", "vhost": "/", "type": "topic", "durable": True, "auto_delete": False, "internal": False,
        "arguments": {"alternate-exchange": "amq.fanout"}, "policy": None,
    }  # fmt: skip
    names = [item["name"] for item in (await site.get("/api/exchanges/%2F")).json()]
    assert names == ["", "amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic", "e"]
    assert await site.status("DELETE", E) == 204
    assert await site.status("DELETE", E) == 404


async def test_the_default_exchange_has_a_name_in_paths_and_stays(site: Site) -> None:
    path = "/api/exchanges/%2F/amq.default"
    assert (await site.get(path)).json()["name"] == ""
    for method in ("PUT", "DELETE"):
        status, answer = await site.send(method, path, {} if method == "PUT" else None)
        assert (status, answer["error"]) == (401, "not_authorised")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"type": "nonsense"}, "unknown exchange type 'nonsense'"),
        ({"type": 5}, "field 'type': value 5; give a text"),
        ({"internal": "maybe"}, "field 'internal': value 'maybe'; give true or false"),
    ],
)
async def test_a_wrong_exchange_is_refused(site: Site, body: dict[str, object], reason: str) -> None:
    status, answer = await site.send("PUT", E, body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert reason in answer["reason"]


async def test_permissions(site: Site) -> None:
    for method in ("PUT", "DELETE"):
        assert await site.status(method, E, {}, user="shop:pass") == 401
    assert await site.status("PUT", "/api/exchanges/%2F/shop", {}, user="shop:pass") == 201
    assert await site.status("PUT", "/api/exchanges/%2F/shop", {}, user="watcher:pass") == 204
