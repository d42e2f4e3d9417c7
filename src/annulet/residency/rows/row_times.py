"""When the rows of a queue expire: its pages by the time of the first of their rows that does.

A page is listed with a time before which none of its rows expires. Its exact first time and the order of the others are
computed when that time is reached: most rows are consumed before.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final

from annulet.core.base.expiry_times import NEVER

if TYPE_CHECKING:
    from collections.abc import Collection

    from annulet.core.base.settings import QueueSettings
    from annulet.core.queue.queue import Queue
    from annulet.residency.rows.page import Page

COMPACTION_MINIMUM: Final = 64
"""Items of removed pages, or of pages listed with another time, at which the heap is rebuilt."""


class RowTimes:
    """A heap of pages of ``queue``, those only that have rows that may expire."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._heap: list[tuple[int, int, int, Page]] = []  # the value of page.due; a number to break ties
        self._number = 0

    @property
    def size(self) -> int:
        """How many items the heap has, those of pages that are gone included."""
        return len(self._heap)

    def note(self, page: Page, pages: Collection[Page]) -> None:
        """Rows were added to a page, one of ``pages``, which are all there are."""
        if page.facts is None or not page.rows:
            return
        at = page.facts.bound_of_new(self._queue.settings)
        if at and (at, page.first_sequence) < page.due:
            page.due = at, page.first_sequence
            heappush(self._heap, self._item(page))
        if len(self._heap) > 2 * len(pages) + COMPACTION_MINIMUM:
            self._compact(pages)

    def gone(self, pages: Collection[Page]) -> None:
        """A page was used up, ``pages`` are left: removed pages must not stay in memory until their time."""
        if len(self._heap) > 2 * len(pages):
            self._compact(pages)

    def _compact(self, pages: Collection[Page]) -> None:
        self._heap = [self._item(page) for page in pages if page.due != NEVER]
        heapify(self._heap)

    def replaced(self, page: Page, copy: Page) -> None:
        """Have a page's copy in its place."""
        page.due = NEVER
        if copy.due != NEVER:
            heappush(self._heap, self._item(copy))

    def anew(self, pages: Collection[Page]) -> None:
        """Find everything out again: the queue's settings have changed."""
        self._heap = []
        for page in pages:
            page.due = NEVER
            at = page.facts.bound(self._queue.settings) if page.facts is not None and page.rows else 0
            if at:
                page.due = at, page.first_sequence
                self._heap.append(self._item(page))
        heapify(self._heap)

    def first(self, now: int) -> tuple[int, int]:
        """Return a time and sequence before which no row expires; if it is until ``now``, a row expires then."""
        page = self.page(now)
        return NEVER if page is None else page.due

    def page(self, now: int) -> Page | None:
        """Return the page whose row is the next to expire, which is sure if it is due until ``now``."""
        heap = self._heap
        while heap:
            at, sequence, _, page = heap[0]
            if page.due != (at, sequence):
                heappop(heap)
                continue
            if not page.rows or page.facts is None:
                self._set(page, NEVER)  # it may get rows again
                continue
            if at > now:
                return page
            exact = self._first_of(page)
            if exact == page.due:
                return page
            self._set(page, exact)
        return None

    def ended(self, now: int, least: int) -> Page | None:
        """Return the page whose first row is the next to expire, if all of it has expired by ``now`` and so have
        ``least`` rows of other pages; not one with kept entries or returned rows."""
        heap, settings = self._heap, self._queue.settings
        while heap and heap[0][3].due != heap[0][:2]:
            heappop(heap)
        page = heap[0][3] if heap and heap[0][0] <= now else None
        if page is None or not _has_ended(page, settings, now) or page.items > page.rows or page.runs.counted_ranges():
            return None
        behind = {page}
        left = [0]  # places in the heap: below an item that is not due, none is
        while left and least > 0:
            place = left.pop()
            if place < len(heap) and heap[place][0] <= now:
                left += 2 * place + 2, 2 * place + 1
                other = heap[place][3]
                if other.due != NEVER and other not in behind and _has_ended(other, settings, now):  # NEVER: removed
                    behind.add(other)
                    least -= other.rows
        return page if least <= 0 else None

    def second(self) -> tuple[int, int]:
        """Return a time and sequence below which no row of any page but that of :meth:`page` expires."""
        at, sequence = min([item[:2] for item in self._heap[1:3]], default=NEVER)
        return at, sequence + 1  # no row of that page has exactly this sequence, but the page may be listed twice

    def taken(self, page: Page) -> None:
        """Rows of the page last returned by :meth:`page` were taken: the remaining ones do not expire earlier than
        those."""
        if not page.rows:
            page.due = NEVER
            heappop(self._heap)
        else:
            self._set(page, self._first_of(page))

    def _first_of(self, page: Page) -> tuple[int, int]:
        """Return the expiry time of the first row of a page that may have some, and count the work."""
        facts, settings, index = page.facts, self._queue.settings, self._queue.expiry
        assert facts is not None
        if index is not None:
            index.ordered += facts.find_turns(settings)
        return facts.first(page, settings)

    def _set(self, page: Page, due: tuple[int, int]) -> None:
        """Put the page on top where it belongs."""
        page.due = due
        if due == NEVER:
            heappop(self._heap)
        else:
            heapreplace(self._heap, self._item(page))

    def _item(self, page: Page) -> tuple[int, int, int, Page]:
        self._number += 1
        return *page.due, self._number, page

    def clear(self) -> None:
        """Forget all pages."""
        self._heap = []


def _has_ended(page: Page, settings: QueueSettings, now: int) -> bool:
    """Mark all remaining rows of a page as expired, without examining each."""
    return page.rows > 0 and page.facts is not None and 0 < page.facts.upper_bound(settings) <= now
