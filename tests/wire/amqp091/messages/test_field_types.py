"""Headers for clients whose version has fewer field types."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.wire.amqp091.connection.versions import AMQP_0_8, AMQP_0_9, AMQP_0_9_EXTENDED
from annulet.wire.amqp091.messages.field_types import limit_field_types
from annulet.wire.amqp091.messages.properties import BasicProperties, decode_properties, encode_properties
from annulet.wire.amqp091.types.constants import MAX_TABLE_DEPTH
from annulet.wire.amqp091.types.errors import RemoteProtocolError
from annulet.wire.amqp091.types.values import Long, Timestamp
from tests.wire.amqp091.old_versions import long_string, short_string


def header_of(*fields: tuple[str, bytes]) -> bytes:
    """Return a content header whose table has these fields, values with their type octet; a priority follows."""
    content = b"".join(short_string(name) + value for name, value in fields)
    return b"\x28\x00" + long_string(content) + b"\x07"


def limited(*fields: tuple[str, bytes], allowed: bytes = AMQP_0_8.field_types) -> bytes:
    return limit_field_types(header_of(*fields), allowed)


def table(*fields: tuple[str, bytes]) -> bytes:
    return b"F" + long_string(b"".join(short_string(name) + value for name, value in fields))


def text(value: str) -> bytes:
    return b"S" + long_string(value.encode())


def integer(value: int) -> bytes:
    return b"I" + struct.pack("!i", value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"t\x01", integer(1)),
        (b"t\x00", integer(0)),
        (b"b\xff", integer(-1)),
        (b"B\xff", integer(255)),
        (b"s\xff\xfe", integer(-2)),
        (b"u\xff\xfe", integer(65534)),
        (b"i\x7f\xff\xff\xff", integer(2**31 - 1)),
        (b"i\x80\x00\x00\x00", text("2147483648")),
        (b"l" + struct.pack("!q", -(2**31)), integer(-(2**31))),
        (b"l" + struct.pack("!q", -(2**31) - 1), text("-2147483649")),
        (b"L" + struct.pack("!q", 2**63 - 1), text("9223372036854775807")),
        (b"d" + struct.pack("!d", 0.1), text("0.1")),
        (b"d" + struct.pack("!d", -1e300), text("-1e+300")),
        (b"d" + struct.pack("!d", float("nan")), text("nan")),
        (b"f" + struct.pack("!f", 1.5), text("1.5")),
        (b"x" + long_string(b"\x00\xff"), b"S" + long_string(b"\x00\xff")),
        (b"V", text("")),
        (b"A" + long_string(text("a") + b"t\x01"), table(("0", text("a")), ("1", integer(1)))),
        (b"A" + long_string(b""), table()),
        (table(("deep", b"A" + long_string(table(("flag", b"t\x01"))))),
         table(("deep", table(("0", table(("flag", integer(1)))))))),
    ],
)  # fmt: skip
def test_each_type_that_0_8_has_not(value: bytes, expected: bytes) -> None:
    before, after = ("before", text("1")), ("after", integer(2))
    assert limited(before, ("it", value), after) == header_of(before, ("it", expected), after)


def test_0_9_has_void_too() -> None:
    assert limited(("it", b"V"), ("flag", b"t\x01"), allowed=AMQP_0_9.field_types) == header_of(
        ("it", b"V"), ("flag", integer(1))
    )


def test_an_array_stays_one_where_there_are_arrays_and_its_values_are_limited() -> None:
    array = b"A" + long_string(b"l" + bytes(7) + b"\x05" + b"t\x01" + b"A" + long_string(b"d" + struct.pack("!d", 1.5)))
    expected = b"A" + long_string(integer(5) + b"t\x01" + b"A" + long_string(text("1.5")))
    assert limited(("list", array), allowed=AMQP_0_9_EXTENDED.field_types) == header_of(("list", expected))


def test_what_the_version_has_keeps_its_octets() -> None:
    header = header_of(
        ("S", text("ä")), ("octets", b"S" + long_string(b"\xff")), ("I", integer(-7)), ("T", b"T" + bytes(8)),
        ("D", b"D\x02" + struct.pack("!i", -314)), ("F", table(("I", integer(1)), ("I", integer(2)))),
    )  # fmt: skip
    assert limit_field_types(header, AMQP_0_8.field_types) is header


def test_headers_without_a_table_are_the_same_object() -> None:
    for header in (b"\x00\x00", b"\x10\x00\x02", b"\x20\x00\x00\x00\x00\x00"):
        assert limit_field_types(header, AMQP_0_8.field_types) is header


def test_properties_around_the_table_stay() -> None:
    properties = BasicProperties()
    properties.content_type, properties.content_encoding, properties.priority = "text/plain", "utf-8", 9
    properties.headers = {"flag": True}
    properties.timestamp, properties.user_id = 1_700_000_000, "guest"
    read = decode_properties(limit_field_types(encode_properties(properties), AMQP_0_8.field_types))
    assert read.headers == {"flag": 1}
    assert (read.content_type, read.content_encoding, read.priority) == ("text/plain", "utf-8", 9)
    assert (read.timestamp, read.user_id) == (1_700_000_000, "guest")


def test_a_malformed_nested_value_goes_out_as_octets() -> None:
    """Publishing does not look into nested values; the fields around it must arrive all the same."""
    broken = b"\x01kQ\x00"  # a field of an unknown type
    assert limited(("it", b"F" + long_string(broken)), ("flag", b"t\x01")) == header_of(
        ("it", b"S" + long_string(long_string(broken))), ("flag", integer(1))
    )


def test_a_malformed_table_is_the_peer_s_error() -> None:
    for fields in (b"\x01k", b"\x05k", b"\x01kI\x00", b"\x01kQ\x00"):
        with pytest.raises(RemoteProtocolError):
            limit_field_types(b"\x20\x00" + long_string(fields), AMQP_0_8.field_types)


def test_nesting_beyond_the_bound_ends_in_octets() -> None:
    value = b"t\x01"
    for _ in range(MAX_TABLE_DEPTH + 10):
        value = b"A" + long_string(value)
    header = limited(("it", value))
    assert b"A" + long_string(b"") not in header
    assert decode_properties(header).headers


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=8)
    | st.binary(max_size=8) | st.integers(0, 2**40).map(Timestamp) | st.integers(-9, 9).map(Long),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


def types_in(data: bytes) -> set[str]:
    """Return the letters in a table's content, read by a reader of this test that knows 0-8 only."""
    found, position = set(), 0
    while position < len(data):
        position += 1 + data[position]
        letter = chr(data[position])
        found.add(letter)
        size = {"I": 4, "T": 8, "D": 5}.get(letter)
        if size is None:
            assert letter in "SF", letter
            size = 4 + int.from_bytes(data[position + 1 : position + 5], "big")
            if letter == "F":
                found |= types_in(data[position + 5 : position + 1 + size])
        position += 1 + size
    assert position == len(data)
    return found


