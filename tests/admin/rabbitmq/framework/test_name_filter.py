from __future__ import annotations

from annulet.admin.rabbitmq.framework.name_filter import name_filter


def test_a_part_of_the_name_is_enough_whatever_its_case() -> None:
    matches = name_filter("aB", regular=False)
    assert matches is not None
    assert matches("xABx")
    assert not matches("ba")
    assert name_filter("", regular=False) is None
