"""The order of a FIFO queue whose middle is on disk.

By place: the front (entries), the queue area's rows, late messages (entries, the newest); and beside them, as in every
FIFO order, the entries that came back. Arrivals are late once there are rows, so that publishers never wait for the
disk, and a message that is taken at once never gets there. When the front is used up the next rows become entries. Its
length is the watermark of the design, and late messages are its pending cache; without consumers the front is its
HeadQueueCache.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import BEHIND_ALL, PENDING, REMOVED, sequence_of
from annulet.core.model.queue_area import Ended, QueueArea
from annulet.core.ordering.order import COMPACTION_MINIMUM, FifoOrder, entry_with
from annulet.core.paging.folding import (
    FOLD_BYTES_LEAST,
    FOLD_MESSAGES_LEAST,
    kept_of_both,
    length_kept,
    sort_out,
    take_end,
)
from annulet.core.paging.row_conditions import may_be_row, refusal_for
from annulet.core.paging.row_moves import count_lost, let_rows_go, take_written
from annulet.core.paging.taking_by_sequence import take_from

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from annulet.core.message.hot_properties import Term
    from annulet.core.message.message import Origin
    from annulet.core.model.entry import QueueEntry, Rank
    from annulet.core.model.queue_state import QueueState
    from annulet.core.policies.matchers import MatchClass

KEEP_MESSAGES: Final = 1024
"""Entries at the front that never page: the next ones for consumers, about four of the largest usual prefetches."""

KEEP_BYTES: Final = 1 << 20
"""Body bytes at the front that are kept at most, but for one message: 1 MiB a queue, with 10,000 queues still much."""

LOOK_ENTRIES: Final = 256
"""Entries of one scan in memory: as many as one read of rows."""

ROTATED_LEAST: Final = 32
"""Entries of a scan for which all others are moved aside: in the middle of a million each index takes 14 µs, moving
them there and back 350."""

LEADING_BYTES: Final = 64 << 20
"""Most body bytes loaded for a view of the first messages, without the last read: 64 MiB, half a second.

