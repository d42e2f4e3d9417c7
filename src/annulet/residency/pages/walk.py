"""A walk of a non-destructive reader over the rows of one instant: pages shared with the queue, and a few separate
ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.model.queue_area import RowView, RowWalk
from annulet.residency.pages.row_walk import PageWalk, rows_of, rows_with
from annulet.residency.rows.page import PAGE_ITEMS_MAX, Page

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.residency.loading.loader import MessageReader
    from annulet.residency.pages.row_walk import Stretch

WALK_MESSAGES: Final = 256
"""Rows of one slice of a browser (design 2.9)."""

WALK_BYTES: Final = 256 << 10
"""Body bytes of it, by the page's average; one message always fits (design 2.9)."""


class PageView(RowView):
    """The rows of some pages, each with its first and last sequence, and the separately noted ones."""

    def __init__(
        self, queue: Queue, reader: MessageReader, stretches: list[Stretch], entries: list[QueueEntry]
    ) -> None:
        self._queue = queue
        self._reader = reader
        self._lines = [stretches]  # each ascends
        self.note(entries)

    def note(self, entries: list[QueueEntry]) -> None:
        """Make pages of them, in the first line that they continue."""
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
        parts = _within([stretch for stretches in self._lines for stretch in stretches], first, last)
        rows = rows_of(parts, messages) if chosen is None else rows_with(parts, chosen, messages)
        return PageWalk(self._queue, self._reader, rows)


def _within(stretches: list[Stretch], first: int, last: int) -> list[Stretch]:
    """Cut stretches off before ``first`` and behind ``last`` (-1: nowhere). Those that are whole are not copied."""
    found: list[Stretch] = []
    for stretch in stretches:
        page, lowest, highest = stretch
        start, end = max(lowest, first), highest if last < 0 else min(highest, last)
        if start <= end:
            found.append(stretch if (start, end) == (lowest, highest) else (page, start, end))
    return found
