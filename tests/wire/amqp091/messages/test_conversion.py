from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.death_trail import DeathRecord, with_death
from annulet.core.base.typed_values import (
    Byte,
    Int,
    Short,
    Symbol,
    TimestampMilliseconds,
    UnsignedInt,
    UnsignedLong,
    Uuid,
)
from annulet.core.message.content_differences import same_value
from annulet.core.message.message import Message, Origin
from annulet.core.message.neutral_content import BODY_DATA, BODY_MAP, BODY_TEXT, BODY_VALUE, MessageContent
from annulet.wire.amqp091.messages.conversion import (
    CLUSTER_ID,
    GROUP_ID,
    GROUP_SEQUENCE,
    LONG_CORRELATION_ID,
    RECORD,
    REPLY_TO,
    TYPE,
    address_of_reply,
    from_content,
    read_properties,
    reply_to_of,
    to_content,
)
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, decode_properties, encode_properties
from annulet.wire.amqp091.types.typed_tables import encode_typed_table
from tests.wire.contents import assert_same, contents

ORIGIN = Origin("logs", "disk.full", "", VIEW)
texts = st.none() | st.text(st.characters(codec="utf-8"), max_size=12)


def message(body: bytes = b"", headers: dict[str, Any] | None = None, **given_properties: Any) -> Message:
    """A message as a 0-9-1 client sends it, headers with the field types of their values."""
    properties = BasicProperties()
    for name, value in given_properties.items():
        setattr(properties, name, value)
    header = encode_properties(properties)
    if headers is None:
        return Message(header, body, ORIGIN)
    properties.headers = {}
    start = len(encode_properties(_first(properties))) - 4
    header = encode_properties(properties)
    return Message(header[:start] + encode_typed_table(headers) + header[start + 4 :], body, ORIGIN)


def _first(properties: BasicProperties) -> BasicProperties:
    first = BasicProperties()
    first.content_type, first.content_encoding, first.headers = properties.content_type, properties.content_encoding, {}
    return first


def again(content: MessageContent) -> MessageContent:
    header, body = from_content(content)
    return to_content(Message(header, body, ORIGIN))


@given(contents())
def test_whatever_amqp_1_0_can_say_comes_back(content: MessageContent) -> None:
    assert_same(again(content), content)


@given(
    st.builds(
        message, st.binary(max_size=8),
        st.dictionaries(texts.filter(bool), st.integers(-128, 127).map(Byte), max_size=2),
        content_type=texts, content_encoding=texts, delivery_mode=st.sampled_from([1, 2]),
        priority=st.none() | st.integers(0, 255), correlation_id=texts, reply_to=texts,
        expiration=st.none() | st.integers(0, 2**32 - 1).map(str), message_id=texts,
        timestamp=st.none() | st.integers(0, 2**33), type=texts, user_id=texts, app_id=texts, cluster_id=texts,
    )
)  # fmt: skip
def test_a_message_of_this_protocol_comes_back_octet_by_octet(sent: Message) -> None:
    header, body = from_content(to_content(sent))
    assert body == sent.body
    assert vars_of(header) == vars_of(sent.header)


def vars_of(header: bytes) -> dict[str, Any]:
    properties = decode_properties(header)
    names = [name for name in dir(properties) if not name.startswith("_") and name != "headers"]  # compiled: no slots
    read = {name: getattr(properties, name) for name in names}
    headers = read_properties(header).headers
    return {**read, "headers": {name: (type(value), value) for name, value in headers.items()}}


def test_field_types_of_headers_survive() -> None:
    headers = {
        "b": Byte(-1), "s": Short(7), "I": Int(7), "l": 7, "T": TimestampMilliseconds(5000), "F": {"A": [Byte(1)]},
        "x": b"\x00", "V": None,
    }  # fmt: skip
    sent = message(b"body", headers, content_type="application/json")
    content = to_content(sent)
    assert same_value(content.application, headers)
    assert (
        from_content(content)[0] == message(b"body", headers, content_type="application/json", delivery_mode=1).header
    )


def test_origin_is_where_it_was_published() -> None:
    content = to_content(message())
    assert (content.exchange, content.routing_key, content.to) == ("logs", "disk.full", None)


def test_the_body_of_octets_is_the_same_object() -> None:
    sent = message(b"payload", content_type="application/octet-stream")
    assert from_content(to_content(sent))[1] is sent.body


def test_a_content_of_nothing_special_needs_no_record() -> None:
    content = MessageContent()
    content.body = b"payload"
    content.message_id = "m"
    content.group_id = "g"
    content.application = {"n": 7, "text": "x"}
    assert RECORD not in read_properties(from_content(content)[0]).headers


