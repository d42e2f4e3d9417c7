from __future__ import annotations

import datetime as dt

import pytest

from annulet.testing.durations import milliseconds_of


@pytest.mark.parametrize(
    ("duration", "milliseconds"),
    [
        ("1h", 3_600_000), ("90s", 90_000), ("1m30s", 90_000), ("1m 30s", 90_000), ("250ms", 250), ("0.5s", 500),
        ("2d", 172_800_000), (1500, 1500), (0, 0), (dt.timedelta(seconds=1.5), 1500),
    ],
)  # fmt: skip
def test_durations_are_texts_numbers_or_objects(duration: str | int | dt.timedelta, milliseconds: int) -> None:
    assert milliseconds_of(duration) == milliseconds


@pytest.mark.parametrize("text", ["", "1", "h", "1 hour", "1x", "-1s", "1h!"])
def test_a_text_without_units_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="1m30s"):
        milliseconds_of(text)


def test_a_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        milliseconds_of(-1)
    with pytest.raises(ValueError, match="does not go back"):
        milliseconds_of(dt.timedelta(seconds=-1))
