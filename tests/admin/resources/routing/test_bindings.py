from __future__ import annotations

from tests.admin.conftest import Site

PATH = "/api/v1/bindings"


async def test_a_binding_is_made_found_by_its_location_and_undone(site: Site) -> None:
    site.queue("a/b")
    host = site.broker.hosts["/"]
    host.declare_exchange("shop", "topic")
    host.declare_exchange("all", "fanout")
    async with site.client() as client:
        made = await client.post(f"{PATH}/%2F/shop/queue/a%2Fb", json={"routing_key": "order.*", "arguments": {"x": 1}})
        assert (made.status_code, made.json()["routing_key"], made.json()["arguments"]) == (201, "order.*", {"x": 1})
        place = made.headers["location"]
        assert (await client.get(place)).json() == made.json()
        assert (await client.post(f"{PATH}/%2F/shop/exchange/all", json={})).status_code == 201
        listed = (await client.get(f"{PATH}?source=shop&columns=destination,destination_type")).json()
        assert listed["items"] == [
            {"destination": "all", "destination_type": "exchange"},
            {"destination": "a/b", "destination_type": "queue"},
        ]
        assert (await client.delete(place)).json()["deleted"]
        assert (await client.get(place)).status_code == 404
        assert (await client.delete(place)).status_code == 404
    default = (await site.get(f"{PATH}?source=amq.default")).json()["items"]
    assert [item["routing_key"] for item in default] == ["a/b"]
    assert (await site.get(f"{PATH}?destination=a%2Fb")).json()["item_count"] == 1


async def test_the_permissions_are_those_of_amqp(site: Site) -> None:
    for name in ("shop.q", "other"):
        site.queue(name)
    for name in ("shop.x", "elsewhere"):
        site.broker.hosts["/"].declare_exchange(name, "direct")
    for path, words in (
        ("elsewhere/queue/shop.q", "read access to 'elsewhere'"),
        ("shop.x/queue/other", "write access"),
    ):
        status, reason = await site.refused("POST", f"{PATH}/%2F/{path}", {}, user="shop:pass")
        assert (status, words in reason) == (403, True), reason
    assert await site.status("POST", f"{PATH}/%2F/shop.x/queue/shop.q", {}, user="shop:pass") == 201
    assert await site.status("DELETE", f"{PATH}/%2F/shop.x/queue/shop.q/~", user="shop:pass") == 200


async def test_wrong_requests(site: Site) -> None:
    site.queue("q")
    site.broker.hosts["/"].declare_exchange("shop", "direct")
    for path, body, status, words in (
        ("shop/topic/q", {}, 400, "give queue or exchange"),
        ("shop/queue/absent", {}, 404, "no queue 'absent'"),
        ("absent/queue/q", {}, 404, "no exchange 'absent'"),
        ("shop/queue/q", {"routing_key": "a\nb"}, 400, "without CR and LF"),
        ("amq.default/queue/q", {"routing_key": "q"}, 403, "default exchange"),
    ):
        answered, reason = await site.refused("POST", f"{PATH}/%2F/{path}", body)
        assert (answered, words in reason) == (status, True), (path, answered, reason)