Viewed messages stay in memory until they are consumed, and every user with read permission may view them.
"""


class PagedFifo(FifoOrder):
    """First in, first out, with rows between the entries. Takes over the entries of ``order``."""

    def __init__(self, queue: QueueState, pages: QueueArea, order: FifoOrder) -> None:
        super().__init__()
        self.pages = pages
        self.keep_messages = KEEP_MESSAGES
        self.keep_bytes = KEEP_BYTES
        self.fold_least = FOLD_MESSAGES_LEAST
        self.fold_bytes = FOLD_BYTES_LEAST
        self.lowered = False  # less is kept since the front was cut last, or folded
        self.leading_bytes, self.look_entries = LEADING_BYTES, LOOK_ENTRIES
        self.take_over(order)  # its entries are the front: the base serves from it
        self._queue = queue
        self._late: deque[QueueEntry] = deque()
        self._split = False  # there is something behind the front
        self.rank: Rank | None = None  # of all entries: the level of a queue with priorities
        self.pinned = 0  # the front was pinned up to this sequence when it was last cut or folded
        self.looked_upto = 0  # the lowest sequence the last scan did not reach

    # ------------------------------------------------------------------ the order

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival; its place is above all others."""
        if self._split:
            self._late.append(entry)
        else:
            self._front.append(entry)
        self.count += 1

    def first(self) -> QueueEntry | None:
        """Return the next entry without taking it. ``None`` when nothing is pending, or the disk does not give it now.

        Reads when it is a row: some hundred at once, from the page cache as a rule.
        """
        while True:
            head = super().first()
            if not self._split or self._front or (head is not None and head.place < self.place_behind_front()):
                return head
            if not self._advance(insist=False):
                return None

    def coming(self) -> bool:
        """Use the pages if nothing precedes them. Called before each message: most often the front has one."""
        in_front = not self._split or (self._front and self._front[0].state == PENDING)
        return not in_front and self._before_rows() is None and self.pages.coming()

    def areas(self) -> list[PagedFifo]:
        """Return itself if it is not empty: the only part of the order."""
        return [self] if self.count else []

    def first_area(self) -> PagedFifo:
        """Return itself; it is not empty."""
        return self

    def next_area(self, match_class: MatchClass) -> PagedFifo | None:
        """Return itself if it has a message that a match class has not evaluated."""
        unasked = self.count > 0 and match_class.frontier_on(self.pages.level) <= self.last_sequence()
        return self if unasked else None

    def area_changed(self, area: PagedFifo, former: int) -> None:
        """Do nothing: its counts are current."""

    def first_place(self) -> int:
        """Return the place of the first entry or row without reading it; it is not empty."""
        head = self._before_rows()
        return self.place_behind_front() if head is None else head.place

    def first_sequence(self) -> int:
        """Return the sequence of the next entry or row."""
        head = self._before_rows()
        return head.sequence if head is not None else self.place_behind_front() if self._split else 0

    def _before_rows(self) -> QueueEntry | None:
        head = super().first()
        there = head is not None and (not self._split or self._front or head.place < self.place_behind_front())
        return head if there else None

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED.

        Rows do not count for sweeping removed entries, which would stay in memory until they outnumber them.
        """
        super().discard(entry)
        if self._removed > self.count - self.pages.rows + COMPACTION_MINIMUM:
            self._compact()

    def clear(self) -> None:
        """Forget all entries and rows."""
        super().clear()
        self._late.clear()
        self.pages.clear()
        self._split = False

    # ------------------------------------------------------------------ everything at once

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries in order of dispatch. All of them are objects then."""
        self._load_all()
        return super().entries()

    def held(self) -> set[QueueEntry]:
        """Return all entries, those included that were removed; all are objects then."""
        self._load_all()
        return super().held()

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries, removed ones perhaps among them; all are objects then."""
        self._load_all()
        return super().snapshot()

    def leading(self, count: int) -> list[QueueEntry]:
        """Return the front, extended to this length or ``LEADING_BYTES``, and the first returned ones before the
        rows."""
        least = self.pages.bytes + sum([entry.message.size for entry in self._front]) - self.leading_bytes  # stay there
        while self._split and self.front_length < count and (not self._front or self.pages.bytes > least):
            if not self._advance(insist=False):
                break
        behind = self.place_behind_front() if self._split else BEHIND_ALL
        nearest = max(count, self.keep_messages)  # not all: there may be very many
        back = self._returned.upcoming(nearest)
        if len(back) < nearest:  # these are all, or very many have been removed
            back = self._returned.entries()
        return [*[entry for entry in back if entry.place < behind], *self._front]

    def in_memory(self) -> list[QueueEntry]:
        """Return the entries that are objects now."""
        return [*self._returned.entries(), *self._front, *self.pages.entries_kept(), *self._late]

    def bring_all(self) -> bool:
        """Read row after row, and stop where the disk refuses."""
        while self._split and self._advance(insist=False):
            pass
        return not self._split

    def arrived_after(self, sequence: int) -> list[QueueEntry]:
        """Return those of :meth:`in_memory` with a higher sequence."""
        return [entry for entry in self.in_memory() if entry.sequence > sequence]

    def bring_unread(self) -> None:
        """Put the next rows behind the front without reading them. Their body bytes leave the queue here."""
        pages = self.pages
        if pages.items:
            self._to_front(pages.take_unread())
        self._note_lost()

    def take_pages(self) -> QueueArea | None:
        """Take the rows out, with the entries kept among them. The caller clears the order then."""
        pages = self.pages
        if not pages.rows:
            return None
        self.pages = pages.renewed()
        return pages

    def reading_refusal(self) -> str:
        """Compare the size of the rows with the remaining memory."""
        return refusal_for(self.pages.rows, self.pages.bytes, self.pages.room())

    # ------------------------------------------------------------------ looking behind the front

    def use_pages(self, pages: QueueArea) -> None:
        """Have these instead of those it has, in which there is nothing."""
        pages.level = self.pages.level
        self.pages = pages

    def detach_front(self, most: int) -> list[QueueEntry]:
        """Take out the returned entries, and the front unless it has more than ``most`` entries; in no order."""
        tail: deque[QueueEntry] = self._front if len(self._front) <= most else deque()
        front = [entry for entry in tail if entry.state == PENDING]
        self._removed -= len(tail) - len(front)
        if tail is self._front:
            self._front = deque()
        self.count -= len(front)
        return [*front, *self.detach_returned()]

    def last_sequence(self) -> int:
        """Return an upper bound of the sequences here, without returned entries; it is not empty."""
        if self._late:
            return self._late[-1].sequence
        return self.pages.last_sequence() if self.pages.items else super().last_sequence()

    def comes_to_rows(self, sequence: int) -> bool:
        """Return whether the messages from ``sequence`` on begin among the rows, and not at the front or behind
        them."""
        front, pages = self._front, self.pages
        if front and sequence <= front[-1].sequence:
            return False
        return pages.items > 0 and sequence <= pages.last_sequence()

    def on_disk_from(self, sequence: int) -> bool:
        """Return whether a scan from ``sequence`` on reaches a row before the end."""
        return self.pages.rows > 0 and sequence <= self.pages.last_sequence()

    def look(
        self,
        sequence: int,
        needles: list[list[bytes]],
        messages: int,
        hot: Sequence[list[Term]] = (),
        full: Callable[[str], bool] | None = None,
    ) -> list[QueueEntry] | None:
        """Return the next few entries from ``sequence`` on without taking any; ``looked_upto`` is set behind them.

        At most this many ``messages``. With ``needles`` or ``hot`` messages on disk may be left out that lack a part of
        each of them, with ``full`` those of full groups; see :meth:`QueueArea.look`. Entries of rows are created for
        the scan: drop those not taken out with :meth:`take_out`. Nothing here was returned, so sequences ascend.
        ``None`` if the disk refuses to read them now.
        """
        tail, late, pages = self._front, self._late, self.pages
        pages.passed_over = {}
        if tail and sequence <= tail[-1].sequence:
            return self._look_at(tail, sequence, messages)
        if pages.items and sequence <= pages.last_sequence():
            found = pages.look(sequence, needles, messages, hot, full)
            self._note_lost()
            self.looked_upto = pages.looked_upto
            if found is None:
                return None
            for entry in found:
                entry.rank = self.rank
            return [entry for entry in found if entry.state == PENDING]  # entries kept among the rows may have left
        if late and sequence <= late[-1].sequence:
            return self._look_at(late, sequence, messages)
        self.looked_upto = self._queue.next_sequence
        return []

    def _look_at(self, entries: deque[QueueEntry], sequence: int, messages: int) -> list[QueueEntry]:
        start = bisect_left(entries, sequence, key=sequence_of)
        end = min(start + min(messages, self.look_entries), len(entries))
        turned = start if end - start >= ROTATED_LEAST else 0
        entries.rotate(-turned)
        found = [entries[index - turned] for index in range(start, end)]
        entries.rotate(turned)
        self.looked_upto = found[-1].sequence + 1
        return [entry for entry in found if entry.state == PENDING]

    def take_out(self, entries: list[QueueEntry]) -> None:
        """Take out some of the last result of :meth:`look`, at any position. They keep their places."""
        self.count -= len(entries)
        pages = self.pages
        front_upto = self._front[-1].sequence if self._front else 0
        rows_upto = max(front_upto, pages.last_sequence() if pages.items else 0)
        take_from(self._front, [entry for entry in entries if entry.sequence <= front_upto])
        among_rows = [entry for entry in entries if front_upto < entry.sequence <= rows_upto]
        take_from(self._late, [entry for entry in entries if entry.sequence > rows_upto])
        if among_rows:
            pages.take_out(among_rows)
            self._queue.index_all(among_rows)
            self._note_lost()
        self._split = bool(pages.items or self._late)

    def has_row(self, sequence: int) -> bool:
        """Return whether the message of a sequence is a row."""
        return self.pages.has_row(sequence)

    def standing(self, sequence: int) -> QueueEntry | None:
        """Return the pending entry of a sequence if it is at the front or late."""
        return entry_with(self._front, sequence) or entry_with(self._late, sequence)

    def aside(self) -> list[QueueEntry]:
        """Return the entries not covered by :meth:`standing`: returned ones, and those kept among the rows."""
        return [*self._returned.entries(), *self.pages.entries_kept()]

    def _note_lost(self) -> None:
        """Deduct the records that the last scan or load found to be damaged."""
        self.count -= count_lost(self._queue, self.pages)
        self._split = bool(self.pages.items or self._late)

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
        """Take them out of the pages."""
        expired = self.pages.take_expired(before, limit, read=read)
        self.count -= len(expired)
        self._note_lost()
        return expired

    def take_ended(self, now: int, least: int) -> Ended | None:
        """Take them out of the pages."""
        ended = self.pages.take_ended(now, least)
        self.count -= 0 if ended is None else ended.rows
        self._note_lost()
        return ended

    # ------------------------------------------------------------------ figures

    @property
    def split(self) -> bool:
        """There is something behind the front."""
        return self._split

    def whole_area(self) -> QueueArea | None:
        """Return the pages."""
        return self.pages

    def page_parts(self) -> list[QueueArea]:
        """Return the pages."""
        return [self.pages]

    def pages_behind(self) -> QueueArea | None:
        """Return the pages when there are rows in them."""
        return self.pages if self.pages.rows else None

    def paged_count(self) -> int:
        """Return how many rows there are."""
        return self.pages.rows

    def paged_bytes(self) -> int:
        """Return the body bytes of the rows."""
        return self.pages.bytes

    # ------------------------------------------------------------------ to disk

    def page_out(self, durable_record: int, limit: int) -> int:
        """Turn up to ``limit`` entries into rows, the oldest behind those kept at the front. Returns how many moved.

        Only records below ``durable_record`` can be read back, so the first entry above it ends the page, and so does a
        hidden one. Entries that cannot be rows for another reason keep their places among the rows as objects.
        """
        if not self._split and not self._split_front():
            return self.fold_back(durable_record, limit)
        late = self._late
        before = len(late)
        entries, kept = take_written(late, durable_record, limit, self._queue.hidden_from)
        moved = len(entries)
        self._removed -= before - len(late) - moved
        if 0 not in kept and moved < limit:  # nothing gained, and they may yet be taken from here
            late.extendleft(reversed(entries))
            moved = self.fold_front(durable_record, limit) if self.worth_folding() else 0
            moved = moved or self.fold_back(durable_record, limit)
        else:
            self.add_to_pages(entries, kept)
        self._split = bool(self.pages.items or late)  # all late ones may have been removed
        return moved

    def fold(self, durable_record: int, limit: int) -> int:
        """Convert up to ``limit`` entries to rows, only returned ones and the front behind them. Returns how many."""
        if not self._split:
            self._split_front()
        moved = self.fold_front(durable_record, limit) if self.worth_folding() else 0
        return moved or self.fold_back(durable_record, limit)

    def worth_folding(self) -> bool:
        """Return whether messages returned before a front followed by rows, and it is much longer than allowed.

        Or whether it is longer only because of former pins, or because less may be kept now.
        """
        if not self.pages.items:
            return False
        pinned = self._queue.pinned_upto
        let_go = pinned < self.pinned
        shorter = let_go or self.lowered
        if not shorter and not self._returned.count:
            return False
        tail = self._front
        excess = len(tail) - self.length_kept()
        if shorter:
            if excess:
                return True
            self.pinned, self.lowered = pinned, False
        if excess >= FOLD_MESSAGES_LEAST:
            return True
        return sum([tail[-1 - place].message.size for place in range(excess)]) >= self.fold_bytes

    def bound_front(self, messages: int, size: int) -> None:
        """Limit the front and the reads; what is more goes with the next attempts."""
        lowered = messages < self.keep_messages or size < self.keep_bytes
        self.keep_messages, self.keep_bytes = messages, size
        self.fold_least, self.fold_bytes = min(FOLD_MESSAGES_LEAST, messages), min(FOLD_BYTES_LEAST, size)
        self.bound_reads(messages, size, lowered=lowered)

    def bound_reads(self, messages: int, size: int, *, lowered: bool) -> None:
        """Limit the reads. ``lowered``: less is kept at the front from now on."""
        self.pages.most_messages, self.pages.most_bytes = messages, size
        self.lowered = lowered or self.lowered

    def length_kept(self) -> int:
        """Return how many entries of the front stay in memory."""
        pinned = self._queue.pinned_upto
        return length_kept(self._front, self._returned, self.keep_messages, self.keep_bytes, pinned)

    def fold_front(self, durable_record: int, limit: int) -> int:
        """Turn up to ``limit`` entries at the end of the front into rows. Returns how many moved."""
        tail, queue = self._front, self._queue
        before = len(tail)
        most = min(limit + self._for_browsers(), before - self.length_kept())
        entries, kept = take_end(tail, most, durable_record, queue.pinned_upto, queue.hidden_from)
        self._removed -= before - len(tail) - len(entries)
        if entries:
            self.add_to_pages(entries, kept, before=True)
        return len(entries)

    def fold_back(self, durable_record: int, limit: int) -> int:
        """Turn up to ``limit`` entries that came back into rows, none of those that are next. Returns how many moved.

        They are taken from the far end of the returned ones, see :meth:`Returned.take_far`. They may be between rows,
        but not before the front, which is converted first, or behind late messages. Of a queue with lanes none:
        frontiers require that rows behind them are evaluated by no class or by all. Entries that cannot be rows for
        another reason move along as objects.
        """
        returned, tail, late, queue = self._returned, self._front, self._late, self._queue
        if not returned.count or not queue.returned_may_move():  # slices of a return may reference them
            return 0
        kept_back, above = kept_of_both(tail, returned, self.keep_messages, self.keep_bytes)
        excess = returned.count - kept_back
        if excess < self.fold_least:
            size = sum([entry.message.size for entry in returned.entries() if entry.place > above])
            if not excess or size < self.fold_bytes:
                return 0
        if tail:
            moved = self.fold_front(durable_record, limit)
            if moved:  # it is behind most of the returned ones
                return moved
            above = max(above, tail[-1].place)
        below = late[0].place if late else BEHIND_ALL
        far = returned.take_far(limit + self._for_browsers(), above)
        going, stays = sort_out(far, above, below, durable_record, queue.pinned_upto)
        self._removed -= len(far) - len(going) - len(stays)
        moved, refused = self._among_rows(going)
        for entry in [*stays, *refused]:
            returned.push(entry)
        return moved

    def _among_rows(self, entries: list[QueueEntry]) -> tuple[int, list[QueueEntry]]:
        """Put entries among the rows. Returns how many moved, and those that did not: all, when none becomes a row."""
        entries.sort(key=sequence_of)
        kept = bytearray([not may_be_row(entry) for entry in entries])
        if 0 not in kept:
            return 0, entries
        refused = self.pages.add_among(entries, kept)
        staying = set(refused)
        rows = [entry for entry, keep in zip(entries, kept, strict=True) if not keep and entry not in staying]
        self.hold_no_more(rows, bytearray(len(rows)))
        return len(entries) - len(refused), refused

    def _for_browsers(self) -> int:
        """Return how many entries stay objects for browsers: all far ones may be such, and then nearer ones are
        converted."""
        readers = self._queue.reader_lists()
        return 0 if readers is None else readers.pinned_count()

    def enough_written(self, count: int, durable_record: int) -> bool:
        """Return whether this many late entries, the first of them, are below this record; removed ones count."""
        late = self._late
        return len(late) >= count and late[count - 1].message.record < durable_record

    def restore_rows(
        self,
        sequences: Sequence[int],
        records: Sequence[int],
        sizes: Sequence[int],
        origins: Sequence[Origin],
        *,
        redelivered: bool,
        times: Sequence[tuple[int, int, int]] = (),
        counts: Sequence[int] = (),
    ) -> int:
        """Take in rows that were found at start, behind everything; see :meth:`QueueArea.add_rows`. Return their bytes.

        Earlier late entries become rows as well, or stay among them as objects.
        """
        if not self._split:
            self._split_front()
        late = [entry for entry in self._late if entry.state != REMOVED]
        if self._late:
            self._removed -= len(self._late) - len(late)
            self._late.clear()
            self.add_to_pages(late, bytearray([not may_be_row(entry) for entry in late]))
        before = self.pages.bytes
        self.pages.add_rows(sequences, records, sizes, origins, redelivered=redelivered, times=times, counts=counts)
        self._split = True  # now: late messages that had all been removed left nothing behind the front
        self.count += len(sizes)
        return self.pages.bytes - before

    def add_to_pages(self, entries: list[QueueEntry], kept: bytearray, *, before: bool = False) -> None:
        """Make rows of the entries with a 0 in ``kept``, which release their messages."""
        if before:
            self.pages.add_before(entries, kept)
        else:
            self.pages.add(entries, kept)
        self.hold_no_more(entries, kept)

    def hold_no_more(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """Drop the entries with a 0 in ``kept``, which are rows now."""
        let_rows_go(entries, kept)
        self._split = bool(self.pages.items or self._late)
        readers = self._queue.reader_lists()
        if readers is not None:
            readers.paged()

    def _split_front(self) -> bool:
        """Cut the front behind the kept part; the rest is late from now on. Returns whether there is a rest."""
        tail = self._front
        if not tail or tail[-1].sequence <= self._queue.pinned_upto:
            return False
        if self.count <= self.keep_messages and self._queue.pending_bytes <= self.keep_bytes:
            return False
        length = self.length_kept()
        if length == len(tail):
            return False
        self.pinned = self._queue.pinned_upto
        self._front = deque([tail.popleft() for _ in range(length)])  # not the rest: there may be some hundred thousand
        self._late = tail
        self._split = True
        return True

    # ------------------------------------------------------------------ back from disk

    def place_behind_front(self) -> int:
        """Return the place of the first row, or of the first late entry if there is none; there is one."""
        return self.pages.first_sequence() if self.pages.items else self._late[0].place

    def _advance(self, *, insist: bool) -> bool:
        """Move the next rows to the front, or all late entries if there are none. Returns whether anything moved."""
        pages = self.pages
        if pages.items:
            loaded = pages.load(insist=insist)
            if loaded is None:
                return False
            self._to_front(loaded)
            self._note_lost()
        elif self._front:
            self._front.extend(self._late)
            self._late.clear()
        else:
            self._front, self._late = self._late, self._front
        self._split = bool(pages.items or self._late)
        return True

    def _to_front(self, loaded: list[QueueEntry]) -> None:
        rank = self.rank
        if rank is not None:
            for entry in loaded:
                entry.rank = rank
        self._queue.index_all(loaded)
        self._front.extend(loaded)

    def _load_all(self) -> None:
        """Make every row an entry. Rows the disk refuses now are lost until the next start: callers need them all."""
        while self._split:
            self._advance(insist=True)

    def _compact(self) -> None:
        super()._compact()
        self._late = deque([entry for entry in self._late if entry.state == PENDING])
        self.pages.sweep()
        self._split = bool(self.pages.items or self._late)