def test_group_and_sequence_are_headers_of_jms() -> None:
    content = to_content(message(headers={GROUP_ID: "g", GROUP_SEQUENCE: Int(-1), "n": 7}))
    assert (content.group_id, content.group_sequence, content.application) == ("g", 2**32 - 1, {"n": 7})
    headers = read_properties(from_content(content)[0]).headers
    assert same_value(headers, {GROUP_ID: "g", GROUP_SEQUENCE: Int(-1), "n": 7})


@pytest.mark.parametrize("name", ["group-id", "x-group-id"])
def test_other_names_of_the_group_keep_their_name(name: str) -> None:
    content = to_content(message(headers={name: "g"}))
    assert content.group_id == "g"
    assert read_properties(from_content(content)[0]).headers == {name: "g"}


def test_the_trail_of_a_dead_letter_both_ways() -> None:
    sent = message(b"", {"n": 7})
    death = DeathRecord(queue="q", reason="rejected", exchange="e", routing_keys=("k",), at=7000)
    header = VIEW.forwarded_header(sent, with_death([], death), {}, rerouted=False)
    content = to_content(Message(header, b"", ORIGIN))
    assert [(record.queue, record.count, record.at) for record in content.deaths] == [("q", 1, 7000)]
    assert "x-death" not in content.application
    assert content.application["x-first-death-queue"] == "q"
    header, body = from_content(content)
    assert [(record.queue, record.at) for record in VIEW.deaths(Message(header, body, ORIGIN))] == [("q", 7000)]
    assert decode_properties(header).headers["x-death"] == decode_properties(sent_again(sent, death)).headers["x-death"]


def sent_again(sent: Message, death: DeathRecord) -> bytes:
    return VIEW.forwarded_header(sent, [death], {}, rerouted=False)


def test_an_x_death_of_another_form_stays_a_header_too() -> None:
    content = to_content(message(headers={"x-death": [{"queue": "q", "reason": "rejected", "mine": 1}]}))
    assert [record.queue for record in content.deaths] == ["q"]
    assert content.application["x-death"] == [{"queue": "q", "reason": "rejected", "mine": 1}]


def test_a_correlation_id_beyond_255_octets_moves_to_a_header() -> None:
    content = MessageContent()
    content.correlation_id = "c" * 256
    reading = read_properties(from_content(content)[0])
    assert reading.correlation_id is None
    assert reading.headers[LONG_CORRELATION_ID] == "c" * 256
    assert again(content).correlation_id == "c" * 256


def test_identifiers_of_other_types_are_texts_a_reply_can_quote() -> None:
    request = MessageContent()
    request.message_id = Uuid(bytes(16))
    quoted = read_properties(from_content(request)[0]).message_id
    assert quoted == "ID:AMQP_UUID:00000000-0000-0000-0000-000000000000"
    assert to_content(message(correlation_id=quoted)).correlation_id == Uuid(bytes(16))


def test_an_identifier_that_is_not_utf_8_is_octets() -> None:
    header = b"\x00\x80" + b"\x02\xff\xfe"
    assert to_content(Message(header, b"", ORIGIN)).message_id == b"\xff\xfe"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("orders", "orders"),
        ("direct://amq.direct//orders?routingkey='k/1'", "/exchanges/amq.direct/k%2F1"),
        ("direct:////orders", "orders"),
        ("direct:////?routingkey='orders'", "orders"),
        ("topic://logs//", "/exchanges/logs"),
        ("direct://amq.direct//orders", "/exchanges/amq.direct/orders"),
        ("direct:////", "direct:////"),
        ("http://host/x", "http://host/x"),
    ],
)
def test_binding_urls_are_addresses_and_come_back(text: str, address: str) -> None:
    assert address_of_reply(text) == address
    content = to_content(message(reply_to=text))
    assert content.reply_to == address
    assert decode_properties(from_content(content)[0]).reply_to == text
    assert (content.annotations.get(REPLY_TO) == text) is (text != address)


def test_a_reply_to_that_was_changed_is_not_the_former_binding_url() -> None:
    content = to_content(message(reply_to="direct:////orders"))
    content.reply_to = "elsewhere"
    assert decode_properties(from_content(content)[0]).reply_to == "elsewhere"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("/queues/a%2Fb", "a/b"),
        ("queue://q", "q"),
        ("/exchanges/e/k", "/exchanges/e/k"),
        ("/queues/a/b", "a/b"),
        ("/queue/a/b", "a/b"),
        ("/amq/queue/q", "q"),
        ("/topic/t", "/topic/t"),
        ("a::q", "a::q"),
        ("q", "q"),
    ],
)
def test_queue_addresses_are_bare_names_to_reply_to(address: str, text: str) -> None:
    assert reply_to_of(address) == text


