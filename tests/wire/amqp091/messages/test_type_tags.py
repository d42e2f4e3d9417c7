from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from annulet.core.base.typed_values import (
    Array,
    Character,
    Decimal32,
    Described,
    MapPairs,
    Symbol,
    TimestampMilliseconds,
    UnsignedInt,
    UnsignedLong,
    Uuid,
)
from annulet.core.message.content_differences import same_value
from annulet.wire.amqp091.messages.type_tags import DEPTH_MAX, lower, restore
from annulet.wire.amqp091.types.typed_tables import encode_typed_array, read_typed_array
from tests.wire.contents import value


@given(value)
def test_every_value_comes_back_through_a_field_table(given_value: Any) -> None:
    lowered, tag = lower(given_value)
    octets = encode_typed_array([lowered, tag])
    read, read_tag = read_typed_array(octets, 0, len(octets))[0]
    assert same_value(restore(read, read_tag), given_value)


@pytest.mark.parametrize(
    ("given_value", "lowered", "tag"),
    [
        (UnsignedLong(5), 5, "ulong"),
        (UnsignedLong(2**63), "9223372036854775808", "ulong"),
        (TimestampMilliseconds(1000), TimestampMilliseconds(1000), None),
        (TimestampMilliseconds(1345), TimestampMilliseconds(1000), "timestamp:345"),
        (TimestampMilliseconds(-1), -1, "timestamp"),
        (TimestampMilliseconds(253_402_300_800_000), 253_402_300_800_000, "timestamp"),
        (Character("x"), "x", "char"),
        (Symbol("x"), "x", "symbol"),
        (Uuid(bytes(16)), "00000000-0000-0000-0000-000000000000", "uuid"),
        (Decimal32(b"abcd"), b"abcd", "decimal32"),
        (Array(["a"]), ["a"], {"type": "array"}),
        (Described([UnsignedLong(7), "a"]), [7, "a"], {"type": "described", "items": {"0": "ulong"}}),
        (MapPairs([UnsignedInt(1), "a"]), [UnsignedInt(1), "a"], {"type": "map"}),
        ({"a": [Symbol("b")]}, {"a": ["b"]}, {"items": {"a": {"items": {"0": "symbol"}}}}),
        ({Symbol("a"): 1}, {"a": 1}, {"type": "symbols"}),
        ({"n" * 256: 1}, ["n" * 256, 1], {"type": "pairs"}),
        ("plain", "plain", None),
    ],
)
def test_what_consumers_see_and_the_tag_beside_it(given_value: Any, lowered: Any, tag: Any) -> None:
    seen, beside = lower(given_value)
    assert same_value(seen, lowered)
    assert same_value(beside, tag)


def test_an_empty_array_keeps_its_constructor() -> None:
    array = Array()
    array.constructor = 0x71
    restored = restore(*lower(array))
    assert isinstance(restored, Array)
    assert restored.constructor == 0x71


@pytest.mark.parametrize(
    ("changed", "tag"),
    [
        ("x", "ulong"), (-1, "ulong"), ("99999999999999999999", "ulong"), (True, "ulong"),
        ("é", "symbol"), (5, "symbol"),
        ("ab", "char"), ("no", "uuid"), (b"abc", "decimal32"), ("abcd", "decimal32"), ("x", "timestamp"),
        (5, "timestamp:345"), (TimestampMilliseconds(1000), "timestamp:x"), (5, {"type": "array"}), ("x", 7),
        ([1], {"type": "map"}), ([1], {"type": "described"}), ([1, 2], {"type": "pairs"}), ([1], {"items": "x"}),
        ("x", "unknown"),
    ],
)  # fmt: skip
def test_a_value_its_tag_does_not_fit_any_more_stays_as_it_is(changed: Any, tag: Any) -> None:
    assert same_value(restore(changed, tag), changed)


def nested(depth: int) -> list[Any]:
    innermost: list[Any] = [Symbol("deep")]
    for _ in range(depth - 1):
        innermost = [innermost]
    return innermost


def test_nesting_at_the_limit_comes_back_and_beyond_it_is_a_text() -> None:
    assert same_value(restore(*lower(nested(DEPTH_MAX))), nested(DEPTH_MAX))
    deep: Any = lower(nested(DEPTH_MAX + 1))[0]
    for _ in range(DEPTH_MAX):
        deep = deep[0]
    assert deep == "['deep']"
