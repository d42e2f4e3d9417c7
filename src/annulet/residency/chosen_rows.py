"""The rows of a sorted queue: what goes to disk and what comes back stands anywhere among them.

By sequence, as all rows: so a view, a purge or an expiry finds them as those of any other queue. Which of them is next
is the business of the queue's order (:mod:`annulet.core.paged_sorted`), which names them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from annulet.core.entry import sequence_of
from annulet.residency.load_ahead import last_sequence_of
from annulet.residency.page import PAGE_ITEMS_MAX, Page
from annulet.residency.pages import LOAD_BYTES, StoredQueueArea
from annulet.residency.row_reading import note_load
from annulet.residency.rows import Rows

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry


class ChosenRows(StoredQueueArea):
    """Rows only, no entry is kept among them. Of each it is known when it was accepted."""

    def renewed(self) -> ChosenRows:
        """Return empty pages with the same reader."""
        search = self._search.search
        return ChosenRows(self._queue, self._reader, self._figures, self._room, self._on_asked, search)

    def _expire(self, entries: list[QueueEntry], kept: bytearray) -> bool:
        """Say yes: what comes among others is to know the same of its rows as they do."""
        del entries, kept
        return True

    def insert(self, entries: list[QueueEntry]) -> None:
        """Put them into the pages they belong to, and what is behind all pages behind them."""
        last = self.last_sequence() if self._pages else 0
        count = bisect_right(entries, last, key=sequence_of)
        changed: Page | None = None  # not noted yet
        for entry in entries[:count]:
            before = bisect_right(self._pages, entry.sequence, key=_first_sequence_of) - 1
            page = self._pages[self._insert(before, entry)]
            if changed is not None and page is not changed:
                self._times.note(changed, self._pages)
            changed = page
        if changed is not None:
            self._times.note(changed, self._pages)
        behind = entries[count:]
        if behind:
            self.add(behind, bytearray(len(behind)))

    def _insert(self, index: int, entry: QueueEntry) -> int:
        """Put an entry into a page, or make room where the page does not take it; return where it is."""
        if index >= 0:
            page = self._own(index)
            if page.insert(entry):
                self._count(entry)
                return index
            full = page.items >= PAGE_ITEMS_MAX
            right = page.split(0 if full else entry.sequence)
            if right is not None:
                self._pages.insert(index + 1, right)
                for part in (page, right):  # what came into the left one before is not noted yet
                    self._times.note(part, self._pages)
                if full:
                    return self._insert(index + (right.first_sequence < entry.sequence), entry)
        self._pages.insert(index + 1, Page.of([entry], bytearray(1), timed=True))  # nothing of that page is behind it
        self._count(entry)
        return index + 1

    def _count(self, entry: QueueEntry) -> None:
        self.items += 1
        self.rows += 1
        self.bytes += entry.message.size
        self._figures.paged_out += 1

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
            size += self._remove(page, sequence)
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
            index = bisect_left(self._pages, sequence, index, key=last_sequence_of)
            if index == len(self._pages):
                break
            page = self._pages[index]
            if not page.has_row(sequence):
                continue
            page = self._own(index)
            pages.append(page)
            chosen.extend(page.rows_of([sequence]), 1)
        return chosen, pages

    def _remove(self, page: Page, sequence: int) -> int:
        """Forget a row of a page of its own; return its bytes."""
        assert page.facts is not None
        size = page.facts.of(sequence)[1]
        page.remove(sequence)
        page.bytes -= size
        self._count_out(1, 1, size)
        self._drop_if_empty(page)
        return size


def _first_sequence_of(page: Page) -> int:
    return page.first_sequence
