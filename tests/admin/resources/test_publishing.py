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
