"""Settings and goals, as they are written."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.spark.what_if.settings import (
    Condition,
    Setting,
    WhatIfError,
    grid,
    names_of,
    parse_goal,
    parse_value,
    setting_of,
    with_recorded,
)


def test_a_grid_is_ordered_from_the_smallest_by_the_first_name() -> None:
    settings = grid({"rate": 50}, {"consumers": [2, 1], "ring-size": [1000, 10, 10]})

    assert [(setting.consumers, setting.arguments["ring-size"]) for setting in settings] == [
        (1, 10), (1, 1000), (2, 10), (2, 1000),
    ]  # fmt: skip
    assert settings[0].described() == {"consumers": 1, "rate": 50, "prefetch": 1, "ring-size": 10}
    assert list(names_of(settings)) == ["consumers", "ring-size"]
    assert list(names_of([Setting()])) == ["consumers", "rate", "prefetch"]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"ring-sise": 5}, "ring-sise=5: .*x-ring-size"),
        ({"ring-size": "many"}, "ring-size=many: "),
        ({"consumers": -1}, "consumers: -1 is no number, 0 or above"),
        ({"prefetch": 0}, "prefetch: 0 is no number above 0"),
        ({"prefetch": 1.5}, "prefetch: 1.5 is no number above 0"),
        ({"consumers": 2.0}, "consumers: 2.0 is no number, 0 or above"),
        ({"rate": float("nan")}, "rate: nan is no rate above 0"),
        ({"rate": float("inf")}, "rate: inf is no rate above 0"),
        ({"rate": "fast"}, "rate: 'fast' is no rate above 0"),
    ],
)
def test_what_the_core_would_not_take_is_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(WhatIfError, match=text):
        setting_of(values)


@pytest.mark.parametrize(
    ("text", "value"), [("10", 10), ("0.5", 0.5), ("true", True), ("false", False), ("tail number", "tail number")]
)
def test_values_of_the_command_line(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert type(parse_value(text)) is type(value)


def test_a_goal_has_conditions_in_units() -> None:
    assert parse_goal("loss <= 0.1%, dwell-p99 < 5 s and depth<=1000") == [
        Condition("loss", pytest.approx(0.001), strict=False),
        Condition("dwell-p99", 5000.0, strict=True),
        Condition("depth", 1000.0, strict=False),
    ]
    assert Condition("depth", 5, strict=False).met(5)
    assert not Condition("depth", 5, strict=True).met(5)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("loss", "write METRIC <= NUMBER"),
        ("loss <= 1.2.3", "write METRIC <= NUMBER"),
        ("loss >= 1", "write METRIC <= NUMBER"),
        ("lost <= 1", "no metric 'lost'; there are loss, depth"),
        ("loss <= 1 s", "loss takes % or nothing"),
        ("dwell-p99 <= 5", "dwell-p99 takes ms, s or min"),
        ("depth <= 5%", "depth takes no unit"),
    ],
)
def test_a_goal_that_cannot_be_read_is_told(text: str, error: str) -> None:
    with pytest.raises(WhatIfError, match=error):
        parse_goal(text)


def test_recorded_consumers_replace_a_rate_and_their_number_may_be_varied() -> None:
    settings = grid({}, {"ring-size": [1, 2]})

    recorded = with_recorded(settings, ["ring-size"], 3, (1.0, 2.0))
    assert [(one.consumers, one.work, one.described()["rate"]) for one in recorded] == [(3, (1.0, 2.0), "recorded")] * 2
    varied = with_recorded(grid({}, {"consumers": [1, 2]}), ["consumers"], 3, (1.0,))
    assert [one.consumers for one in varied] == [1, 2]
    with pytest.raises(WhatIfError, match="rate: the consumers work as recorded"):
        with_recorded(settings, ["rate"], 3, (1.0,))
