from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.base.typed_values import Byte, Character, Float32, Int, Short, Symbol, UnsignedByte
from annulet.core.message.content_differences import same_value
from annulet.wire.amqp091.messages.jms_bodies import (
    decode_jms_map,
    decode_jms_stream,
    encode_jms_map,
    encode_jms_stream,
)
from tests.wire.contents import value

BOTH_WAYS: list[tuple[Any, str]] = [
    (True, "0101"),
    (False, "0100"),
    (Byte(-1), "02ff"),
    (b"\xff", "0300000001ff"),
    (Short(-2), "04fffe"),
    (Character("é"), "0500e9"),
    (Int(-2), "06fffffffe"),
    (-2, "07fffffffffffffffe"),
    (Float32(1.5), "083fc00000"),
    (1.5, "093ff8000000000000"),
    ("é", "0ac3a900"),
    (None, "0b"),
]


@pytest.mark.parametrize(("value", "octets"), BOTH_WAYS)
def test_a_value_is_read_and_written(value: Any, octets: str) -> None:
    stream = bytes.fromhex(octets)
    assert encode_jms_stream([value]) == stream
    assert same_value(decode_jms_stream(stream), [value])
    table = b"\0\0\0\x01a\0" + stream
    assert encode_jms_map({"a": value}) == table
    assert same_value(decode_jms_map(table), {"a": value})


def test_octets_that_are_null_are_nothing() -> None:
    assert decode_jms_stream(bytes.fromhex("03ffffffff")) == [None]


def test_no_octets_are_empty() -> None:
    assert decode_jms_map(b"") == {}
    assert decode_jms_stream(b"") == []


@pytest.mark.parametrize(
    "octets", ["00", "0c", "01", "0400", "0500", "05d800", "0aff00", "0a61", "0300000002ff", "03fffffffe", "0600"]
)
def test_what_is_no_stream_is_none(octets: str) -> None:
    assert decode_jms_stream(bytes.fromhex(octets)) is None


@pytest.mark.parametrize(
    "octets",
    ["00", "00000001", "00000001 61", "00000001 6100", "00000001 6100 0201 00", "ffffffff",
     "00000002 6100 0201 6100 0201"],
)  # fmt: skip
def test_what_is_no_map_is_none(octets: str) -> None:
    assert decode_jms_map(bytes.fromhex(octets)) is None


@pytest.mark.parametrize(
    "value", ["a\0", Symbol("s"), UnsignedByte(1), 2**63, Byte(200), [1], {}, Character("\U0001f4a7")]
)
def test_what_jms_has_not_is_not_written(value: Any) -> None:
    assert encode_jms_stream([value]) is None
    assert encode_jms_map({"a": value}) is None


def test_a_name_with_a_zero_octet_is_not_written() -> None:
    assert encode_jms_map({"a\0b": 1}) is None


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), value, max_size=3))
def test_what_is_written_is_read_as_the_same(table: dict[str, Any]) -> None:
    octets = encode_jms_map(table)
    assert octets is None or same_value(decode_jms_map(octets), table)
