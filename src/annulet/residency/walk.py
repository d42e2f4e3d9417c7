"""A walk over the rows of a moment for somebody who only reads: pages shared with the queue, and a few of its own."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import merge
from typing import TYPE_CHECKING, Final, TypeAlias

from annulet.core.paging import RowView, RowWalk
from annulet.residency.loader import entries_of
from annulet.residency.page import PAGE_ITEMS_MAX, Page
from annulet.residency.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.entry import QueueEntry
    from annulet.core.message import Origin
    from annulet.core.queue import Queue
    from annulet.residency.loader import MessageReader

Row: TypeAlias = "tuple[int, int, Origin | None, bool, bool, int]"
"""Sequence, record, origin, whether that lacks exchange and routing key, whether it came back, and how often."""

Stretch: TypeAlias = "tuple[Page, int, int]"
"""A page with the first and the last sequence that is meant of it."""

WALK_MESSAGES: Final = 256
"""Rows of one slice of a browser (design 2.9)."""

WALK_BYTES: Final = 256 << 10
"""Body bytes of it, by the page's average; one message always fits (design 2.9)."""


class PageView(RowView):
    """The rows of some pages, each with the first and last sequence of it, and what is noted besides."""

    def __init__(
        self, queue: Queue, reader: MessageReader, stretches: list[Stretch], entries: list[QueueEntry]
    ) -> None:
        self._queue = queue
        self._reader = reader
        self._lines = [stretches]  # each ascends
        self.note(entries)

    def note(self, entries: list[QueueEntry]) -> None:
        """Make pages of them, in the first line that goes on with them."""
        for start in range(0, len(entries), PAGE_ITEMS_MAX):
            some = entries[start : start + PAGE_ITEMS_MAX]
            first = some[0].sequence
            stretch = (Page.of(some, bytearray(len(some))), first, some[-1].sequence)
            line = next((line for line in self._lines[1:] if line[-1][2] < first), None)
            if line is None:
                self._lines.append([stretch])
            else:
                line.append(stretch)

    def walk(self, first: int, last: int = -1, chosen: list[int] | None = None) -> RowWalk:
        """Return a walk that lets go of each page it has passed."""
        pages = [page for stretches in self._lines for page, _, _ in stretches]
        average = max([page.bytes // page.rows for page in pages if page.rows], default=1)
        messages = max(1, min(WALK_MESSAGES, WALK_BYTES // max(1, average)))
        parts = [_within(stretches, first, last) for stretches in self._lines]
        rows = [_rows_of(part) if chosen is None else _rows_with(part, chosen) for part in parts]
        return PageWalk(self._queue, self._reader, merge(*rows, key=_sequence_of), messages)


class PageWalk(RowWalk):
    """Walks over ``rows`` in slices of so many messages."""

    def __init__(self, queue: Queue, reader: MessageReader, rows: Iterator[Row], messages: int) -> None:
        super().__init__()
        self._queue = queue
        self._reader = reader
        self._slice = messages
        self._rows = rows
        self._next: Row | None = next(self._rows, None)
        self._ahead: list[Row] = []  # rows that the disk did not give
        self._settled: list[int] = []  # of the read that is under way
        self._tell()

    def following(self) -> list[QueueEntry] | None:
        """Read the next slice of those whose record the queue is not done with. Damaged ones are passed over."""
        rows = self._ahead
        while self._next is not None and len(rows) < self._slice:
            rows.append(self._next)
            self._next = next(self._rows, None)
        self._ahead = held = [row for row in rows if self._reader.holds(row[1], self._queue.queue_id)]
        if len(held) < len(rows):
            self.passed += len(rows) - len(held)
            there = {row[0] for row in held}
            self._settled += [row[0] for row in rows if row[0] not in there]
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
        for row in rows:
            found.add(row)
        entries = entries_of(self._queue, found, stored)[0]
        self.passed += len(rows)
        self.settled, self._settled = self._settled, []
        self.damaged = []
        if len(entries) < len(rows):
            read = {entry.sequence for entry in entries}
            self.damaged = [sequence for sequence in found.sequences if sequence not in read]
        return entries

    def holds(self, entry: QueueEntry) -> bool:
        """Ask the log."""
        return self._reader.holds(entry.message.record, self._queue.queue_id)

    def _tell(self) -> None:
        """Say which is the next."""
        if self._ahead:
            self.sequence = self._ahead[0][0]
        else:
            self.sequence = 0 if self._next is None else self._next[0]


def _within(stretches: list[Stretch], first: int, last: int) -> list[Stretch]:
    """Cut stretches off before ``first`` and behind ``last`` (-1: nowhere)."""
    cut = [(page, max(start, first), end if last < 0 else min(end, last)) for page, start, end in stretches]
    return [(page, start, end) for page, start, end in cut if start <= end]


def _rows_of(stretches: list[Stretch]) -> Iterator[Row]:
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


def _rows_with(stretches: list[Stretch], chosen: list[int]) -> Iterator[Row]:
    """Yield the rows of some pages that have one of these sequences. O(log n) for each of them."""
    for page, first, last in stretches:
        for place in range(bisect_left(chosen, first), bisect_right(chosen, last)):
            for row in page.read_from(chosen[place], 1).each():
                if row[1] and row[0] == chosen[place]:
                    yield row


def _sequence_of(row: Row) -> int:
    return row[0]
