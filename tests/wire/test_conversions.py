"""Messages of one protocol in another and back, and the table of docs/conversion.md row by row."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.death_trail import DeathRecord
from annulet.core.base.typed_values import (
    Byte,
    Decimal64,
    Float32,
    Int,
    Short,
    Symbol,
    TimestampMilliseconds,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Uuid,
)
from annulet.core.message.content_differences import same_value
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.message.neutral_content import (
    BODY_DATA,
    BODY_LIST,
    BODY_MAP,
    BODY_SEQUENCE,
    BODY_TEXT,
    BODY_VALUE,
    MessageContent,
)
from annulet.wire.amqp091.messages import conversion as amqp091
from annulet.wire.amqp091.messages.properties import VIEW as AMQP_0_9_1
from annulet.wire.amqp091.messages.properties import BasicProperties, encode_properties
from annulet.wire.amqp091.messages.type_tags import lower
from annulet.wire.amqp10.messages import conversion as amqp10
from annulet.wire.amqp10.messages.sections import DATA, VALUE, encode_section
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0
from annulet.wire.stomp import conversion as stomp
from annulet.wire.stomp.view import VIEW as STOMP
from tests.wire.contents import assert_same, contents, simple

EXCHANGE, KEY = "logs", "disk.full"
CONVERTERS: dict[ContentView, ModuleType] = {AMQP_0_9_1: amqp091, AMQP_1_0: amqp10, STOMP: stomp}


def converted(message: Message, view: ContentView) -> Message:
    content = message.origin.view.content(message)
    header, body = CONVERTERS[view].from_content(content)
    origin = message.origin
    return Message(header, body, Origin(origin.exchange, origin.routing_key, "", view))


def message_of(view: ContentView, content: MessageContent) -> Message:
    content.exchange, content.routing_key = EXCHANGE, KEY
    return Message(*CONVERTERS[view].from_content(content), Origin(EXCHANGE, KEY, "", view))


def content_of(**fields: Any) -> MessageContent:
    content = MessageContent()
    for name, value in fields.items():
        setattr(content, name, value)
    return content


# ---------------------------------------------------------------------- there and back


@given(contents())
def test_amqp_1_0_by_0_9_1_and_back_is_the_same_message(content: MessageContent) -> None:
    original = message_of(AMQP_1_0, content)
    again = converted(converted(original, AMQP_0_9_1), AMQP_1_0)
    assert_same(AMQP_1_0.content(again), AMQP_1_0.content(original))
    assert again.body == original.body


@given(contents())
def test_amqp_0_9_1_by_1_0_and_back_is_the_same_message(content: MessageContent) -> None:
    original = message_of(AMQP_0_9_1, content)
    again = converted(converted(original, AMQP_1_0), AMQP_0_9_1)
    assert_same(AMQP_0_9_1.content(again), AMQP_0_9_1.content(original))
    assert again.body == original.body
    assert (
        amqp091.read_properties(again.header).properties.type
        == amqp091.read_properties(original.header).properties.type
    )


text = st.text(st.characters(codec="utf-8"), max_size=12)
field_value = st.recursive(
    simple.filter(lambda item: lower(item)[1] is None and not isinstance(item, Decimal64)),  # 0-9-1 has its type
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)
field_name = text | st.sampled_from(
    ["JMSXGroupID", "JMSXGroupSeq", "group-id", "x-group-id", "qpid.subject", "x-death", "x-message-id", "x-opt-deaths",
     "_AMQ_ORIG_ADDRESS", "x-first-death-queue", "CC", "destination", "priority"]
)  # fmt: skip
client_properties = st.fixed_dictionaries({}, optional={
    "content_type": st.sampled_from(
        ["text/plain", "text/plain; charset=utf-16", "application/java-object-stream", "é", "application/json", "",
         "application/x-java-serialized-object"]
    ),
    "content_encoding": st.sampled_from(["gzip", "é", ""]), "delivery_mode": st.sampled_from([1, 2]),
    "priority": st.integers(0, 255), "message_id": text, "correlation_id": text | st.just("ID:AMQP_STRING:x"),
    "reply_to": text | st.sampled_from(
        ["direct://amq.direct//q?routingkey='k'", "queue://q", "/queue/q", "/queues/a%2Fb", "a::b", "topic://t"]
    ),
    "expiration": st.integers(0, 2**32 - 1).map(str), "timestamp": st.integers(0, 2**64 - 1), "type": text,
    "user_id": text, "app_id": text, "cluster_id": text,
})  # fmt: skip


@given(client_properties, st.none() | st.dictionaries(field_name, field_value, max_size=4), st.binary(max_size=20))
def test_what_a_0_9_1_client_sends_is_what_another_gets_after_a_detour(
    properties: dict[str, Any], headers: dict[str, Any] | None, body: bytes
) -> None:
    original = client_message(properties, headers, body)
    again = converted(converted(original, AMQP_1_0), AMQP_0_9_1)
    found, sent = amqp091.read_properties(again.header), amqp091.read_properties(original.header)
    found.headers.pop(amqp091.RECORD, None)
    assert same_value(found.headers, sent.headers)
    names = {name for name in dir(found.properties) if not name.startswith("_")}  # compiled: no slots
    for name in names - {"headers", "delivery_mode", "message_id", "correlation_id"}:
        assert (name, getattr(found.properties, name)) == (name, properties.get(name))
    assert (found.message_id, found.correlation_id) == (sent.message_id, sent.correlation_id)
    assert (found.properties.delivery_mode == 2) is (properties.get("delivery_mode") == 2)
    assert again.body == body


def client_message(properties: dict[str, Any], headers: dict[str, Any] | None, body: bytes) -> Message:
    given_properties = BasicProperties()
    for name, value in properties.items():
        setattr(given_properties, name, value)
    header = encode_properties(given_properties)
    if headers is not None:
        header = amqp091._with_headers(header, given_properties, amqp091.encode_typed_table(headers))
    return Message(header, body, Origin(EXCHANGE, KEY, "", AMQP_0_9_1))


@pytest.mark.parametrize("body", [{Symbol("a"): 1}, {"a": {Symbol("b"): 1}}, {Symbol("a"): {"b": 1}}])
def test_keys_that_are_symbols_stay_symbols(body: Any) -> None:
    original = message_of(AMQP_1_0, content_of(body_kind=BODY_MAP, body=body))
    assert converted(converted(original, AMQP_0_9_1), AMQP_1_0).body == original.body


@pytest.mark.parametrize("trail", [[], [7], [{"queue": "q", "count": UnsignedInt(1)}], "none"])
def test_a_trail_a_client_wrote_in_its_own_way_stays_its_own(trail: Any) -> None:
    original = message_of(AMQP_1_0, content_of(annotations={"x-opt-deaths": trail}))
    again = converted(converted(original, AMQP_0_9_1), AMQP_1_0)
    assert same_value(AMQP_1_0.annotation(again, "x-opt-deaths"), trail)


plain = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
stomp_contents = contents(
    durable=st.booleans(), priority=st.integers(-1, 9), message_id=st.none() | plain, correlation_id=st.none() | plain,
    subject=st.none() | plain, reply_to=st.none() | st.sampled_from(["/queue/replies", "replies"]),
    content_type=st.none() | st.sampled_from(["text/plain", "application/json"]), content_encoding=st.none(),
    to=st.none(), absolute_expiry_time=st.none(), creation_time=st.none() | st.integers(0, 2**42),
    group_id=st.none() | plain, reply_to_group_id=st.none() | plain, app_id=st.none() | plain,
    application=st.dictionaries(plain.map(lambda name: f"own-{name}"), plain, max_size=3),
    annotations=st.just({}), footer=st.just({}), deaths=st.just([]),
)  # fmt: skip


@pytest.mark.parametrize("other", [AMQP_0_9_1, AMQP_1_0], ids=lambda view: view.name)
@given(content=stomp_contents, body=plain)
def test_stomp_by_any_other_and_back_is_the_same_message(
    other: ContentView, content: MessageContent, body: str
) -> None:
    content.body_kind, content.body = BODY_TEXT, body
    original = message_of(STOMP, content)
    again = converted(converted(original, other), STOMP)
    assert_same(STOMP.content(again), STOMP.content(original))
    assert again.body == original.body


@pytest.mark.parametrize("view", CONVERTERS, ids=lambda view: view.name)
def test_a_body_of_octets_is_shared_by_all_protocols(view: ContentView) -> None:
    body = b"\xff payload"
    original = message_of(AMQP_1_0, content_of(body=body, content_type="application/octet-stream"))
    assert converted(original, view).body is body


@pytest.mark.parametrize("view", CONVERTERS, ids=lambda view: view.name)
@given(content=contents())
def test_every_content_can_be_carried_by_every_protocol(view: ContentView, content: MessageContent) -> None:
    found = view.content(message_of(view, content))
    assert_same(found, content, apart_from=LOSSY if view is STOMP else ())


LOSSY = (
    "time_to_live", "annotations", "footer", "application", "body_kind", "body", "content_type", "to", "subject",
    "message_id", "correlation_id", "group_id", "reply_to_group_id", "app_id", "user_id", "reply_to", "deaths",
    "absolute_expiry_time", "creation_time", "content_encoding",
)  # fmt: skip
"""What texts without types do not keep exactly: docs/stomp.md."""


# ---------------------------------------------------------------------- the table: AMQP 0-9-1 to AMQP 1.0


def from_0_9_1(headers: dict[str, Any] | None = None, body: bytes = b"body", **properties: Any) -> MessageContent:
    """Return what an AMQP 1.0 client gets of an AMQP 0-9-1 message."""
    reading = amqp091.Reading()
    for name, value in properties.items():
        setattr(reading.properties, name, value)
    encoded = amqp091.encode_properties(reading.properties)
    if headers is not None:
        encoded = amqp091._with_headers(encoded, reading.properties, amqp091.encode_typed_table(headers))
    source = Message(encoded, body, Origin(EXCHANGE, KEY, "", AMQP_0_9_1))
    made = converted(source, AMQP_1_0)
    made.origin = Origin("elsewhere", "", "", AMQP_1_0)  # so that "to" is seen
    return AMQP_1_0.content(made)


MAP = bytes.fromhex("00000008 00000001 0161 0101")
LIST = bytes.fromhex("00000006 00000001 0101")
JMS_MAP = bytes.fromhex("00000001 6100 0201")
UUID = "00010203-0405-0607-0809-0a0b0c0d0e0f"


@pytest.mark.parametrize(
    ("row", "given_message", "field", "value"),
    [
        ("delivery-mode", {"delivery_mode": 2}, "durable", True),
        ("delivery-mode", {"delivery_mode": 1}, "durable", False),
        ("priority", {"priority": 9}, "priority", 9),
        ("priority", {}, "priority", -1),
        ("expiration", {"expiration": "5000"}, "time_to_live", 5000),
        ("content-type", {"content_type": "text/html"}, "content_type", "text/html"),
        ("content-type", {"content_type": "image/png"}, "content_type", "image/png"),
        ("content-type", {"content_type": "amqp/map", "body": b""}, "content_type", None),
        ("content-type", {"content_type": "application/java-object-stream"}, "content_type",
         "application/x-java-serialized-object"),
        ("content-type", {"content_type": "jms/map-message", "body": b""}, "content_type", None),
        ("content-encoding", {"content_encoding": "gzip"}, "content_encoding", "gzip"),
        ("correlation-id", {"correlation_id": UUID}, "correlation_id", UUID),
        ("correlation-id", {"correlation_id": f"ID:AMQP_UUID:{UUID}"}, "correlation_id", Uuid(bytes(range(16)))),
        ("message-id", {"message_id": "ID:host-1"}, "message_id", "ID:host-1"),
        ("message-id", {"message_id": "ID:AMQP_ULONG:7"}, "message_id", UnsignedLong(7)),
        ("reply-to", {"reply_to": "replies"}, "reply_to", "replies"),
        ("reply-to", {"reply_to": "direct://amq.direct//q?routingkey='k'"}, "reply_to", "/exchanges/amq.direct/k"),
        ("reply-to", {"reply_to": "no url ://"}, "reply_to", "no url ://"),
        ("user-id", {"user_id": "guest"}, "user_id", b"guest"),
        ("timestamp", {"timestamp": 7}, "creation_time", 7000),
        ("timestamp", {}, "creation_time", None),
        ("type", {"type": "t"}, "subject", "t"),
        ("app-id", {"app_id": "a"}, "app_id", "a"),
        ("qpid.subject", {"type": "t", "headers": {"qpid.subject": "s"}}, "subject", "s"),
        ("JMSXGroupID", {"headers": {"JMSXGroupID": "g"}}, "group_id", "g"),
        ("JMSXGroupSeq", {"headers": {"JMSXGroupSeq": Int(3)}}, "group_sequence", 3),
        ("JMSXGroupSeq", {"headers": {"JMSXGroupSeq": Int(-1)}}, "group_sequence", 2**32 - 1),
        ("JMSXGroupSeq", {"headers": {"JMSXGroupID": "g", "JMSXGroupSeq": Int(3)}}, "application", {}),
        ("JMSXGroupSeq", {"headers": {"JMSXGroupSeq": Byte(3)}}, "group_sequence", 3),
        ("JMSXGroupSeq", {"headers": {"JMSXGroupSeq": Byte(3)}}, "application", {}),
        ("JMSXGroupSeq", {"headers": {"JMSXGroupSeq": 2**32 - 1}}, "group_sequence", 2**32 - 1),
        ("JMSXGroupSeq", {"headers": {"JMSXGroupSeq": 2**32}}, "group_sequence", None),
        ("JMSXGroupSeq", {"headers": {"JMSXGroupSeq": 2**32}}, "application", {"JMSXGroupSeq": 2**32}),
        ("headers", {"headers": {"n": Short(3), "t": TimestampMilliseconds(5000)}}, "application",
         {"n": Short(3), "t": TimestampMilliseconds(5000)}),
        ("headers", {"headers": {"nested": {"a": [1]}}}, "application", {"nested": {"a": [1]}}),
        ("headers", {"headers": {"D": Decimal64((397 << 53 | 15).to_bytes(8, "big"))}}, "application",
         {"D": Decimal64((397 << 53 | 15).to_bytes(8, "big"))}),
        ("exchange and key", {}, "to", "/exchanges/logs/disk.full"),
        ("text", {"content_type": "text/plain"}, "body_kind", BODY_TEXT),
        ("text", {"content_type": "text/plain", "body": b"\xff"}, "body_kind", BODY_DATA),
        ("map", {"content_type": "amqp/map", "body": MAP}, "body", {"a": Byte(1)}),
        ("list", {"content_type": "amqp/list", "body": LIST}, "body", [Byte(1)]),
        ("map", {"content_type": "jms/map-message", "body": JMS_MAP}, "body", {"a": Byte(1)}),
        ("list", {"content_type": "jms/stream-message", "body": b"\x02\x01"}, "body", [Byte(1)]),
        ("bytes", {"content_type": "application/octet-stream"}, "body_kind", BODY_DATA),
        ("json", {"content_type": "application/json", "body": b"{}"}, "body_kind", BODY_DATA),
        ("empty", {"body": b""}, "body_kind", BODY_VALUE),
        ("empty", {"body": b"", "content_type": "text/plain"}, "body", ""),
    ],
)  # fmt: skip
def test_from_amqp_0_9_1_to_1_0(row: str, given_message: dict[str, Any], field: str, value: Any) -> None:
    assert row
    assert same_value(getattr(from_0_9_1(**given_message), field), value)


def test_x_death_is_the_annotation_of_amqp_1_0() -> None:
    death = DeathRecord(queue="q", reason="expired", exchange="e", routing_keys=("k",), at=7000, count=2)
    dead = message_of(AMQP_0_9_1, content_of(deaths=[death], application={"x-first-death-queue": "q"}))
    made = converted(dead, AMQP_1_0)
    (record,) = AMQP_1_0.deaths(made)
    assert (record.queue, record.reason, record.count, record.at) == ("q", "expired", 2, 7000)
    assert AMQP_1_0.annotation(made, "x-opt-first-death-queue") == "q"
    (record,) = AMQP_0_9_1.deaths(converted(made, AMQP_0_9_1))
    assert (record.queue, record.reason, record.count, record.at) == ("q", "expired", 2, 7000)
    (record,) = STOMP.deaths(converted(made, STOMP))
    assert (record.queue, record.reason, record.count) == ("q", "expired", 2)


# ---------------------------------------------------------------------- the table: AMQP 1.0 to AMQP 0-9-1


def from_1_0(body: tuple[str, Any] = (BODY_DATA, b"body"), **fields: Any) -> amqp091.Reading:
    """Return what an AMQP 0-9-1 client gets of an AMQP 1.0 message: its properties and headers as they are read."""
    content = content_of(**fields)
    content.body_kind, content.body = body
    return amqp091.read_properties(converted(message_of(AMQP_1_0, content), AMQP_0_9_1).header)


def property_named(name: str) -> Callable[[amqp091.Reading], Any]:
    return lambda reading: getattr(reading.properties, name)


def header_named(name: str) -> Callable[[amqp091.Reading], Any]:
    return lambda reading: reading.headers.get(name)


@pytest.mark.parametrize(
    ("row", "fields", "read", "value"),
    [
        ("durable", {"durable": True}, property_named("delivery_mode"), 2),
        ("durable", {}, property_named("delivery_mode"), 1),
        ("priority", {"priority": 9}, property_named("priority"), 9),
        ("priority", {}, property_named("priority"), None),
        ("ttl", {"time_to_live": 5000}, property_named("expiration"), "5000"),
        ("ttl", {}, property_named("expiration"), None),
        ("content-type", {"content_type": "text/html"}, property_named("content_type"), "text/html"),
        ("content-type", {"content_type": "image/png"}, property_named("content_type"), "image/png"),
        ("content-encoding", {"content_encoding": "gzip"}, property_named("content_encoding"), "gzip"),
        ("correlation-id", {"correlation_id": "c"}, lambda reading: reading.correlation_id, "c"),
        ("correlation-id", {"correlation_id": UnsignedLong(7)}, lambda reading: reading.correlation_id,
         "ID:AMQP_ULONG:7"),
        ("correlation-id", {"correlation_id": "c" * 256}, header_named("x-correlation-id"), "c" * 256),
        ("message-id", {"message_id": Uuid(bytes(range(16)))}, lambda reading: reading.message_id,
         f"ID:AMQP_UUID:{UUID}"),
        ("message-id", {"message_id": b"\xff"}, lambda reading: reading.message_id, "ID:AMQP_BINARY:FF"),
        ("message-id", {"message_id": "m" * 256}, header_named("x-message-id"), "m" * 256),
        ("reply-to", {"reply_to": "/queues/a%2Fb"}, property_named("reply_to"), "a/b"),
        ("reply-to", {"reply_to": "/queue/a/b"}, property_named("reply_to"), "a/b"),
        ("reply-to", {"reply_to": "queue://q"}, property_named("reply_to"), "q"),
        ("reply-to", {"reply_to": "topic://t"}, property_named("reply_to"), "topic://t"),
        ("reply-to", {"reply_to": "a::q"}, property_named("reply_to"), "a::q"),
        ("reply-to", {"reply_to": "/exchanges/e/k"}, property_named("reply_to"), "/exchanges/e/k"),
        ("user-id", {"user_id": b"guest"}, property_named("user_id"), "guest"),
        ("creation-time", {"creation_time": 7999}, property_named("timestamp"), 7),
        ("subject", {"subject": "s"}, property_named("type"), "s"),
        ("subject", {"subject": "s"}, header_named("qpid.subject"), None),
        ("group-id", {"group_id": "g"}, header_named("JMSXGroupID"), "g"),
        ("group-sequence", {"group_sequence": 3}, header_named("JMSXGroupSeq"), Int(3)),
        ("group-sequence", {"group_sequence": 2**32 - 1}, header_named("JMSXGroupSeq"), Int(-1)),
        ("ubyte", {"application": {"n": UnsignedByte(3)}}, header_named("n"), UnsignedByte(3)),
        ("ushort", {"application": {"n": UnsignedShort(3)}}, header_named("n"), UnsignedShort(3)),
        ("uint", {"application": {"n": UnsignedInt(3)}}, header_named("n"), UnsignedInt(3)),
        ("ulong", {"application": {"n": UnsignedLong(3)}}, header_named("n"), 3),
        ("ulong", {"application": {"n": UnsignedLong(2**63)}}, header_named("n"), str(2**63)),
        ("float", {"application": {"n": Float32(1.5)}}, header_named("n"), Float32(1.5)),
        ("symbol", {"application": {"n": Symbol("s")}}, header_named("n"), "s"),
        ("binary", {"application": {"n": b"\xff"}}, header_named("n"), b"\xff"),
        ("uuid", {"application": {"n": Uuid(bytes(range(16)))}}, header_named("n"), UUID),
        ("timestamp", {"application": {"n": TimestampMilliseconds(5123)}}, header_named("n"),
         TimestampMilliseconds(5000)),
        ("string", {"body": (BODY_TEXT, "text")}, property_named("content_type"), "text/plain"),
        ("map", {"body": (BODY_MAP, {"a": 1})}, property_named("content_type"), "amqp/map"),
        ("list", {"body": (BODY_LIST, [1])}, property_named("content_type"), "amqp/list"),
        ("map", {"body": (BODY_MAP, {"a": 1}), "content_type": "application/x-own"}, property_named("content_type"),
         "amqp/map"),
        ("serialised", {"content_type": "application/x-java-serialized-object"}, property_named("content_type"),
         "application/java-object-stream"),
        ("sequence", {"body": (BODY_SEQUENCE, [[1]])}, property_named("content_type"), "amqp/list"),
        ("value", {"body": (BODY_VALUE, 7)}, property_named("content_type"), "text/plain"),
        ("null", {"body": (BODY_VALUE, None)}, property_named("content_type"), None),
    ],
)  # fmt: skip
def test_from_amqp_1_0_to_0_9_1(
    row: str, fields: dict[str, Any], read: Callable[[amqp091.Reading], Any], value: Any
) -> None:
    assert row
    assert same_value(read(from_1_0(**fields)), value)


@pytest.mark.parametrize(
    ("sections", "octets"),
    [
        (encode_section(VALUE, "é"), "é".encode()),
        (encode_section(VALUE, None), b""),
        (encode_section(VALUE, True), b"true"),
        (encode_section(VALUE, {"a": Byte(1)}), MAP),
        (encode_section(VALUE, [Byte(1)]), LIST),
        (encode_section(DATA, b"a") + encode_section(DATA, b"b"), b"ab"),
    ],
)
def test_bodies_of_amqp_1_0_as_octets(sections: bytes, octets: bytes) -> None:
    source = Message(b"\x00", sections, Origin("", "q", "", AMQP_1_0))
    made = converted(source, AMQP_0_9_1)
    assert made.body == octets
    assert converted(made, AMQP_1_0).body == sections
