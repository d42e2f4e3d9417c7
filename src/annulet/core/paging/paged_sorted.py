"""The order of a deep sorted queue: a heap of entries, and rows of which only keys and sequences are in memory.

Next is the smaller of the heap's first and the rows' first. If it is a row, the next few hundred rows are loaded into
the heap. Entries are paged from the end of the heap, where the far ones are, never from the next thousand. An arrival
goes into the heap at its place, so publishers never wait for the disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import PENDING, QueueEntry, sequence_of
from annulet.core.model.order import Order
from annulet.core.model.queue_area import QueueArea
from annulet.core.ordering.order import RankedOrder
from annulet.core.ordering.ranks import SORTED_MISSING
from annulet.core.paging.folding import FOLD_BYTES_LEAST, FOLD_MESSAGES_LEAST
from annulet.core.paging.paged_fifo import KEEP_BYTES, KEEP_MESSAGES, LEADING_BYTES
from annulet.core.paging.row_conditions import may_be_row, refusal_for
from annulet.core.paging.row_moves import count_lost, leave_memory
from annulet.core.paging.sort_key_runs import KeyRuns, Place

if TYPE_CHECKING:
    from annulet.core.model.queue_state import QueueState

LOAD_MESSAGES: Final = 256
"""Rows of one load, as for a plain queue: read one by one, but usually from the page cache."""

LOAD_BYTES: Final = 1 << 20
"""Body bytes of one load, by the average of the rows, which limits the keys examined. Loaded bodies are measured."""

MOVED_AT_ONCE: Final = 1024
"""Entries that become rows in one call, each of which has to find its place among the rows: some 5 ms of the loop."""

SWEPT_PER_ROW: Final = 2
"""Keys examined for each row that left out of turn: at most twice as many are ever outdated."""


class PagedSorted(Order):
    """Takes over the entries of ``order``. ``pages``: empty ones that allow insertion of rows anywhere."""

    def __init__(self, queue: QueueState, pages: QueueArea, order: RankedOrder) -> None:
        super().__init__()
        self.keep_messages = KEEP_MESSAGES
        self.keep_bytes = KEEP_BYTES
        self.fold_least = FOLD_MESSAGES_LEAST
        self.fold_bytes = FOLD_BYTES_LEAST
        self.leading_bytes = LEADING_BYTES
        self.load_messages = LOAD_MESSAGES
        self.pages = pages
        self.count = order.count
        self._queue = queue
        self._near = order
        self._staying = RankedOrder()  # entries found that cannot become rows
        self._stays: set[QueueEntry] = set()  # the same, by entry
        self._keys = KeyRuns()  # of the rows, and of some that are none any more
        self._unswept = 0  # keys to be examined, because rows left out of turn

    @property
    def keys(self) -> KeyRuns:
        """The keys of the rows, and of some that are none any more; only this order changes them."""
        return self._keys

    @property
    def staying(self) -> int:
        """How many entries were found that cannot become rows."""
        return len(self._stays)

    # ------------------------------------------------------------------ the order

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival."""
        self._near.append(entry)
        self.count += 1

    def reinsert(self, entry: QueueEntry) -> None:
        """Put an entry back at its place."""
        self._near.append(entry)
        self.count += 1

    def first(self) -> QueueEntry | None:
        """Return the next entry without taking it. ``None`` when nothing is pending, or the disk does not give it now.

        Reads when it is a row: some hundred at once, from the page cache as a rule.
        """
        while True:
            head = self._first_in_memory()
            if not self._row_is_before(head):
                return head
            if not self._load(insist=False):
                return None

    def take_first(self) -> QueueEntry | None:
        """Remove and return the next entry, ``None`` when there is none."""
        entry = self.first()
        if entry is None:
            return None
        self.count -= 1
        if entry in self._stays:
            self._stays.discard(entry)
            return self._staying.take_first()
        return self._near.take_first()

    def first_sequence(self) -> int:
        """Return the sequence of the next entry or row."""
        head = self._first_in_memory()
        row = self._first_row()
        if row is not None and self._row_is_before(head):
            return row[1]
        return 0 if head is None else head.sequence

    def oldest_accepted_at(self) -> int:
        """Use the pages if the next one is a row, which stays there."""
        row = self._first_row()
        if row is not None and self._row_is_before(self._first_in_memory()):
            at = self.pages.accepted_at(row[1])
            if at:
                return at
        return super().oldest_accepted_at()  # which loads rows if that one has left out of turn

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED."""
        self.count -= 1
        if entry in self._stays:
            self._stays.discard(entry)
            self._staying.discard(entry)
        else:
            self._near.discard(entry)

    def clear(self) -> None:
        """Forget all entries and rows."""
        self._near.clear()
        self._staying.clear()
        self._stays.clear()
        self._keys.clear()
        self.pages.clear()
        self._unswept = 0
        self.count = 0

    def _first_in_memory(self) -> QueueEntry | None:
        near = self._near.first()
        if not self._stays:
            return near
        staying = self._staying.first()
        if near is None or (staying is not None and staying < near):
            return staying
        return near

    def _first_row(self) -> Place | None:
        """Return the position of the next row, or of an outdated one before it."""
        if not self.pages.rows:
            self._keys.clear()
        return self._keys.first()

    def _row_is_before(self, entry: QueueEntry | None) -> bool:
        """Return whether the next row, if any, precedes an entry; or any without one."""
        row = self._first_row()
        if row is None or entry is None:
            return row is not None
        return row < (entry.rank, entry.place)

    # ------------------------------------------------------------------ everything at once

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries in order of dispatch. All of them are objects then."""
        self._load_all()
        return sorted([entry for entry in self.in_memory() if entry.state == PENDING])

    def held(self) -> set[QueueEntry]:
        """Return all entries, those included that were removed; all are objects then."""
        self._load_all()
        return set(self.in_memory())

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries, removed ones perhaps among them; all are objects then."""
        self._load_all()
        return self.in_memory()

    def in_memory(self) -> list[QueueEntry]:
        """Return the entries that are objects now."""
        return [*self._near.snapshot(), *self._staying.snapshot()]

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return the next entries that are objects."""
        if not self._stays:
            return self._near.upcoming(count)
        return sorted([*self._near.upcoming(count), *self._staying.upcoming(count)])[:count]

    def leading(self, count: int) -> list[QueueEntry]:
        """Return the entries before the rows, extended to ``count`` or ``LEADING_BYTES``."""
        least = self.pages.bytes - self.leading_bytes  # of the rows' bytes, those that stay there
        while self.pages.rows and self.pages.bytes > least:
            before = [entry for entry in self.upcoming(count) if not self._row_is_before(entry)]
            if len(before) >= count or not self._load(insist=False):
                break
        return [entry for entry in self.in_memory() if not self._row_is_before(entry)]

    def bring_all(self) -> bool:
        """Read all rows, and stop where the disk refuses."""
        while self._first_row() is not None:
            if not self._load(insist=False):
                return False
        return True

    def bring_unread(self) -> None:
        """Make the oldest rows entries without content. Their body bytes leave the queue here."""
        pages = self.pages
        if pages.rows:
            for entry in pages.take_unread():
                entry.rank = (SORTED_MISSING,)
                self._near.append(entry)
            self.count -= count_lost(self._queue, pages)

    def take_pages(self) -> QueueArea | None:
        """Take the rows out. The caller clears the order then."""
        pages = self.pages
        if not pages.rows:
            return None
        self.pages = pages.renewed()
        self._keys.clear()
        return pages

    def reading_refusal(self) -> str:
        """Compare the size of the rows with the remaining memory."""
        pages = self.pages
        return refusal_for(pages.rows, pages.bytes, pages.room())

    def _load_all(self) -> None:
        """Make every row an entry. Rows the disk refuses now are lost until the next start: callers need them all."""
        while self._first_row() is not None:
            self._load(insist=True)

    # ------------------------------------------------------------------ expiry

    def first_expiry(self, now: int) -> tuple[int, int]:
        """Delegate to the pages."""
        return self.pages.first_expiry(now)

    def rows_are_timed(self) -> bool:
        """Delegate to the pages."""
        return self.pages.timed()

    def retime(self) -> None:
        """Tell the pages."""
        self.pages.retime()

    def take_expired(self, before: tuple[int, int], limit: int, *, read: bool) -> list[QueueEntry]:
        """Take them out of the pages. Their keys are found to be outdated later."""
        pages = self.pages
        expired = pages.take_expired(before, limit, read=read)
        self._unswept += SWEPT_PER_ROW * (len(expired) + pages.lost)
        self.count -= len(expired)
        self._note_lost()
        self._unswept -= self._keys.sweep(self._unswept, pages.has_row)
        return expired

    # ------------------------------------------------------------------ figures

    def whole_area(self) -> QueueArea | None:
        """Return the pages."""
        return self.pages

    def page_parts(self) -> list[QueueArea]:
        """Return the pages."""
        return [self.pages]

    def paged_count(self) -> int:
        """Return how many rows there are."""
        return self.pages.rows

    def paged_bytes(self) -> int:
        """Return the body bytes of the rows."""
        return self.pages.bytes

    def came_back(self) -> int:
        """Return how many entries are objects and may become rows."""
        return self._near.count

    # ------------------------------------------------------------------ to disk

    def page_out(self, durable_record: int, limit: int) -> int:
        """Turn up to ``limit`` entries into rows, far ones first, but none of the next. Returns how many moved.

        Only records below ``durable_record`` can be read back, and a purge leaves hidden ones. Entries that cannot be
        rows for another reason stay; if only such were found their number is returned, as there may be others before
        them.
        """
        count = self.count - self.pages.rows
        size = self._queue.pending_bytes - self.pages.bytes
        if count < self.keep_messages + self.fold_least and size < self.keep_bytes + self.fold_bytes:
            return 0
        limit = min(limit, MOVED_AT_ONCE)
        last = self._last_of_front()
        near = self._near
        hidden_from = self._queue.hidden_from
        pinned = self._queue.pinned_upto
        going: list[QueueEntry] = []
        back: list[QueueEntry] = []
        stays: list[QueueEntry] = []
        while near.count and (left := limit - max(len(going), len(back), len(stays))) > 0:
            for entry in near.take_far(left):
                if not (may_be_row(entry) or _is_arriving(entry)):
                    stays.append(entry)
                elif (
                    entry.sequence <= pinned
                    or entry.message.record >= durable_record
                    or entry.sequence >= hidden_from
                    or _is_arriving(entry)
                    or (last is not None and not last < entry)
                ):
                    back.append(entry)
                else:
                    going.append(entry)
        for entry in back:
            near.reinsert(entry)
        self._keep(stays)
        self._to_pages(going)
        return len(going) or len(stays)

    def fold(self, durable_record: int, limit: int) -> int:
        """The same: returned entries have their original places."""
        return self.page_out(durable_record, limit)

    def bound_front(self, messages: int, size: int) -> None:
        """Limit the front and the reads."""
        self.keep_messages, self.keep_bytes = messages, size
        self.fold_least, self.fold_bytes = min(FOLD_MESSAGES_LEAST, messages), min(FOLD_BYTES_LEAST, size)
        self.pages.most_messages, self.pages.most_bytes = messages, size

    def _last_of_front(self) -> QueueEntry | None:
        """Return the last entry of those that stay in memory because they are next."""
        size = 0
        last = None
        for entry in self.upcoming(self.keep_messages):
            if size >= self.keep_bytes:
                break
            size += entry.message.size
            last = entry
        return last

    def _keep(self, entries: list[QueueEntry]) -> None:
        """Let entries stay that cannot become rows; their bodies may leave."""
        for entry in entries:
            self._stays.add(entry)
            self._staying.append(entry)
        if self._queue.bodies is not None:
            self._queue.bodies.kept(entries, bytearray(b"\1") * len(entries))

    def _to_pages(self, entries: list[QueueEntry]) -> None:
        """Make rows of entries, which release their messages."""
        entries.sort(key=sequence_of)
        self._keys.add([(entry.rank or (SORTED_MISSING,), entry.sequence) for entry in entries])
        self.pages.insert(entries)
        for entry in entries:
            leave_memory(entry)

    # ------------------------------------------------------------------ back from disk

    def _load(self, *, insist: bool) -> bool:
        """Load the next rows. Returns whether the disk could be read."""
        pages = self.pages
        if pages.stalled and not insist:
            return False
        average = max(1, pages.bytes // max(1, pages.rows))
        most = min(self.load_messages, pages.most_messages)
        places = self._keys.take(max(1, min(most, min(LOAD_BYTES, pages.most_bytes) // average)))
        ranks = {sequence: rank for rank, sequence in places}
        found = pages.take(list(ranks), insist=insist)
        if found is None:
            self._keys.add(places)
            return False
        if len(found) + pages.lost < len(places):  # larger than others, or no rows any more
            self._keys.add([place for place in places if pages.has_row(place[1])])
        for entry in found:
            entry.rank = ranks[entry.sequence]
            self._near.append(entry)
        self._queue.index_all(found)
        self._note_lost()
        return True

    def _note_lost(self) -> None:
        """Deduct the records that the last read found to be damaged."""
        self.count -= count_lost(self._queue, self.pages)


def _is_arriving(entry: QueueEntry) -> bool:
    """Return whether a message will be logged, but is not yet."""
    return entry.message.durable and not entry.message.record
