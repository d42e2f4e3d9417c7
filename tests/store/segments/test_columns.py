"""Columns as bytes say of their numbers what lists would."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.store.segments.columns import (
    extremes,
    grows,
    grows_by_one,
    is_uniform,
    is_zero,
    little_endian,
    narrowed,
    picked,
    places_by_number,
    shifted,
    short_numbers,
)
from annulet.store.segments.records import unpack_numbers


def column_of(numbers: list[int]) -> bytes:
    return little_endian(array("Q", numbers))


@given(st.lists(st.integers(0, (1 << 63) - 1), min_size=1))
def test_numbers_come_back_and_their_extremes_are_known(numbers: list[int]) -> None:
    column = column_of(numbers)
    assert list(unpack_numbers(column)) == numbers
    assert extremes(column) == (min(numbers), max(numbers))


@pytest.mark.parametrize(
    ("numbers", "grows"),
    [([7], True), ([7, 8, 9], True), ([7, 8, 10], False), ([7, 8, 8], False), ([9, 8, 7], False), ([0, 2, 2], False)],
)
def test_a_column_that_grows_by_one(numbers: list[int], grows: bool) -> None:
    assert grows_by_one(column_of(numbers)) is grows


@given(st.lists(st.integers(0, (1 << 31) - 1)), st.integers(0, 1 << 62))
def test_distances_take_half_the_bytes(distances: list[int], lowest: int) -> None:
    data = narrowed(column_of([lowest + distance for distance in distances]), lowest)
    assert len(data) == 4 * len(distances)
    assert list(short_numbers(data)) == distances


@pytest.mark.parametrize("kind", ["H", "I", "Q"])
@given(st.lists(st.sampled_from([0, 1, 0xFFFF]), max_size=4))
def test_a_column_is_uniform_when_all_its_numbers_are_equal(kind: str, numbers: list[int]) -> None:
    assert is_uniform(array(kind, numbers)) == (len(set(numbers)) <= 1)
    assert is_zero(array(kind, numbers)) == (set(numbers) <= {0})


@given(st.lists(st.integers(0, 1 << 62)), st.integers(0, 1 << 62))
def test_all_numbers_are_shifted(numbers: list[int], by: int) -> None:
    assert shifted(numbers, by) == array("Q", [number + by for number in numbers])
    assert picked([*numbers, by], [len(numbers), 0, 0]) == array("Q", [by] + 2 * [*numbers, by][:1])


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans())))
def test_places_by_number_are_those_of_the_mask(chosen: list[tuple[int, bool]]) -> None:
    found = places_by_number([number for number, _ in chosen], bytes([live for _, live in chosen]))
    expected = [(number, place) for place, (number, live) in enumerate(chosen) if live]
    assert sorted((number, place) for number, places in found.items() for place in places) == sorted(expected)
    assert all(places == sorted(places) for places in found.values())


@given(st.lists(st.integers(0, 6), max_size=4))
def test_a_column_grows_where_no_number_is_one_before(numbers: list[int]) -> None:
    assert grows(array("Q", numbers)) == grows(numbers) == (numbers == sorted(set(numbers)))
