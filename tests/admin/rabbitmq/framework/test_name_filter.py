from __future__ import annotations

import pytest

from annulet.admin.rabbitmq.framework.name_filter import name_filter
from annulet.admin.requests.responses import ResourceError


def test_a_part_of_the_name_is_enough_whatever_its_case() -> None:
    matches = name_filter("aB", regular=False)
    assert matches is not None
    assert matches("xABx")
    assert not matches("ba")
    assert name_filter("", regular=False) is None


def test_an_expression_is_found_anywhere_whatever_the_case() -> None:
    matches = name_filter("^o.*[0-9]$", regular=True)
    assert matches is not None
    assert matches("Orders-1")
    assert not matches("orders")
    with pytest.raises(ResourceError, match="field 'name': value '\\('; give a regular expression"):
        name_filter("(", regular=True)
