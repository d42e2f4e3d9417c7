"""Deliveries by tag, beside a dictionary of them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.deliveries.delivery_table import BLOCK_TAGS, DeliveryTable
from annulet.core.model.entry import QueueEntry
from tests.core.helpers import make_message, make_queue

QUEUE = make_queue()


def entry_of(tag: int) -> QueueEntry:
    return QueueEntry(QUEUE, make_message(), tag)


def holding(*tags: int) -> DeliveryTable:
    table = DeliveryTable()
    for tag in tags:
        table[tag] = entry_of(tag)
    return table


class Pair:
    """Held deliveries beside a dictionary."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.table = DeliveryTable()
        self.model: dict[int, QueueEntry] = {}
        self.last = 0

    def step(self) -> None:
        self.chance.choice([self.add, self.add, self.pop, self.pop, self.take_up_to, self.take_blocks, self.clear])()
        table, model = self.table, self.model
        assert (len(table), bool(table)) == (len(model), bool(model))
        assert list(table) == list(model)
        assert table.items() == list(model.items())
        assert table.values() == list(model.values())
        assert len(table.block_numbers()) <= len(model) + 1
        tag = self.any_tag()
        assert (tag in table, table.get(tag)) == (tag in model, model.get(tag))
        assert table.slots() == list(model.items())
        assert table.slots(tag) == [(held, entry) for held, entry in model.items() if held <= tag]

    def any_tag(self) -> int:
        return self.chance.randint(0, self.last + 2)

    def add(self) -> None:
        self.last += self.chance.choice([0, 0, BLOCK_TAGS, 3 * BLOCK_TAGS])  # what is settled has tags as well
        for _ in range(self.chance.randint(1, 2 * BLOCK_TAGS)):
            self.last += 1
            self.model[self.last] = self.table[self.last] = entry_of(self.last)

    def pop(self) -> None:
        for _ in range(self.chance.randint(1, BLOCK_TAGS)):
            tag = self.any_tag()
            assert self.table.pop(tag) is self.model.pop(tag, None)

    def take_up_to(self) -> None:
        tag = self.any_tag()
        first = self.chance.choice([1, min(self.model, default=1)])
        wanted = [held for held in self.model if held <= tag]
        assert self.table.take_up_to(first, tag) == [self.model.pop(held) for held in wanted]

    def take_blocks(self) -> None:
        if self.chance.random() < 0.1:
            blocks = self.table.take_blocks()
            assert [entry for block in blocks for entry in block if entry is not None] == list(self.model.values())
            self.model.clear()

    def clear(self) -> None:
        if self.chance.random() < 0.1:
            self.table.clear()
            self.model.clear()


@given(seed=st.integers(0, 1 << 32))
def test_it_is_a_dictionary(seed: int):
    pair = Pair(random.Random(seed))
    for _ in range(25):
        pair.step()


def test_a_tag_that_is_not_held_is_a_key_error():
    table = holding(1, 3)
    for tag in (0, 2, 4, BLOCK_TAGS, 1 << 64):
        with pytest.raises(KeyError):
            table[tag]
        with pytest.raises(KeyError):
            table.take(tag)
        with pytest.raises(KeyError):
            del table[tag]
    del table[3]
    assert table.take(1).sequence == 1
    assert not table


def test_blocks_go_with_their_last_delivery():
    table = holding(*range(10 * BLOCK_TAGS))
    assert len(table.block_numbers()) == 10
    for tag in range(9 * BLOCK_TAGS + 1):
        table.pop(tag)
        assert len(table.block_numbers()) == 10 - (tag + 1) // BLOCK_TAGS
    for tag in range(9 * BLOCK_TAGS + 1, 10 * BLOCK_TAGS):
        table.pop(tag)
    assert len(table.block_numbers()) == 1  # the newest is for the next tags
    table[20 * BLOCK_TAGS] = entry_of(1)
    assert len(table.block_numbers()) == 1


def test_blocks_are_taken_as_they_are():
    table = holding(1, 2, BLOCK_TAGS + 1, BLOCK_TAGS + 2)
    first, second = table.take_blocks()
    assert [None if entry is None else entry.sequence for entry in first[:4]] == [None, 1, 2, None]
    assert [None if entry is None else entry.sequence for entry in second[:4]] == [
        None,
        BLOCK_TAGS + 1,
        BLOCK_TAGS + 2,
        None,
    ]
    table[BLOCK_TAGS + 3] = entry_of(3)
    assert list(table) == [BLOCK_TAGS + 3]
