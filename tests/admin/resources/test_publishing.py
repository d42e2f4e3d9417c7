"""Publishing over HTTP: any property, through the checks of a client."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.conftest import Site

PATH = "/api/v1/exchanges/%2F/amq.default/publish"


async def test_every_property_arrives(site: Site) -> None:
    queue = site.queue("shop")
    properties = {
        "content_type": "text/plain", "priority": 7, "message_id": "m", "correlation_id": "c", "type": "t",
        "headers": {"colour": "red", "list": [1, {"a": True}]},
    }  # fmt: skip
    body = {"routing_key": "shop", "body": "b25l", "body_encoding": "base64", "properties": properties}
    assert await site.send("POST", PATH, body) == (200, {"queues": 1})
    _, shown = await site.send("GET", "/api/v1/queues/%2F/shop/messages/1")
    assert (shown["body"], shown["priority"], shown["headers"]) == ("one", 7, properties["headers"])
    assert shown["properties"] == {
        "content_type": "text/plain", "message_id": "m", "correlation_id": "c", "subject": "t"
    }  # fmt: skip
    assert shown["publisher"].startswith("guest@")
    assert queue.order.count == 1
    assert await site.send("POST", PATH, {"routing_key": "nowhere"}) == (200, {"queues": 0})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"key": "shop"}, "unknown field 'key'"),
        ({"body": 5}, "field 'body' must be a text, not 5"),
        ({"properties": "x"}, "field 'properties' must be an object"),
        ({"body_encoding": "hex"}, "field 'body_encoding' is 'hex'; give one of text, base64"),
        ({"body_encoding": "base64", "body": "?"}, "field 'body' is no base64"),
        ({"properties": {"priorty": 1}}, "unknown property 'priorty'; did you mean 'priority'?"),
        ({"properties": {"priority": 256}}, "field 'properties.priority' is 256; give an integer from 0 to 255"),
        ({"properties": {"message_id": 1}}, "field 'properties.message_id' is 1; give a text"),
        ({"properties": {"headers": []}}, "field 'properties.headers' is []; give an object"),
        ({"properties": {"headers": {"a": None}}}, "header 'a' is null"),
        ({"properties": {"user_id": "other"}}, "user"),
    ],
)
async def test_bad_fields(site: Site, body: dict[str, Any], words: str) -> None:
    status, reason = await site.refused("POST", PATH, body)
    assert status == 400 or "user_id" in str(body)
    assert words in reason


async def test_permission_comes_first(site: Site) -> None:
    site.queue("shop")
    status, reason = await site.refused("POST", PATH, {"nonsense": 1}, user="shop:pass")
    assert (status, "write access to 'amq.default'" in reason) == (403, True)


async def test_a_full_queue_is_said(site: Site) -> None:
    site.queue("shop", max_length=1, overflow="reject-publish")
    assert (await site.send("POST", PATH, {"routing_key": "shop"}))[0] == 200
    async with site.client() as client:
        response = await client.post(PATH, json={"routing_key": "shop"})
    assert response.status_code == 503


ROUTE = "/api/v1/exchanges/%2F/events/route"


async def test_the_way_of_a_message_is_explained_and_nothing_is_sent(site: Site) -> None:
    queue, host = site.queue("shop"), site.broker.hosts["/"]
    host.declare_exchange("events", "topic")
    host.bind_queue(queue, "events", "order.#", {"x-filter-jms-selector": "region = 'eu'"})
    sent = {"routing_key": "order.paid", "properties": {"headers": {"region": "eu"}}}
    status, found = await site.send("POST", ROUTE, sent)
    assert (status, found["queues"], found["refusals"], found["left_out"]) == (200, ["shop"], {}, 0)
    [edge] = found["edges"]
    assert edge == {
        "source": "events", "key": "order.#", "kind": "queue", "target": "shop", "fits": True, "copy_of": "",
        "why": "the pattern covers the key",
    }  # fmt: skip
    _, other = await site.send("POST", ROUTE, {"routing_key": "order.paid"})
    assert (other["queues"], other["edges"][0]["why"]) == ([], "the filter of the binding refuses it: region = 'eu'")
    _, default = await site.send("POST", ROUTE.replace("events", "amq.default"), {"routing_key": "shop"})
    assert default["queues"] == ["shop"]
    assert queue.order.count == 0


async def test_the_way_takes_permission_to_read_and_an_exchange(site: Site) -> None:
    host = site.broker.hosts["/"]
    host.declare_exchange("events", "topic")
    status, reason = await site.refused("POST", ROUTE, {}, user="shop:pass")
    assert (status, "read access to 'events'" in reason) == (403, True)
    status, reason = await site.refused("POST", ROUTE.replace("events", "gone"), {})
    assert (status, reason) == (404, "no exchange and no address 'gone' in virtual host '/'")
    assert (await site.refused("POST", ROUTE, {"properties": {"priority": 300}}))[0] == 400
    assert (await site.refused("POST", f"{ROUTE}?routing_type=both", {}))[0] == 400
