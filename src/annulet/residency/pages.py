"""The pages of one queue, and loading from them.

A load takes some hundred rows from the front. Their bytes are in the page cache, because they were written recently or
read by a thread for which delivery waits: so the event loop does not wait for the disk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.entry import sequence_of
from annulet.core.expiry_times import NEVER
from annulet.core.paging import Ended, QueueArea
from annulet.core.row_expiry import some_expire
from annulet.residency.gaps import put_among
from annulet.residency.hot_columns import HotRows
from annulet.residency.load_ahead import PREFETCH_LOADS, LoadAhead, last_sequence_of
from annulet.residency.loader import fitting, unread_entries_of
from annulet.residency.page import PAGE_ITEMS_MAX, Page
from annulet.residency.row_endings import take_expired
from annulet.residency.row_facts import RowFacts
from annulet.residency.row_reading import RowReading, note_came, note_load
from annulet.residency.row_tally import page_leaves, tally
from annulet.residency.row_times import RowTimes
from annulet.residency.runs import total_of
from annulet.residency.search_ahead import SearchAhead
from annulet.residency.walk import PageView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from annulet.core.entry import QueueEntry
    from annulet.core.hot_properties import Term
    from annulet.core.message import Origin
    from annulet.core.paging import RowView
    from annulet.core.queue import Queue
    from annulet.residency.figures import PagingFigures
    from annulet.residency.loader import MessageReader
    from annulet.residency.rows import Rows
    from annulet.residency.search_ahead import RecordSearch

LOAD_MESSAGES: Final = 256
"""Rows of one load: some 2 ms of the loop at 1 KiB, and the cost of a read is spread over many messages."""

LOAD_BYTES: Final = 1 << 20
"""Bytes of one load; one message always fits."""


class StoredQueueArea(QueueArea):
    """Pages of ``queue``, read with ``reader``. ``stalled``: the disk refused, and :meth:`retry` was not called yet."""

    def __init__(
        self,
        queue: Queue,
        reader: MessageReader,
        figures: PagingFigures,
        room: Callable[[], int],
        ask_turn: Callable[[Queue], None] | None = None,
        search: RecordSearch | None = None,
        wake: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
        self._room, self._on_asked = room, ask_turn  # calls the queue's scan; None: the caller does
        self._queue, self._reader, self._figures = queue, reader, figures
        self._reading = RowReading(queue, reader, figures)
        self._hot = HotRows(queue, LOAD_BYTES)
        self._pages: deque[Page] = deque()
        self._times = RowTimes(queue)
        self._ends_wait = False  # while stalled: those that expire have to be read
        self._ahead = LoadAhead(reader, wake)
        self._search = SearchAhead(search, figures)
        self._looked_ahead, self._barren = 0, True  # rows requested ahead of scans; the last one found nothing

    def add(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """Make pages of the entries, or let the last one have them."""
        if self._queue.bodies is not None:
            self._queue.bodies.kept(entries, kept)
        if self._pages and entries:
            page = self._pages[-1]
            items, rows, size = page.items, page.rows, page.bytes
            fits = self._hot.fits(page) and (page.facts is not None or not self._expire(entries, kept))
            if fits and page.extend(entries, kept):
                self._hot.note(page, entries)
                self._times.note(page, self._pages)
                self.items += page.items - items
                self.rows += page.rows - rows
                self.bytes += page.bytes - size
                self._figures.paged_out += page.rows - rows
                return
        made = self._made_of(entries, kept)
        self._pages.extend(made)
        for page in made:
            self._times.note(page, self._pages)

    def _expire(self, entries: list[QueueEntry], kept: bytearray) -> bool:
        """Say whether some that become rows may expire."""
        return self._queue.ages or some_expire(entries, kept)

    def add_before(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """Make pages of the entries."""
        if self._queue.bodies is not None:
            self._queue.bodies.kept(entries, kept)
        self._ahead.restart()
        made = self._made_of(entries, kept)
        self._pages.extendleft(reversed(made))
        for page in made:
            self._times.note(page, self._pages)

    def add_among(self, entries: list[QueueEntry], kept: bytearray) -> list[QueueEntry]:
        """Make pages of those between pages; insert the others into their pages."""
        self._ahead.restart()
        refused, taken = put_among(self, entries, kept)
        if self._queue.bodies is not None:
            self._queue.bodies.kept(*taken)
        return refused

    def _made_of(self, entries: list[QueueEntry], kept: bytearray) -> list[Page]:
        """Return new pages of the entries, which are accounted for."""
        made: list[Page] = []
        timed = self._expire(entries, kept)
        for start in range(0, len(entries), PAGE_ITEMS_MAX):
            page = Page.of(entries[start : start + PAGE_ITEMS_MAX], kept[start : start + PAGE_ITEMS_MAX], timed=timed)
            self._hot.note(page, entries[start : start + PAGE_ITEMS_MAX])
            made.append(page)
            self.items += page.items
            self.rows += page.rows
            self.bytes += page.bytes
            self._figures.paged_out += page.rows
        return made

    def add_rows(
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
        """Add them to the last page as far as it accepts them, and to new ones."""
        start, end = 0, len(sequences)
        timed = bool(times)
        while start < end:
            behind = min(end, start + PAGE_ITEMS_MAX)
            room = 0
            if self._pages and (self._pages[-1].facts is not None) is timed and self._pages[-1].hot is None:
                room = self._pages[-1].room_for(sequences, records, start, behind)
            if not room:
                self._pages.append(Page.for_rows(sequences, records, start, behind))
                self._pages[-1].facts = RowFacts() if timed else None
                continue
            behind = min(behind, start + room)
            size = total_of(sizes[start:behind])
            facts = self._pages[-1].facts
            if facts is not None:
                for place in range(start, behind):
                    accepted_at, priority, expires_at = times[place]
                    facts.note(sequences[place], accepted_at, sizes[place], priority, expires_at)
            self._pages[-1].add_rows(
                sequences[start:behind],
                records[start:behind],
                size,
                origins[start:behind],
                redelivered=redelivered,
                counts=counts[start:behind],
            )
            self._times.note(self._pages[-1], self._pages)
            self.items += behind - start
            self.rows += behind - start
            self.bytes += size
            start = behind

    def first_sequence(self) -> int:
        """Return the sequence of the first item."""
        return self._pages[0].first_sequence

    def first_accepted_at(self) -> int:
        """Delegate to the row reading."""
        return self._reading.first_accepted_at(self._pages)

    def accepted_at(self, sequence: int) -> int:
        """Ask the page it would be in."""
        index = bisect_left(self._pages, sequence, key=last_sequence_of)
        if index == len(self._pages) or not self._pages[index].has_row(sequence):
            return 0
        facts = self._pages[index].facts
        return 0 if facts is None else facts.of(sequence)[0]

    def load(self, *, insist: bool) -> list[QueueEntry] | None:
        """Read the first rows, at most ``LOAD_MESSAGES`` and about ``LOAD_BYTES``."""
        self.lost = self.lost_bytes = 0
        if self.stalled and not insist:
            return None
        page = self._pages[0]
        found = self._reading.load(page, self._items_to_load(page), min(LOAD_BYTES, self.most_bytes), insist=insist)
        self.stalled = found is None
        if found is None:
            return None
        items, rows, self.lost, entries, size = found
        self._account(page, items, rows, size)
        self._drop_if_empty(page)
        self._ahead.loaded(rows, self._pages, self._items_to_load)
        return entries

    def coming(self) -> bool:
        """Delegate to the read-ahead."""
        return not self.stalled and self._ahead.coming(self._pages)

    def awaits_read(self) -> bool:
        """Delegate to the read-ahead."""
        return self._ahead.awaits_read()

    def look_ahead(self) -> None:
        """Request the first loads from disk."""
        self._ahead.ask(self._pages, self._items_to_load)

    def skip(self, rows: int) -> int:
        """Forget whole pages."""
        skipped = 0
        while self._pages and skipped + self._pages[0].rows <= rows:
            skipped += self._take_page(self._pages[0]).rows
        return skipped

    def _take_page(self, page: Page) -> Page:
        """Take out a page as it is."""
        self._pages.remove(page)  # found at once where it is the first
        page.due = NEVER
        self._count_out(page.items, page.rows, page.bytes)
        return page

    def _count_out(self, items: int, rows: int, size: int) -> None:
        """Account for items that left the pages, of which this many were rows, with ``size`` body bytes."""
        self.items -= items
        self.rows -= rows
        self.bytes -= size

    def renewed(self) -> StoredQueueArea:
        """Return empty pages with the same reader."""
        area = StoredQueueArea(
            self._queue, self._reader, self._figures, self._room, self._on_asked, self._search.search, self._ahead.wake
        )
        area.level = self.level
        area.most_messages, area.most_bytes = self.most_messages, self.most_bytes
        return area

    def record_bounds(self) -> tuple[int, int]:
        """Ask every page."""
        bounds = [page.record_bounds for page in self._pages if page.rows]
        return min([lowest for lowest, _ in bounds]), max([highest for _, highest in bounds])

    def take_unread(self) -> list[QueueEntry]:
        """Take out the first page without reading it."""
        page = self._take_page(self._pages[0])
        self.lost, self.lost_bytes = 0, page.bytes
        return unread_entries_of(self._queue, page.peek(PAGE_ITEMS_MAX))

    def timed(self) -> bool:
        """Ask every page."""
        return all(page.facts is not None for page in self._pages if page.rows)

    def first_expiry(self, now: int) -> tuple[int, int]:
        """Delegate to the times of all pages."""
        waits = self.stalled and self._ends_wait
        return NEVER if waits or not self.rows else self._times.first(now)

    def retime(self) -> None:
        """Combine the results of all pages, which is little work."""
        self._times.anew(self._pages)

    def take_expired(self, before: tuple[int, int], limit: int, *, read: bool) -> list[QueueEntry]:
        """Take from one page after the other, or read as many as a load does from the first."""
        self.lost = self.lost_bytes = 0
        return take_expired(self, before, limit, most_read=(LOAD_MESSAGES, LOAD_BYTES) if read else None)

    def take_ended(self, now: int, least: int) -> Ended | None:
        """Delegate to the times of all pages."""
        self.lost = self.lost_bytes = 0
        page = self._times.ended(now, least)
        if page is None:
            return None
        page_leaves(self._queue, page)
        return Ended(page.record_ranges(), page.rows, self._take_page(page).bytes)

    def _account(self, page: Page, items: int, rows: int, size: int) -> None:
        page.take(items)
        page.bytes -= size
        self._count_out(items, rows, size)
        self._forget_bytes_of_damaged(page)
        note_load(self._queue, self._figures, rows - self.lost, self.lost, size)

    def tally(self, name_of: Callable[[Origin], str], below: int) -> dict[str, tuple[int, int]]:
        """Ask every page."""
        return tally(self._pages, name_of, below)

    def last_sequence(self) -> int:
        """Return the sequence of the last item."""
        return self._pages[-1].last_sequence

    def look(
        self,
        sequence: int,
        needles: list[list[bytes]],
        messages: int,
        hot: Sequence[list[Term]] = (),
        full: Callable[[str], bool] | None = None,
    ) -> list[QueueEntry] | None:
        """Read rows from ``sequence`` on, as many as a load does or ``messages``, or all that a page has left."""
        self.lost = self.lost_bytes = 0
        if self.stalled:
            return None
        index = bisect_left(self._pages, sequence, key=last_sequence_of)
        doubtful = 0
        if needles and not hot:
            search = self._search
            if search.passes(self._pages, index, sequence, needles, messages, self.ask_turn):
                self.looked_upto = search.upto
                return [] if search.rows else None
            doubtful = search.doubtful
            if self._barren and not doubtful and self._pass_over(self._pages[index], sequence, needles, messages):
                return []
        if hot:
            index, rows, upto = self._hot.find(self._pages, index, sequence, messages, hot)
            needles = []  # the others are read as well, to record their values
        elif full is not None:
            page = self._pages[index]
            most = min(messages, _items_to_look_at(page))
            rows, upto, self.passed_over = self._hot.with_room(page, sequence, messages, most, full)
        else:
            most = min(messages, doubtful or messages, _items_to_look_at(self._pages[index]))
            rows = self._pages[index].peek_from(sequence, most)
            upto = rows.sequences[-1] + 1
        most = len(rows)
        rows = fitting(self._reader, rows, LOAD_BYTES)
        if len(rows) < most:
            upto = rows.sequences[-1] + 1
        page = self._pages[index]
        count = len(rows)
        records = [record for record in rows.records if record]
        found = self._reading.look(rows, records, needles)
        if found is None:
            self.stalled = True
            return None
        rows, entries = found
        self.looked_upto = upto
        passed = 0 if full is None else sum(map(len, self.passed_over.values()))
        if not doubtful and count >= passed and (not hot or not self._hot.knows(page)):
            self._prefetch_look(page, count)
        if hot:
            self._hot.learn(page, entries)
        self._barren = not entries
        self._figures.scans += 1
        self._figures.scanned += len(records)
        if len(entries) < len(rows):
            self._remove_damaged(self._own(index), rows, {entry.sequence for entry in entries})
        return entries

    def _pass_over(self, page: Page, sequence: int, needles: list[list[bytes]], messages: int) -> bool:
        """Examine a run of rows together; return whether none can match, so that the scan is complete."""
        passed = self._reading.pass_over(page, sequence, needles, messages, LOAD_BYTES)
        if not passed:
            return False
        self.looked_upto = passed.stop
        self._prefetch_look(page, len(passed))
        self._figures.scans += 1
        self._figures.scanned += len(passed)
        return True

    def _prefetch_look(self, page: Page, rows: int) -> None:
        """Request the rows of the next scans from disk, as far as this page has them; one reached ``rows``."""
        self._looked_ahead -= rows
        if self._looked_ahead > 0 or self.looked_upto > page.last_sequence:
            return
        self._looked_ahead = _items_to_look_at(page) * PREFETCH_LOADS
        ahead = page.peek_from(self.looked_upto, self._looked_ahead)
        records = [record for record in ahead.records if record]
        if records:
            self._reader.prefetch(records)

    def _remove_damaged(self, page: Page, rows: Rows, found: set[int]) -> None:
        """Take the rows out of a page whose records are damaged; swept items stay."""
        for sequence, record in zip(rows.sequences, rows.records, strict=True):
            if record and sequence not in found:
                page.remove(sequence)
                self.lost += 1
        self.items -= self.lost
        self.rows -= self.lost
        self._figures.unreadable += self.lost
        self._forget_bytes_of_damaged(page)
        self._drop_if_empty(page)

    def take_out(self, entries: list[QueueEntry]) -> None:
        """Take some items, by ascending sequence, out of the middle of their pages."""
        self.lost = self.lost_bytes = 0
        page: Page | None = None
        before, bytes_before = self.rows, self.bytes
        for entry in entries:
            if page is None or entry.sequence > page.last_sequence:  # searched once: far from the ends that takes long
                page = self._own(bisect_left(self._pages, entry.sequence, key=last_sequence_of))
            rows = page.rows
            page.remove(entry.sequence)
            gone = rows - page.rows
            size = gone * entry.message.size
            page.bytes -= size
            self._count_out(1, gone, size)
            self._figures.selected += gone
            self._forget_bytes_of_damaged(page)
            self._drop_if_empty(page)
        note_came(self._queue, before - self.rows, bytes_before - self.bytes)

    def has_row(self, sequence: int) -> bool:
        """Ask the page it would be in."""
        index = bisect_left(self._pages, sequence, key=last_sequence_of)
        return index < len(self._pages) and self._pages[index].has_row(sequence)

    def snapshot(self, entries: list[QueueEntry]) -> RowView:
        """Share the pages with a walk: taken items stay readable, changes make a copy."""
        for page in self._pages:
            page.share()
        stretches = [(page, page.first_sequence, page.last_sequence) for page in self._pages]
        return PageView(self._queue, self._reader, stretches, sorted(entries, key=sequence_of))

    def _own(self, index: int) -> Page:
        """Return a page that may be changed."""
        page = self._pages[index]
        if page.shared:
            copy = self._pages[index] = page.copy()
            self._times.replaced(page, copy)
            return copy
        return page

    def ask_turn(self) -> None:
        """Request a turn, once until the next one."""
        if self._on_asked is not None and not self._queue.turn_asked:
            self._queue.turn_asked = True
            self._on_asked(self._queue)

    def _forget_bytes_of_damaged(self, page: Page) -> None:
        """Any bytes that a page without rows has left belonged to damaged ones."""
        if not page.rows:
            self.lost_bytes += page.bytes
            self.bytes -= page.bytes
            page.bytes = 0

    def _drop_if_empty(self, page: Page) -> None:
        if not page.items:
            self._pages.remove(page)
            self._times.gone(self._pages)

    def entries_kept(self) -> list[QueueEntry]:
        """Return the entries among the rows."""
        return [entry for page in self._pages for entry in page.kept()]

    def sweep(self) -> None:
        """Release removed entries."""
        for page in self._pages:
            page.sweep()

    def room(self) -> int:
        """Return the remaining memory."""
        return self._room()

    def counted_ranges(self) -> list[tuple[int, int]]:
        """Ask every page."""
        return [stretch for page in self._pages for stretch in page.counted_ranges()]

    def redelivered_ranges(self) -> Iterator[tuple[int, int]]:
        """Collect the returned rows of all pages."""
        for page in self._pages:
            if page.rows and page.redelivered_upto:
                yield from page.redelivered_ranges()

    def clear(self) -> None:
        """Forget all pages."""
        self._pages.clear()
        self._times.clear()
        self.items = self.rows = self.bytes = self._reading.attempts = 0
        self._ahead.restart()
        self.stalled = False

    def retry(self) -> None:
        """Let the next load try the disk again."""
        self.stalled = False

    def _read(self, rows: Rows, records: list[int], *, insist: bool) -> tuple[list[QueueEntry], int] | None:
        """Read; ``None`` when the disk refuses, which is noted."""
        found = self._reading.read(rows, records, insist=insist)
        self.stalled = found is None
        return found

    def _items_to_load(self, page: Page) -> int:
        return page.items_of(min(LOAD_MESSAGES, self.most_messages), min(LOAD_BYTES, self.most_bytes))


def _items_to_look_at(page: Page) -> int:
    return page.items_of(LOAD_MESSAGES, LOAD_BYTES)  # even if the front may be small: they do not stay
