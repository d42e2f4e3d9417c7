from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.typed_values import MapPairs, Symbol, TimestampMilliseconds, UnsignedLong, Uuid
from annulet.wire.amqp10.frames.outcomes import Declare
from annulet.wire.amqp10.messages.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    LIMIT_SECTIONS,
    MESSAGE_ANNOTATIONS,
    NO_BODY,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    Header,
    Properties,
    Section,
    decode_header,
    decode_properties,
    encode_header,
    encode_properties,
    encode_section,
    find_in_map,
    has_key,
    is_map,
    split_message,
)
from annulet.wire.amqp10.types.composite import decode_composite
from annulet.wire.amqp10.types.errors import DecodeError, LocalProtocolError, MessageTooComplex
from annulet.wire.amqp10.types.values import decode_value, encode_value
from tests.wire.amqp10 import samples
from tests.wire.amqp10.samples import MESSAGE, shape, texts, values

PARTS = {
    HEADER: encode_header(Header(True)),
    DELIVERY_ANNOTATIONS: encode_section(DELIVERY_ANNOTATIONS, {"x-a": 1}),
    MESSAGE_ANNOTATIONS: encode_section(MESSAGE_ANNOTATIONS, {"x-b": 2}),
    PROPERTIES: encode_properties(Properties(subject="s")),
    APPLICATION_PROPERTIES: encode_section(APPLICATION_PROPERTIES, {"k": "v"}),
    DATA: encode_section(DATA, b"body"),
    SEQUENCE: encode_section(SEQUENCE, [1, "a"]),
    VALUE: encode_section(VALUE, {"a": 1}),
    FOOTER: encode_section(FOOTER, {"x-c": 3}),
}
SYMBOLIC = {
    HEADER: "amqp:header:list",
    DELIVERY_ANNOTATIONS: "amqp:delivery-annotations:map",
    MESSAGE_ANNOTATIONS: "amqp:message-annotations:map",
    PROPERTIES: "amqp:properties:list",
    APPLICATION_PROPERTIES: "amqp:application-properties:map",
    DATA: "amqp:data:binary",
    SEQUENCE: "amqp:amqp-sequence:list",
    VALUE: "amqp:amqp-value:*",
    FOOTER: "amqp:footer:map",
}


def content_of(data: bytes, section: Section | None) -> Any:
    assert section is not None
    value, stop = decode_value(data, section.content, section.end)
    assert stop == section.end
    return value


def test_a_message_with_every_section() -> None:
    sections = split_message(MESSAGE)
    assert sections.header is not None
    assert sections.properties is not None
    header = decode_header(MESSAGE, sections.header.content, sections.header.end)
    assert header == Header(True, 7, 60000, True, 3)
    properties = decode_properties(MESSAGE, sections.properties.content, sections.properties.end)
    assert properties == samples.PROPERTIES
    assert type(properties.correlation_id) is UnsignedLong
    assert content_of(MESSAGE, sections.delivery_annotations) == {"x-opt-to": "a"}
    assert content_of(MESSAGE, sections.message_annotations)["x-opt-delivery-time"] == 5
    assert content_of(MESSAGE, sections.application_properties)["region"] == "eu"
    assert (sections.body_kind, [content_of(MESSAGE, section) for section in sections.body]) == (
        DATA,
        [b"first", b"second"],
    )
    assert content_of(MESSAGE, sections.footer) == {Symbol("x-crc"): 1}
    assert sections.properties.start == sections.bare_start
    assert sections.footer is not None
    assert sections.footer.start == sections.bare_end


def test_sections_lie_end_to_end() -> None:
    sections = split_message(MESSAGE)
    found = [
        sections.header, sections.delivery_annotations, sections.message_annotations, sections.properties,
        sections.application_properties, *sections.body, sections.footer,
    ]  # fmt: skip
    position = 0
    for section in found:
        assert section is not None
        assert section.start == position
        assert section.start < section.content < section.end
        position = section.end
    assert position == len(MESSAGE)


@pytest.mark.parametrize(
    "codes",
    [
        [],
        [HEADER],
        [DATA],
        [HEADER, VALUE],
        [MESSAGE_ANNOTATIONS, SEQUENCE, SEQUENCE],
        [PROPERTIES, DATA, DATA, FOOTER],
        [HEADER, FOOTER],
        [APPLICATION_PROPERTIES],
    ],
)
def test_sections_may_be_absent(codes: list[int]) -> None:
    data = b"".join(PARTS[code] for code in codes)
    sections = split_message(data)
    found = [
        section.code
        for section in (
            sections.header, sections.delivery_annotations, sections.message_annotations, sections.properties,
            sections.application_properties, *sections.body, sections.footer,
        )
        if section is not None
    ]  # fmt: skip
    assert found == codes
    bodies = [code for code in codes if code in {DATA, SEQUENCE, VALUE}]
    assert sections.body_kind == (bodies[0] if bodies else NO_BODY)
    bare = b"".join(PARTS[code] for code in codes if PROPERTIES <= code <= VALUE)
    assert data[sections.bare_start : sections.bare_end] == bare


