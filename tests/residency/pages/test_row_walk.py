"""Slices of which consumers have taken all are passed over, so many in one turn."""

from __future__ import annotations

import sys

import pytest

from annulet.residency.pages import walk
from annulet.residency.pages.row_walk import SLICES_PASSED_MAX
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


@pytest.mark.parametrize("settled", [SLICES_PASSED_MAX - 1, SLICES_PASSED_MAX])
def test_what_has_left_is_passed_over_until_a_turn_is_used_up(settled: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "WALK_MESSAGES", 10)
    queue, disk = durable_queue(), Disk()
    pages, entries = pages_of(queue, disk), stored_entries(queue, disk, 10 * settled + 20)
    pages.add(entries, bytearray(len(entries)))
    disk.settled.update(entry.message.record for entry in entries[: 10 * settled])
    found = pages.snapshot([]).walk(0)
    first = found.following()
    assert first is not None
    assert found.settled == list(range(1, 10 * settled + 1))
    if settled == SLICES_PASSED_MAX:
        assert (first, found.passed, disk.reads) == ([], 10 * settled, [])
        first = found.following()
        assert first is not None
    assert [entry.sequence for entry in first] == list(range(10 * settled + 1, 10 * settled + 11))
    assert (found.passed, found.sequence) == (10 * settled + 10, 10 * settled + 11)


def test_pages_that_were_passed_are_let_go_of() -> None:
    queue, disk = durable_queue(), Disk()
    pages = pages_of(queue, disk)
    for _ in range(3):
        pages.add(stored_entries(queue, disk, PAGE_ITEMS_MAX), bytearray(PAGE_ITEMS_MAX))
    page = pages.page_list[0]
    known = sys.getrefcount(page)
    found = pages.snapshot([]).walk(0)
    assert sys.getrefcount(page) > known
    while found.sequence <= PAGE_ITEMS_MAX + 1:
        assert found.following()
    assert sys.getrefcount(page) == known
