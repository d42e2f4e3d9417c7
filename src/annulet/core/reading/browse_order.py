"""The unseen messages of a browser on a deep queue: a list of rows, not of messages (design 2.9).

When opened, the browser notes the existing rows and, also as rows, the stored messages in memory and in delivery; as
entries only unstored messages, those with a time, and those that changed or returned before they were shown. An entry
it references stays an object, see :meth:`annulet.core.reading.copies.Copies.pin`. It reads the rows in slices, in its
turns, into a separate buffer: nothing is loaded into the queue's memory, and consumers do not wait for it. Positions
give the order, so that the levels of strict priorities follow one after the other.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from annulet.core.base.sequence_ranges import RANGES_MAX, SequenceRanges
from annulet.core.model.compact_messages import entry_in
from annulet.core.model.entry import BEHIND_ALL, REMOVED, SCHEDULED, QueueEntry, position_of, sequence_of
from annulet.core.model.order import UnseenMessages
from annulet.core.ordering.returned_entries import first_of_heap
from annulet.core.paging.row_views import view_of

if TYPE_CHECKING:
    from annulet.core.model.compact_messages import Slot
    from annulet.core.model.queue_area import QueueArea, RowView, RowWalk
    from annulet.core.policies.queue_policies import QueuePolicies

ARRIVALS_MAX: Final = 256
"""Arrivals a browser that follows remembers one by one; if more wait for it, it looks for them again in the queue."""

NOTED_PER_TURN: Final = 1024
"""Messages in memory that one turn examines and notes: about 1 ms.

