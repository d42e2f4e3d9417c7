"""A stretch of a page says of each item what its reader asks."""

from __future__ import annotations

from annulet.residency.page import Page
from tests.residency.doubles import Disk, durable_queue, stored_entries


def test_each_item_is_told_of_in_turn() -> None:
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 3)
    entries[2].redelivered = True
    rows = Page.of(entries, bytearray([0, 1, 0])).peek(5)
    first, last = entries[0].message.origin, entries[2].message.origin
    assert len(rows) == 3
    assert rows.kept == [None, entries[1], None]
    assert list(rows.each()) == [(1, 1, first, False, False), (2, 0, None, False, False), (3, 3, last, False, True)]
    assert (rows.plain, rows.came_back) == (False, True)
