from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import encode as oracle

from annulet.core.base.typed_values import (
    Byte,
    Decimal64,
    Float32,
    Int,
    Short,
    TimestampMilliseconds,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
)
from annulet.core.message.content_differences import same_value
from annulet.wire.amqp091.types.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.amqp091.types.typed_tables import (
    SECONDS_MAX,
    are_fields,
    decimal_field,
    encode_typed_array,
    encode_typed_table,
    encode_typed_value,
    fits_name,
    read_typed_array,
    read_typed_fields,
    read_typed_table,
    read_typed_value,
)

CASES = [
    (None, b"V"), (True, b"t\x01"), (False, b"t\x00"), ("a", b"S\x00\x00\x00\x01a"),
    (b"\xff", b"x\x00\x00\x00\x01\xff"),
    (Byte(-1), b"b\xff"), (UnsignedByte(255), b"B\xff"), (Short(-2), b"s\xff\xfe"),
    (UnsignedShort(65535), b"u\xff\xff"),
    (Int(-1), b"I\xff\xff\xff\xff"), (UnsignedInt(2**32 - 1), b"i\xff\xff\xff\xff"), (7, b"l" + bytes(7) + b"\x07"),
    (Float32(1.5), b"f\x3f\xc0\x00\x00"), (1.5, b"d\x3f\xf8" + bytes(6)),
    (TimestampMilliseconds(2000), b"T" + bytes(7) + b"\x02"), ([], b"A\x00\x00\x00\x00"), ({}, b"F\x00\x00\x00\x00"),
    ([Short(1), ["x"]], b"A\x00\x00\x00\x0es\x00\x01A\x00\x00\x00\x06S\x00\x00\x00\x01x"),
    ({"a": {"b": Byte(1)}}, b"F\x00\x00\x00\x0b\x01aF\x00\x00\x00\x04\x01bb\x01"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "octets"), CASES)
def test_each_type_has_its_field_type_both_ways(value: Any, octets: bytes) -> None:
    assert encode_typed_value(value) == octets
    read, position = read_typed_value(octets + b"behind", 0, len(octets), 0)
    assert same_value(read, value)
    assert position == len(octets)


@pytest.mark.parametrize(("value", "octets"), CASES)
def test_every_truncated_value_is_refused(value: Any, octets: bytes) -> None:
    for end in range(len(octets)):
        with pytest.raises(RemoteProtocolError):
            read_typed_value(octets[:end], 0, end, 0)


def test_both_letters_of_64_bits_are_signed() -> None:
    assert read_typed_value(b"L" + b"\xff" * 8, 0, 9, 0) == (-1, 9)


def test_text_that_is_not_utf_8_is_octets() -> None:
    assert read_typed_value(b"S\x00\x00\x00\x01\xff", 0, 6, 0)[0] == b"\xff"


def test_seconds_beyond_64_bits_of_milliseconds_are_a_number() -> None:
    value, _ = read_typed_value(b"T" + b"\xff" * 8, 0, 9, 0)
    assert same_value(value, UnsignedLong(2**64 - 1))


@given(st.decimals(min_value=0, max_value=2**20, places=3))
def test_decimals_as_the_oracle_writes_them(number: Decimal) -> None:
    octets = oracle.field_table({"a": number})[6:]
    value, _ = read_typed_value(octets, 0, len(octets), 0)
    assert isinstance(value, Decimal64)
    assert encode_typed_value(value) == octets


@pytest.mark.parametrize(
    "octets",
    [b"\x80" + bytes(7), b"\x7f" + b"\xff" * 7, ((398 + 1) << 53 | 1).to_bytes(8, "big"),
     (398 << 53 | 2**31).to_bytes(8, "big"), (142 << 53).to_bytes(8, "big"), b"short"],
)  # fmt: skip
def test_other_decimals_are_octets(octets: bytes) -> None:
    assert decimal_field(Decimal64(octets)) is None
    assert encode_typed_value(Decimal64(octets))[:1] == b"x"


def test_largest_decimal_and_scale_fit() -> None:
    assert decimal_field(Decimal64((143 << 53 | 2**31 - 1).to_bytes(8, "big"))) == b"\xff\x7f\xff\xff\xff"


@pytest.mark.parametrize(
    "value",
    [2**63, -(2**63) - 1, TimestampMilliseconds(1), TimestampMilliseconds(-1000), object(),
     TimestampMilliseconds((SECONDS_MAX + 1) * 1000)],
)  # fmt: skip
def test_what_cannot_be_carried_names_the_field(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match="'total'"):
        encode_typed_table({"total": value})


def test_a_number_outside_its_type_is_written_as_64_bits() -> None:
    assert encode_typed_value(Byte(300))[:1] == b"l"


def test_tables_and_arrays_both_ways() -> None:
    table = {"a": Byte(1), "b": [UnsignedInt(2), {"c": None}]}
    octets = encode_typed_table(table)
    assert same_value(read_typed_fields(octets, 0, len(octets))[0], table)
    values = encode_typed_array([Byte(1), "x"])
    assert same_value(read_typed_array(values, 0, len(values))[0], [Byte(1), "x"])


def test_malformed_fields_are_left_out_and_the_first_of_a_name_counts() -> None:
    fields = b"\x01bb\x01\x01bb\x02\x01\xffb\x03\x01cb\x04"
    octets = len(fields).to_bytes(4, "big") + fields
    assert read_typed_table(octets, 0, len(octets)) == {"b": 1, "c": 4}


def test_behind_a_field_without_an_end_nothing_can_be_found() -> None:
    fields = b"\x01bb\x01\x01c?\x01db\x02"
    octets = len(fields).to_bytes(4, "big") + fields
    assert read_typed_table(octets, 0, len(octets)) == {"b": 1}


def test_a_malformed_nested_value_is_left_out() -> None:
    fields = b"\x01aA\x00\x00\x00\x01?\x01bb\x01"
    octets = len(fields).to_bytes(4, "big") + fields
    assert read_typed_table(octets, 0, len(octets)) == {"b": 1}


@pytest.mark.parametrize(
    ("name", "fits"), [("", True), ("n" * 255, True), ("n" * 256, False), ("é" * 127, True), ("é" * 128, False)]
)
def test_names_have_at_most_255_octets(name: str, fits: bool) -> None:
    assert fits_name(name) is fits


def test_fields_that_end_nowhere_are_no_table() -> None:
    fields = encode_typed_table({"a": 1, "b": [None], "": {"c": "d"}})[4:]
    assert are_fields(fields)
    assert are_fields(b"")
    assert not any(are_fields(fields[:end]) for end in range(1, 3))
    assert not are_fields(fields + b"\x01")
    assert not are_fields(b"\x01a?")
