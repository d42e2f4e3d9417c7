"""Parts of messages at the bounds of conversion and beyond them: docs/conversion.md, "Large messages"."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from annulet.core.base.typed_values import Byte, Symbol
from annulet.core.message.conversion_bounds import (
    ANNOTATIONS_OCTETS,
    APPLICATION_PROPERTIES_OCTETS,
    CONVERTED_BYTES_MAX,
    CONVERTED_FIELDS_MAX,
    CONVERTED_VALUES_MAX,
    ENCODED_TYPE,
    HEADERS_OCTETS,
)
from annulet.core.message.message import ContentView, Message, Origin
from annulet.core.message.neutral_content import (
    BODY_DATA,
    BODY_ENCODED,
    BODY_LIST,
    BODY_MAP,
    BODY_SEQUENCE,
    BODY_TEXT,
    BODY_TEXT_OCTETS,
    BODY_VALUE,
)
from annulet.wire.amqp091.messages.amqp010 import encode_list, encode_map
from annulet.wire.amqp091.messages.conversion import RECORD, read_properties
from annulet.wire.amqp091.messages.jms_bodies import encode_jms_map, encode_jms_stream
from annulet.wire.amqp091.messages.properties import VIEW as AMQP_0_9_1
from annulet.wire.amqp091.messages.properties import BasicProperties
from annulet.wire.amqp091.messages.properties import encode_properties as encode_091
from annulet.wire.amqp10.messages.message import split_incoming
from annulet.wire.amqp10.messages.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    MESSAGE_ANNOTATIONS,
    SEQUENCE,
    VALUE,
    Properties,
    encode_properties,
    encode_section,
)
from annulet.wire.amqp10.messages.view import VIEW as AMQP_1_0
from annulet.wire.stomp.header_block import decode_block
from annulet.wire.stomp.view import VIEW as STOMP
from tests.wire.test_conversions import converted

ORIGIN_KEY = "q"
MOST = CONVERTED_VALUES_MAX
FIELDS = CONVERTED_FIELDS_MAX


def of_1_0(*sections: bytes) -> Message:
    incoming = split_incoming(b"".join(sections), 1 << 24)
    return Message(incoming.header, incoming.body, Origin("", ORIGIN_KEY, "", AMQP_1_0))


def of_0_9_1(body: bytes = b"", **properties: Any) -> Message:
    given = BasicProperties()
    for name, value in properties.items():
        setattr(given, name, value)
    return Message(encode_091(given), body, Origin("", ORIGIN_KEY, "", AMQP_0_9_1))


def of_stomp(body: bytes, **headers: str) -> Message:
    block = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
    return Message(block.encode(), body, Origin("", ORIGIN_KEY, "", STOMP))


def kind(message: Message) -> str:
    return message.origin.view.content(message).body_kind


# ---------------------------------------------------------------------- bodies of AMQP 1.0


def numbers(count: int) -> list[Any]:
    return [Byte(1)] * count


def table(count: int) -> dict[str, Any]:
    return {f"{number:04x}": None for number in range(count)}


AT_AND_BEYOND: list[tuple[str, bytes, bytes, str]] = [
    ("list", encode_section(VALUE, numbers(MOST)), encode_section(VALUE, numbers(MOST + 1)), BODY_LIST),
    ("map", encode_section(VALUE, table(MOST // 2)), encode_section(VALUE, table(MOST // 2 + 1)), BODY_MAP),
    (
        "nested",
        encode_section(VALUE, [numbers(MOST // 2 - 1)] * 2),
        encode_section(VALUE, [numbers(MOST // 2 - 1), numbers(MOST // 2)]),
        BODY_LIST,
    ),
    (
        "sequences",
        encode_section(SEQUENCE, numbers(MOST // 2 - 1)) * 2,
        encode_section(SEQUENCE, numbers(MOST // 2 - 1)) + encode_section(SEQUENCE, numbers(MOST // 2)),
        BODY_SEQUENCE,
    ),
    ("data sections", encode_section(DATA, b"a") * MOST, encode_section(DATA, b"a") * (MOST + 1), BODY_DATA),
    (
        "footer",
        encode_section(DATA, b"a") + encode_section(FOOTER, table(MOST // 2)),
        encode_section(DATA, b"a") + encode_section(FOOTER, table(MOST // 2 + 1)),
        BODY_DATA,
    ),
    (
        "octets in a list",
        encode_section(VALUE, [b"a" * (CONVERTED_BYTES_MAX - 50)]),
        encode_section(VALUE, [b"a" * CONVERTED_BYTES_MAX]),
        BODY_LIST,
    ),
]


@pytest.mark.parametrize(("what", "most", "more", "as_kind"), AT_AND_BEYOND, ids=[row[0] for row in AT_AND_BEYOND])
@pytest.mark.parametrize("view", [AMQP_0_9_1, STOMP], ids=lambda view: view.name)
def test_a_body_beyond_the_bound_keeps_its_octets(
    what: str, most: bytes, more: bytes, as_kind: str, view: ContentView
) -> None:
    assert what
    at, beyond = of_1_0(most), of_1_0(more)
    assert (kind(at), kind(beyond)) == (as_kind, BODY_ENCODED)
    made = converted(beyond, view)
    assert made.body is beyond.body
    assert made.body == more
    assert kind(made) == BODY_ENCODED
    back = converted(made, AMQP_1_0)
    assert back.body is beyond.body
    assert back.header[:1] == beyond.header[:1]
    if view is AMQP_0_9_1:
        assert read_properties(made.header).properties.content_type == ENCODED_TYPE
        assert read_properties(converted(at, view).header).properties.content_type != ENCODED_TYPE
        assert converted(converted(at, view), AMQP_1_0).body == most
    else:
        assert decode_block(made.header)["content-type"] == ENCODED_TYPE


@pytest.mark.parametrize("view", [AMQP_0_9_1, STOMP], ids=lambda view: view.name)
def test_the_content_type_of_the_sender_comes_back(view: ContentView) -> None:
    given = Properties(content_type="application/x-of-mine", subject="s")
    message = of_1_0(encode_properties(given), encode_section(VALUE, numbers(MOST + 1)))
    made = converted(message, view)
    content = AMQP_1_0.content(converted(made, AMQP_1_0))
    assert (content.content_type, content.subject) == ("application/x-of-mine", "s")
    assert AMQP_1_0.properties(converted(made, AMQP_1_0)).content_type == "application/x-of-mine"


def test_what_only_claims_to_be_sections_stays_octets() -> None:
    for body in (b"", b"no sections", encode_section(APPLICATION_PROPERTIES, {"a": 1}) + encode_section(DATA, b"")):
        made = converted(of_0_9_1(body, content_type=ENCODED_TYPE), AMQP_1_0)
        content = AMQP_1_0.content(made)
        assert (content.body_kind, content.body, content.content_type) == (BODY_DATA, body, ENCODED_TYPE)
        again = converted(made, AMQP_0_9_1)
        assert again.body == body
        assert read_properties(again.header).properties.content_type == ENCODED_TYPE


def test_sections_that_another_client_encoded_are_a_body() -> None:
    made = converted(of_0_9_1(encode_section(VALUE, {"a": 1}), content_type=ENCODED_TYPE), AMQP_1_0)
    content = AMQP_1_0.content(made)
    assert (content.body_kind, content.body, content.content_type) == (BODY_MAP, {"a": 1}, None)


@pytest.mark.parametrize("size", [CONVERTED_BYTES_MAX - 5, CONVERTED_BYTES_MAX, CONVERTED_BYTES_MAX + 1])
def test_a_long_text_is_its_octets_everywhere(size: int) -> None:
    section = encode_section(VALUE, "é" + "a" * (size - 2))
    message = of_1_0(section)
    assert kind(message) == (BODY_TEXT if size <= CONVERTED_BYTES_MAX else BODY_TEXT_OCTETS)
    octets = section[-size:]
    made = converted(message, AMQP_0_9_1)
    assert made.body == octets
    assert read_properties(made.header).properties.content_type == "text/plain"
    assert converted(made, AMQP_1_0).body == section  # a text again, because it is recorded
    told = converted(message, STOMP)
    assert told.body == octets
    assert decode_block(told.header)["amq-msg-type"] == "text"


def test_a_long_text_names_its_character_set_to_stomp() -> None:
    given = encode_properties(Properties(content_type="text/xml;charset=utf-16"))
    message = of_1_0(given, encode_section(VALUE, "a" * CONVERTED_BYTES_MAX))
    assert decode_block(converted(message, STOMP).header)["content-type"] == "text/xml;charset=utf-8"


def test_long_octets_in_a_value_stay_octets() -> None:
    """Clients of Proton send their octets so. As hexadecimal digits they would take two bytes each."""
    octets = b"\xff" * (CONVERTED_BYTES_MAX + 1)
    message = of_1_0(encode_section(VALUE, octets))
    assert kind(message) == BODY_VALUE
    made = converted(message, AMQP_0_9_1)
    assert made.body == octets
    assert converted(made, AMQP_1_0).body == message.body
    told = converted(message, STOMP)
    assert told.body == octets
    assert decode_block(told.header)["amq-msg-type"] == "bytes"


# ---------------------------------------------------------------------- properties and annotations of AMQP 1.0


def test_application_properties_beyond_the_bound_are_one_property() -> None:
    section = encode_section(APPLICATION_PROPERTIES, table(FIELDS // 2 + 1))
    message = of_1_0(section, encode_section(DATA, b"body"))
    made = converted(message, AMQP_0_9_1)
    reading = read_properties(made.header)
    assert reading.headers == {APPLICATION_PROPERTIES_OCTETS: section[3:]}
    assert made.body == b"body"
    assert section in converted(made, AMQP_1_0).header
    told = decode_block(converted(message, STOMP).header)
    assert told[APPLICATION_PROPERTIES_OCTETS] == section[3:].hex()
    at = of_1_0(encode_section(APPLICATION_PROPERTIES, table(FIELDS // 2)), encode_section(DATA, b"body"))
    assert len(read_properties(converted(at, AMQP_0_9_1).header).headers) == FIELDS // 2


def test_what_is_added_on_the_way_stands_beside_the_original_properties() -> None:
    section = encode_section(APPLICATION_PROPERTIES, table(FIELDS // 2 + 1))
    content = AMQP_0_9_1.content(converted(of_1_0(section, encode_section(DATA, b"body")), AMQP_0_9_1))
    headers = {**content.application, "added": "here", "0000": "changed"}
    back = converted(of_0_9_1(b"body", headers=headers), AMQP_1_0)
    properties = AMQP_1_0.properties(back).application
    assert properties == {**table(FIELDS // 2 + 1), "added": "here", "0000": "changed"}


def test_annotations_beyond_the_bound_come_back() -> None:
    section = encode_section(MESSAGE_ANNOTATIONS, {**table(FIELDS // 2), "x-opt-app-id": "mine"})
    message = of_1_0(section, encode_section(DATA, b"body"))
    assert AMQP_1_0.content(message).annotations == {ANNOTATIONS_OCTETS: section[3:]}
    made = converted(message, AMQP_0_9_1)
    assert len(made.header) < len(section) + 200
    assert section in converted(made, AMQP_1_0).header
    at = of_1_0(encode_section(MESSAGE_ANNOTATIONS, table(FIELDS // 2)), encode_section(DATA, b"body"))
    assert AMQP_1_0.content(at).annotations == table(FIELDS // 2)


@pytest.mark.parametrize("octets", ["", "c1010000", "c1030240", "c00100", "c103034040"])
def test_octets_that_are_no_map_stay_a_property(octets: str) -> None:
    given: dict[str, Any] = {APPLICATION_PROPERTIES_OCTETS: bytes.fromhex(octets)}
    assert AMQP_1_0.properties(converted(of_0_9_1(headers=given), AMQP_1_0)).application == given


# ---------------------------------------------------------------------- AMQP 0-9-1


@pytest.mark.parametrize(
    "make", [lambda count: table(count // 2), lambda count: {"a": [None] * (count - 2)}], ids=["names", "array"]
)
def test_headers_beyond_the_bound_are_one_property(make: Callable[[int], dict[str, Any]]) -> None:
    at, beyond = of_0_9_1(headers=make(FIELDS)), of_0_9_1(headers=make(FIELDS + 2))
    octets = beyond.header[6:]
    made = converted(beyond, AMQP_1_0)
    assert AMQP_1_0.properties(made).application == {HEADERS_OCTETS: octets}
    back = converted(made, AMQP_0_9_1)
    assert octets in back.header
    assert read_properties(back.header).headers == {HEADERS_OCTETS: octets}
    assert AMQP_0_9_1.properties(back).application == make(FIELDS + 2)
    assert decode_block(converted(beyond, STOMP).header)[HEADERS_OCTETS] == octets.hex()
    assert AMQP_0_9_1.content(at).application == make(FIELDS)
    assert HEADERS_OCTETS not in AMQP_0_9_1.content(converted(converted(at, AMQP_1_0), AMQP_0_9_1)).application


def test_fields_that_are_no_table_stay_a_property() -> None:
    message = of_1_0(encode_section(APPLICATION_PROPERTIES, {HEADERS_OCTETS: b"\x05abc"}), encode_section(DATA, b""))
    assert read_properties(converted(message, AMQP_0_9_1).header).headers[HEADERS_OCTETS] == b"\x05abc"


@pytest.mark.parametrize(
    ("content_type", "make"),
    [
        ("amqp/list", lambda count: encode_list([None] * count)),
        ("amqp/map", lambda count: encode_map(table(count // 2))),
        ("jms/stream-message", lambda count: encode_jms_stream([None] * count)),
        ("jms/map-message", lambda count: encode_jms_map(table(count // 2))),
        ("amqp/list", lambda count: encode_list([b"a" * (count * (CONVERTED_BYTES_MAX // MOST))])),
        ("text/plain", lambda count: b"a" * (count * (CONVERTED_BYTES_MAX // MOST))),
    ],
)
def test_a_body_of_0_9_1_beyond_the_bound_is_data(content_type: str, make: Callable[[int], bytes]) -> None:
    at, beyond = of_0_9_1(make(MOST), content_type=content_type), of_0_9_1(make(MOST + 200), content_type=content_type)
    assert kind(at) != BODY_DATA
    made = converted(beyond, AMQP_1_0)
    assert made.body is beyond.body
    assert AMQP_1_0.properties(made).content_type == content_type
    back = converted(made, AMQP_0_9_1)
    assert back.body is beyond.body
    reading = read_properties(back.header)
    assert reading.properties.content_type == content_type
    assert RECORD not in reading.headers
    assert converted(beyond, STOMP).body == beyond.body


def test_values_that_1_0_converts_have_their_place_in_0_10() -> None:
    """Each takes up to nine octets more there, and has to be read on the way back."""
    values = [Symbol("a")] * (MOST - 1)
    section = encode_section(VALUE, [*values, "a" * (CONVERTED_BYTES_MAX - 4 * MOST)])
    assert converted(converted(of_1_0(section), AMQP_0_9_1), AMQP_1_0).body == section


# ---------------------------------------------------------------------- STOMP


@pytest.mark.parametrize(
    ("body_kind", "make"),
    [
        ("list", lambda count: b"[" + b",".join([b"0"] * count) + b"]"),
        ("map", lambda count: b"{" + b",".join(b'"%d":0' % number for number in range(count // 2)) + b"}"),
        ("sequence", lambda count: b"[" + b",".join([b"[0]"] * (count // 2)) + b"]"),
    ],
)
@pytest.mark.parametrize("view", [AMQP_0_9_1, AMQP_1_0], ids=lambda view: view.name)
def test_json_beyond_the_bound_is_data_and_comes_back(
    body_kind: str, make: Callable[[int], bytes], view: ContentView
) -> None:
    at, beyond = (of_stomp(make(count), amq_msg_type=body_kind) for count in (MOST, MOST + 2))
    assert (kind(at), kind(beyond)) == (body_kind, BODY_DATA)
    made = converted(beyond, view)
    assert made.body is beyond.body
    back = converted(made, STOMP)
    assert back.body == beyond.body
    assert decode_block(back.header) == {"amq-msg-type": body_kind}


def test_a_long_text_of_stomp_is_data() -> None:
    at, beyond = (of_stomp(b"a" * (CONVERTED_BYTES_MAX + more), amq_msg_type="text") for more in (0, 1))
    assert (kind(at), kind(beyond)) == (BODY_TEXT, BODY_DATA)
    assert decode_block(converted(converted(beyond, AMQP_1_0), STOMP).header) == {"amq-msg-type": "text"}


# ---------------------------------------------------------------------- memory


def test_memory_does_not_grow_with_what_is_not_decoded() -> None:
    """A8: a list of 8 million elements took 918 MB and 14 s of the event loop."""
    count = 8_000_000
    octets = b"\x45" * count
    message = of_1_0(b"\x00\x53\x77\xd0" + struct.pack(">II", count + 4, count) + octets)
    for view in (AMQP_0_9_1, STOMP):
        tracemalloc.start()
        try:
            made = converted(message, view)
            assert tracemalloc.get_traced_memory()[1] < 1_000_000
        finally:
            tracemalloc.stop()
        assert made.body is message.body


@pytest.mark.parametrize("view", [AMQP_0_9_1, STOMP], ids=lambda view: view.name)
def test_memory_of_the_largest_conversion_is_bounded(view: ContentView) -> None:
    """At most eight times the bytes that are converted, and a kilobyte for each value."""
    body = encode_section(VALUE, [*([[]] * (MOST - 2)), "\U0001f600" + "é" * (CONVERTED_BYTES_MAX // 2 - 5000)])
    message = of_1_0(body)
    assert kind(message) == BODY_LIST
    tracemalloc.start()
    try:
        converted(message, view)
        assert tracemalloc.get_traced_memory()[1] < 8 * CONVERTED_BYTES_MAX + 1024 * MOST
    finally:
        tracemalloc.stop()
