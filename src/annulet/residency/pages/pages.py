"""The pages of one queue, and loading from them.

A load takes some hundred rows from the front. Their bytes are in the page cache, as they were written not long ago, or
have been read by a thread, for which delivery waits: so the event loop does not wait for the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.expiry_times import NEVER
from annulet.core.model.entry import sequence_of
from annulet.core.model.queue_area import Ended, QueueArea
from annulet.residency.loading.load_ahead import PREFETCH_LOADS, LoadAhead
from annulet.residency.loading.loader import fitting, unread_entries_of
from annulet.residency.loading.row_reading import RowReading, note_came, note_load
from annulet.residency.loading.search_ahead import SearchAhead
from annulet.residency.pages.page_list import PageList
from annulet.residency.pages.walk import PageView
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from annulet.residency.rows.row_tally import page_leaves, tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from annulet.core.message.hot_properties import Term
    from annulet.core.message.message import Origin
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import RowView
    from annulet.core.queue.queue import Queue
    from annulet.residency.loading.figures import PagingFigures
    from annulet.residency.loading.loader import MessageReader
    from annulet.residency.loading.search_ahead import RecordSearch
    from annulet.residency.rows.page import Page
    from annulet.residency.rows.rows import Rows

LOAD_MESSAGES: Final = 256
"""Rows of one load: some 2 ms of the loop at 1 KiB, and the cost of a read is spread over many messages."""

LOAD_BYTES: Final = 1 << 20
"""Bytes of one load; one message always fits."""

PAGES_AT_ONCE: Final = 4
"""Pages of which expired rows are taken together: each may have to be put in order before, 1 ms of the loop."""


class StoredQueueArea(QueueArea):
    """Pages of ``queue``, read with ``reader``. ``stalled``: the disk refused, and :meth:`retry` was not called yet.

    The page list knows the pages and counts them; its counts are copied here after each change, as the core reads them
    before each message (:meth:`_tell_totals`). Reading, and what the queue is told of it, is done here.
    """

    all_timed = False

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
        self._room, self._on_asked = room, ask_turn  # the caller of the queue's scan; None: the caller itself
        self._queue, self._reader, self._figures = queue, reader, figures
        self._reading = RowReading(queue, reader, figures)
        self._pages = PageList(queue, figures, LOAD_BYTES, all_timed=self.all_timed)
        self._ends_wait = False  # while stalled: those that expire have to be read
        self._ahead = LoadAhead(reader, wake)
        self._search = SearchAhead(search, figures)
        self._looked_ahead, self._barren = 0, True  # rows asked for ahead of looks; nothing was found at the last one

    @property
    def page_list(self) -> PageList:
        """The pages, to look at; only this area changes them."""
        return self._pages

    def _tell_totals(self) -> None:
        """Have the totals of the list as those of the area."""
        pages = self._pages
        self.items, self.rows, self.bytes = pages.items, pages.rows, pages.bytes

    def add(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """Make pages of the entries, or let the last one have them."""
        if self._queue.bodies is not None:
            self._queue.bodies.kept(entries, kept)
        self._pages.append(entries, kept)
        self._tell_totals()

    def add_before(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """Make pages of the entries."""
        if self._queue.bodies is not None:
            self._queue.bodies.kept(entries, kept)
        self._ahead.restart()
        self._pages.prepend(entries, kept)
        self._tell_totals()

    def add_among(self, entries: list[QueueEntry], kept: bytearray) -> list[QueueEntry]:
        """Make pages of those that stand between pages; of the others each comes into the page it stands in."""
        self._ahead.restart()
        refused, taken = self._pages.put_among(entries, kept)
        self._tell_totals()
        if self._queue.bodies is not None:
            self._queue.bodies.kept(*taken)
        return refused

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
        """Add them to the last page as far as it takes them, and to new ones."""
        self._pages.append_rows(sequences, records, sizes, origins, redelivered=redelivered, times=times, counts=counts)
        self._tell_totals()

    def first_sequence(self) -> int:
        """Return the sequence of the first item."""
        return self._pages[0].first_sequence

    def first_accepted_at(self) -> int:
        """Ask who reads."""
        return self._reading.first_accepted_at(self._pages.pages)

    def accepted_at(self, sequence: int) -> int:
        """Ask the page it would be in."""
        page = self._pages.page_with(sequence)
        return 0 if page is None or page.facts is None else page.facts.of(sequence)[0]

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
        self.lost_bytes = self._pages.take_first(items, rows, size)
        self._tell_totals()
        note_load(self._queue, self._figures, rows - self.lost, self.lost, size)
        self._ahead.loaded(rows, self._pages.pages, self._items_to_load)
        return entries

    def coming(self) -> bool:
        """Ask the reader ahead."""
        return not self.stalled and self._ahead.coming(self._pages.pages)

    def awaits_read(self) -> bool:
        """Ask the reader ahead."""
        return self._ahead.awaits_read()

    def look_ahead(self) -> None:
        """Have the disk read what the first loads come to."""
        self._ahead.ask(self._pages.pages, self._items_to_load)

    def skip(self, rows: int) -> int:
        """Forget whole pages."""
        skipped = 0
        while len(self._pages) and skipped + self._pages[0].rows <= rows:
            skipped += self._pages.take_page(self._pages[0]).rows
        self._tell_totals()
        return skipped

    def renewed(self) -> StoredQueueArea:
        """Return empty pages with the same reader."""
        area = type(self)(
            self._queue, self._reader, self._figures, self._room, self._on_asked, self._search.search, self._ahead.wake
        )
        area.level = self.level
        area.most_messages, area.most_bytes = self.most_messages, self.most_bytes
        return area

    def record_bounds(self) -> tuple[int, int]:
        """Ask every page."""
        bounds = [page.record_bounds for page in self._pages.pages if page.rows]
        return min([lowest for lowest, _ in bounds]), max([highest for _, highest in bounds])

    def take_unread(self) -> list[QueueEntry]:
        """Take out the first page without reading it."""
        page = self._pages.take_page(self._pages[0])
        self._tell_totals()
        self.lost, self.lost_bytes = 0, page.bytes
        return unread_entries_of(self._queue, page.peek(PAGE_ITEMS_MAX))

    def timed(self) -> bool:
        """Ask every page."""
        return all(page.facts is not None for page in self._pages.pages if page.rows)

    def first_expiry(self, now: int) -> tuple[int, int]:
        """Ask the expiry times of all pages."""
        waits = self.stalled and self._ends_wait
        return NEVER if waits or not self.rows else self._pages.times.first(now)

    def retime(self) -> None:
        """Ask every page, which is little work."""
        self._pages.times.anew(self._pages.pages)

    def take_expired(self, before: tuple[int, int], limit: int, *, read: bool) -> list[QueueEntry]:
        """Take from one page after the other, or read as many as a load does from the first."""
        self.lost = self.lost_bytes = 0
        expired: list[QueueEntry] = []
        pages, settings = self._pages, self._queue.settings
        for _ in range(PAGES_AT_ONCE):
            page = pages.times.page(before[0])
            if page is None or page.facts is None or page.due >= before or len(expired) >= limit:
                break
            upto = min(before, pages.times.second())
            if read:
                sequences = page.facts.due(page, settings, upto, min(limit, LOAD_MESSAGES), LOAD_BYTES)
                return self._read_expired(page, page.rows_of(sequences))
            rows = page.rows_of(page.facts.due(page, settings, upto, limit - len(expired)))
            entries = unread_entries_of(self._queue, rows)
            for entry in entries:
                message = entry.message
                message.accepted_at, message.size, message.priority, message.expires_at = page.facts.of(entry.sequence)
            size = sum([entry.message.size for entry in entries])
            self.lost_bytes += pages.expire_rows(page, rows.sequences, size)
            expired += entries
        self._tell_totals()
        return expired

    def _read_expired(self, page: Page, rows: Rows) -> list[QueueEntry]:
        """Take rows with all there is to know of them; none when the disk refuses, until the next retry."""
        facts = page.facts
        found = None if self.stalled else self._read(rows, rows.records, insist=False)
        self._ends_wait = found is None
        if found is None or facts is None:
            return []
        size = sum([facts.of(sequence)[1] for sequence in rows.sequences])
        entries, read = found
        self.lost = len(rows) - len(entries)
        self.lost_bytes = size - read + self._pages.expire_rows(page, rows.sequences, size)
        self._tell_totals()
        note_load(self._queue, self._figures, len(entries), self.lost, read)
        return entries

    def take_ended(self, now: int, least: int) -> Ended | None:
        """Ask the expiry times of all pages."""
        self.lost = self.lost_bytes = 0
        page = self._pages.times.ended(now, least)
        if page is None:
            return None
        page_leaves(self._queue, page)
        self._pages.take_page(page)
        self._tell_totals()
        return Ended(page.runs.record_ranges(), page.rows, page.bytes)

    def tally(self, name_of: Callable[[Origin], str], below: int) -> dict[str, tuple[int, int]]:
        """Ask every page."""
        return tally(self._pages.pages, name_of, below)

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
        index = self._pages.index_of(sequence)
        doubtful = 0
        if needles and not hot:
            search = self._search
            if search.passes(self._pages.pages, index, sequence, needles, messages, self.ask_turn):
                self.looked_upto = search.upto
                return [] if search.rows else None
            doubtful = search.doubtful
            if self._barren and not doubtful and self._pass_over(self._pages[index], sequence, needles, messages):
                return []
        if hot:
            index, rows, upto = self._pages.hot.find(self._pages.pages, index, sequence, messages, hot)
            needles = []  # to be noted what they have the others are read as well
        elif full is not None:
            page = self._pages[index]
            most = min(messages, _items_to_look_at(page))
            rows, upto, self.passed_over = self._pages.hot.with_room(page, sequence, messages, most, full)
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
        if not doubtful and count >= passed and (not hot or not self._pages.hot.knows(page)):
            self._prefetch_look(page, count)
        if hot:
            self._pages.hot.learn(page, entries)
        self._barren = not entries
        self._figures.scans += 1
        self._figures.scanned += len(records)
        if len(entries) < len(rows):
            self._remove_damaged(self._pages.own(index), rows, {entry.sequence for entry in entries})
        return entries

    def _pass_over(self, page: Page, sequence: int, needles: list[list[bytes]], messages: int) -> bool:
        """Look at a run of rows together; say whether none can match, so that this was all."""
        passed = self._reading.pass_over(page, sequence, needles, messages, LOAD_BYTES)
        if not passed:
            return False
        self.looked_upto = passed.stop
        self._prefetch_look(page, len(passed))
        self._figures.scans += 1
        self._figures.scanned += len(passed)
        return True

    def _prefetch_look(self, page: Page, rows: int) -> None:
        """Have the disk read what the next looks will come to, as far as this page has it; one came to ``rows``."""
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
        lacking = zip(rows.sequences, rows.records, strict=True)
        damaged = [sequence for sequence, record in lacking if record and sequence not in found]
        self.lost += len(damaged)
        self.lost_bytes += self._pages.remove_rows(page, damaged, 0)
        self._tell_totals()
        self._figures.unreadable += self.lost

    def take_out(self, entries: list[QueueEntry]) -> None:
        """Take some items, by ascending sequence, out of the middle of their pages."""
        self.lost = 0
        before, bytes_before = self.rows, self.bytes
        self.lost_bytes = self._pages.take_out(entries)
        self._tell_totals()
        note_came(self._queue, before - self.rows, bytes_before - self.bytes)

    def has_row(self, sequence: int) -> bool:
        """Ask the page it would be in."""
        return self._pages.page_with(sequence) is not None

    def snapshot(self, entries: list[QueueEntry]) -> RowView:
        """Share the pages with a walk: rows taken from them stay readable, changes of them make a copy."""
        for page in self._pages.pages:
            page.share()
        stretches = [(page, page.first_sequence, page.last_sequence) for page in self._pages.pages]
        return PageView(self._queue, self._reader, stretches, sorted(entries, key=sequence_of))

    def ask_turn(self) -> None:
        """Request a turn, once until the next one."""
        if self._on_asked is not None and not self._queue.turn_asked:
            self._queue.note_turn(asked=True)
            self._on_asked(self._queue)

    def entries_kept(self) -> list[QueueEntry]:
        """Return the entries among the rows."""
        return [entry for page in self._pages.pages for entry in page.kept()]

    def sweep(self) -> None:
        """Let go of removed entries."""
        for page in self._pages.pages:
            page.sweep()

    def room(self) -> int:
        """Return the remaining memory."""
        return self._room()

    def counted_ranges(self) -> list[tuple[int, int]]:
        """Ask every page."""
        return [stretch for page in self._pages.pages for stretch in page.runs.counted_ranges()]

    def redelivered_ranges(self) -> Iterator[tuple[int, int]]:
        """Ask every page on which a row came back."""
        for page in self._pages.pages:
            if page.rows and page.redelivered_upto:
                yield from page.runs.redelivered_ranges()

    def clear(self) -> None:
        """Forget all pages."""
        self._pages.clear()
        self._tell_totals()
        self._reading.attempts = 0
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
    return page.items_of(LOAD_MESSAGES, LOAD_BYTES)  # however little a front may have: they do not stay
