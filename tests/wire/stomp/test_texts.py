from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from annulet.core.base.typed_values import Array, Described, Float32, MapPairs, Symbol, TimestampMilliseconds, Uuid
from annulet.wire.stomp.texts import json_of, text_of
from tests.wire.contents import value as any_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (Symbol("s"), "s"),
        (None, ""),
        (True, "true"),
        (False, "false"),
        (-7, "-7"),
        (TimestampMilliseconds(5), "5"),
        (1.5, "1.5"),
        (Float32(0.5), "0.5"),
        (float("inf"), "inf"),
        (b"\x00\xff", "00ff"),
        (Uuid(bytes(range(16))), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        ([1, "a", b"\x01", None, float("nan")], '[1,"a","01",null,"nan"]'),
        ({"ä": {"b": True}}, '{"ä":{"b":true}}'),
        (Array([1, 2]), "[1,2]"),
        (MapPairs([1, "x"]), '[[1,"x"]]'),
        (Described([Symbol("d"), 1]), '{"descriptor":"d","value":1}'),
    ],
)
def test_each_type_has_its_text(value: Any, text: str) -> None:
    assert text_of(value) == text


@given(any_value)
def test_any_value_has_a_text_and_is_valid_json(value: Any) -> None:
    assert isinstance(text_of(value), str)
    json.loads(json_of(value))
