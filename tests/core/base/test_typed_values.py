from __future__ import annotations

import pytest

from annulet.core.base import typed_values
from annulet.core.base.typed_values import INTEGER_RANGES, Array, Float32, MapPairs, Symbol, Uuid


@pytest.mark.parametrize(("type_", "least", "greatest"), INTEGER_RANGES)
def test_a_typed_integer_is_an_ordinary_number_to_who_does_not_ask(type_: type[int], least: int, greatest: int) -> None:
    assert type_(least) == least
    assert type_(greatest) + 1 == greatest + 1
    assert len({type_(7), 7}) == 1


def test_typed_texts_and_octets_equal_plain_ones() -> None:
    assert Symbol("queue") == "queue"
    assert Uuid(bytes(16)) == bytes(16)
    assert Float32(0.5) == 0.5


def test_an_array_without_elements_knows_of_what_it_would_be() -> None:
    array = Array()
    array.constructor = 0x71
    assert (list(array), array.constructor, Array([1]).constructor) == ([], 0x71, 0)


def test_map_pairs_keep_the_order_and_the_keys_they_came_with() -> None:
    assert list(MapPairs([1, "one", "two", 2])) == [1, "one", "two", 2]


def test_every_integer_type_is_in_the_table_of_ranges() -> None:
    wanted = {
        value
        for name, value in vars(typed_values).items()
        if isinstance(value, type) and issubclass(value, int) and name != "TimestampMilliseconds"
    }
    assert {type_ for type_, _, _ in INTEGER_RANGES} == wanted
