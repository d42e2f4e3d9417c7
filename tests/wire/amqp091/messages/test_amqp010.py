"""The encoding of maps and lists in bodies, octet by octet as Qpid's clients have it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.typed_values import (
    Byte,
    Character,
    Decimal64,
    Float32,
    Int,
    Short,
    TimestampMilliseconds,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Uuid,
)
from annulet.core.message.content_differences import same_value
from annulet.wire.amqp091.messages.amqp010 import DEPTH_MAX, decode_list, decode_map, encode_list, encode_map
from annulet.wire.amqp091.messages.type_tags import lower, restore
from annulet.wire.amqp091.types.errors import LocalProtocolError
from tests.wire.contents import value


def listed(octets: str, count: int = 1) -> bytes:
    """Return a list of so many values, which are given in hexadecimal digits."""
    content = bytes.fromhex(octets)
    return (len(content) + 4).to_bytes(4, "big") + count.to_bytes(4, "big") + content


BOTH_WAYS: list[tuple[Any, str]] = [
    (None, "f0"),
    (True, "0801"),
    (False, "0800"),
    (Byte(-1), "01ff"),
    (UnsignedByte(255), "02ff"),
    (Short(-2), "11fffe"),
    (UnsignedShort(65535), "12ffff"),
    (Int(-2), "21fffffffe"),
    (UnsignedInt(2**32 - 1), "22ffffffff"),
    (-2, "31fffffffffffffffe"),
    (UnsignedLong(2**64 - 1), "32ffffffffffffffff"),
    (Float32(1.5), "233fc00000"),
    (1.5, "333ff8000000000000"),
    (TimestampMilliseconds(7000), "380000000000000007"),
    (Character("a"), "0461"),
    (Character("\u20ac"), "27000020ac"),
    (Uuid(bytes(range(16))), "48000102030405060708090a0b0c0d0e0f"),
    ("é", "950002c3a9"),
    ("", "950000"),
    (b"\xff", "a000000001ff"),
    (Decimal64((397 << 53 | 15).to_bytes(8, "big")), "c8010000000f"),
    ({"a": Byte(1)}, "a8 00000008 00000001 0161 0101"),
    ([Byte(1)], "a9 00000006 00000001 0101"),
    ({}, "a8 00000004 00000000"),
    ([], "a9 00000004 00000000"),
]
READ_ONLY: list[tuple[Any, str]] = [
    ("é", "8502c3a9"),
    ("\u20ac", "8401a4"),
    ("\u20ac", "940001a4"),
    ("é", "860200e9"),
    ("é", "960004fffee900"),
    (b"\x01", "8001 01"),
    (b"\x01\x02", "900002 0102"),
    (b"\x01", "0001"),
    (b"\x01\x02", "100102"),
    (bytes(128), "70" + "00" * 128),
    (b"12345", "c03132333435"),
    (b"123456789", "d0313233343536373839"),
    ([Short(1), Short(2)], "aa 00000009 11 00000002 0001 0002"),
    ([], "aa 00000000"),
    ([], "a9 00000000"),
    ({}, "a8 00000000"),
    (Character("\u20ac"), "04a4"),
    (True, "0805"),
]


@pytest.mark.parametrize(("value", "octets"), BOTH_WAYS)
def test_a_value_is_written_as_qpid_writes_it(value: Any, octets: str) -> None:
    assert encode_list([value]) == listed(octets)


@pytest.mark.parametrize(("value", "octets"), BOTH_WAYS + READ_ONLY)
def test_a_value_is_read(value: Any, octets: str) -> None:
    assert same_value(decode_list(listed(octets)), [value])


def test_no_octets_are_an_empty_container() -> None:
    assert decode_map(b"") == {}
    assert decode_list(b"") == []


@pytest.mark.parametrize(
    "octets",
    ["f1", "b0", "ab00000002ffff", "d8" + "00" * 9, "c801ffffffff", "9500", "950002c3", "a0ffffffff", "a8000000ff",
     "95000 2c328".replace(" ", ""), "380fffffffffffffff", "27ffffffff", "aa 00000005 f0 ffffffff",
     "a8 0000000e 00000002 0161 0101 0161 0101", "a9 00000007 00000001 0101 00", "aa 00000007 01 00000001 0100"],
)  # fmt: skip
def test_what_is_no_list_of_values_we_have_is_none(octets: str) -> None:
    assert decode_list(listed(octets)) is None


@pytest.mark.parametrize("octets", [b"x", b"\0" * 5, listed("0101", 2), listed("0101", 2**31), listed("0101") + b"x"])
def test_octets_that_are_not_whole_are_no_container(octets: bytes) -> None:
    assert decode_list(octets) is None
    assert decode_map(octets) is None


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=12), value, max_size=4), st.data())
def test_every_map_comes_back_and_no_part_of_it_is_one(table: dict[str, Any], data: st.DataObject) -> None:
    lowered, tag = lower(table, wide=True)
    assert isinstance(lowered, dict)
    octets = encode_map(lowered)
    read = decode_map(octets)
    assert read is not None
    assert same_value(restore(read, tag), table)
    assert decode_map(octets[: data.draw(st.integers(1, len(octets) - 1))]) is None


@given(st.binary(max_size=60))
def test_any_octets_are_a_container_or_none(octets: bytes) -> None:
    for read, write in ((decode_map, encode_map), (decode_list, encode_list)):
        found = read(octets)
        assert found is None or same_value(read(write(found)), found)


def test_nesting_is_bounded() -> None:
    octets = listed("", 0)
    for _ in range(DEPTH_MAX - 1):
        octets = listed("a9" + octets.hex())
    assert decode_list(octets) is not None
    assert decode_list(listed("a9" + octets.hex())) is None


@pytest.mark.parametrize(
    "table",
    [{"a" * 256: 1}, {"a": "x" * 65_536}, {"a": 2**63}, {"a": object()}, {"a": TimestampMilliseconds(1)},
     {"a": UnsignedByte(2**70)}],
)  # fmt: skip
def test_what_the_encoding_has_not_is_refused(table: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        encode_map(table)


def test_a_number_beyond_its_type_is_a_long() -> None:
    assert same_value(decode_list(encode_list([Byte(300)])), [300])
