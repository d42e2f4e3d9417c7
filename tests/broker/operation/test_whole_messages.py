"""Everything of one message: what its sender gave, where it died, and a range of its body."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from annulet.broker.operation.looking import find_message
from annulet.broker.operation.whole_messages import (
    BASE64,
    JSON,
    JSON_BYTES_MAX,
    NO_BODY,
    TEXT,
    BodyRange,
    describe_whole,
)
from annulet.core.base.errors import InvalidArgument
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.typed_values import MapPairs, UnsignedInt
from annulet.core.message.message import Message, Origin
from annulet.core.message.neutral_content import (
    BODY_LIST,
    BODY_MAP,
    BODY_SEQUENCE,
    BODY_TEXT,
    BODY_VALUE,
    MessageContent,
)
from annulet.wire.amqp091.messages.amqp010 import encode_map
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from annulet.wire.amqp10.messages.conversion import from_content
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0
from tests.admin.conftest import Site, site

__all__ = ["site"]


async def whole(site: Site, body: bytes, wanted: BodyRange | None = None, **headers: Any) -> dict[str, Any]:
    queue = site.queue("shop")
    site.publish("shop", body, **headers)
    entry = await find_message(queue, 1, site.clock)
    return describe_whole(entry, wanted or BodyRange())


async def test_headers_and_a_text(site: Site) -> None:
    shown = await whole(site, "grün".encode(), colour="green", nested={"a": [1, b"\xff"]})
    assert shown["headers"] == {"colour": "green", "nested": {"a": [1, "/w=="]}}
    assert (shown["body"], shown["body_encoding"]) == ("grün", TEXT)
    assert (shown["body_size"], shown["body_complete"]) == (5, True)
    assert (shown["properties"], shown["annotations"], shown["deaths"], shown["malformed"]) == ({}, {}, [], "")


async def test_octets_that_are_no_text_are_base64(site: Site) -> None:
    shown = await whole(site, b"\xff\x00")
    assert (base64.b64decode(shown["body"]), shown["body_encoding"]) == (b"\xff\x00", BASE64)


async def test_a_range_of_the_body(site: Site) -> None:
    shown = await whole(site, b"0123456789", BodyRange(BASE64, 3, 4))
    assert base64.b64decode(shown["body"]) == b"3456"
    assert (shown["body_offset"], shown["body_length"], shown["body_size"]) == (3, 4, 10)
    assert not shown["body_complete"]


async def test_a_range_within_a_character(site: Site) -> None:
    shown = await whole(site, "ä".encode(), BodyRange(TEXT, 1, 1))
    assert shown["body"] == "\ufffd"


async def test_json(site: Site) -> None:
    assert (await whole(site, b'{"a": [1, null]}', BodyRange(JSON)))["body"] == {"a": [1, None]}


@pytest.mark.parametrize(
    ("body", "words"),
    [(b"{", "the body of message 1 is no JSON"), (b" " * (JSON_BYTES_MAX + 1), f"up to {JSON_BYTES_MAX} bytes")],
)
async def test_no_json(site: Site, body: bytes, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        await whole(site, body, BodyRange(JSON))


async def test_without_a_body(site: Site) -> None:
    assert "body" not in await whole(site, b"x", BodyRange(NO_BODY))


@pytest.mark.parametrize(("kind", "body", "shown"), [(BODY_TEXT, "text", "text"), (BODY_MAP, {"a": 1}, "")])
async def test_a_message_of_amqp_1_0(site: Site, kind: str, body: Any, shown: str) -> None:
    queue = site.queue("shop")
    content = MessageContent()
    content.body_kind, content.body = kind, body
    content.message_id, content.subject = "m1", "s"
    content.annotations, content.application = {"x-opt-a": 1}, {"b": "c"}
    queue.enqueue(Message(*from_content(content), Origin("", "shop", "", AMQP_1_0), accepted_at=1), site.clock())
    found = describe_whole(await find_message(queue, 1, site.clock), BodyRange())
    assert found["properties"] == {"message_id": "m1", "subject": "s"}
    assert (found["annotations"], found["headers"]) == ({"x-opt-a": 1}, {"b": "c"})
    assert not shown or found["body"] == shown


@pytest.mark.parametrize(
    ("kind", "body", "value"),
    [
        (BODY_MAP, {"a": [1, None], "b": {"c": b"\xff"}}, {"a": [1, None], "b": {"c": "/w=="}}),
        (BODY_MAP, MapPairs([1, "one", "two", 2]), [[1, "one"], ["two", 2]]),
        (BODY_LIST, ["x", True], ["x", True]),
        (BODY_SEQUENCE, [[1], [2, 3]], [[1], [2, 3]]),
        (BODY_VALUE, UnsignedInt(7), 7),
    ],
)
async def test_a_body_that_is_a_value_is_shown_as_one(site: Site, kind: str, body: Any, value: Any) -> None:
    queue = site.queue("shop")
    content = MessageContent()
    content.body_kind, content.body = kind, body
    queue.enqueue(Message(*from_content(content), Origin("", "shop", "", AMQP_1_0), accepted_at=1), site.clock())
    found = describe_whole(await find_message(queue, 1, site.clock), BodyRange())
    assert found["body_value"] == {"kind": kind, "value": value}


@pytest.mark.parametrize(("letters", "shown"), [(JSON_BYTES_MAX - 13, True), (JSON_BYTES_MAX - 12, False)])
async def test_a_value_is_decoded_up_to_its_bound(site: Site, letters: int, shown: bool) -> None:
    queue = site.queue("shop")
    octets = encode_map({"a": "x" * letters})
    assert (len(octets) <= JSON_BYTES_MAX) == shown
    properties = BasicProperties()
    properties.content_type = "amqp/map"
    queue.enqueue(Message(encode_properties(properties), octets, Origin("", "shop", "", VIEW), accepted_at=1), 1)
    found = describe_whole(await find_message(queue, 1, site.clock), BodyRange())
    assert ("body_value" in found) == shown
    if shown:
        assert found["body_value"]["value"] == {"a": "x" * letters}


async def test_octets_and_texts_have_no_value(site: Site) -> None:
    for number, body in enumerate((b"text", b"\xff", b""), 1):
        queue = site.queue("shop")
        site.publish("shop", body)
        found = describe_whole(await find_message(queue, number, site.clock), BodyRange())
        assert "body_value" not in found


async def test_a_dead_letter_names_its_deaths(site: Site) -> None:
    queue = site.queue("shop", dead_letter_exchange="", dead_letter_routing_key="dead")
    dead = site.queue("dead")
    site.publish("shop", b"x")
    entry = await find_message(queue, 1, site.clock)
    queue.remove(entry, RemovalReason.DEAD_LETTERED, site.clock())
    found = describe_whole(await find_message(dead, 1, site.clock), BodyRange())
    (death,) = found["deaths"]
    assert (death["queue"], death["reason"], death["count"]) == ("shop", "rejected", 1)
    assert (death["exchange"], death["routing_keys"]) == ("", ["shop"])


async def test_a_header_that_cannot_be_read_is_said(site: Site) -> None:
    queue = site.queue("shop")
    site.fill(queue, 1)  # its view decodes nothing
    found = describe_whole(await find_message(queue, 1, site.clock), BodyRange())
    assert (found["headers"], found["body"]) == ({}, "x" * 10)
    assert found["malformed"] == "NotImplementedError"
