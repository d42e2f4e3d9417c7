from __future__ import annotations

import random
from array import array
from pathlib import Path

import pytest

from annulet.store.segments.segment import SHARED, Segment, segment_name, segment_number


def segment() -> Segment:
    return Segment(1, Path("1"), 0, 0)


def test_single_and_shared_records_settle_exactly_once() -> None:
    one = segment()
    one.add(64, [(5, 1)])
    one.add(128, [(5, 2), (6, 1)])
    assert one.remaining(1) == (5, 6)
    assert not one.settle(0, 6)
    assert one.settle(0, 5)
    assert not one.settle(0, 5)
    assert one.settle(1, 5)
    assert not one.settle(1, 5)
    assert one.remaining(1) == (6,)
    assert one.settle(1, 6)
    assert (one.live_count, one.shared) == (0, {})
    assert not one.settle(2, 5)


def test_live_ordinals_skip_holes_and_the_dead() -> None:
    one = segment()
    for number in range(20):
        if number % 3:
            one.add(64 + number, [(1, number)])
        else:
            one.add_hole()
    one.kill(10)
    one.kill(10)
    one.kill(0)
    assert list(one.live_ordinals()) == [n for n in range(20) if n % 3 and n != 10]
    assert one.live_count == len(list(one.live_ordinals()))


def test_more_queues_than_16_bits_tell_apart() -> None:
    one = segment()
    for queue_id in range(SHARED + 3):
        one.add(64, [(queue_id, 1)])
    assert one.remaining(SHARED - 1) == (SHARED - 1,)
    assert one.remaining(SHARED + 2) == (SHARED + 2,)
    assert one.may_hold(SHARED + 2)
    assert one.settle(SHARED + 2, SHARED + 2)
    assert not one.is_live(SHARED + 2)


def test_forgetting_goes_in_slices() -> None:
    one = segment()
    for number in range(10):
        one.add(64, [(1, number)] if number % 2 else [(2, number), (1, number)])
    assert one.forget(1, 0, 4) == 4
    assert one.forget(1, 4, 100) == 10
    assert list(one.live_ordinals()) == [0, 2, 4, 6, 8]
    assert one.remaining(0) == (2,)


@pytest.mark.parametrize(("start", "end"), [(0, 30), (1, 29), (8, 16), (7, 9), (29, 30)])
def test_forgetting_a_stretch_of_one_queue(start: int, end: int) -> None:
    one = segment()
    for number in range(30):
        one.add(64, [(1, number)])
    for ordinal in (3, 8, 15):
        assert one.settle(ordinal, 1)
    one.changed = False
    assert one.forget(2, 0, 30) == 30
    assert not one.changed
    assert one.forget(1, start, end - start) == end
    left = [ordinal for ordinal in range(30) if not start <= ordinal < end and ordinal not in (3, 8, 15)]
    assert list(one.live_ordinals()) == left
    assert one.live_count == len(left)
    assert one.changed


def test_names_sort_by_number() -> None:
    assert [segment_number(segment_name(number)) for number in (1, 10**11)] == [1, 10**11]
    assert segment_name(9) < segment_name(10)
    assert segment_number("lock") is None
    assert segment_number("x.segment") is None


def test_adopted_records_are_there_and_not_live_yet() -> None:
    one = segment()
    one.adopt(array("I", [64, 0, 128]), array("H", [0, SHARED, 1]), [5, 6])
    assert (one.kept, one.live_count, list(one.live_ordinals())) == (2, 0, [])
    one.live[0] = 0b101
    one.live_count = 2
    assert one.may_hold(6)
    assert not one.may_hold(7)
    assert (one.remaining(0), one.remaining(2)) == ((5,), (6,))
    one.add(200, [(6, 9)])
    one.add(300, [(7, 9)])
    assert (one.remaining(3), one.remaining(4)) == ((6,), (7,))
    assert one.settle(0, 5)
    assert list(one.live_ordinals()) == [2, 3, 4]


@pytest.mark.parametrize(
    ("offsets", "kept"),
    [([], 0), ([4096, 5000], 2), ([4096, 0, 5000], 2), ([0, 0], 0), ([4096, 1 << 24, 2 << 24], 3), ([0, 1 << 24], 1)],
)
def test_adopted_records_are_those_that_are_somewhere(offsets: list[int], kept: int) -> None:
    """Also where the bytes of two offsets meet in as many zeros as one has that is nowhere."""
    one = segment()
    one.adopt(array("I", offsets), array("H", [0] * len(offsets)), [5])
    assert one.kept == kept


def test_records_settle_together_as_each_alone() -> None:
    chance = random.Random(20261128)
    for _ in range(20):
        one, other = segment(), segment()
        for number in range(70):
            targets = [(chance.randint(1, 3), number)] if chance.random() < 0.8 else [(1, number), (2, number)]
            for each in (one, other):
                if number % 9 == 4:
                    each.add_hole()
                else:
                    each.add(64 * number, targets)
        pairs = [(chance.randint(1, 4), chance.randint(0, 75)) for _ in range(60)]  # some twice, some nowhere
        count = sum([one.settle(ordinal, queue_id) for queue_id, ordinal in pairs])
        other.changed = False
        assert other.settle_all([number for pair in pairs for number in pair]) == count
        assert (other.live, other.live_count, other.shared) == (one.live, one.live_count, one.shared)
        assert other.changed == (count > 0)
    assert other.settle_all([]) == 0
