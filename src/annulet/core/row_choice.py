"""Which entries become rows where rows may expire: times of rows never decrease, so what expires is always in front.

With one time to live for all of a queue that is the order of arrival. What came out of it, by a clock that was set
back, stays among the rows as the object it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.paging import may_be_row

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.core.paging import QueueArea
    from annulet.core.queue import Queue


class RowChoice:
    """Decides for one entry after the other, behind the items of ``pages``; ``before``: backwards, before them.

    ``latest``: none accepted later (milliseconds since 1970; 0: any) becomes a row, as one of then follows.
    """

    def __init__(self, queue: Queue, pages: QueueArea, *, before: bool = False, latest: int = 0) -> None:
        self._timed = queue.ages
        self._latest = latest  # when the row that follows all of them was accepted; 0 for none
        self._before = before
        self._last = 0  # when the last row was accepted; 0 for none
        if self._timed and pages.items:
            first, last = pages.accepted_between()
            self._last = first if before else last

    def takes(self, entry: QueueEntry) -> bool:
        """Say whether the next entry may be a row."""
        if not may_be_row(entry):
            return False
        if not self._timed:
            return True
        accepted_at = entry.message.accepted_at
        if 0 < self._latest < accepted_at:
            return False
        if not self._last:
            return True
        return accepted_at <= self._last if self._before else accepted_at >= self._last

    def kept_of(self, entries: list[QueueEntry]) -> bytearray:
        """Return a 1 for each of the next entries that it does not take; of the others rows are made."""
        kept = bytearray(len(entries))
        for place, entry in enumerate(entries):
            if self.takes(entry):
                self.taken(entry)
            else:
                kept[place] = 1
        return kept

    def taken(self, entry: QueueEntry) -> None:
        """Note that an entry that it takes becomes a row."""
        self._last = entry.message.accepted_at