def expected(value: Any) -> Any:
    """Return what a reader finds in the place of a value."""
    if isinstance(value, dict):
        return {name: expected(item) for name, item in value.items()}
    if isinstance(value, list):
        return {str(number): expected(item) for number, item in enumerate(value)}
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not isinstance(value, Timestamp) and not -(2**31) <= value < 2**31:
        return str(int(value))
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    if isinstance(value, float):
        return str(value)
    return "" if value is None else value


@given(st.dictionaries(st.text(max_size=8), values, max_size=5))
def test_everything_is_there_in_types_of_0_8(headers: dict[str, Any]) -> None:
    properties = BasicProperties()
    properties.headers = headers
    header = limit_field_types(encode_properties(properties), AMQP_0_8.field_types)
    assert types_in(header[6:]) <= set("SIDTF")
    assert decode_properties(header).headers == expected(headers)
    assert limit_field_types(header, AMQP_0_8.field_types) is header


def test_a_float_reads_back_as_the_same_number() -> None:
    for number in (0.1, 1e-320, 2.0**60, -1 / 3):
        header = limited(("it", b"d" + struct.pack("!d", number)))
        read = decode_properties(header).headers
        assert read is not None
        assert float(str(read["it"])) == number
        assert Decimal(str(read["it"])).is_finite()
