"""Which pending message is next: the interface of an order, and its two shapes.

FIFO keeps arrivals in a deque; every other order is a heap by rank (:mod:`annulet.core.ordering.ranks`).
:class:`annulet.core.policies.lanes.Lanes` is an order as well: several of these, for restricted consumers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.core.base.expiry_times import NEVER
from annulet.core.model.entry import PENDING, REMOVED, sequence_of
from annulet.core.ordering.returned_entries import Returned, first_of_heap

if TYPE_CHECKING:
    from annulet.core.deliveries.compact_messages import HeldMessage
    from annulet.core.model.entry import QueueEntry
    from annulet.core.paging.queue_area import Ended, QueueArea

COMPACTION_MINIMUM: Final = 64
"""Entries removed from the middle before an order is rebuilt; below it a rebuild costs more than it frees."""


class Order:
    """Pending entries by rank and place.

    Removal from the middle (replace by key, expiry) is lazy: the entry is marked REMOVED by its queue, skipped when it
    is met, and swept out when such entries outnumber the pending ones, so every operation is amortised O(log n).
    """

    def __init__(self) -> None:
        self.count = 0  # pending entries

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival; its place is above all others."""
        raise NotImplementedError

    def reinsert(self, entry: QueueEntry) -> None:
        """Add an entry at any place: one that was returned or fell due."""
        raise NotImplementedError

    def reinsert_all(self, entries: list[QueueEntry]) -> None:
        """Add entries returned together, by ascending place."""
        for entry in entries:
            self.reinsert(entry)

    def first(self) -> QueueEntry | None:
        """Return the next entry without taking it, ``None`` when nothing is pending."""
        raise NotImplementedError

    def take_first(self) -> QueueEntry | None:
        """Remove and return the next entry, ``None`` when nothing is pending."""
        raise NotImplementedError

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget all entries."""
        raise NotImplementedError

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries in order of dispatch. O(n log n) at worst."""
        raise NotImplementedError

    def held(self) -> set[QueueEntry]:
        """Return all entries, those included that were removed and not swept out yet."""
        raise NotImplementedError

    def leading(self, count: int) -> list[QueueEntry]:
        """Return at least the next ``count`` entries, all when there are fewer, and none that has a row before it.

        In no order, removed ones perhaps among them; more are returned where that costs nothing.
        """
        del count
        return self.snapshot()

    def coming(self) -> bool:
        """Return whether the next entry is being read by a thread; see :meth:`QueueArea.coming`."""
        return False

    def exhausted(self) -> bool:
        """Return whether it is empty, which is more than having no first now."""
        return self.first() is None

    def pages_behind(self) -> QueueArea | None:
        """Return the area with its rows; ``None`` if there are none."""
        return None

    def page_parts(self) -> list[QueueArea]:
        """Return all that keep rows, perhaps none now."""
        return []

    def first_expiry(self, now: int) -> tuple[int, int]:
        """Return a time and sequence before which no row expires; see :meth:`QueueArea.first_expiry`."""
        del now
        return NEVER

    def rows_are_timed(self) -> bool:
        """Return whether it is known of all rows when they were accepted."""
        return True

    def retime(self) -> None:
        """The queue's times changed."""

    def take_expired(self, before: tuple[int, int], limit: int, *, read: bool) -> list[QueueEntry]:
        """Take out rows that expire before this time and sequence; see :meth:`QueueArea.take_expired`."""
        del before, limit, read
        return []

    def take_ended(self, now: int, least: int) -> Ended | None:
        """Take out rows that have all expired; see :meth:`QueueArea.take_ended`."""
        del now, least
        return None

    def reading_refusal(self) -> str:
        """Return why not all of it can be in memory at once; empty when it can, or is."""
        return ""

    def in_memory(self) -> list[QueueEntry]:
        """Return the entries that are objects now, in no order, removed ones perhaps among them. Keep none of them."""
        return self.snapshot()

    def lists(self) -> list[FifoOrder]:
        """Return the lists of its entries by sequence, the most important first; its other entries are
        :meth:`aside`."""
        return []

    def aside(self) -> list[QueueEntry]:
        """Return the entries that are objects and that :meth:`FifoOrder.standing` of none of its lists returns."""
        return self.in_memory()

    def recount(self) -> None:
        """Recount after one of its lists changed, which may lose damaged records in any scan."""

    def arrived_after(self, sequence: int) -> list[QueueEntry]:
        """Return those of :meth:`in_memory` with a higher sequence, for readers that have seen the others."""
        return [entry for entry in self.in_memory() if entry.sequence > sequence]

    def take_pages(self) -> QueueArea | None:
        """Take the rows out of the order, without reading them; ``None`` when there are none."""
        return None

    def paged_count(self) -> int:
        """Return how many of the pending entries are on disk only."""
        return 0

    def paged_bytes(self) -> int:
        """Return the body bytes of these."""
        return 0

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return about the next ``count`` pending entries that are objects, nearest first if that is cheap.

        For reading their bodies together.
        """
        raise NotImplementedError

    def bring_all(self) -> bool:
        """Make all entries objects. Returns whether the disk gave those that are on disk only; else some stay there."""
        return True

    def bring_unread(self) -> None:
        """Make the next entries on disk only entries without content, for removing them all."""

    def first_sequence(self) -> int:
        """Return the sequence of the next entry without making it an object, 0 when nothing is pending."""
        first = self.first()
        return 0 if first is None else first.sequence

    def came_back(self) -> int:
        """Return how many returned entries are aside, which may become rows when they are many."""
        return 0

    def oldest_accepted_at(self) -> int:
        """Return when the next entry was accepted (milliseconds since 1970); 0 when nothing is pending.

        Of strict priorities the earliest of all levels' next ones. 0 also while the disk does not tell.
        """
        first = self.first()
        return 0 if first is None else first.message.accepted_at

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries in no particular order, removed ones perhaps among them.

        Only a copy of references, so that a million of them block no client: sort and filter in slices. The caller pins
        them, see :mod:`annulet.core.model.entry_holds`.
        """
        raise NotImplementedError


