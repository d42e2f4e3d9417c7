from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import decode, encode

from annulet.wire.amqp091.types.constants import MAX_TABLE_DEPTH, MAX_TABLE_VALUES
from annulet.wire.amqp091.types.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.amqp091.types.typed_tables import encode_typed_table, read_typed_table
from annulet.wire.amqp091.types.values import (
    Timestamp,
    encode_short_string,
    encode_table,
    find_in_table,
    has_more_fields,
    read_readable_table,
    read_short_string,
    read_table,
    read_table_content,
    read_value,
    skip_value,
)

names = st.text(max_size=20)
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.integers(0, 2**32 - 1).map(Timestamp)  # the oracle takes larger ones for milliseconds
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
tables = st.dictionaries(names, values, max_size=5)


def as_theirs(value: Any) -> Any:
    if isinstance(value, Timestamp):
        return datetime.fromtimestamp(int(value), UTC)
    if isinstance(value, bytes):
        return bytearray(value)
    if isinstance(value, list):
        return [as_theirs(item) for item in value]
    if isinstance(value, dict):
        return {name: as_theirs(item) for name, item in value.items()}
    return value


@given(tables)
def test_tables_both_ways_and_as_the_oracle_reads_them(table: dict[str, Any]) -> None:
    encoded = encode_table(table)
    decoded, stop = read_table(encoded + b"trailing", 0, len(encoded))
    assert (decoded, stop) == (table, len(encoded))
    assert decode.field_table(encoded) == (len(encoded), as_theirs(table))
    for name, value in table.items():
        assert find_in_table(encoded, 0, len(encoded), name.encode()) == value
    assert find_in_table(encoded, 0, len(encoded), b"\xff") is None


@given(
    st.dictionaries(names.filter(bool), st.booleans() | st.integers(-(2**31), 2**40) | st.text(max_size=9), max_size=5)
)
def test_tables_of_the_oracle_are_read(table: dict[str, Any]) -> None:
    encoded = encode.field_table(table)
    assert read_table(encoded, 0, len(encoded)) == (table, len(encoded))
    assert read_table_content(encoded[4:]) == table


@given(tables)
def test_timestamps_stay_timestamps(table: dict[str, Any]) -> None:
    encoded = encode_table(table)
    assert encode_table(read_table(encoded, 0, len(encoded))[0]) == encoded


WIRE = [
    (b"t\x01", True),
    (b"t\x00", False),
    (b"b\xff", -1),
    (b"B\xff", 255),
    (b"s\xff\xfe", -2),
    (b"u\xff\xfe", 65534),
    (b"I\xff\xff\xff\xff", -1),
    (b"i\xff\xff\xff\xff", 2**32 - 1),
    (b"l" + b"\xff" * 8, -1),
    (b"L" + b"\xff" * 8, -1),
    (b"f" + struct.pack(">f", 0.5), 0.5),
    (b"d" + struct.pack(">d", 0.1), 0.1),
    (b"D\x02\x00\x00\x01\x3b", 3.15),
    (b"S\x00\x00\x00\x02hi", "hi"),
    (b"S\x00\x00\x00\x02\xff\xfe", b"\xff\xfe"),
    (b"x\x00\x00\x00\x02hi", b"hi"),
    (b"A\x00\x00\x00\x03t\x01V", [True, None]),
    (b"F\x00\x00\x00\x03\x01aV", {"a": None}),
    (b"T" + b"\x00" * 7 + b"\x05", 5),
    (b"V", None),
]


@pytest.mark.parametrize(("wire", "value"), WIRE)
def test_every_type_of_the_errata(wire: bytes, value: Any) -> None:
    read, stop = read_value(wire + b"more", 0, len(wire), 0)
    assert (read, stop) == (pytest.approx(value) if isinstance(value, float) else value, len(wire))
    assert type(read) is (Timestamp if wire[:1] == b"T" else type(value))
    assert skip_value(wire + b"more", 0, len(wire)) == len(wire)
    if not isinstance(value, (bytes, dict, list)) and wire[:1] not in b"sLT":
        theirs = decode.embedded_value(wire)[1]
        assert float(theirs) == pytest.approx(value) if isinstance(theirs, Decimal | float) else theirs == value
    for size in range(len(wire)):
        with pytest.raises(RemoteProtocolError):
            read_value(wire, 0, size, 0)
        with pytest.raises(RemoteProtocolError):
            skip_value(wire, 0, size)


@pytest.mark.parametrize("kind", sorted(set(range(256)) - set(b"tbBsuIilLfdDSATFVx")))
def test_unknown_types_are_refused(kind: int) -> None:
    for read in (lambda data: read_value(data, 0, 20, 0), lambda data: skip_value(data, 0, 20)):
        with pytest.raises(RemoteProtocolError, match="unknown field type"):
            read(bytes((kind,)) + b"\0" * 20)


