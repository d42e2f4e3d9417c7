"""What a queue with priorities is emptied of: the rows of all levels, the oldest about first."""

from __future__ import annotations

import pytest

from annulet.core.paging.merged_areas import JoinedPages
from annulet.residency.pages import pages as pages_module
from annulet.residency.pages.pages import StoredQueueArea
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


def joined(count: int, parts: int = 2) -> tuple[JoinedPages, Disk]:
    """Return pages of ``count`` rows, dealt out to the parts in turn."""
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, count)
    made: list[StoredQueueArea] = []
    for number in range(parts):
        mine = entries[number::parts]
        made.append(pages_of(queue, disk))
        made[-1].add(mine, bytearray(len(mine)))
    return JoinedPages(list(made)), disk


def test_the_part_with_the_oldest_is_next(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages_module, "LOAD_MESSAGES", 2)
    pages, disk = joined(7)
    assert (pages.items, pages.rows, pages.bytes, pages.first_sequence()) == (7, 7, 70, 1)
    assert pages.record_bounds() == (1, 7)
    disk.damaged.add(2)
    loads = []
    while pages.rows:
        loads.append([entry.sequence for entry in pages.load(insist=False)])
    assert loads == [[1, 3], [4], [5, 7], [6]]
    assert (pages.items, pages.bytes, pages.lost, pages.lost_bytes) == (0, 0, 0, 10)


def test_the_rows_of_all_parts_are_told_apart_by_where_they_were_sent():
    pages, disk = joined(7)
    disk.failing = True
    assert pages.tally(lambda origin: origin.exchange or "none", 6) == {"none": (5, 50)}


def test_a_disk_that_refuses_changes_nothing_and_all_can_be_had_without_it():
    pages, disk = joined(4)
    disk.failing = True
    assert pages.load(insist=False) is None
    assert pages.rows == 4
    taken = [entry.sequence for _ in range(2) for entry in pages.take_unread()]
    assert taken == [1, 3, 2, 4]
    assert pages.lost_bytes == 20
    assert pages.rows == pages.items == 0


def test_rows_are_skipped_by_the_page_while_a_whole_one_is_not_too_many():
    pages, _ = joined(4 * PAGE_ITEMS_MAX)
    assert pages.skip(PAGE_ITEMS_MAX - 1) == 0
    assert pages.skip(3 * PAGE_ITEMS_MAX + 1) == 3 * PAGE_ITEMS_MAX
    assert pages.rows == PAGE_ITEMS_MAX
    assert pages.first_sequence() > 2 * PAGE_ITEMS_MAX, "the youngest is left"
    assert pages.skip(PAGE_ITEMS_MAX) == PAGE_ITEMS_MAX
    assert (pages.rows, pages.skip(1)) == (0, 0)
