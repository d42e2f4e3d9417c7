"""Given properties: each by its name, with its bounds."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.broker.operation.given_properties import BASE64, NAMES, NUMBERS, TEXTS, read_body, read_properties
from annulet.core.base.errors import InvalidArgument


def test_every_name_is_taken() -> None:
    given: dict[str, Any] = {**dict.fromkeys(TEXTS, "x"), **{name: most for name, (_, most) in NUMBERS.items()}}
    given["headers"] = {"a": 1}
    properties = read_properties(given)
    assert {name: getattr(properties, name) for name in NAMES} == given


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_numbers_beyond_their_bounds(name: str) -> None:
    least, most = NUMBERS[name]
    for value in (least - 1, most + 1, True, "1"):
        with pytest.raises(InvalidArgument, match=f"field 'properties.{name}' is"):
            read_properties({name: value})


def test_bodies() -> None:
    assert read_body("ä", "text") == "ä".encode()
    assert read_body("AA==", BASE64) == b"\0"
    with pytest.raises(InvalidArgument, match="no base64"):
        read_body("AA=", BASE64)
