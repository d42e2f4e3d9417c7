"""Controls the read-ahead for the loads of one queue's pages."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.residency.rows.page import PAGE_ITEMS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.residency.loading.loader import MessageReader, Stretch
    from annulet.residency.rows.page import Page

PREFETCH_LOADS: Final = 4
"""Loads that are requested together: 1 MiB of 1 KiB messages, 5 ms of a drain at 200,000 a second."""

LOAD_BYTES_MAX: Final = 512 << 10
"""Most bytes of bodies that count as one load here: twice those of 1 KiB messages.

Larger ones are loaded in up to 1 MiB, and the next twelve would exceed the read-ahead of all queues.
"""

AHEAD_LOADS: Final = 2 * PREFETCH_LOADS
"""Requested loads that are left when more are requested.

The reading thread waits for a pause of the event loop to begin and for another to pass its result on, 5 ms each: with
one part ready every seventh load of a fast drain was too early, with two one of 300.
"""


class LoadAhead:
    """Requests the next loads of some pages from ``reader``, and more the longer they continue.

    A queue that is served slowly never uses its read-ahead before it is dropped: only one load is requested.

    ``wake``: called by the reading thread to serve the queue. ``None``: there is no waiting.
    """

    def __init__(self, reader: MessageReader, wake: Callable[[], None] | None = None) -> None:
        self._reader = reader
        self.wake = wake
        self._stretch: Stretch | None = None  # the last one that a thread reads
        self._stretches: deque[tuple[int, int, Stretch]] = deque()  # perhaps not read yet: from which sequence, up to
        self._awaited: Stretch | None = None  # one of them, whose end is reported
        self._rows = 0  # requested, and not loaded yet
        self._left = 0  # loads that may be left when more are requested
        self._upto = 0  # sequence of the first row not requested
        self._together = PREFETCH_LOADS  # loads to request

    def restart(self) -> None:
        """Request the first rows again: others are before them now."""
        self._rows = self._upto = 0
        self._stretches.clear()
        self._awaited = None

    def loaded(self, rows: int, pages: deque[Page], items_of: Callable[[Page], int]) -> None:
        """Note the number of loaded rows, and request the rows behind them."""
        self._rows -= rows
        self._left = min(self._left + PREFETCH_LOADS, AHEAD_LOADS)
        self.ask(pages, items_of)

    def ask(self, pages: deque[Page], items_of: Callable[[Page], int]) -> None:
        """Request the next loads, up to the end of a page, unless enough are requested.

        ``items_of``: how many items are one load from a page.
        """
        late = self._stretch is not None and self._stretch.dropped
        self._together = 1 if late else PREFETCH_LOADS  # so also where one load was too little for the thread
        if late:
            self._stretch = None
            self._left = 0
            self.restart()
        if not pages:
            return
        self._let_go_before(pages[0].first_sequence)
        if pages[0].first_sequence >= self._upto:
            self._rows = 0  # those that were not loaded have left otherwise: expired, were selected or purged
        if self._rows > self._left * _items_ahead(pages[0], items_of):
            return
        index = bisect_left(pages, self._upto, key=last_sequence_of)
        if index == len(pages):
            return
        page = pages[index]
        before = max(self._upto, page.first_sequence)
        records, upto = page.runs.records_from(before, _items_ahead(page, items_of) * self._together)
        self._upto = upto if records else page.last_sequence + 1
        if records:
            self._rows += len(records)
            self._stretch = self._reader.prefetch(records)
            if self._stretch is not None:
                self._stretches.append((before, upto, self._stretch))

    def coming(self, pages: deque[Page]) -> bool:
        """Return whether a thread is reading the start of the next load, and will then serve the queue."""
        if self.wake is None or not pages:
            return False
        if self.awaits_read():
            return True
        self._awaited = None
        sequence = pages[0].first_sequence
        self._let_go_before(sequence)
        if not self._stretches or sequence < self._stretches[0][0]:
            return False
        stretch = self._stretches[0][2]
        if not stretch.tell(self.wake):
            return False
        self._awaited = stretch
        return True

    def awaits_read(self) -> bool:
        """Return whether a load still waits for the thread."""
        return self._awaited is not None and not self._awaited.ended

    def _let_go_before(self, sequence: int) -> None:
        """Forget requests for rows that have been loaded or removed."""
        while self._stretches and self._stretches[0][1] <= sequence:
            self._stretches.popleft()


def _items_ahead(page: Page, items_of: Callable[[Page], int]) -> int:
    """Return how many items of a page count as one load."""
    return min(items_of(page), page.items_of(PAGE_ITEMS_MAX, LOAD_BYTES_MAX))


def last_sequence_of(page: Page) -> int:
    """Return the search key of a page."""
    return page.last_sequence
