"""Keys of rows: a few bytes each, in the order of the values they were."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.model.entry import Rank
from annulet.core.ordering.ranks import sort_rank
from annulet.core.paging.sort_key_runs import KEY_BYTES, RUN_MAX, KeyRuns, fits

KEYS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-3, 3),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=KEY_BYTES),
    st.sampled_from(["\ud800", "\U0010ffff", "zzzzzzzz", float("inf"), -0.0, 0]),
)


@given(st.lists(st.lists(KEYS, min_size=1)), st.integers(1, 9))
def test_rows_come_by_rank_and_sequence(batches: list[list[Any]], count: int) -> None:
    runs, places, sequence = KeyRuns(), [], 0
    for batch in batches:
        added = []
        for key in batch:
            sequence += 1
            rank = sort_rank(key)
            if fits(rank):
                added.append((rank, sequence))
        runs.add(added)
        places += added
    places.sort()
    assert len(runs) == len(places)
    found: list[tuple[Rank, int]] = []
    while runs.first() is not None:
        assert runs.first() == places[len(found)]
        some = runs.take(count)
        found += some
        if len(found) % 2:  # the disk did not give them
            runs.add(some)
            assert runs.take(count) == some
    assert found == places
    assert [type(rank[-1]) for rank, _ in found] == [type(rank[-1]) for rank, _ in places], "and are what they were"
    assert (len(runs), runs.run_count) == (0, 0)


@pytest.mark.parametrize(
    ("key", "fitting"),
    [
        ((1 << 63) - 1, True), (1 << 63, False), (-(1 << 63), True), (-(1 << 63) - 1, False), (1e300, True),
        ("12345678", True), ("123456789", False), ("ääää", True), ("ääääz", False), ("a\0", False), ("", True),
        (b"12345678", True), (b"123456789", False), (b"\0", False), ([1], False), (None, True), (True, True),
    ],
)  # fmt: skip
def test_what_fits_eight_bytes(key: Any, fitting: bool) -> None:
    assert fits(sort_rank(key)) is fitting


def test_a_level_of_priorities_fits() -> None:
    assert fits((-9,))


def test_short_runs_become_few_long_ones_and_none_longer_than_a_sort_takes_little_time() -> None:
    runs = KeyRuns()
    for sequence in range(1, 2001):
        runs.add([((1, -sequence), sequence)])
    assert runs.run_count < 12
    runs.add([((1, -sequence), sequence) for sequence in range(2001, 2001 + RUN_MAX)])
    assert max(len(run) for run in runs.runs()) <= RUN_MAX
    assert runs.take(3) == [((1, -sequence), sequence) for sequence in (2000 + RUN_MAX, 1999 + RUN_MAX, 1998 + RUN_MAX)]
    assert len(runs._heads) < 100, "those of runs that are no more are swept out"


def test_sequences_beyond_thirty_two_bits_are_kept() -> None:
    runs = KeyRuns()
    runs.add([((1, 5), 1 << 40), ((1, 5), 7)])
    assert runs.take(2) == [((1, 5), 7), ((1, 5), 1 << 40)]


def test_rows_that_are_none_any_more_are_swept_out_run_by_run() -> None:
    runs = KeyRuns()
    runs.add([((1, sequence), sequence) for sequence in range(8)])
    runs.add([((2, "x"), sequence) for sequence in range(10, 14)])
    assert runs.sweep(7, lambda sequence: False) == 0, "whole runs only"
    assert runs.sweep(8, lambda sequence: sequence % 2 == 1) == 8
    assert len(runs) == 4 + 4
    assert runs.sweep(4, lambda sequence: False) == 4, "the one that was looked at longest ago"
    assert [sequence for _, sequence in runs.take(9)] == [1, 3, 5, 7]


def test_nothing_is_left_of_what_was_cleared() -> None:
    runs = KeyRuns()
    runs.add([((1, 5), 1)])
    runs.clear()
    assert (runs.first(), runs.take(5), len(runs)) == (None, [], 0)
    runs.add([((1, 6), 2)])
    assert runs.take(5) == [((1, 6), 2)]