def test_what_only_this_protocol_has_travels_as_annotations() -> None:
    sent = message(headers={"qpid.subject": "s"}, type="t", cluster_id="c", app_id="a")
    content = to_content(sent)
    assert (content.subject, content.app_id) == ("s", "a")
    assert content.annotations == {TYPE: "t", CLUSTER_ID: "c"}
    properties = decode_properties(from_content(content)[0])
    assert (properties.type, properties.cluster_id, properties.app_id) == ("t", "c", "a")


def test_a_consumer_that_sends_on_another_value_means_that_value() -> None:
    content = MessageContent()
    content.body_kind, content.body = BODY_TEXT, "text"
    content.content_type = "application/json"
    content.application = {"symbol": Symbol("s"), "ulong": UnsignedLong(7)}
    header, _ = from_content(content)
    properties = decode_properties(header)
    assert properties.headers is not None
    properties.headers["ulong"] = "seven"
    properties.content_type = "application/octet-stream"
    changed = to_content(Message(encode_properties(properties), b"\xff", ORIGIN))
    assert changed.application == {"symbol": "s", "ulong": "seven"}
    assert isinstance(changed.application["symbol"], Symbol)
    assert (changed.body_kind, changed.body, changed.content_type) == (BODY_DATA, b"\xff", "application/octet-stream")


def test_a_user_id_comes_from_the_property_alone() -> None:
    content = to_content(message(headers={RECORD: {"fields": {"user-id": [None, "admin"]}}}))
    assert content.user_id is None
    content.user_id = b"\xff"
    assert decode_properties(from_content(content)[0]).user_id is None


@pytest.mark.parametrize(
    "record",
    [5, [], {"types": 5}, {"types": {"n": 5}}, {"body": 5}, {"body": "map"}, {"body": "value", "body-types": []},
     {"fields": 5}, {"fields": {"subject": [None]}}, {"record-types": {"items": {"fields": "ulong"}}, "fields": {}}],
)  # fmt: skip
def test_a_record_a_client_made_up_does_no_harm(record: Any) -> None:
    content = to_content(message(b"body", {RECORD: record, "n": 7}))
    assert (content.body_kind, content.body, content.application) == (BODY_DATA, b"body", {"n": 7})


def test_every_truncated_header_is_read_as_far_as_it_goes() -> None:
    content = MessageContent()
    content.message_id, content.subject, content.application = Uuid(bytes(16)), "s", {"n": UnsignedLong(7)}
    header, body = from_content(content)
    for end in range(len(header)):
        partial = to_content(Message(header[:end], body, ORIGIN))
        assert partial.subject in (None, "s")
    assert to_content(Message(b"", b"", ORIGIN)).body_kind == BODY_VALUE


def test_expiration_that_is_no_number_is_none() -> None:
    assert to_content(message(expiration="soon")).time_to_live == -1
    assert to_content(message(expiration="0")).time_to_live == 0


@pytest.mark.parametrize("number", [Int(3), Byte(3), 3, UnsignedInt(2**32 - 1), 2**32 - 1, Int(-1), -1])
def test_the_number_in_a_group_is_said_once_and_keeps_its_type(number: int) -> None:
    content = to_content(message(headers={GROUP_SEQUENCE: number}))
    assert content.group_sequence == number % 2**32
    assert content.application == {}
    assert same_value(read_properties(from_content(content)[0]).headers, {GROUP_SEQUENCE: number})
    content.group_sequence = 7  # said anew on the way: the former type does not count
    assert same_value(read_properties(from_content(content)[0]).headers[GROUP_SEQUENCE], Int(7))


@pytest.mark.parametrize(
    ("content_type", "body", "known_as"),
    [
        ("application/java-object-stream", b"\xac", "application/x-java-serialized-object"),
        ("application/x-java-serialized-object", b"\xac", "application/x-java-serialized-object"),
        ("jms/map-message", bytes(4), None),
        ("jms/stream-message", b"", None),
        ("amqp/map", bytes.fromhex("0000000400000000"), None),
    ],
)
def test_content_types_of_java_clients_come_back(content_type: str, body: bytes, known_as: str | None) -> None:
    content = to_content(message(body, content_type=content_type))
    assert content.content_type == known_as
    header, written = from_content(content)
    assert written == body
    assert read_properties(header).properties.content_type == content_type
    assert RECORD not in read_properties(header).headers


@pytest.mark.parametrize("encoding", [None, "gzip"])
def test_the_content_type_says_how_a_map_is_encoded(encoding: str | None) -> None:
    content = MessageContent()
    content.body_kind, content.body = BODY_MAP, {"a": 1}
    content.content_type, content.content_encoding = "application/x-own", encoding
    assert read_properties(from_content(content)[0]).properties.content_type == "amqp/map"
    for content_type in ("application/x-own", "amqp/map", "jms/map-message"):
        content.content_type = content_type
        found = again(content)
        assert (found.content_type, found.body_kind, found.body) == (content_type, BODY_MAP, {"a": 1})
        assert found.annotations == {}
