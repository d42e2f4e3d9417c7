"""The pages of one queue, as a list that is searched by sequence and knows how much is in it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from typing import TYPE_CHECKING

from annulet.core.base.expiry_times import NEVER
from annulet.core.model.entry import sequence_of
from annulet.core.policies.row_expiry import some_expire
from annulet.residency.loading.load_ahead import last_sequence_of
from annulet.residency.rows.hot_columns import HotRows
from annulet.residency.rows.page import PAGE_ITEMS_MAX, Page
from annulet.residency.rows.row_facts import RowFacts
from annulet.residency.rows.row_times import RowTimes
from annulet.residency.rows.runs import total_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.core.message.message import Origin
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.residency.loading.figures import PagingFigures


class PageList:
    """Pages of ``queue`` by ascending sequence.

    ``items``, ``rows`` and ``bytes`` are the sums of those of the pages, no page is without items, and ``times`` knows
    when the first row of each expires. A page that a view shares is copied before anything leaves or enters the middle
    of it (:meth:`own`). ``all_timed``: of every row it is known when it was accepted, also where none expires.
    """

    __slots__ = ("_all_timed", "_figures", "_queue", "bytes", "hot", "items", "pages", "rows", "times")

    def __init__(self, queue: Queue, figures: PagingFigures, load_bytes: int, *, all_timed: bool) -> None:
        self._queue, self._figures, self._all_timed = queue, figures, all_timed
        self.pages: deque[Page] = deque()
        self.times = RowTimes(queue)
        self.hot = HotRows(queue, load_bytes)
        self.items = self.rows = self.bytes = 0

    def __len__(self) -> int:
        return len(self.pages)

    def __getitem__(self, index: int) -> Page:
        return self.pages[index]

    # ------------------------------------------------------------------ search

    def index_of(self, sequence: int) -> int:
        """Return the index of the page with this sequence or the next higher one; behind all when there is none."""
        return bisect_left(self.pages, sequence, key=last_sequence_of)

    def index_before(self, sequence: int) -> int:
        """Return the index of the last page that begins at this sequence or before it; -1 when there is none."""
        return bisect_right(self.pages, sequence, key=_first_sequence_of) - 1

    def page_with(self, sequence: int) -> Page | None:
        """Return the page that has the row of a sequence."""
        index = self.index_of(sequence)
        return self.pages[index] if index < len(self.pages) and self.pages[index].has_row(sequence) else None

    def own(self, index: int) -> Page:
        """Return a page that may be changed: a copy where a view shares it."""
        page = self.pages[index]
        if page.shared:
            copy = self.pages[index] = page.copy()
            self.times.replaced(page, copy)
            return copy
        return page

    # ------------------------------------------------------------------ in

    def append(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """Make pages of the entries behind all others, or let the last page have them."""
        if self.pages and entries:
            page = self.pages[-1]
            items, rows, size = page.items, page.rows, page.bytes
            fits = self.hot.fits(page) and (page.facts is not None or not self._expire(entries, kept))
            if fits and page.extend(entries, kept):
                self.hot.note(page, entries)
                self.times.note(page, self.pages)
                self._count_in(page.items - items, page.rows - rows, page.bytes - size)
                return
        made = self._made_of(entries, kept)
        self.pages.extend(made)
        self._note_times(made)

    def prepend(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """Make pages of the entries before all others."""
        made = self._made_of(entries, kept)
        self.pages.extendleft(reversed(made))
        self._note_times(made)

    def put_among(
        self, entries: list[QueueEntry], kept: bytearray
    ) -> tuple[list[QueueEntry], tuple[list[QueueEntry], bytearray]]:
        """Put entries, by ascending sequence, where they stand: between pages as pages, else into the page there.

        Returns those that their page does not take, and the others, with what ``kept`` says of these.
        """
        refused: list[QueueEntry] = []
        taken: list[QueueEntry] = []
        taken_kept = bytearray()
        origins: dict[Page, dict[tuple[str, int, int], int]] = {}  # of the last page: it may have thousands
        place = 0
        while place < len(entries):
            sequence = entries[place].sequence
            index = self.index_before(sequence)
            if index >= 0 and sequence <= self.pages[index].last_sequence:
                behind = place + 1
                if kept[place] or not self._insert_beside(index, entries[place], origins):
                    refused.append(entries[place])
                    place = behind
                    continue
            else:
                behind = len(entries)
                if index + 1 < len(self.pages):
                    behind = bisect_left(entries, self.pages[index + 1].first_sequence, place, key=sequence_of)
                made = self._made_of(entries[place:behind], kept[place:behind])
                for page in reversed(made):
                    self.pages.insert(index + 1, page)
                self._note_times(made)
            taken += entries[place:behind]
            taken_kept += kept[place:behind]
            place = behind
        return refused, (taken, taken_kept)

    def _insert_beside(
        self, index: int, entry: QueueEntry, origins: dict[Page, dict[tuple[str, int, int], int]]
    ) -> bool:
        """Make a row of an entry in the middle of a page; say whether that takes it.

        Not where it would have to know the row's hot properties, whose columns only grow, or its time and knows none.
        """
        page = self.pages[index]
        if page.hot is not None or (page.facts is None and self._expire([entry], bytearray(1))):
            return False
        page = self.own(index)
        if page not in origins:
            origins.clear()
            origins[page] = page.partial_origins()
        if not page.insert(entry, origins[page]):
            return False
        self._count_in(1, 1, entry.message.size)
        self.times.note(page, self.pages)
        return True

    def insert(self, entries: list[QueueEntry]) -> None:
        """Make a row of each entry, by ascending sequence, in the page it stands in, and split pages for it.

        For rows of which all facts are known. None stands behind all pages.
        """
        changed: Page | None = None  # not noted yet
        for entry in entries:
            page = self.pages[self._insert(self.index_before(entry.sequence), entry)]
            if changed is not None and page is not changed:
                self.times.note(changed, self.pages)
            changed = page
        if changed is not None:
            self.times.note(changed, self.pages)

    def _insert(self, index: int, entry: QueueEntry) -> int:
        """Put an entry into a page, or make room where the page does not take it; return where it is."""
        if index >= 0:
            page = self.own(index)
            if page.insert(entry):
                self._count_in(1, 1, entry.message.size)
                return index
            full = page.items >= PAGE_ITEMS_MAX
            right = page.split(0 if full else entry.sequence)
            if right is not None:
                self.pages.insert(index + 1, right)
                self._note_times([page, right])  # earlier additions to the left one are not noted yet
                if full:
                    return self._insert(index + (right.first_sequence < entry.sequence), entry)
        self.pages.insert(index + 1, Page.of([entry], bytearray(1), timed=True))  # nothing of that page is behind it
        self._count_in(1, 1, entry.message.size)
        return index + 1

    def append_rows(
        self,
        sequences: Sequence[int],
        records: Sequence[int],
        sizes: Sequence[int],
        origins: Sequence[Origin],
        *,
        redelivered: bool,
        times: Sequence[tuple[int, int, int]] = (),
        counts: Sequence[int] = (),
    ) -> None:
        """Add rows to the last page as far as it takes them, and to new ones; see :meth:`QueueArea.add_rows`."""
        start, end = 0, len(sequences)
        timed = bool(times)
        while start < end:
            behind = min(end, start + PAGE_ITEMS_MAX)
            room = 0
            if self.pages and (self.pages[-1].facts is not None) is timed and self.pages[-1].hot is None:
                room = self.pages[-1].room_for(sequences, records, start, behind)
            if not room:
                self.pages.append(Page.for_rows(sequences, records, start, behind))
                self.pages[-1].facts = RowFacts() if timed else None
                continue
            behind = min(behind, start + room)
            page = self.pages[-1]
            size = total_of(sizes[start:behind])
            if page.facts is not None:
                for place in range(start, behind):
                    accepted_at, priority, expires_at = times[place]
                    page.facts.note(sequences[place], accepted_at, sizes[place], priority, expires_at)
            page.add_rows(
                sequences[start:behind],
                records[start:behind],
                size,
                origins[start:behind],
                redelivered=redelivered,
                counts=counts[start:behind],
            )
            self.times.note(page, self.pages)
            self.items += behind - start
            self.rows += behind - start
            self.bytes += size
            start = behind

    def _expire(self, entries: list[QueueEntry], kept: bytearray) -> bool:
        """Return whether it has to be known when those that become rows expire."""
        return self._all_timed or self._queue.ages or some_expire(entries, kept)

    def _made_of(self, entries: list[QueueEntry], kept: bytearray) -> list[Page]:
        """Return new pages of the entries, which are counted."""
        made: list[Page] = []
        timed = self._expire(entries, kept)
        for start in range(0, len(entries), PAGE_ITEMS_MAX):
            some = entries[start : start + PAGE_ITEMS_MAX]
            page = Page.of(some, kept[start : start + PAGE_ITEMS_MAX], timed=timed)
            self.hot.note(page, some)
            made.append(page)
            self._count_in(page.items, page.rows, page.bytes)
        return made

    def _note_times(self, pages: list[Page]) -> None:
        for page in pages:
            self.times.note(page, self.pages)

    def _count_in(self, items: int, rows: int, size: int) -> None:
        """Items of which so many are rows, with ``size`` body bytes, came from memory."""
        self.items += items
        self.rows += rows
        self.bytes += size
        self._figures.paged_out += rows

    # ------------------------------------------------------------------ out

    def take_page(self, page: Page) -> Page:
        """Take out a page as it is."""
        self.pages.remove(page)  # found at once where it is the first
        page.due = NEVER
        self._count_out(page.items, page.rows, page.bytes)
        return page

    def take_first(self, items: int, rows: int, size: int) -> int:
        """Take the first items of the first page, of which so many are rows of ``size`` bytes that were read.

        Returns what :meth:`_settle` does.
        """
        page = self.pages[0]
        page.take(items)
        page.bytes -= size
        self._count_out(items, rows, size)
        return self._settle(page)

    def remove_rows(self, page: Page, sequences: Sequence[int], size: int) -> int:
        """Remove rows of ``size`` bytes from a page of its own. Returns what :meth:`_settle` does."""
        for sequence in sequences:
            page.remove(sequence)
        page.bytes -= size
        self._count_out(len(sequences), len(sequences), size)
        return self._settle(page)

    def expire_rows(self, page: Page, sequences: Sequence[int], size: int) -> int:
        """Remove the rows that ``times`` named as the next to expire. Returns what :meth:`_settle` does."""
        if page.shared:
            page = self.own(self.pages.index(page))
        for sequence in sequences:
            page.remove(sequence)
        page.bytes -= size
        self._count_out(len(sequences), len(sequences), size)
        damaged = self._forget_bytes_of_damaged(page)
        self.times.taken(page)
        self._drop_if_empty(page)
        return damaged

    def take_out(self, entries: list[QueueEntry]) -> int:
        """Take items, by ascending sequence, out of the middle of their pages. Returns the bytes of damaged rows."""
        page: Page | None = None
        damaged = 0
        for entry in entries:
            if page is None or entry.sequence > page.last_sequence:  # looked for once: far from the ends that is long
                page = self.own(self.index_of(entry.sequence))
            rows = page.rows
            page.remove(entry.sequence)
            gone = rows - page.rows
            size = gone * entry.message.size
            page.bytes -= size
            self.items -= 1
            self.rows -= gone
            self.bytes -= size
            self._figures.selected += gone
            if not page.rows:
                damaged += self._settle(page)
        return damaged

    def _settle(self, page: Page) -> int:
        """Drop a page that has no items left. Returns the bytes it had left for damaged rows; they are counted out."""
        damaged = self._forget_bytes_of_damaged(page)
        self._drop_if_empty(page)
        return damaged

    def _forget_bytes_of_damaged(self, page: Page) -> int:
        """Any remaining bytes of a page without rows belonged to damaged ones. Returns them."""
        if page.rows:
            return 0
        damaged, page.bytes = page.bytes, 0
        self.bytes -= damaged
        return damaged

    def _drop_if_empty(self, page: Page) -> None:
        if not page.items:
            self.pages.remove(page)
            self.times.gone(self.pages)

    def _count_out(self, items: int, rows: int, size: int) -> None:
        """Items of which so many were rows, with ``size`` body bytes, have left the pages."""
        self.items -= items
        self.rows -= rows
        self.bytes -= size

    def clear(self) -> None:
        """Forget all pages."""
        self.pages.clear()
        self.times.clear()
        self.items = self.rows = self.bytes = 0


def _first_sequence_of(page: Page) -> int:
    return page.first_sequence
