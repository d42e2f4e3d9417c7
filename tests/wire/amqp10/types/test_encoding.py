from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from annulet.core.base.typed_values import (
    INTEGER_RANGES,
    Array,
    Character,
    Decimal32,
    Described,
    Float32,
    Int,
    MapPairs,
    Symbol,
    TimestampMilliseconds,
    UnsignedInt,
    UnsignedLong,
    Uuid,
)
from annulet.wire.amqp10.types.encoding import (
    encode_binary,
    encode_list,
    encode_map,
    encode_symbols,
    encode_unsigned,
    encode_unsigned_int,
    encode_value,
)
from annulet.wire.amqp10.types.errors import DecodeError, LocalProtocolError
from annulet.wire.amqp10.types.format_codes import MAX_DEPTH, MAX_ZERO_WIDTH_ELEMENTS
from annulet.wire.amqp10.types.values import decode_value
from tests.wire.amqp10.samples import shape, values


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (UnsignedInt(0), "43"),
        (UnsignedInt(1), "5201"),
        (UnsignedInt(256), "7000000100"),
        (UnsignedLong(0), "44"),
        (UnsignedLong(255), "53ff"),
        (Int(127), "547f"),
        (Int(128), "7100000080"),
        (-128, "5580"),
        (-129, "81ffffffffffffff7f"),
        (0, "5500"),
        ([], "45"),
        ([None] * 254, "c0fffe" + "40" * 254),
        ([None] * 255, "d000000103000000ff" + "40" * 255),
        ("x" * 255, "a1ff" + "78" * 255),
        ("x" * 256, "b100000100" + "78" * 256),
        ({}, "c10100"),
        (Array([Symbol("a"), Symbol("b")]), "e00602a301610162"),
        (Array([1, 2]), "e00402550102"),
        (Array([1, 200]), "e01202810000000000000001" + "00000000000000c8"),
        (Array([True]), "e0030156" + "01"),
        (Array([[]]), "e00a01d00000000400000000"),
    ],
)
def test_each_value_takes_the_smallest_format(value: Any, octets: str) -> None:
    assert encode_value(value).hex() == octets


class Name(str):
    __slots__ = ()


class Number(int):
    __slots__ = ()


class Octets(bytes):
    __slots__ = ()


def test_subclasses_encode_as_what_they_are() -> None:
    assert encode_value([Name("a"), Number(1), Octets(b"b")]) == encode_value(["a", 1, b"b"])


def test_empty_arrays_keep_their_constructor() -> None:
    for octets in ("e0020081", "e00200d0", "e0020040"):
        array = decode_value(bytes.fromhex(octets), 0, 4)[0]
        assert encode_value(array).hex() == octets
    array.constructor = 0x99
    with pytest.raises(LocalProtocolError, match="constructor 153"):
        encode_value(array)


@pytest.mark.parametrize(("kind", "least", "greatest"), INTEGER_RANGES)
def test_integers_are_bounded_at_the_limit(kind: type[int], least: int, greatest: int) -> None:
    for number in (least, greatest):
        data = encode_value(kind(number))
        assert shape(decode_value(data, 0, len(data))[0]) == shape(kind(number))
    for number in (least - 1, greatest + 1):
        with pytest.raises(LocalProtocolError, match=f"{number}, allowed are {least} to {greatest}"):
            encode_value(kind(number))
        with pytest.raises(LocalProtocolError, match="allowed"):
            encode_unsigned(number, kind)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (2**63, "type long"),
        (TimestampMilliseconds(2**63), "type timestamp"),
        (object(), "type object"),
        ({1, 2}, "type set"),
        ([{"a": 1j}], "type complex"),
        ("\ud800", "lone surrogate"),
        (Symbol("ä"), "beyond ASCII"),
        (Character("ab"), "one Unicode character"),
        (Character("\ud800"), "one Unicode character"),
        (Decimal32(b"123"), "has 3 octets, needed are 4"),
        (Uuid(b"1"), "needed are 16"),
        (Float32(1e300), "too large for 32 bits"),
        (Described([1]), "1 parts"),
        (MapPairs([1]), "each key needs a value"),
        (Array([1, "a"]), "different types"),
        (Array([UnsignedInt(1), 1]), "different types"),
        (Array([Described([1, 1]), Described([2, 1])]), "different descriptors"),
        (Array([Described([1, 1]), 1]), "different descriptors"),
        (Array([1, Described([1, 1])]), "described values and others"),
        (Array([None] * (MAX_ZERO_WIDTH_ELEMENTS + 1)), "nulls"),
    ],
)
def test_what_cannot_be_carried_is_refused(value: Any, named: str) -> None:
    with pytest.raises(LocalProtocolError, match=named):
        encode_value(value)


def test_nesting_is_bounded_at_the_limit_as_the_decoder_bounds_it() -> None:
    for wrap in (lambda item: [item], lambda item: {"a": item}, lambda item: Described([1, item])):
        value: Any = 1
        for _ in range(MAX_DEPTH):
            value = wrap(value)
        data = encode_value(value)
        assert shape(decode_value(data, 0, len(data))[0]) == shape(value)
        with pytest.raises(LocalProtocolError, match=f"deeper than {MAX_DEPTH}"):
            encode_value(wrap(value))


def test_arrays_of_described_values_are_bounded_as_well() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH + 1):
        value = Described([1, value])
    with pytest.raises(LocalProtocolError, match="deeper"):
        encode_value(Array([value]))


def test_nulls_in_an_array_up_to_the_limit() -> None:
    data = encode_value(Array([None] * MAX_ZERO_WIDTH_ELEMENTS))
    assert decode_value(data, 0, len(data))[0] == [None] * MAX_ZERO_WIDTH_ELEMENTS


@given(values, values)
def test_parts_that_are_encoded_already(first: Any, second: Any) -> None:
    items = [encode_value(first), encode_value(second)]
    data = encode_list(items)
    assert shape(decode_value(data, 0, len(data))[0]) == shape([first, second])
    data = encode_map([encode_value("a"), items[0], encode_value("b"), items[1]])
    assert shape(decode_value(data, 0, len(data))[0]) == shape({"a": first, "b": second})


def test_helpers_of_the_codec() -> None:
    assert encode_unsigned_int(2**32 - 1) == encode_value(UnsignedInt(2**32 - 1))
    assert encode_binary(b"ab") == encode_value(b"ab")
    assert encode_symbols(["a", "b"]) == encode_value(Array([Symbol("a"), Symbol("b")]))
    data = encode_symbols([])
    array = decode_value(data, 0, len(data))[0]
    assert (array, array.constructor) == ([], 0xA3)
    with pytest.raises(DecodeError):
        decode_value(data, 0, len(data) - 1)
