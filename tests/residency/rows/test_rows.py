"""A stretch of a page says of each item what its reader asks."""

from __future__ import annotations

from annulet.residency.rows.page import Page
from tests.residency.doubles import Disk, durable_queue, stored_entries


def test_each_item_is_told_of_in_turn() -> None:
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 3)
    entries[2].redelivered = True
    entries[2].delivery_count = 2
    rows = Page.of(entries, bytearray([0, 1, 0])).peek(5)
    first, last = entries[0].message.origin, entries[2].message.origin
    assert len(rows) == 3
    assert rows.kept == [None, entries[1], None]
    assert list(rows.each()) == [
        (1, 1, first, False, False, 0),
        (2, 0, None, False, False, 0),
        (3, 3, last, False, True, 2),
    ]
    assert (rows.plain, rows.came_back) == (False, True)


def test_stretches_are_joined() -> None:
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 4)
    entries[3].redelivered = True
    page = Page.of(entries, bytearray([0, 1, 0, 0]))
    joined = page.peek(1)
    joined.extend(page.peek_from(2, 3), 2)
    assert (joined.sequences, joined.records, joined.kept) == ([1, 2, 3], [1, 0, 3], [None, entries[1], None])
    assert (len(joined.origins), joined.partial, joined.redelivered) == (3, [False] * 3, [False] * 3)
    assert (joined.plain, joined.came_back) == (False, True)
