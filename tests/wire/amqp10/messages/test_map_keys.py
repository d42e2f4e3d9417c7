from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.typed_values import MapPairs, Symbol, UnsignedLong
from annulet.wire.amqp10.messages.map_keys import INDEXED_BYTES, MapKeys
from annulet.wire.amqp10.messages.sections import APPLICATION_PROPERTIES, DATA, MESSAGE_ANNOTATIONS, encode_section
from annulet.wire.amqp10.messages.view import VIEW
from annulet.wire.amqp10.types.errors import DecodeError
from annulet.wire.amqp10.types.values import encode_value
from tests.wire.test_large_conversions import of_1_0


def test_values_are_found_by_key() -> None:
    keys = MapKeys()
    pairs = MapPairs(["a", 1, Symbol("b"), ["x"], UnsignedLong(7), "number", "c", None, Symbol("a"), 3])
    first, second = encode_value(pairs), encode_value({"a": 2})
    for _ in range(2):
        assert [keys.find(first, 0, name) for name in (b"a", b"b", b"c", b"d")] == [1, ["x"], None, None]
        assert keys.find(second, 0, b"a") == 2


def test_two_maps_of_one_header_are_told_apart() -> None:
    keys = MapKeys()
    one, two = encode_value({"a": 1}), encode_value({"a": 2})
    assert [keys.find(one + two, place, b"a") for place in (0, len(one), 0)] == [1, 2, 1]


def test_malformed_octets_end_the_map() -> None:
    octets = bytes.fromhex("c10906a1014140a101423fa1014340")
    assert [MapKeys().find(octets, 0, name) for name in (b"A", b"C")] == [None, None]
    with pytest.raises(DecodeError):
        MapKeys().find(bytes.fromhex("c10502a10141a1ff"), 0, b"A")


@pytest.mark.parametrize("code", [APPLICATION_PROPERTIES, MESSAGE_ANNOTATIONS])
def test_the_view_finds_the_same_in_few_and_in_many_properties(code: int) -> None:
    """A8: a selector with 100 names walked 100 times over 64 KiB of properties, 15 ms each."""
    find: Any = VIEW.application_property if code == APPLICATION_PROPERTIES else VIEW.annotation
    few = {"a": 1, "b": "text", "n": None}
    many = {**{f"h{number:05}": number for number in range(INDEXED_BYTES // 10)}, **few}
    for values in (few, many):
        message = of_1_0(encode_section(code, values), encode_section(DATA, b""))
        assert (len(message.header) > INDEXED_BYTES) is (values is many)
        assert {name: find(message, name) for name in values} == values
        assert find(message, "text") is None
