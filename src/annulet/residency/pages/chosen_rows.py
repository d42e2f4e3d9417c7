"""The rows of a sorted queue: entries that page or return may be anywhere among them.

By sequence, as all rows: so a view, a purge or an expiry finds them as those of any other queue. Which of them is next
is the business of the queue's order (:mod:`annulet.core.paging.paged_sorted`), which names them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from annulet.core.model.entry import sequence_of
from annulet.residency.loading.load_ahead import last_sequence_of
from annulet.residency.loading.row_reading import note_load
from annulet.residency.pages.pages import LOAD_BYTES, StoredQueueArea
from annulet.residency.rows.page import Page
from annulet.residency.rows.rows import Rows

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry


class ChosenRows(StoredQueueArea):
    """Rows only, no entry is kept among them. Of each it is known when it was accepted."""

    all_timed = True  # a page among others has to know the same of its rows as they do

    def insert(self, entries: list[QueueEntry]) -> None:
        """Put them into their pages, and entries behind all pages behind them."""
        last = self.last_sequence() if len(self._pages) else 0
        count = bisect_right(entries, last, key=sequence_of)
        self._pages.insert(entries[:count])
        self._tell_totals()
        behind = entries[count:]
        if behind:
            self.add(behind, bytearray(len(behind)))

    def take(self, sequences: list[int], *, insist: bool) -> list[QueueEntry] | None:
        """Read them together, whatever pages they are in: up to ``LOAD_BYTES`` of bodies, or ``most_bytes``."""
        self.lost = self.lost_bytes = 0
        if self.stalled and not insist:
            return None
        rows, pages = self._fitting(sequences, *self._chosen(sorted(sequences)))
        if not pages:
            return []
        found = self._read(rows, rows.records, insist=insist)
        if found is None:
            return None
        size = 0
        for page, sequence in zip(pages, rows.sequences, strict=True):
            assert page.facts is not None
            of_row = page.facts.of(sequence)[1]
            size += of_row + self._pages.remove_rows(page, [sequence], of_row)
        self._tell_totals()
        entries, read = found
        self.lost, self.lost_bytes = len(rows) - len(entries), size - read
        note_load(self._queue, self._figures, len(entries), self.lost, read)
        return entries

    def _fitting(self, sequences: list[int], rows: Rows, pages: list[Page]) -> tuple[Rows, list[Page]]:
        """Return those of ``rows`` that one load takes, the first by ``sequences``. Far messages may be large ones."""
        sizes: dict[int, int] = {}
        for page, sequence in zip(pages, rows.sequences, strict=True):
            assert page.facts is not None
            sizes[sequence] = page.facts.of(sequence)[1]
        left = min(LOAD_BYTES, self.most_bytes)
        if sum(sizes.values()) <= left:
            return rows, pages
        wanted: list[int] = []
        for sequence in sequences:
            left -= sizes.get(sequence, 0)
            if left < 0 and wanted:
                break
            if sequence in sizes:
                wanted.append(sequence)
        return self._chosen(sorted(wanted))

    def _chosen(self, sequences: list[int]) -> tuple[Rows, list[Page]]:
        """Return those of the sequences that are rows, and the page of each."""
        chosen, pages = Rows(), []
        index = 0
        for sequence in sequences:
            index = bisect_left(self._pages.pages, sequence, index, key=last_sequence_of)
            if index == len(self._pages):
                break
            page = self._pages[index]
            if not page.has_row(sequence):
                continue
            page = self._pages.own(index)
            pages.append(page)
            chosen.extend(page.rows_of([sequence]), 1)
        return chosen, pages
