"""Counts noted in blocks: the last word on each message, whatever was noted of its neighbours."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.message.message import BodySource
from annulet.core.model.compact_messages import ATTEMPTS_MOST, CompactDelivery, SharedFields
from annulet.core.model.entry import QueueEntry
from annulet.store.database.count_notes import (
    BLOCK_SEQUENCES,
    COUNT_MOST,
    CountNotes,
    KnownCounts,
    counts_after,
    counts_in,
)
from tests.core.helpers import make_message, make_queue

QUEUE = make_queue()
SEQUENCES = st.integers(1, 3 * BLOCK_SEQUENCES)
CHANGES = st.dictionaries(SEQUENCES, st.integers(0, COUNT_MOST), max_size=30)


def noted(changes: dict[int, int]) -> CountNotes:
    notes = CountNotes()
    for sequence, count in changes.items():
        notes.note(7, sequence, count)
    return notes


def written(files: dict[int, bytes], notes: CountNotes) -> None:
    for number, block in notes.blocks.get(7, {}).items():
        files[number] = counts_after(files.get(number, b""), block)


@given(CHANGES, CHANGES, CHANGES)
def test_two_batches_written_as_one_are_as_two_and_as_a_dictionary(
    first: dict[int, int], second: dict[int, int], third: dict[int, int]
) -> None:
    apart: dict[int, bytes] = {}
    for changes in (first, second, third):
        written(apart, noted(changes))
    together = noted(second)
    together.absorb(noted(third))
    merged: dict[int, bytes] = {}
    written(merged, noted(first))
    written(merged, together)
    assert merged == apart
    expected = {sequence: count for sequence, count in (first | second | third).items() if count}
    found: dict[int, int] = {}
    for number, counts in apart.items():
        found |= counts_in(counts, number)
    assert found == expected
    assert all(counts == b"" or any(counts) for counts in apart.values())


def test_what_was_not_noted_is_told_from_none() -> None:
    notes = CountNotes()
    assert not notes
    assert notes.noted(7, 5) == -1
    notes.note(7, 5, 0)
    assert notes
    assert (notes.noted(7, 5), notes.noted(7, 6), notes.noted(8, 5)) == (0, -1, -1)


def test_the_highest_count_and_its_neighbours() -> None:
    notes = noted({1: COUNT_MOST, 2: 1})
    counts = counts_after(b"", notes.blocks[7][0])
    assert counts_in(counts, 0) == {1: COUNT_MOST, 2: 1}
    assert counts_after(counts, noted({1: 0, 2: 0}).blocks[7][0]) == b""


@given(CHANGES, SEQUENCES, SEQUENCES)
def test_none_is_noted_of_all_in_a_range(changes: dict[int, int], one: int, other: int) -> None:
    first, last = sorted((one, other))
    files: dict[int, bytes] = {}
    written(files, noted(changes))
    notes = CountNotes()
    notes.note_none(7, first, last)
    written(files, notes)
    found: dict[int, int] = {}
    for number, counts in files.items():
        found |= counts_in(counts, number)
    assert found == {place: count for place, count in changes.items() if count and not first <= place <= last}


def known(changes: dict[int, int]) -> KnownCounts:
    files: dict[int, bytes] = {}
    written(files, noted(changes))
    counts = KnownCounts()
    for number, block in files.items():
        if block:
            counts.add(7, number, block)
    return counts


@given(CHANGES, st.lists(SEQUENCES, unique=True, max_size=20), SEQUENCES, SEQUENCES)
def test_what_is_known_is_taken_once(changes: dict[int, int], some: list[int], one: int, other: int) -> None:
    counts = known(changes)
    first, last = sorted((one, other))
    for sequences in (range(first, last + 1), sorted(some)):
        found = counts.take_all(7, sequences)
        assert list(found) in ([], [changes.get(sequence, 0) for sequence in sequences])
        assert any(found) == any(changes.get(sequence, 0) for sequence in sequences)
        for sequence in sequences:
            changes[sequence] = 0
    assert sorted(counts.left()) == [(7, sequence) for sequence, count in sorted(changes.items()) if count]
    for sequence, count in changes.items():
        assert counts.take(7, sequence) == count
    assert list(counts.left()) == []


def test_nothing_is_known_of_other_queues() -> None:
    counts = known({5: 1})
    assert (counts.take(8, 5), list(counts.take_all(8, range(1, 9)))) == (0, [])
    assert list(counts.take_all(7, [])) == []
    assert counts.take(7, 5) == 1


@given(st.dictionaries(SEQUENCES, st.integers(0, COUNT_MOST + 2), max_size=30), st.randoms(use_true_random=False))
def test_entries_are_noted_as_one_by_one(found: dict[int, int], chance: random.Random) -> None:
    entries: list[QueueEntry] = []
    for sequence, count in found.items():  # in any order
        entry = QueueEntry(QUEUE, make_message(deliver_at=chance.randint(0, 1)), sequence)
        entry.message.record = chance.randint(0, 3)
        entry.delivery_count = count
        entries.append(entry)
    together, single = CountNotes(), CountNotes()
    apart = together.note_entries(7, entries)
    stored = [entry for entry in entries if entry.message.record]
    assert apart == [entry for entry in stored if entry.message.deliver_at or entry.delivery_count > COUNT_MOST]
    for entry in stored:
        if entry not in apart:
            single.note(7, entry.sequence, entry.delivery_count)
    assert together.blocks == single.blocks


def test_folded_ones_are_noted_as_one_by_one() -> None:
    sequences = [1, 2, BLOCK_SEQUENCES - 1, BLOCK_SEQUENCES, 5 * BLOCK_SEQUENCES + 3]
    folded: list[CompactDelivery] = []
    single = CountNotes()
    for count, sequence in enumerate([*sequences, 5 * BLOCK_SEQUENCES + 4], ATTEMPTS_MOST - 4):
        entry = QueueEntry(QUEUE, make_message(), sequence)
        kind = SharedFields(QUEUE, entry.message.origin, BodySource())
        kind.delivery_count = count
        folded.append(CompactDelivery(kind, entry))
        single.note(7, sequence, count)
    together = CountNotes()
    together.note_folded(7, folded)
    assert together.blocks == single.blocks
    assert folded[-1].link.delivery_count == ATTEMPTS_MOST + 1 <= COUNT_MOST
