"""Expired rows are taken from a few pages at once."""

from __future__ import annotations

import pytest

from annulet.residency.pages import page_list as page_list_module
from annulet.residency.pages.pages import PAGES_AT_ONCE
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries


@pytest.mark.parametrize("read", [False, True])
def test_as_many_pages_are_put_in_order_in_one_call_as_fit_a_turn(read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are read come from one page: that is one read."""
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 5)
    queue, disk = durable_queue(), Disk()
    pages, entries = pages_of(queue, disk), stored_entries(queue, disk, 5 * (PAGES_AT_ONCE + 1))
    for entry in entries:
        entry.message.expires_at = 100
    pages.add(entries, bytearray(len(entries)))
    taken = []
    while pages.first_expiry(100) <= (100, len(entries)):
        taken.append([entry.sequence for entry in pages.take_expired((101, 0), 1000, read=read)])
    assert [len(some) for some in taken] == ([5] * (PAGES_AT_ONCE + 1) if read else [5 * PAGES_AT_ONCE, 5])
    assert [sequence for some in taken for sequence in some] == [entry.sequence for entry in entries]
    assert (pages.rows, pages.bytes, len(disk.reads)) == (0, 0, (PAGES_AT_ONCE + 1) * read)