class FifoOrder(Order):
    """Arrivals at the tail, returned entries at their original place: O(1), a return O(log returned) at most."""

    def __init__(self) -> None:
        super().__init__()
        self._tail: deque[QueueEntry] = deque()  # arrivals, ascending place
        self._returned = Returned()  # returned entries
        self._removed = 0  # entries still in either structure whose state is REMOVED

    def take_over(self, order: FifoOrder) -> None:
        """Have the entries of another order instead of its own. That one is not used any more."""
        self.count = order.count
        self._tail = order._tail
        self._returned, self._removed = order._returned, order._removed

    @property
    def watermark(self) -> int:
        """How many entries stand at the front, removed ones among them; in a deep queue the rest is behind them."""
        return len(self._tail)

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival; its place is above all others."""
        self._tail.append(entry)
        self.count += 1

    def reinsert(self, entry: QueueEntry) -> None:
        """Put an entry back at its place."""
        self._returned.push(entry)
        self.count += 1

    def reinsert_all(self, entries: list[QueueEntry]) -> None:
        """Add entries returned together, by ascending place: O(1) each if they are many."""
        self._returned.add(entries)
        self.count += len(entries)

    def reinsert_folded(self, messages: list[HeldMessage]) -> None:
        """Add compact messages returned together, by ascending sequence: they may stay compact."""
        self._returned.add_folded(messages)
        self.count += len(messages)

    def first(self) -> QueueEntry | None:
        """Return the next entry without taking it, ``None`` when nothing is pending."""
        tail, returned = self._tail, self._returned
        if self._removed:
            while returned.head is not None and returned.head.state == REMOVED:
                returned.pop()
                self._removed -= 1
            while tail and tail[0].state == REMOVED:
                tail.popleft()
                self._removed -= 1
        head = returned.head
        if head is not None and (not tail or head.place < tail[0].place):
            return head
        return tail[0] if tail else None

    def take_first(self) -> QueueEntry | None:
        """Remove and return the next entry, ``None`` when nothing is pending."""
        entry = self.first()
        if entry is None:
            return None
        if self._returned.head is entry:
            self._returned.pop()
        else:
            self._tail.popleft()
        self.count -= 1
        return entry

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED."""
        assert entry.state == REMOVED
        self.count -= 1
        tail = self._tail
        if tail and tail[0] is entry:  # messages that expire in order leave nothing to sweep
            tail.popleft()
            return
        if self._returned.head is entry:  # nor do those an operation takes out from between rows
            self._returned.pop()
            return
        self._removed += 1
        if self._removed > self.count + COMPACTION_MINIMUM:
            self._compact()

    def last_sequence(self) -> int:
        """Return an upper bound of the sequences here, without returned entries; it is not empty."""
        return self._tail[-1].sequence if self._tail else 0

    def clear(self) -> None:
        """Forget all entries."""
        self._tail.clear()
        self._returned.clear()
        self._removed = 0
        self.count = 0

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries in order of dispatch."""
        back = self._returned.entries()
        tail = [entry for entry in self._tail if entry.state == PENDING]
        if not back:
            return tail
        return sorted([*(entry for entry in back if entry.state == PENDING), *tail])

    def held(self) -> set[QueueEntry]:
        """Return all entries, those included that were removed and not swept out yet."""
        return {*self._tail, *self._returned.entries()}

    def in_memory(self) -> list[QueueEntry]:
        """Return the entries that are objects now."""
        return [*self._returned.entries(), *self._tail]

    def arrived_after(self, sequence: int) -> list[QueueEntry]:
        """Return the entries with a higher sequence: O(found + returned), with any number before them."""
        found = [entry for entry in self._returned.entries() if entry.sequence > sequence]
        for entry in reversed(self._tail):
            if entry.sequence > sequence:
                found.append(entry)
            elif entry.place == entry.sequence:  # entries before it have a lower place, so they arrived earlier
                break
        return found

    def oldest_accepted_at(self) -> int:
        """Use the pages if the next one is a row, which stays there."""
        pages = self.pages_behind()
        if pages is None or self.first_sequence() != pages.first_sequence():
            return super().oldest_accepted_at()
        head = FifoOrder.first(self)  # the first of the pages may be removed, and this precede the next
        times = [pages.first_accepted_at(), 0 if head is None else head.message.accepted_at]
        return min([at for at in times if at], default=0)

    def lists(self) -> list[FifoOrder]:
        """Return itself."""
        return [self]

    def has_row(self, sequence: int) -> bool:
        """Return whether the message of a sequence is a row."""
        del sequence
        return False

    def standing(self, sequence: int) -> QueueEntry | None:
        """Return the pending entry of a sequence if it is neither returned nor among rows. O(log n)."""
        return entry_with(self._tail, sequence)

    def aside(self) -> list[QueueEntry]:
        """Return the returned entries."""
        return self._returned.entries()

    def came_back(self) -> int:
        """Return the number of returned entries."""
        return self._returned.count

    def detach_returned(self) -> list[QueueEntry]:
        """Take out the returned entries, in no order."""
        back = [entry for entry in self._returned.entries() if entry.state == PENDING]
        self._removed -= self._returned.count - len(back)
        self._returned.clear()
        self.count -= len(back)
        return back

    def take_returned(self, before: int) -> list[QueueEntry]:
        """Take out the returned entries before a place, in order."""
        found: list[QueueEntry] = []
        returned = self._returned
        while returned.head is not None and returned.head.place < before:
            entry = returned.pop()
            if entry.state == PENDING:
                self.count -= 1
                found.append(entry)
            else:
                self._removed -= 1
        return found

    def take_out(self, entries: list[QueueEntry]) -> None:
        """Take out rows that were read: their entries are the queue's from now on."""
        raise NotImplementedError

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return the next entries of both structures by place; of a paged order those of its front."""
        tail = [entry for entry in islice(self._tail, count) if entry.state == PENDING]
        if not self._returned.count:
            return tail
        return sorted([*self._returned.upcoming(count), *tail])[:count]

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries, arrivals in order, removed ones perhaps among them."""
        return [*self._returned.entries(), *self._tail]

    def _compact(self) -> None:
        self._tail = deque([entry for entry in self._tail if entry.state == PENDING])
        self._returned.sweep()
        self._removed = 0


