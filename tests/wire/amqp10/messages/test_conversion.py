from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.typed_values import Array, Byte, MapPairs, Symbol, UnsignedInt, UnsignedLong, Uuid
from annulet.core.message.content_differences import same_value
from annulet.core.message.message import Message, Origin
from annulet.core.message.neutral_content import (
    BODY_DATA,
    BODY_LIST,
    BODY_MAP,
    BODY_SEQUENCE,
    BODY_TEXT,
    BODY_VALUE,
    MessageContent,
)
from annulet.wire.amqp10.messages.conversion import address_of, carried, from_content, kind_of, text_keys, to_content
from annulet.wire.amqp10.messages.message import encode_delivery, find_section, split_incoming
from annulet.wire.amqp10.messages.names import APP_ID, DATA_SECTIONS, JMS_TYPE, RECORD
from annulet.wire.amqp10.messages.sections import (
    DATA,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    Properties,
    decode_properties,
    encode_properties,
    encode_section,
    find_in_map,
)
from annulet.wire.amqp10.messages.view import VIEW
from annulet.wire.amqp10.types.values import MAX_DEPTH
from tests.wire.contents import assert_same, contents, value

ORIGIN = Origin("logs", "disk.full", "", VIEW)


def written(content: MessageContent) -> Message:
    content.exchange, content.routing_key = ORIGIN.exchange, ORIGIN.routing_key
    return Message(*from_content(content), ORIGIN, durable=content.durable)


def annotation(message: Message, name: str) -> Any:
    return VIEW.annotation(message, name)


def received(payload: bytes) -> MessageContent:
    incoming = split_incoming(payload)
    return to_content(Message(incoming.header, incoming.body, ORIGIN))


def content(**fields: Any) -> MessageContent:
    made = MessageContent()
    for name, item in fields.items():
        setattr(made, name, item)
    return made


@given(contents())
def test_every_content_comes_back(given_content: MessageContent) -> None:
    assert_same(to_content(written(given_content)), given_content)


@given(contents(application=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), value, max_size=3)))
def test_nested_application_properties_come_back_too(given_content: MessageContent) -> None:
    assert_same(to_content(written(given_content)), given_content)


@given(contents())
def test_what_a_client_gets_is_a_message_of_the_standard(given_content: MessageContent) -> None:
    payload = encode_delivery(written(given_content), delivery_count=0, first_acquirer=True, now=0)
    assert_same(received(payload), given_content, apart_from=("time_to_live",))


@pytest.mark.parametrize(
    ("sections", "kind", "body"),
    [
        (encode_section(DATA, b"x"), BODY_DATA, b"x"),
        (encode_section(VALUE, "text"), BODY_TEXT, "text"),
        (encode_section(VALUE, {"a": 1}), BODY_MAP, {"a": 1}),
        (encode_section(VALUE, MapPairs([UnsignedInt(1), 2])), BODY_MAP, MapPairs([UnsignedInt(1), 2])),
        (encode_section(VALUE, [1, 2]), BODY_LIST, [1, 2]),
        (encode_section(VALUE, Array([1, 2])), BODY_VALUE, Array([1, 2])),
        (encode_section(VALUE, Symbol("s")), BODY_VALUE, Symbol("s")),
        (encode_section(VALUE, b"x"), BODY_VALUE, b"x"),
        (encode_section(VALUE, None), BODY_VALUE, None),
        (encode_section(SEQUENCE, [1]) + encode_section(SEQUENCE, []), BODY_SEQUENCE, [[1], []]),
        (b"", BODY_VALUE, None),
    ],
)
def test_kinds_of_bodies(sections: bytes, kind: str, body: Any) -> None:
    found = received(sections)
    assert found.body_kind == kind
    assert same_value(found.body, body)


def test_several_data_sections_are_one_body_and_come_back_as_several() -> None:
    sections = encode_section(DATA, b"ab") + encode_section(DATA, b"") + encode_section(DATA, b"c")
    found = received(sections)
    assert (found.body_kind, found.body, found.annotations) == (BODY_DATA, b"abc", {DATA_SECTIONS: [2, 0, 1]})
    assert written(found).body == sections
    assert annotation(written(found), DATA_SECTIONS) is None
    found.body = b"changed on the way"
    assert written(found).body == b"changed on the way"


@pytest.mark.parametrize("sizes", [[], ["a"], [-1, 4], [True, 2], "abc", [1]])
def test_sizes_a_client_made_up_cut_nothing(sizes: Any) -> None:
    assert written(content(body=b"abc", annotations={DATA_SECTIONS: sizes})).body == b"abc"


def test_a_footer_and_data() -> None:
    sections = encode_section(DATA, b"x") + encode_section(FOOTER, {"x-opt-crc": 7})
    found = received(sections)
    assert (found.body, found.footer) == (b"x", {"x-opt-crc": 7})
    assert written(found).body == sections


def test_a_malformed_stored_body_is_its_octets() -> None:
    found = to_content(Message(b"\x00", b"\x00\x53\x77", ORIGIN))
    assert (found.body_kind, found.body) == (BODY_DATA, b"\x00\x53\x77")


def test_the_body_of_octets_is_the_same_object() -> None:
    body = b"payload"
    assert written(content(body=body)).body is body


def test_what_has_no_place_of_its_own_is_an_annotation() -> None:
    message = written(content(app_id="a", content_type="t\u00e9xt", application={"list": [1], "n": 7}))
    assert annotation(message, APP_ID) == "a"
    assert annotation(message, RECORD) == {
        "fields": {"content-type": [None, "t\u00e9xt"]},
        "properties": {"list": [1]},
    }
    assert VIEW.properties(message).application == {"n": 7}