@given(st.binary(max_size=60))
def test_no_octets_make_a_reader_fail_otherwise(data: bytes) -> None:
    for read in (lambda: read_table(data, 0, len(data)), lambda: find_in_table(data, 0, len(data), b"a")):
        try:
            read()
        except RemoteProtocolError as error:
            assert error.code == 502  # noqa: PT017 - any other exception fails the test


@pytest.mark.parametrize(("depth", "accepted"), [(MAX_TABLE_DEPTH - 1, True), (MAX_TABLE_DEPTH, False), (5000, False)])
def test_nesting_is_bounded(depth: int, accepted: bool) -> None:
    data = b"\x00\x00\x00\x00"
    for _ in range(depth):
        inner = b"\x01aF" + data
        data = len(inner).to_bytes(4, "big") + inner
    if accepted:
        assert read_table(data, 0, len(data))[1] == len(data)
    else:
        with pytest.raises(RemoteProtocolError, match="nested"):
            read_table(data, 0, len(data))


@pytest.mark.parametrize("size", [254, 255, 256])
def test_short_strings_at_their_bound(size: int) -> None:
    if size > 255:
        with pytest.raises(LocalProtocolError, match="256 octets"):
            encode_short_string("x" * size)
    else:
        encoded = encode_short_string("x" * size)
        assert read_short_string(encoded, 0, len(encoded)) == ("x" * size, size + 1)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, Timestamp(-1)])
def test_values_that_cannot_be_written_are_our_own_error(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match="'field'"):
        encode_table({"field": value})


def test_an_object_amqp_has_no_type_for_is_our_own_error() -> None:
    with pytest.raises((LocalProtocolError, TypeError)):  # compiled code refuses it at the door
        encode_table({"field": object()})  # type: ignore[dict-item]


def test_the_first_of_equal_names_counts() -> None:
    data = b"\x00\x00\x00\x08\x01at\x01\x01at\x00"
    assert read_table(data, 0, len(data))[0] == {"a": True}
    assert find_in_table(data, 0, len(data), b"a") is True


# ---------------------------------------------------------------------- counting


def count_of(value: Any) -> int:
    """Count names and values of a table, or values of an array."""
    if isinstance(value, dict):
        return sum(2 + count_of(item) for item in value.values())
    return sum(1 + count_of(item) for item in value) if isinstance(value, list) else 0


nested = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3) | st.integers(-(2**63), 2**63 - 1),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


@given(st.dictionaries(st.text(max_size=3), nested, max_size=5))
def test_names_and_values_are_counted_without_decoding(table: dict[str, Any]) -> None:
    octets = encode_typed_table(table)
    count = count_of(table)
    assert not has_more_fields(octets, 4, len(octets), count)
    assert count == 0 or has_more_fields(octets, 4, len(octets), count - 1)


MALFORMED = b"\x01aA\x00\x00\x00\x01?"


@pytest.mark.parametrize("before", [b"", MALFORMED, b"\x01aF\x00\x00\x00\x09\x01bA\x00\x00\x00\x02V?"])
def test_a_malformed_field_ends_the_count_of_itself_only(before: bytes) -> None:
    """As it is for the reader, which leaves it out: headers behind it are decoded, so they have to be counted."""
    fields = before + encode_typed_table({"b": [None] * 100})[4:]
    assert has_more_fields(fields, 0, len(fields), 100)
    assert not has_more_fields(fields, 0, len(fields), 120)
    assert "b" in read_typed_table(len(fields).to_bytes(4, "big") + fields, 0, len(fields) + 4)


def test_malformed_fields_count() -> None:
    """1,000 of them cost as much as others."""
    assert has_more_fields(MALFORMED * 1000, 0, 1000 * len(MALFORMED), 100)


def test_a_table_of_too_many_values_is_not_decoded() -> None:
    """A8: an array of 120,000 voids in one header or argument took 100 ms."""
    fits, beyond = (encode_typed_table({"a": [None] * (MAX_TABLE_VALUES - 2 + more)}) for more in (0, 1))
    assert len(read_table(fits, 0, len(fits))[0]["a"]) == MAX_TABLE_VALUES - 2  # type: ignore[arg-type]
    with pytest.raises(RemoteProtocolError, match="more than 16384 names and values; send fewer"):
        read_table(beyond, 0, len(beyond))
    assert read_readable_table(fits, 0, len(fits))[0] == read_table(fits, 0, len(fits))[0]
    assert read_readable_table(beyond, 0, len(beyond)) == ({}, len(beyond))