Changes before that are seen then: removed ones are not noted; the number of the record is noted, not the place, because
it stays.
"""


class BrowseOrder(UnseenMessages):
    """Entries and rows by position. ``count`` is not kept: removed messages are detected when reached.

    A browser of very many messages in memory is *noting* first: it has references to them and examines some each turn.
    It shows nothing until that is done, as the oldest of all may be the last one it reaches.
    """

    def __init__(self, queue: QueuePolicies, pages: QueueArea, *, follow: bool, first: int = 0) -> None:
        super().__init__(of_rows=True)
        self._queue = queue
        self._pages = pages
        self._follow = follow
        self._entries: list[QueueEntry] = []  # heap
        self._kept: set[QueueEntry] = set()  # of these, possible rows that must stay entries
        self._read: deque[QueueEntry] = deque()
        self._walk: RowWalk | None = None
        self._source: RowWalk | None = None  # source of the data read
        self._unnoted = 0  # following: from this sequence on arrivals are not noted; 0 = all are
        self._end = 0  # messages of the walk have lower sequences
        self._stored_anew: set[int] = set()  # rows of these sequences are not to be shown
        self._seen = SequenceRanges()  # shown before others with lower sequences: more important, or moved since
        self._waiting = False  # the disk refused to read the next rows; the broker's tick retries
        self._start = 0  # newly noted messages have no lower sequences
        self._view: RowView | None = None  # where rows are noted
        self._unsifted: list[Slot] = []  # to be noted, the next ones last; perhaps rows or gone by now
        self._note(first)

    def reinsert(self, entry: QueueEntry) -> None:
        """Add a returned entry, unless it is among those searched in the queue."""
        if fell_due(entry) or not 0 < self._unnoted <= entry.sequence:
            self._keep(entry)

    def _keep(self, entry: QueueEntry) -> None:
        """Add an entry that could become a row, and has to stay an object until it was seen."""
        if entry in self._kept:
            return
        heappush(self._entries, entry)
        readers = self._queue.reader_lists()
        if readers is not None:
            self._kept.add(entry)
            readers.pin(entry)

    def _let_go(self, entry: QueueEntry) -> None:
        """Note that an entry is not referred to any more."""
        if entry in self._kept:
            self._kept.remove(entry)
            readers = self._queue.reader_lists()
            if readers is not None:
                readers.unpin(entry)

    def end(self) -> None:
        """Release everything: there is no reader any more."""
        for entry in [*self._kept]:
            self._let_go(entry)

    def arrived(self, entry: QueueEntry) -> None:
        """Note an arrival, unless others before it were not."""
        if entry.place != entry.sequence:  # it fell due
            heappush(self._entries, entry)
        elif self._follow and not self._unnoted:
            heappush(self._entries, entry)
            if len(self._entries) > ARRIVALS_MAX:
                self.paged()

    def revised(self, former: QueueEntry, entry: QueueEntry) -> None:
        """Replace ``former`` by ``entry`` if that was not seen; else note that it must not be shown either."""
        if former.sequence in self._seen:
            seen = True
        elif former in self._entries or self._is_to_come(former):
            seen = False
        else:
            seen = fell_due(former) or not 0 < self._unnoted <= former.sequence
        if seen:
            if self._follow and (self._unnoted or self._entries):  # the next look may begin before it
                self._note_moved(entry.sequence)
        elif not self._follow:
            self._keep(entry)
        elif not self._unnoted:
            heappush(self._entries, entry)

    def _note_moved(self, sequence: int) -> None:
        """Note that the message with the highest sequence was seen. With too many ranges it is shown once more."""
        if self._seen.count >= RANGES_MAX:
            coming = [entry.sequence for entry in self._entries]
            if self._unnoted:
                coming.append(self._unnoted)
            if self.next_sequence():
                coming.append(self._start)
            self._seen.drop_below(min(coming))
        self._seen.add(sequence)

    def stored_anew(self, entry: QueueEntry) -> None:
        """Note an entry whose message changed, and its record with it: the row that was noted names the former one."""
        if not self._is_to_come(entry) or entry in self._entries:
            return
        self._read = deque([read for read in self._read if read.sequence != entry.sequence])
        self._stored_anew.add(entry.sequence)
        self._keep(entry)

    def paged(self) -> None:
        """Forget the arrivals, some of which may be rows by now, and look for them in the queue when it is their turn.

        With ``_unnoted`` set none is noted.
        """
        if not self._follow or self._unnoted:
            return
        kept = self._kept
        going = [entry.sequence for entry in self._entries if entry not in kept and may_be_noted_as_row(entry)]
        if going:
            self._unnoted = first = min(going)
            self._entries = [entry for entry in self._entries if entry.sequence < first or fell_due(entry)]
            heapify(self._entries)
            for entry in [entry for entry in kept if entry.sequence >= first and not fell_due(entry)]:
                self._let_go(entry)

    def emptied(self) -> None:
        """Note that all pending messages were removed, although the log may not have this yet: those in delivery are
        left."""
        noting = bool(self._unsifted)
        known = set(self._entries)
        for entry in self._queue.delivering:
            if entry not in known and self._is_to_come(entry) and (noting or may_be_noted_as_row(entry)):
                self._keep(entry)
        self._read.clear()
        self._unsifted = []
        self._view = self._walk = None
        self._waiting = False

    def has_read(self, entry: QueueEntry) -> bool:
        """Return whether the next entry was made of a row for this browser only."""
        return bool(self._read) and self._read[0] is entry

    @property
    def to_note(self) -> int:
        """How many that were in memory have not been examined yet."""
        return len(self._unsifted)

    def next_sequence(self) -> int:
        """Return the sequence of the next row, or a lower one while it is noting; 0 when there is none."""
        if self._unsifted:
            return max(1, self._start)
        if self._read:
            return self._read[0].sequence
        return 0 if self._walk is None else self._walk.sequence

    def _next_position(self) -> int:
        """Return the position of the next row, or one before all while it is noting; there is one."""
        if self._unsifted:
            return -BEHIND_ALL
        if self._read:
            return position_of(self._read[0])
        return 0 if self._walk is None else self._walk.base + self._walk.sequence

    def _is_to_come(self, entry: QueueEntry) -> bool:
        """Return whether an entry is among the rows that are still to be shown, if it was noted as one."""
        if not self.next_sequence() or not self._start <= entry.sequence < self._end:
            return False
        return self._next_position() <= position_of(entry)

    def first(self) -> QueueEntry | None:
        """Return the next entry. ``None`` when there is none, and when the next is a row that has to be read first."""
        self._drop_settled()
        self._look_again()
        head = self._head()
        if head is None and not self._waiting and self.next_sequence():
            self._pages.ask_turn()
        return head

    def _head(self) -> QueueEntry | None:
        """Return the next entry, of those that are objects now."""
        entries, sequence = self._entries, self.next_sequence()
        while entries and entries[0].state == REMOVED:
            self._let_go(heappop(entries))
        if entries and (not sequence or position_of(entries[0]) < self._next_position()):
            return entries[0]
        return self._read[0] if self._read else None

    def take_first(self) -> QueueEntry | None:
        """Remove and return what :meth:`first` has returned just now."""
        entry = self._head()
        if entry is None:
            return None
        if self._read and self._read[0] is entry:
            return self._read.popleft()
        self._let_go(heappop(self._entries))
        if self._follow and not self._unnoted and entry.rank is not None and entry.state != SCHEDULED:
            self._note_seen(entry.sequence)
        return entry

    @property
    def noted_as_seen(self) -> int:
        """Number of noted ranges of shown sequences, while lower ones follow."""
        return self._seen.count

    def _note_seen(self, sequence: int) -> None:
        """Note that an arrival was shown: it may be among those that are looked for in the queue. Few are noted."""
        seen = self._seen
        seen.add(sequence)
        if not self._entries:
            seen.clear()
        elif seen.count > ARRIVALS_MAX:
            seen.drop_below(min([entry.sequence for entry in self._entries]))
            if seen.count > ARRIVALS_MAX:
                self.paged()
                if not self._unnoted:  # the remaining arrivals are not on disk
                    seen.clear()

    def exhausted(self) -> bool:
        """Return whether everything was seen."""
        self._look_again()
        return not self._entries and not self.next_sequence()

    def is_behind(self) -> bool:
        """Return whether there is something unread or unexamined, which :meth:`snapshot` leaves out."""
        end = self._queue.visible_end
        return self.next_sequence() > 0 or 0 < self._unnoted < end

    def held(self) -> set[QueueEntry]:
        """Return the entries that are objects."""
        return {*self._entries, *self._read}

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return the next entries that are the queue's own: those of rows have just been read."""
        return first_of_heap(self._entries, count)

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries that are objects."""
        return [*self._entries, *self._read]

    def due(self, *, ready: bool) -> bool:
        """Return whether there is work: to note, or, if ``ready``, to read the next rows."""
        return bool(self._unsifted) or (ready and self._walk is not None and not self._read)

    def is_looking(self, upto: int) -> bool:
        """Return whether its next turns may find messages below the sequence ``upto`` that precede all that it has
        ready."""
        return self.due(ready=True) and self._start < upto and self._head() is None

    def waits_for_turn(self) -> bool:
        """Return whether there is something to see, and nothing of it before :meth:`read_on`."""
        return not (self._entries or self._read) and (self._walk is not None or bool(self._unsifted))

    def ask_turn(self) -> None:
        """Have :meth:`read_on` called soon."""
        self._pages.ask_turn()

    def read_on(self) -> bool:
        """Note some, or read the next rows if none are left of the last.

        Returns whether the disk could be read.
        """
        if self._unsifted:
            count = min(NOTED_PER_TURN, self._pages.at_once)
            some = [entry_in(slot) for slot in self._unsifted[-count:]]
            del self._unsifted[-count:]
            self._sift(some)
            if self._unsifted:
                self._pages.ask_turn()
            else:
                self._begin()
            return True
        walk = self._walk
        if walk is None or self._read:
            return True
        found = walk.following()
        self._waiting = found is None
        if found is None:
            return False
        if self._seen.count:
            found = [entry for entry in found if entry.sequence not in self._seen]
        if self._queue.schedule.count:  # messages waiting for redelivery are skipped, and shown after their return
            waiting = {entry.sequence: entry for entry in self._queue.schedule.entries()}
            for entry in found:
                if entry.sequence in waiting:
                    self._keep(waiting[entry.sequence])
            found = [entry for entry in found if entry.sequence not in waiting]
        if self._stored_anew:
            found = [entry for entry in found if entry.sequence not in self._stored_anew]
        self._read.extend([entry for entry in found if not self._leaves(entry)])
        self._source = walk
        if not walk.sequence:
            self._walk = None
        return True

    def _drop_settled(self) -> None:
        """Drop messages that left the queue since they were read: a browser without credit may have had them for
        long."""
        read, source = self._read, self._source
        while read and source is not None and (self._leaves(read[0]) or not source.holds(read[0])):
            read.popleft()

    def _leaves(self, entry: QueueEntry) -> bool:
        """Return whether a message that was read has left the queue and only waits to be sent on."""
        readers = self._queue.reader_lists()
        return readers is not None and readers.is_leaving(entry.message.record)

    def _look_again(self) -> None:
        """Note the unnoted arrivals, after all earlier messages were seen."""
        if self._unnoted and self._unnoted < self._queue.hidden_from and not self._entries and not self.next_sequence():
            self._note(self._unnoted)
        self._let_go_of_seen()

    def _let_go_of_seen(self) -> None:
        """Forget seen sequences when only arrivals follow, which have higher ones."""
        if self._seen.count and not self._unnoted and not self._entries and not self.next_sequence():
            self._seen.clear()

    def _note(self, sequence: int) -> None:
        """Note messages pending or in delivery from a sequence on; later also those waiting for redelivery.

        Of very many in memory only the references are copied here; :meth:`read_on` examines them.
        """
        queue = self._queue
        there: list[Slot] = [*queue.shown(queue.order.in_memory()), *queue.delivering.slots()]
        if sequence:  # messages due in the meantime were noted then
            waiting = [entry for entry in queue.schedule.entries() if entry.delivery_count]
            there = [slot for slot in [*there, *waiting] if slot.sequence >= sequence and not _slot_fell_due(slot)]
            self._seen.drop_below(sequence)
            there = [slot for slot in there if slot.sequence not in self._seen]
        end = queue.visible_end
        pages = queue.order.pages_behind()  # not earlier ones, which a purge may have removed
        if pages is None:
            pages = self._pages.renewed()
        self._start = sequence
        self._view = view_of(queue, pages, [])
        if len(there) > self._pages.at_once:
            there.reverse()  # slices are taken from the end
            self._unsifted = there
            self._end = end
            self._unnoted = end if self._follow else 0
            return
        entries = [entry_in(slot) for slot in there]
        arriving = [entry.sequence for entry in entries if entry.message.durable and not entry.message.record]
        self._end = min(arriving, default=end)
        self._sift([entry for entry in entries if entry.sequence < self._end])
        self._begin()
        self._unnoted = self._end if self._follow and (self._walk is not None or self._end < queue.next_sequence) else 0

    def _sift(self, some: list[QueueEntry]) -> None:
        """Note entries that have not left the queue: as rows if possible, else as entries."""
        rows: list[QueueEntry] = []
        for entry in some:
            if entry.state == REMOVED:
                continue
            if may_be_noted_as_row(entry):
                rows.append(entry)
            else:
                heappush(self._entries, entry)
        if rows and self._view is not None:
            rows.sort(key=sequence_of)
            self._view.note(rows)

    def _begin(self) -> None:
        """Walk over the noted messages."""
        view = self._view
        walk = None if view is None else view.walk_in_order(self._start)
        self._walk = walk if walk is not None and walk.sequence else None
        self._view = None


def fell_due(entry: QueueEntry) -> bool:
    """Return whether an entry was scheduled, so that its place differs from its arrival."""
    return entry.place != entry.sequence


def _slot_fell_due(slot: Slot) -> bool:
    return isinstance(slot, QueueEntry) and fell_due(slot)


def may_be_noted_as_row(entry: QueueEntry) -> bool:
    """Return whether the log has everything a browser needs of an entry, also in delivery."""
    message = entry.message
    return message.record > 0 and message.durable and message.deliver_at == 0 and not fell_due(entry)
