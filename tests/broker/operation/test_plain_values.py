"""Values as JSON."""

from __future__ import annotations

from annulet.broker.operation.plain_values import DEPTH_MAX, json_object, json_value
from annulet.core.base.typed_values import Int


def test_values_that_json_does_not_know() -> None:
    assert json_value(float("nan")) == "nan"
    assert json_value(b"text") == "text"
    assert type(json_value(Int(5))) is int
    assert json_value(b"\xff") == "/w=="
    assert json_object({"a": [1, (None, True)]}) == {"a": [1, [None, True]]}


def test_depth_is_bounded() -> None:
    nested: list[object] = []
    for _ in range(DEPTH_MAX + 5):
        nested = [nested]
    shown = json_value(nested)
    for _ in range(DEPTH_MAX):
        (shown,) = shown
    assert isinstance(shown, str)
