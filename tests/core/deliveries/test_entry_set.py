"""Entries by sequence, beside a dictionary of them."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.deliveries.delivery_table import BLOCK_TAGS
from annulet.core.deliveries.entry_set import EntrySet
from annulet.core.model.entry import QueueEntry
from tests.core.helpers import make_message, make_queue

QUEUE = make_queue()


def entry_of(sequence: int) -> QueueEntry:
    return QueueEntry(QUEUE, make_message(), sequence)


class Pair:
    """An entry set beside a dictionary by sequence."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.entries = EntrySet()
        self.model: dict[int, QueueEntry] = {}

    def step(self) -> None:
        self.chance.choice([self.add, self.discard, self.discard_all, self.clear])()
        entries, model = self.entries, self.model
        assert (len(entries), bool(entries)) == (len(model), bool(model))
        assert list(entries) == entries.entries() == [model[sequence] for sequence in sorted(model)]
        numbers = entries.block_numbers()
        assert numbers == sorted({sequence // BLOCK_TAGS for sequence in model}), "no block is empty"
        assert [entry for number in numbers for entry in entries.block(number) if entry is not None] == list(entries)
        assert entries.block(99) == []

    def add(self) -> None:
        first = self.chance.randrange(5 * BLOCK_TAGS)
        for sequence in range(first, first + self.chance.randint(1, 2 * BLOCK_TAGS)):
            if sequence not in self.model:
                self.model[sequence] = entry_of(sequence)
                self.entries.add(self.model[sequence])

    def some(self) -> list[QueueEntry]:
        chosen = self.chance.sample(sorted(self.model), self.chance.randint(0, len(self.model)))
        return [self.model.pop(sequence) for sequence in chosen] + [entry_of(6 * BLOCK_TAGS)]

    def discard(self) -> None:
        for entry in self.some():
            self.entries.discard(entry)

    def discard_all(self) -> None:
        self.entries.discard_all(self.some())

    def clear(self) -> None:
        self.entries.clear()
        self.model.clear()


@given(st.randoms(use_true_random=False))
def test_beside_a_dictionary(chance: random.Random) -> None:
    pair = Pair(chance)
    for _ in range(12):
        pair.step()


def test_another_entry_of_the_same_sequence_is_not_there() -> None:
    entries = EntrySet()
    entry = entry_of(7)
    entries.add(entry)
    entries.discard(entry_of(7))
    assert list(entries) == [entry]


def test_what_is_taken_out_meanwhile_does_not_disturb_who_iterates() -> None:
    entries = EntrySet()
    for sequence in range(1, 2 * BLOCK_TAGS):
        entries.add(entry_of(sequence))
    for entry in entries:
        entries.discard(entry)
    assert not entries


def test_a_block_that_is_empty_again_begins_as_one() -> None:
    entries = EntrySet()
    for sequence in (1, BLOCK_TAGS + 1, 2 * BLOCK_TAGS + 1):
        entry = entry_of(sequence)
        entries.add(entry)
        assert list(entries) == [entry]
        entries.discard(entry)
        assert list(entries) == []
