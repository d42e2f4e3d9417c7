"""Reading the rows of one instant slice by slice, as a browser of a deep queue does."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from annulet.core.model.entry import BEHIND_ALL
from annulet.core.model.queue_area import RowWalk
from annulet.residency.loading.loader import entries_of, plain_entries_of
from annulet.residency.rows.page import Page
from annulet.residency.rows.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.message.message import Origin
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.residency.loading.loader import MessageReader

Stretch: TypeAlias = tuple[Page, int, int]
"""A page with the first and the last sequence of the covered part."""

SLICES_PASSED_MAX: Final = 16
"""Slices passed over in one turn because consumers were faster: 4096 messages, 1 ms of the loop."""


class PageWalk(RowWalk):
    """Walks over what ``slices`` yields, by ascending sequence; none of it is empty, and nothing was kept there."""

    def __init__(self, queue: Queue, reader: MessageReader, slices: Iterator[Rows]) -> None:
        super().__init__()
        self._queue = queue
        self._reader = reader
        self._slices = slices
        self._next: Rows | None = next(slices, None)
        self._settled: list[int] = []  # of the read in progress
        self._tell()

    def following(self) -> list[QueueEntry] | None:
        """Read the next slice of those whose record the queue is not done with. Damaged ones are passed over."""
        rows = self._unsettled()
        entries = [] if rows is None else self._read(rows)
        if entries is None:
            self._tell()
            return None
        if rows is not None:
            self._next = next(self._slices, None)
            self.passed += len(rows)
        self._tell()
        self.settled, self._settled = self._settled, []
        self.damaged = []
        if rows is not None and len(entries) < len(rows):
            read = {entry.sequence for entry in entries}
            self.damaged = [sequence for sequence in rows.sequences if sequence not in read]
        return entries

    def _unsettled(self) -> Rows | None:
        """Return the unsettled part of the next slice, and advance; ``None`` at the end.

        Completely settled slices are skipped, a bounded number per turn.
        """
        reader, queue_id = self._reader, self._queue.queue_id
        for _ in range(SLICES_PASSED_MAX):
            rows = self._next
            if rows is None:
                return None
            held = reader.held(rows.records, queue_id)
            if len(held) < len(rows):
                self.passed += len(rows) - len(held)
                there = set(held)
                self._settled += [sequence for place, sequence in enumerate(rows.sequences) if place not in there]
                self._next = rows = rows.chosen(held)
            if held:
                return rows
            self._next = next(self._slices, None)
        return None

    def _read(self, rows: Rows) -> list[QueueEntry] | None:
        """Return the entries of some rows; ``None`` when the disk does not give them now, or has not got them yet."""
        reader, queue = self._reader, self._queue
        if max(rows.records) >= reader.written_below:
            return None
        try:
            if not rows.plain:
                return entries_of(queue, rows, reader.read(rows.records))[0]
            origins = cast("list[Origin]", rows.origins)  # whole, so there is one for each
            messages = reader.messages(queue.queue_id, rows.records, rows.sequences, origins)
        except OSError:
            return None
        return plain_entries_of(queue, rows, messages)[0]

    def holds(self, entry: QueueEntry) -> bool:
        """Ask the log."""
        return self._reader.holds(entry.message.record, self._queue.queue_id)

    def _tell(self) -> None:
        """Say which is the next."""
        self.sequence = 0 if self._next is None else self._next.sequences[0]


def rows_of(stretches: list[Stretch], size: int) -> Iterator[Rows]:
    """Yield the rows of some pages by ascending sequence, in slices.

    Processed pages are released, and ``stretches`` is emptied for that.
    """
    found = Rows()
    left = [(first, number, page, last) for number, (page, first, last) in enumerate(stretches)]
    stretches.clear()
    heapify(left)
    while left:
        sequence, number, page, last = heappop(left)
        bound = left[0][0] if left else BEHIND_ALL  # no row of another page precedes it
        rows = page.read_from(sequence, min(size - len(found), bound - sequence + 1))
        if not rows.sequences or rows.sequences[0] > last:
            continue
        if rows.sequences[0] <= bound:
            count = bisect_right(rows.sequences, min(bound, last))
            _take_in(found, rows, count)
            heappush(left, (rows.sequences[count - 1] + 1, number, page, last))
        else:
            heappush(left, (rows.sequences[0], number, page, last))
        if len(found) == size:
            yield found
            found = Rows()
    if found.sequences:
        yield found


def _take_in(found: Rows, rows: Rows, count: int) -> None:
    """Add the first ``count`` items to the result, without kept entries."""
    if not all(rows.records):
        rows = rows.chosen([place for place in range(count) if rows.records[place]])
        count = len(rows)
    found.extend(rows, count)


def rows_with(stretches: list[Stretch], chosen: list[int], size: int) -> Iterator[Rows]:
    """As :func:`rows_of`, those that have one of the ``chosen`` sequences, ascending. O(log n) for each of them."""
    places: list[tuple[int, int]] = []
    for number, (_, first, last) in enumerate(stretches):
        places += [(place, number) for place in range(bisect_left(chosen, first), bisect_right(chosen, last))]
    places.sort()
    found = Rows()
    for place, number in places:
        rows = stretches[number][0].read_from(chosen[place], 1)
        if rows.sequences and rows.sequences[0] == chosen[place]:
            _take_in(found, rows, 1)
        if len(found) == size:
            yield found
            found = Rows()
    if found.sequences:
        yield found