@pytest.mark.parametrize("first", PARTS)
@pytest.mark.parametrize("second", PARTS)
def test_order_and_number_of_sections(first: int, second: int) -> None:
    data = PARTS[first] + PARTS[second]
    body = {DATA, SEQUENCE, VALUE}
    repeated = first == second and first in {DATA, SEQUENCE}
    if (first < second and not {first, second} <= body) or repeated:
        assert split_message(data).bare_end > 0
        return
    with pytest.raises(DecodeError, match=f"at octet {len(PARTS[first])} comes after"):
        split_message(data)


@pytest.mark.parametrize("code", PARTS)
def test_symbolic_and_long_descriptors_are_read(code: int) -> None:
    content = PARTS[code][3:]
    for descriptor in (encode_value(Symbol(SYMBOLIC[code])), b"\x80" + bytes(7) + bytes((code,))):
        data = b"\x00" + descriptor + content
        sections = split_message(data)
        (section,) = [
            section
            for section in (
                sections.header, sections.delivery_annotations, sections.message_annotations, sections.properties,
                sections.application_properties, *sections.body, sections.footer,
            )
            if section is not None
        ]  # fmt: skip
        assert (section.code, section.start, section.content, section.end) == (
            code,
            0,
            1 + len(descriptor),
            len(data),
        )


@pytest.mark.parametrize("code", PARTS)
def test_contents_of_another_type_are_refused(code: int) -> None:
    data = b"\x00\x53" + bytes((code,)) + b"\x41"
    if code == VALUE:
        assert content_of(data, split_message(data).body[0]) is True
        return
    with pytest.raises(DecodeError, match="octet 3 has format code 0x41"):
        split_message(data)


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (PARTS[DATA] + b"x", "octet 9 of the message is 0x78, needed is a section"),
        (PARTS[DATA] + b"\x00", "octet"),
        (b"\x00\x53\x6f\x45", "descriptor '111'; sections are 0x70 to 0x78"),
        (b"\x00\x53\x79\x45", "descriptor '121'"),
        (b"\x00\xa3\x01a\x45", "descriptor 'a'"),
        (b"\x00\x53\x75\xa0\x05abcd", "needs 6 octets, 5 are left"),
    ],
)
def test_malformed_messages(data: bytes, named: str) -> None:
    with pytest.raises(DecodeError, match=named):
        split_message(data)


def test_messages_cut_short_are_errors_or_end_with_a_section() -> None:
    sections = split_message(MESSAGE)
    ends = {0} | {
        section.end
        for section in (
            sections.header, sections.delivery_annotations, sections.message_annotations, sections.properties,
            sections.application_properties, *sections.body, sections.footer,
        )
        if section is not None
    }  # fmt: skip
    for end in range(len(MESSAGE) + 1):
        if end in ends:
            split_message(MESSAGE[:end])
            continue
        with pytest.raises(DecodeError):
            split_message(MESSAGE[:end])


def test_corrupted_messages_raise_nothing_but_decode_errors() -> None:
    generator = random.Random(3)
    survived = 0
    for _ in range(3000):
        data = bytearray(MESSAGE)
        data[generator.randrange(len(data))] = generator.randrange(256)
        try:
            sections = split_message(bytes(data))
        except DecodeError:
            continue
        survived += 1
        assert all(0 <= section.start < section.content < section.end <= len(data) for section in sections.body)
    assert survived > 1000


headers = st.builds(
    Header, st.booleans(), st.none() | st.integers(0, 255), st.none() | st.integers(0, 2**32 - 1), st.booleans(),
    st.integers(0, 2**32 - 1),
)  # fmt: skip
message_ids = st.one_of(
    st.none(), texts, st.binary(max_size=20), st.integers(0, 2**64 - 1).map(UnsignedLong),
    st.binary(min_size=16, max_size=16).map(Uuid),
)  # fmt: skip
optional_texts = st.none() | texts
optional_symbols = st.none() | st.text("abc/;=", max_size=9)
times = st.none() | st.integers(-(2**63), 2**63 - 1)
all_properties = st.builds(
    Properties, message_ids, st.none() | st.binary(max_size=9), optional_texts, optional_texts, optional_texts,
    message_ids, optional_symbols, optional_symbols, times, times, optional_texts,
    st.none() | st.integers(0, 2**32 - 1), optional_texts,
)  # fmt: skip


@given(headers)
def test_headers_both_ways(header: Header) -> None:
    data = encode_header(header)
    assert decode_header(data, 3, len(data)) == header
    assert decode_composite(data, 0, len(data)) == (header, len(data))
    for end in range(3, len(data)):
        with pytest.raises(DecodeError):
            decode_header(data, 3, end)


