"""Rows among those of a page: whatever comes in whatever order, the page has them by sequence."""

from __future__ import annotations

import random

import pytest

from annulet.core.model.entry import QueueEntry
from annulet.residency.rows.page import PAGE_ITEMS_MAX, Page
from annulet.residency.rows.rows import Rows
from tests.residency.doubles import Disk, durable_queue, stored_entries

ALL = 1 << 62


def entries_of(count: int) -> list[QueueEntry]:
    """Return stored entries of one origin."""
    entries = stored_entries(durable_queue(), Disk(), count)
    for entry in entries:
        entry.message.origin = entries[0].message.origin
    return entries


def page_of(entries: list[QueueEntry]) -> Page:
    return Page.of(entries, bytearray(len(entries)), timed=True)


def shown(rows: Rows) -> list[tuple[int, int, bool, int]]:
    return list(zip(rows.sequences, rows.records, rows.redelivered, rows.counts, strict=True))


def expected(entries: list[QueueEntry]) -> list[tuple[int, int, bool, int]]:
    return [(entry.sequence, entry.message.record, entry.redelivered, entry.delivery_count) for entry in entries]


def check(page: Page, entries: list[QueueEntry]) -> None:
    """The page has just these, which are by sequence, and knows of each what its expiry needs."""
    assert shown(page.peek(len(entries) + 1)) == expected(entries)
    assert (page.items, page.rows, page.bytes) == (len(entries), len(entries), sum(one.message.size for one in entries))
    assert page.facts is not None
    for entry in entries:
        message = entry.message
        facts = message.accepted_at, message.size, message.priority, message.expires_at
        assert page.facts.of(entry.sequence) == facts
        assert page.has_row(entry.sequence)


@pytest.mark.parametrize("seed", range(3))
def test_rows_come_and_go_in_any_order(seed: int) -> None:
    draw = random.Random(seed)
    entries = entries_of(120)
    for entry in entries:
        entry.redelivered = draw.random() < 0.1
        entry.delivery_count = draw.choice([0, 0, 0, 0, 1, 300])
        entry.message.accepted_at = draw.randrange(3) + 1000
        entry.message.expires_at = draw.choice([0, 0, 5000])
    there = [entries[0], entries[60], entries[110]]
    page = page_of(there)
    for _ in range(400):
        if draw.random() < 0.6:
            entry = draw.choice(entries)
            if entry not in there:
                assert page.insert(entry)
                there = sorted([*there, entry])
        elif len(there) > 1:
            entry = draw.choice(there) if draw.random() < 0.5 else there[0]
            there.remove(entry)
            page.remove(entry.sequence)
            page.bytes -= entry.message.size
        check(page, there)


def test_what_closes_gaps_makes_one_run_of_all() -> None:
    entries = entries_of(50)
    page = page_of(entries[::2])
    for entry in entries[1::2]:
        assert page.insert(entry)
    check(page, entries)
    assert len(page.runs.lengths) == 1


def test_facts_of_rows_that_left_are_forgotten() -> None:
    entries = entries_of(400)
    for entry in entries:
        entry.message.accepted_at = 1000 + entry.sequence % 7
    page = page_of([entries[0], entries[-1]])
    for entry in entries[1:-1]:
        assert page.insert(entry)
        page.remove(entry.sequence)
        page.bytes -= entry.message.size
    check(page, [entries[0], entries[-1]])
    assert page.facts is not None
    assert page.facts.kept < 100


def test_a_page_takes_no_row_below_its_numbers_and_none_when_it_is_full() -> None:
    entries = entries_of(PAGE_ITEMS_MAX + 4)
    low, *rest, high = entries
    assert not page_of([entries[2]]).insert(low)
    full = page_of(rest[:PAGE_ITEMS_MAX])
    assert not full.insert(high)
    high.message.record += 1 << 33
    assert not page_of(rest[:1]).insert(high), "the columns have 32 bits"
    low.sequence, low.message.record = rest[1].sequence + 1, rest[0].message.record - 1
    assert not page_of(rest[:1]).insert(low), "nor one whose record is below"


@pytest.mark.parametrize("from_sequence", [False, True])
def test_a_page_is_split_at_its_middle_or_a_sequence(from_sequence: bool) -> None:
    entries = entries_of(90)
    for entry in entries:
        entry.message.accepted_at = 1000 + entry.sequence // 4
        entry.message.expires_at = 9000
    there = entries[::3]
    page = page_of(there)
    page.remove(there[0].sequence)
    page.bytes -= there[0].message.size
    del there[0]
    at = 20 if from_sequence else len(there) // 2
    right = page.split(there[at].sequence - 1 if from_sequence else 0)
    assert right is not None
    check(page, there[:at])
    check(right, there[at:])
    assert right.facts is not None
    assert right.facts.bound_of_new(durable_queue().settings) == 9000
    for entry in entries:
        if entry not in there:
            target = page if entry.sequence < there[at].sequence else right
            if entry.sequence >= there[0].sequence:
                assert target.insert(entry)
    check(right, entries[entries.index(there[at]) :])


def test_one_run_has_no_middle_and_nothing_is_behind_the_last() -> None:
    entries = entries_of(9)
    assert page_of(entries).split(0) is None
    page = page_of(entries[::2])
    assert page.split(ALL) is None
    assert page.split(1) is None
    check(page, entries[::2])


def test_a_page_that_knows_too_many_origins_takes_no_more() -> None:
    entries = stored_entries(durable_queue(), Disk(), PAGE_ITEMS_MAX + 1)
    page = page_of(entries[:-1])
    for entry in entries[1:-1]:
        page.remove(entry.sequence)
    assert not page.insert(entries[-1])


def test_what_was_put_among_others_counts_when_more_comes_behind() -> None:
    entries = entries_of(PAGE_ITEMS_MAX + 2)
    page = page_of([entries[0], *entries[2:PAGE_ITEMS_MAX]])
    assert page.insert(entries[1])
    assert page.items == PAGE_ITEMS_MAX
    assert not page.extend(entries[PAGE_ITEMS_MAX:], bytearray(2))
    assert not page.extend(entries[PAGE_ITEMS_MAX : PAGE_ITEMS_MAX + 1], bytearray(1)), "a purge takes no more out"
