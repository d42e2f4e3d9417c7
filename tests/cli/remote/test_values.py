from __future__ import annotations

import pytest

from annulet.cli.remote.failures import Failure
from annulet.cli.remote.values import read_arguments, read_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ('"5"', "5"),
        ("true", True),
        ("five", "five"),
        ("null", "null"),
        ("", ""),
        ('{"a": [1]}', {"a": [1]}),
        ("NaN", "NaN"),
    ],
)
def test_values(text: str, value: object) -> None:
    assert read_value(text) == value


def test_arguments() -> None:
    assert read_arguments(["x-a=5", "b=c=d"]) == {"x-a": 5, "b": "c=d"}


@pytest.mark.parametrize("given", [["x"], ["=5"], ["a=1", "a=2"]])
def test_wrong_arguments(given: list[str]) -> None:
    with pytest.raises(Failure, match="give"):
        read_arguments(given)