def test_a_header_without_fields_has_the_defaults() -> None:
    assert decode_header(b"\x45", 0, 1) == Header(False, None, None, False, 0)
    assert decode_header(b"\xc0\x06\x05" + b"\x40" * 5, 0, 8) == Header()
    with pytest.raises(DecodeError, match="header has 6 fields, at most 5"):
        decode_header(b"\xc0\x07\x06" + b"\x40" * 6, 0, 9)
    with pytest.raises(DecodeError, match=r"header\.priority at octet"):
        decode_header(b"\xc0\x04\x02\x41\x52\x05", 0, 6)


@given(all_properties)
def test_properties_both_ways(properties: Properties) -> None:
    data = encode_properties(properties)
    decoded = decode_properties(data, 3, len(data))
    assert decoded == properties
    assert shape(decoded.message_id) == shape(properties.message_id)
    assert shape(decoded.correlation_id) == shape(properties.correlation_id)
    for end in range(3, len(data)):
        with pytest.raises(DecodeError):
            decode_properties(data, 3, end)


def test_a_message_id_of_another_type_is_named() -> None:
    data = b"\xc0\x03\x01\x52\x05"
    with pytest.raises(DecodeError, match=r"properties\.message-id at octet 3 has format code 0x52"):
        decode_properties(data, 0, len(data))


def test_keys_of_sections_have_the_type_of_the_section() -> None:
    for code in (DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS, FOOTER):
        data = encode_section(code, {"a": "b"})
        ((key, _),) = decode_value(data, 3, len(data))[0].items()
        assert type(key) is Symbol
        pairs = MapPairs([UnsignedLong(1), TimestampMilliseconds(2)])
        data = encode_section(code, pairs)
        assert shape(decode_value(data, 3, len(data))[0]) == shape(pairs)
    data = encode_section(APPLICATION_PROPERTIES, {Symbol("a"): "b"})
    ((key, _),) = decode_value(data, 3, len(data))[0].items()
    assert type(key) is str
    data = encode_section(VALUE, Declare())
    assert decode_composite(data, 3, len(data)) == (Declare(), len(data))


@pytest.mark.parametrize(
    ("code", "value"),
    [(HEADER, []), (PROPERTIES, []), (0x79, []), (DATA, "text"), (SEQUENCE, (1,)), (APPLICATION_PROPERTIES, [1]),
     (MESSAGE_ANNOTATIONS, [1]), (MESSAGE_ANNOTATIONS, {"ä": 1}), (VALUE, object()), (DATA, Uuid(bytes(16)))],
)  # fmt: skip
def test_sections_that_do_not_exist_are_not_written(code: int, value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        encode_section(code, value)


@given(st.dictionaries(texts, values, max_size=5), texts)
def test_one_entry_of_a_map_is_found_without_the_others(properties: dict[str, Any], absent: str) -> None:
    data = encode_section(APPLICATION_PROPERTIES, properties)
    for name, value in properties.items():
        assert shape(find_in_map(data + b"more", 3, len(data), name.encode())) == shape(value)
    if absent not in properties:
        assert find_in_map(data, 3, len(data), absent.encode()) is None


def test_maps_with_symbols_and_other_keys_are_searched() -> None:
    data = encode_value(MapPairs([UnsignedLong(1), "one", Symbol("a"), "symbol", "a", "string"]))
    assert find_in_map(data, 0, len(data), b"a") == "symbol"
    assert find_in_map(data, 0, len(data), b"one") is None


@pytest.mark.parametrize("octets", ["", "45", "c10502a10261", "c10502a1016199", "c10402a10561", "c10302990140"])
def test_malformed_maps_are_errors_as_far_as_they_are_read(octets: str) -> None:
    data = bytes.fromhex(octets)
    with pytest.raises(DecodeError):
        find_in_map(data, 0, len(data), b"zz")


# ---------------------------------------------------------------------- maps and bounds


def test_a_map_is_asked_for_several_keys_at_once() -> None:
    octets = encode_value(MapPairs(["a", 1, Symbol("bb"), {"c": 2}, UnsignedLong(7), "d"]))
    assert has_key(octets, 0, len(octets), frozenset({b"x", b"bb"}))
    assert not has_key(octets, 0, len(octets), frozenset({b"c", b"d", b"b"}))


@pytest.mark.parametrize(
    ("octets", "is_one"),
    [
        ("c10100", True), ("c10502a1016140", True), ("d10000000400000000", True), ("c10502a101614040", False),
        ("c10501a1016140", False), ("c00100", False), ("c1", False), ("", False), ("c10302a101", False),
    ],
)  # fmt: skip
def test_octets_that_are_a_map(octets: str, is_one: bool) -> None:
    assert is_map(bytes.fromhex(octets)) is is_one


@pytest.mark.parametrize("section", [encode_section(DATA, b""), encode_section(SEQUENCE, [])])
def test_a_body_has_a_bounded_number_of_sections(section: bytes) -> None:
    assert len(split_message(section * 7, 7).body) == 7
    with pytest.raises(MessageTooComplex, match="more than 7 body sections") as caught:
        split_message(section * 8, 7)
    assert caught.value.limit == LIMIT_SECTIONS
