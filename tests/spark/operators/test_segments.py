"""The log of segments, over a dictionary instead of Spark's state."""

from __future__ import annotations

import random

import pytest

from annulet.spark.operators.book import ENTRY, FRESH, GHOST, Item
from annulet.spark.operators.segments import (
    REMOVAL,
    REMOVALS_SPARE,
    SEGMENT,
    TIER_SEGMENTS_MAX,
    Head,
    SegmentLog,
    decode_items,
    decode_pairs,
    encode_items,
    encode_pairs,
)
from tests.spark.operators.doubles import MemoryState


def entries(*sequences: int) -> list[Item]:
    return [Item(ENTRY, "q", sequence, f"k{sequence}") for sequence in sequences]


def kept(state: MemoryState) -> list[int]:
    return [item.sequence for item in SegmentLog().load(state)]


def forget(items: list[Item]) -> list[Item]:
    for item in items:
        item.live = False
    return items


def test_items_come_back_as_they_were() -> None:
    items = [
        Item(ENTRY, "q", 7, "key", 3, 1024, 1_700_000_000_000, ("text", b"\x00\xff", None)),
        Item(GHOST, None, 2**62, None),
    ]
    back = decode_items(encode_items(items))
    for item, other in zip(items, back, strict=True):
        for name in ("kind", "queue", "sequence", "key", "level", "size", "expires"):
            assert getattr(item, name) == getattr(other, name)
        assert other.segment == FRESH
    assert [item.extra for item in back] == [("text", b"\x00\xff", None), (None, None, None)]


def test_pairs_come_back_as_they_were() -> None:
    pairs = [(0, 0), (2**40, 49_999)]
    assert decode_pairs(encode_pairs(pairs)) == pairs


def test_a_restart_finds_what_lives() -> None:
    state, log, head = MemoryState(), SegmentLog(), Head("", 1)
    items = entries(1, 2, 3, 4, 5)
    log.commit(items, [], head, state)
    log.commit(entries(6), forget(items[1:3]), head, state)
    assert kept(state) == [1, 4, 5, 6]


def test_what_died_before_it_was_written_is_not_written() -> None:
    state, log, head = MemoryState(), SegmentLog(), Head("", 1)
    items = entries(1, 2)
    items[0].live = False
    log.commit(items, [], head, state)
    assert kept(state) == [2]
    assert log.live == 1


@pytest.mark.parametrize(("gone", "rewritten"), [(2, False), (3, True)])
def test_a_segment_is_written_again_when_less_than_half_of_it_lives(gone: int, rewritten: bool) -> None:
    state, log, head = MemoryState(), SegmentLog(), Head("", 1)
    items = entries(1, 2, 3, 4)
    log.commit(items, [], head, state)
    log.commit([], forget(items[:gone]), head, state)
    assert (0 not in state.blobs[SEGMENT]) is rewritten
    assert kept(state) == [1, 2, 3, 4][gone:]


def test_a_dead_segment_is_dropped_with_its_removals() -> None:
    state, log, head = MemoryState(), SegmentLog(), Head("", 1)
    items = entries(1, 2)
    log.commit(items, [], head, state)
    log.commit([], forget(items), head, state)
    assert state.blobs == {SEGMENT: {}, REMOVAL: {}}


def test_many_segments_of_a_size_become_one() -> None:
    state, log, head = MemoryState(), SegmentLog(), Head("", 1)
    for number in range(TIER_SEGMENTS_MAX):
        log.commit(entries(number), [], head, state)
    assert len(log) == TIER_SEGMENTS_MAX
    log.commit(entries(100), [], head, state)
    assert len(log) == 1
    assert kept(state) == [*range(TIER_SEGMENTS_MAX), 100]


def test_removals_that_say_nothing_any_more_are_dropped() -> None:
    state, log, head = MemoryState(), SegmentLog(), Head("", 1)
    items = entries(*range(10))
    log.commit(items, [], head, state)
    log.commit([], forget(items[:2]), head, state)
    for round_number in range(3):  # removals of segments that go with the next round
        more = entries(*range(1000 + round_number * 1000, 1800 + round_number * 1000))
        log.commit(more, [], head, state)
        log.commit([], forget(more[:400]), head, state)
        log.commit([], forget(more[400:]), head, state)
    known = sum(len(decode_pairs(blob)) for blob in state.blobs[REMOVAL].values())
    assert known <= 2 * 2 + REMOVALS_SPARE
    assert kept(state) == list(range(2, 10))


def test_removals_of_many_small_batches_are_few_blobs() -> None:
    """A large state of which each batch replaces one: a blob for each batch would be read by every restart."""
    state, log, head = MemoryState(), SegmentLog(), Head("", 1)
    items = entries(*range(4000))
    log.commit(items, [], head, state)
    for number in range(200):
        log.commit(entries(4000 + number), forget(items[number : number + 1]), head, state)
    assert len(state.blobs[REMOVAL]) <= 3 * TIER_SEGMENTS_MAX
    assert kept(state) == list(range(200, 4200))


def test_random_histories_survive_restarts() -> None:
    chance = random.Random(7)
    state, log, head = MemoryState(), SegmentLog(), Head("", 1)
    live: dict[int, Item] = {}
    sequence = 0
    for _ in range(150):
        fresh = entries(*range(sequence, sequence + chance.randrange(20)))
        sequence += 20
        gone = [live.pop(number) for number in chance.sample(sorted(live), min(len(live), chance.randrange(25)))]
        live.update({item.sequence: item for item in fresh})
        log.commit(fresh, forget(gone), head, state)
        assert log.live == len(live)
        if chance.random() < 0.2:
            log = SegmentLog()
            live = {item.sequence: item for item in log.load(state)}
    assert kept(state) == sorted(live)


def test_the_work_is_in_proportion_to_what_came_in() -> None:
    """Ten thousand live items, of which each batch replaces a hundred: what is written is a small multiple of that."""
    chance = random.Random(3)
    state, log, head = MemoryState(), SegmentLog(), Head("", 1)
    live = {item.key: item for item in entries(*range(10_000))}
    log.commit(list(live.values()), [], head, state)
    state.items_written = 0
    for number in range(100):
        fresh = []
        gone = []
        for key in chance.sample(range(10_000), 100):
            gone.append(live[f"k{key}"])
            live[f"k{key}"] = Item(ENTRY, "q", 10_000 + number * 100 + len(fresh), f"k{key}")
            fresh.append(live[f"k{key}"])
        log.commit(fresh, forget(gone), head, state)
    assert state.items_written < 5 * 100 * 100
    assert len(log) < 4 * TIER_SEGMENTS_MAX