def test_nothing_special_needs_no_record() -> None:
    message = written(content(body=b"x", message_id="m", subject="s", application={"n": 7}, durable=True, priority=3))
    assert annotation(message, RECORD) is None


@pytest.mark.parametrize(
    ("kind", "body", "jms_type"),
    [(BODY_VALUE, None, 0), (BODY_MAP, {}, 2), (BODY_DATA, b"", 3), (BODY_LIST, [], 4), (BODY_SEQUENCE, [[]], 4),
     (BODY_TEXT, "", 5), (BODY_VALUE, 7, None)],
)  # fmt: skip
def test_jms_clients_are_told_the_type_of_message(kind: str, body: Any, jms_type: int | None) -> None:
    message = written(content(body_kind=kind, body=body))
    found = annotation(message, JMS_TYPE)
    assert found == jms_type
    assert found is None or isinstance(found, Byte)
    assert to_content(message).annotations == {}


def test_the_senders_own_type_of_message_stays() -> None:
    message = written(content(annotations={JMS_TYPE: Byte(1)}))
    assert annotation(message, JMS_TYPE) == 1
    assert to_content(message).annotations == {JMS_TYPE: 1}


@pytest.mark.parametrize(
    ("exchange", "key", "address"),
    [("", "q", "q"), ("logs", "disk.full", "/exchanges/logs/disk.full"), ("logs", "", "logs"), ("a", "a", "a"),
     ("a/b", "c d", "/exchanges/a%2Fb/c%20d"), ("", "", "")],
)  # fmt: skip
def test_addresses_of_exchange_and_key(exchange: str, key: str, address: str) -> None:
    assert address_of(exchange, key) == address


def test_to_follows_from_the_origin_unless_the_sender_gave_another() -> None:
    message = written(content())
    start = find_section(message.header, PROPERTIES)
    assert decode_properties(message.header, start, len(message.header)).to == "/exchanges/logs/disk.full"
    assert to_content(message).to is None
    assert to_content(written(content(to="elsewhere"))).to == "elsewhere"


def test_identifiers_keep_their_types() -> None:
    for identifier in ("m", UnsignedLong(7), Uuid(bytes(16)), b"\xff"):
        found = received(encode_properties(Properties(message_id=identifier, correlation_id=identifier)))
        assert same_value(found.message_id, identifier)
        assert same_value(found.correlation_id, identifier)


def test_a_time_to_live_of_nothing_is_for_ever_here() -> None:
    message = written(content(time_to_live=0))
    assert VIEW.content(message).time_to_live == 0, "as its sender meant it"
    payload = encode_delivery(message, delivery_count=0, first_acquirer=True, now=0)
    assert split_incoming(payload).facts.time_to_live == -1


def test_annotations_whose_keys_are_numbers() -> None:
    section = encode_section(MESSAGE_ANNOTATIONS, MapPairs([UnsignedLong(7), "x", Symbol("x-opt-a"), 1]))
    assert received(section).annotations == {"ulong:7": "x", "x-opt-a": 1}
    assert text_keys(MapPairs([True, 1])) == {}
    assert text_keys(7) == {}


def nested(depth: int) -> list[Any]:
    innermost: list[Any] = []
    for _ in range(depth - 1):
        innermost = [innermost]
    return innermost


def test_what_cannot_be_carried_is_a_text() -> None:
    assert carried(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    assert carried(nested(MAX_DEPTH + 1)) == str(nested(MAX_DEPTH + 1))
    assert carried("\ud800") == "\\ud800"
    message = written(content(application={"deep": nested(MAX_DEPTH), "flat": [1]}))
    assert to_content(message).application == {"deep": str(nested(MAX_DEPTH)), "flat": [1]}
    deep = written(content(body_kind=BODY_LIST, body=nested(MAX_DEPTH + 1)))
    assert to_content(deep).body_kind == BODY_TEXT


@pytest.mark.parametrize("record", [7, [], {"fields": 7}, {"fields": {"subject": [None]}}, {"properties": [1]}])
def test_a_record_a_client_made_up_does_no_harm(record: Any) -> None:
    found = received(encode_section(MESSAGE_ANNOTATIONS, {RECORD: record}) + encode_section(DATA, b"x"))
    assert (found.subject, found.application, found.annotations, found.body) == (None, {}, {}, b"x")


def test_the_record_is_where_a_client_finds_it() -> None:
    message = written(content(application={"list": [1]}))
    start = find_section(message.header, MESSAGE_ANNOTATIONS)
    assert find_in_map(message.header, start, len(message.header), RECORD.encode()) == {"properties": {"list": [1]}}


def test_kinds_of_values() -> None:
    assert [kind_of(item) for item in ("s", Symbol("s"), {}, [], Array(), 7)] == [
        BODY_TEXT, BODY_VALUE, BODY_MAP, BODY_LIST, BODY_VALUE, BODY_VALUE
    ]  # fmt: skip


def test_a_footer_is_carried_once_and_what_it_cannot_name_is_recorded() -> None:
    assert annotation(written(content(footer={"x-opt-crc": 7})), RECORD) is None
    both = {"x-opt-crc": 7, "x-opt-grün": 8}
    assert to_content(written(content(footer=both))).footer == both


def test_a_serialised_object_is_one_to_jms_clients() -> None:
    message = written(content(content_type="application/x-java-serialized-object", body=b"\xac\xed"))
    assert annotation(message, JMS_TYPE) == 1
    assert to_content(message).annotations == {}
