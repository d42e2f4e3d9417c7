from __future__ import annotations

import json

from annulet.admin.requests.json_values import DEPTH_MAX, json_object, json_value, with_rates


def test_every_value_is_something_that_json_can_say() -> None:
    assert json_value(b"text") == "text"
    assert json_value(b"\xff\x00") == "/wA="
    assert json_value(float("nan")) == "nan"
    assert json_value([1, (2, {"a": None})]) == [1, [2, {"a": None}]]
    assert json_object({"a": {1}}) == {"a": "{1}"}
    nested: object = 1
    for _ in range(DEPTH_MAX + 5):
        nested = [nested]
    json.dumps(json_value(nested))


def test_rates_stand_beside_their_counters() -> None:
    assert with_rates({"a": 1, "b": 2}, {"a": 0.33333}) == {
        "a": 1, "a_details": {"rate": 0.333}, "b": 2, "b_details": {"rate": 0.0},
    }  # fmt: skip
