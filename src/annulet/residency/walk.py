"""A walk over the rows of a moment for somebody who only reads: pages shared with the queue, and a few of its own."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import merge
from typing import TYPE_CHECKING, Final, TypeAlias

from annulet.core.paging import RowWalk
from annulet.residency.loader import entries_of
from annulet.residency.page import PAGE_ITEMS_MAX, Page, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.entry import QueueEntry
    from annulet.core.message import Origin
    from annulet.core.queue import Queue
    from annulet.residency.loader import MessageReader

Row: TypeAlias = "tuple[int, int, Origin | None, bool, bool]"
"""Sequence, record, origin, whether that lacks exchange and routing key, and whether it came back once."""

WALK_MESSAGES: Final = 256
"""Rows of one slice of a browser (design 2.9)."""

WALK_BYTES: Final = 256 << 10
"""Body bytes of it, by the page's average; one message always fits (design 2.9)."""


class PageWalk(RowWalk):
    """Walks over ``stretches``, each a page with the first and last sequence of it, and over stored ``entries``."""

    def __init__(
        self,
        queue: Queue,
        reader: MessageReader,
        stretches: list[tuple[Page, int, int]],
        entries: list[QueueEntry],
        chosen: list[int] | None = None,
    ) -> None:
        super().__init__()
        self._queue = queue
        self._reader = reader
        average = max([page.bytes // page.rows for page, _, _ in stretches if page.rows], default=1)
        self._slice = max(1, min(WALK_MESSAGES, WALK_BYTES // max(1, average)))
        own: list[tuple[Page, int, int]] = []
        for start in range(0, len(entries), PAGE_ITEMS_MAX):
            some = entries[start : start + PAGE_ITEMS_MAX]
            own.append((Page.of(some, bytearray(len(some))), some[0].sequence, some[-1].sequence))
        rows = _rows_of(stretches) if chosen is None else _rows_with(stretches, chosen)
        self._rows = merge(_rows_of(own), rows, key=_sequence_of)
        self._next: Row | None = next(self._rows, None)
        self._ahead: list[Row] = []  # rows that the disk did not give
        self._tell()

    def following(self) -> list[QueueEntry] | None:
        """Read the next slice of those whose record the queue is not done with. Damaged ones are passed over."""
        rows = self._ahead
        while self._next is not None and len(rows) < self._slice:
            rows.append(self._next)
            self._next = next(self._rows, None)
        self._ahead = held = [row for row in rows if self._reader.holds(row[1], self._queue.queue_id)]
        self.passed += len(rows) - len(held)
        rows = held
        bound = self._reader.written_below
        if any(row[1] >= bound for row in rows):
            self._tell()
            return None
        try:
            stored = self._reader.read([row[1] for row in rows])
        except OSError:
            self._tell()
            return None
        self._ahead = []
        self._tell()
        found = Rows()
        for sequence, record, origin, partial, redelivered in rows:
            found.sequences.append(sequence)
            found.records.append(record)
            found.kept.append(None)
            found.origins.append(origin)
            found.partial.append(partial)
            found.redelivered.append(redelivered)
        entries = entries_of(self._queue, found, stored)[0]
        self.passed += len(rows)
        self.damaged = []
        if len(entries) < len(rows):
            read = {entry.sequence for entry in entries}
            self.damaged = [sequence for sequence in found.sequences if sequence not in read]
        return entries

    def _tell(self) -> None:
        """Say which is the next."""
        if self._ahead:
            self.sequence = self._ahead[0][0]
        else:
            self.sequence = 0 if self._next is None else self._next[0]


def _rows_of(stretches: list[tuple[Page, int, int]]) -> Iterator[Row]:
    """Yield the rows of some pages, and let go of each page that was passed."""
    stretches.reverse()
    while stretches:
        page, sequence, last = stretches.pop()
        while sequence <= last:
            rows = page.read_from(sequence, WALK_MESSAGES)
            if not rows.sequences:
                break
            for row in rows.each():
                if row[1] and row[0] <= last:
                    yield row
            sequence = rows.sequences[-1] + 1


def _rows_with(stretches: list[tuple[Page, int, int]], chosen: list[int]) -> Iterator[Row]:
    """Yield the rows of some pages that have one of these sequences. O(log n) for each of them."""
    for page, first, last in stretches:
        for place in range(bisect_left(chosen, first), bisect_right(chosen, last)):
            for row in page.read_from(chosen[place], 1).each():
                if row[1] and row[0] == chosen[place]:
                    yield row


def _sequence_of(row: Row) -> int:
    return row[0]
