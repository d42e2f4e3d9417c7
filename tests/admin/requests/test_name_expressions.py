from __future__ import annotations

import pytest

from annulet.admin.requests.name_expressions import CHARACTERS_MAX, name_expression
from annulet.core.base.linear_expressions import ExpressionError


def test_an_expression_is_searched_in_names() -> None:
    assert name_expression("^orders-[0-9]+$").search("orders-17")
    assert not name_expression("^orders").search("Orders")
    assert name_expression("^orders", ignore_case=True).search("Orders")


def test_an_expression_at_the_bounds_is_taken_and_a_longer_one_is_refused() -> None:
    letters = "a" * (CHARACTERS_MAX - 1)
    assert name_expression(f"^{letters}").search(letters)
    with pytest.raises(ExpressionError, match=f"{CHARACTERS_MAX + 1} characters"):
        name_expression("a" * (CHARACTERS_MAX + 1))
    with pytest.raises(ExpressionError, match="states"):
        name_expression("(a{1,100}){1,100}")
