"""Of very many names few are compared with one that is not there."""

from __future__ import annotations

import pytest

from annulet.core.base.nearest import COMPARED_MAX, nearest_name


@pytest.mark.parametrize("name", ["order", "ordres", "orders2", "rders", "oders", "Orders"])
def test_a_misspelt_name_is_found(name: str) -> None:
    assert nearest_name(name, ["bills", "orders", "returns"]) == "orders"


@pytest.mark.parametrize("name", ["", "zzz", "o", "something-else", "orders" * 100])
def test_what_is_like_none_is_near_none(name: str) -> None:
    assert nearest_name(name, ["bills", "orders", "returns"]) == ""


def test_no_more_are_looked_at_than_are_compared() -> None:
    names = iter([f"queue-{number:06}" for number in range(10 * COMPARED_MAX)])
    assert nearest_name("queue-00000x", names).startswith("queue-0000")
    assert sum(1 for _ in names) == 9 * COMPARED_MAX
