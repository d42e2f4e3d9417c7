"""Ranges of records are settled a slice at a time, each record once."""

from __future__ import annotations

from pathlib import Path

import pytest

from annulet.store.log.sweeping import Sweep, segments_of
from annulet.store.segments.records import ORDINAL_BITS
from annulet.store.segments.segment import Segment


def segments(*counts: int) -> dict[int, Segment]:
    found = {}
    for number, count in enumerate(counts, 1):
        found[number] = Segment(number, Path(str(number)), 1, 1)
        for sequence in range(count):
            found[number].add(64, [(1 + sequence % 2, sequence)])
    return found


def left(found: dict[int, Segment]) -> list[tuple[int, int]]:
    return [(number, ordinal) for number, segment in found.items() for ordinal in segment.live_ordinals()]


@pytest.mark.parametrize("slice_size", [1, 3, 100])
def test_a_range_over_segments(slice_size: int) -> None:
    found = segments(6, 6, 6)
    bounds = (1 << ORDINAL_BITS | 3, 3 << ORDINAL_BITS | 2)
    sweep = Sweep(2, segments_of(found, 2, *bounds), bounds)
    slices = 1
    while sweep.go_on(found, slice_size):
        slices += 1
    assert slices >= 12 / slice_size
    kept = [(number, ordinal) for number in (1, 2, 3) for ordinal in range(6)]
    inside = [place for place in kept if (1, 3) <= place <= (3, 2) and place[1] % 2]
    assert left(found) == [place for place in kept if place not in inside]


def test_a_deleted_queue_goes_whole_and_removed_segments_are_passed_over() -> None:
    found = segments(4, 4, 4)
    sweep = Sweep(1, [1, 2, 3])
    del found[2]
    assert not sweep.go_on(found, 100)
    assert left(found) == [(1, 1), (1, 3), (3, 1), (3, 3)]


def test_only_segments_that_may_hold_something_are_swept() -> None:
    found = segments(4, 0, 1)
    assert segments_of(found, 2, 1 << ORDINAL_BITS, 9 << ORDINAL_BITS) == [1]
    assert segments_of(found, 1, 2 << ORDINAL_BITS, 9 << ORDINAL_BITS) == [3]