def entry_with(entries: deque[QueueEntry], sequence: int) -> QueueEntry | None:
    """Return the pending entry with a sequence among entries by sequence."""
    place = bisect_left(entries, sequence, key=sequence_of)
    if place == len(entries) or entries[place].sequence != sequence or entries[place].state != PENDING:
        return None
    return entries[place]


class RankedOrder(Order):
    """A heap by rank, then place: priorities and sorted queues. Every operation O(log n)."""

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[QueueEntry] = []
        self._removed = 0  # entries still in the heap whose state is REMOVED

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival."""
        heappush(self._heap, entry)
        self.count += 1

    def reinsert(self, entry: QueueEntry) -> None:
        """Put an entry back at its place."""
        heappush(self._heap, entry)
        self.count += 1

    def first(self) -> QueueEntry | None:
        """Return the next entry without taking it, ``None`` when nothing is pending."""
        heap = self._heap
        while heap and heap[0].state == REMOVED:
            heappop(heap)
            self._removed -= 1
        return heap[0] if heap else None

    def take_first(self) -> QueueEntry | None:
        """Remove and return the next entry, ``None`` when nothing is pending."""
        if self.first() is None:
            return None
        self.count -= 1
        return heappop(self._heap)

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED."""
        assert entry.state == REMOVED
        self.count -= 1
        self._removed += 1
        if self._removed > self.count + COMPACTION_MINIMUM:
            self._heap = [held for held in self._heap if held.state == PENDING]
            heapify(self._heap)
            self._removed = 0

    def take_far(self, most: int) -> list[QueueEntry]:
        """Take up to ``most`` entries off the end of the heap's list, far ones as a rule: the rest is a heap, too.

        Removed ones among them are not returned. Put the others back with :meth:`reinsert`.
        """
        start = max(0, len(self._heap) - most)
        taken = self._heap[start:]
        del self._heap[start:]
        there = [entry for entry in reversed(taken) if entry.state != REMOVED]
        self._removed -= len(taken) - len(there)
        self.count -= len(there)
        return there

    def clear(self) -> None:
        """Forget all entries."""
        self._heap.clear()
        self._removed = 0
        self.count = 0

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries in order of dispatch."""
        return sorted([entry for entry in self._heap if entry.state == PENDING])

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return the next entries by rank and place."""
        return first_of_heap(self._heap, count)

    def held(self) -> set[QueueEntry]:
        """Return all entries, those included that were removed and not swept out yet."""
        return set(self._heap)

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries in no particular order, removed ones perhaps among them."""
        return list(self._heap)
