"""What a clean stop writes down of the marks: a set, as ranges no more than the bound, that never leaves one out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.paging import redelivered_ranges as module
from annulet.core.paging.redelivered_ranges import RANGES_MAX, RedeliveredRanges, redelivered_ranges
from tests.core.helpers import NOW
from tests.core.reading.test_browse_order import deep_queue

HIGHEST = 40
RANGES = st.lists(st.tuples(st.integers(1, HIGHEST), st.integers(0, 4)).map(lambda pair: (pair[0], sum(pair))))


def members(ranges: RedeliveredRanges) -> set[int]:
    return {sequence for sequence in range(HIGHEST + 10) if sequence in ranges}


@given(st.lists(RANGES, max_size=4))
def test_they_are_the_set_that_was_given(parts: list[list[tuple[int, int]]]) -> None:
    ranges, wanted = RedeliveredRanges(), set[int]()
    for part in parts:
        ranges.add(part)
        wanted.update(*[range(first, last + 1) for first, last in part])
        assert members(ranges) == wanted
        assert ranges.count == len([sequence for sequence in wanted if sequence - 1 not in wanted])
        assert (ranges.highest, ranges.filled) == (max(wanted, default=0), 0)
    assert members(RedeliveredRanges.of_lengths(ranges.lengths())) == wanted


@given(st.lists(RANGES, max_size=4), st.integers(1, 4))
def test_beyond_the_bound_more_is_in_it_and_nothing_is_missing(parts: list[list[tuple[int, int]]], bound: int) -> None:
    ranges, wanted = RedeliveredRanges(bound), set[int]()
    for part in parts:
        ranges.add(part)
        wanted.update(*[range(first, last + 1) for first, last in part])
    assert members(ranges) >= wanted
    assert ranges.count <= bound
    assert len(members(ranges) - wanted) <= ranges.filled


@given(RANGES, st.sets(st.integers(1, HIGHEST)), st.integers(0, HIGHEST), st.integers(0, HIGHEST))
def test_sequences_are_cut_where_the_mark_changes(
    given_ranges: list[tuple[int, int]], there: set[int], start: int, end: int
) -> None:
    ranges = RedeliveredRanges()
    ranges.add(given_ranges)
    sequences = sorted(there)
    end = min(end, len(sequences))
    parts = ranges.cut(sequences, start, end)
    assert [(place, inside) for first, behind, inside in parts for place in range(first, behind)] == [
        (place, sequences[place] in ranges) for place in range(start, end)
    ]
    assert all(before[2] is not after[2] for before, after in pairwise(parts))


@pytest.mark.parametrize("count", [RANGES_MAX - 1, RANGES_MAX, RANGES_MAX + 1])
def test_as_many_as_the_bound_are_exact_and_one_more_joins_the_nearest(count: int) -> None:
    firsts = [10 * number for number in range(1, count)]
    firsts.append(firsts[-1] + 3)  # two between it and the one before; nine between others
    ranges = RedeliveredRanges()
    ranges.add((first, first) for first in firsts)
    too_many = count > RANGES_MAX
    assert (ranges.count, ranges.filled) == (min(count, RANGES_MAX), 2 * too_many)
    assert (firsts[-1] - 1 in ranges) is too_many
    assert all(first in ranges for first in firsts)
    assert firsts[0] + 1 not in ranges


def test_very_many_are_joined_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOSE_MAX", 8)
    ranges = RedeliveredRanges(4)
    firsts = [*range(1, 4001, 2), *range(5000, 5003)]
    ranges.add((first, first) for first in firsts)
    assert ranges.count <= 4
    assert all(first in ranges for first in firsts)
    assert (0 in ranges, 4500 in ranges, 5003 in ranges) == (False, False, False)
    assert ranges.filled == sum(sequence in ranges for sequence in range(5100)) - len(firsts)


@pytest.mark.parametrize("upto", [0, 1, 7])
def test_the_single_number_is_all_up_to_it(upto: int) -> None:
    assert members(RedeliveredRanges.upto(upto)) == set(range(1, upto + 1))


def test_of_a_queue_what_came_back_and_what_is_out() -> None:
    deep = deep_queue(100)
    queue = deep.queue
    entries = queue.acquire(10, -1, NOW)
    queue.return_entries(entries[:3], NOW)
    assert redelivered_ranges(queue).lengths() == [1, 10], "three came back, seven are out"
    queue.return_entries(entries[5:], NOW)
    for entry in entries[3:5]:
        queue.acknowledge(entry)
    assert redelivered_ranges(queue).lengths() == [1, 3, 2, 5]
