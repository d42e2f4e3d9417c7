from __future__ import annotations

import pytest

from annulet.admin.rabbitmq.bindings import properties_key
from tests.admin.conftest import Site

ENDS = "/api/bindings/%2F/e/amq.topic/q/q"


async def bind(site: Site, key: str, path: str = ENDS, **arguments: object) -> str:
    async with site.client() as client:
        response = await client.post(path, json={"routing_key": key, "arguments": arguments})
    assert response.status_code == 201, response.text
    return response.headers["location"]


async def test_a_binding_is_made_listed_found_by_its_location_and_deleted(site: Site) -> None:
    site.queue("q")
    location = await bind(site, "a b/~é#")
    assert location == "q/a%2Bb%252F%257E%25C3%25A9%2523"  # RabbitMQ's
    path = f"/api/bindings/%2F/e/amq.topic/q/{location}"
    item = (await site.get(path)).json()
    assert item == {
        "source": "amq.topic", "vhost": "/", "destination": "q", "destination_type": "queue",
        "routing_key": "a b/~é#", "arguments": {}, "properties_key": "a+b%2F%7E%C3%A9%23",
    }  # fmt: skip
    default = {
        "source": "", "vhost": "/", "destination": "q", "destination_type": "queue", "routing_key": "q",
        "arguments": {}, "properties_key": "q",
    }  # fmt: skip
    for listing in ("/api/bindings", "/api/bindings/%2F", "/api/queues/%2F/q/bindings"):
        assert (await site.get(listing)).json() == [default, item], listing
    for listing in (ENDS, "/api/exchanges/%2F/amq.topic/bindings/source"):
        assert (await site.get(listing)).json() == [item], listing
    assert await site.status("DELETE", path) == 204
    assert await site.status("DELETE", path) == 404
    assert (await site.get(ENDS)).json() == []


async def test_arguments_make_another_binding_of_the_same_key(site: Site) -> None:
    site.queue("q")
    first, second = await bind(site, "", a=1), await bind(site, "", a=2)
    assert await bind(site, "") == "q/~"
    assert len({first, second}) == 2
    assert await site.status("DELETE", f"/api/bindings/%2F/e/amq.topic/q/{first}") == 204
    assert [item["arguments"] for item in (await site.get(ENDS)).json()] == [{"a": 2}, {}]


async def test_an_exchange_is_bound_to_an_exchange(site: Site) -> None:
    path = "/api/bindings/%2F/e/amq.topic/e/amq.fanout"
    assert await bind(site, "k", path) == "amq.fanout/k"
    items = (await site.get(path)).json()
    assert items == (await site.get("/api/exchanges/%2F/amq.fanout/bindings/destination")).json()
    assert items[0]["destination_type"] == "exchange"
    assert await site.status("DELETE", f"{path}/k") == 204


async def test_bad_input_and_missing_ends(site: Site) -> None:
    assert await site.status("POST", ENDS, {"routing_key": "k"}) == 404
    site.queue("q")
    for path, body, status in (
        (ENDS, {"routing_key": 5}, 400),
        (ENDS, {"routing_key": "a\nb"}, 400),
        (ENDS, {"arguments": {"x": None}}, 400),
        ("/api/bindings/%2F/e/nope/q/q", {}, 404),
        ("/api/bindings/%2F/e/amq.topic/x/q", {}, 400),
        ("/api/bindings/%2F/e/amq.default/q/q", {"routing_key": "z"}, 401),
    ):
        assert await site.status("POST", path, body) == status, (path, body)
    assert await site.status("DELETE", "/api/bindings/%2F/e/amq.default/q/q/q") == 401
    for path in ("/api/queues/%2F/x/bindings", "/api/exchanges/%2F/x/bindings/source", f"{ENDS}/nope"):
        assert await site.status("GET", path) == 404


async def test_permissions(site: Site) -> None:
    site.queue("q")
    await bind(site, "k")
    assert await site.status("POST", ENDS, {}, user="shop:pass") == 401
    assert await site.status("DELETE", f"{ENDS}/k", user="shop:pass") == 401
    assert await site.status("GET", ENDS, user="shop:pass") == 200


@pytest.mark.parametrize(("key", "expected"), [("", "~"), ("a.#", "a.%23"), ("~", "%7E"), ("a b", "a+b")])
def test_keys_without_arguments_are_rabbitmqs(key: str, expected: str) -> None:
    assert properties_key(key, {}) == expected


def test_keys_with_arguments_do_not_depend_on_their_order() -> None:
    assert properties_key("k", {"a": 1, "b": 2}) == properties_key("k", {"b": 2, "a": 1})
    assert properties_key("k", {"a": 1}).startswith("k~")
    assert properties_key("", {"a": 1}).startswith("~")
