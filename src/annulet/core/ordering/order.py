"""Which pending message is next: the two shapes of an order in memory.

FIFO keeps arrivals in a deque; every other order is a heap by rank (:mod:`annulet.core.ordering.ranks`).
:class:`annulet.core.policies.lanes.Lanes` is an order as well: several of these, for restricted consumers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import PENDING, REMOVED, sequence_of
from annulet.core.model.order import Order, SequenceList
from annulet.core.ordering.returned_entries import Returned, first_of_heap

if TYPE_CHECKING:
    from annulet.core.model.compact_messages import CompactDelivery
    from annulet.core.model.entry import QueueEntry

COMPACTION_MINIMUM: Final = 64
"""Entries removed from the middle before an order is rebuilt; below it a rebuild costs more than it frees."""


class FifoOrder(SequenceList):
    """Arrivals at the tail, returned entries at their original place: O(1), a return O(log returned) at most."""

    def __init__(self) -> None:
        super().__init__()
        self._front: deque[QueueEntry] = deque()  # arrivals, ascending place
        self._returned = Returned()  # returned entries
        self._removed = 0  # entries still in either structure whose state is REMOVED

    def take_over(self, order: FifoOrder) -> None:
        """Have the entries of another order instead of its own. That one is not used any more."""
        self.count = order.count
        self._front = order._front
        self._returned, self._removed = order._returned, order._removed

    @property
    def front_length(self) -> int:
        """How many entries stand at the front, removed ones among them; in a deep queue the rest is behind them."""
        return len(self._front)

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival; its place is above all others."""
        self._front.append(entry)
        self.count += 1

    def reinsert(self, entry: QueueEntry) -> None:
        """Put an entry back at its place."""
        self._returned.push(entry)
        self.count += 1

    def reinsert_all(self, entries: list[QueueEntry]) -> None:
        """Add entries returned together, by ascending place: O(1) each if they are many."""
        self._returned.add(entries)
        self.count += len(entries)

    def keeps_compact(self) -> bool:
        """Return true: compact messages may be among the returned ones."""
        return True

    def restores_rows(self) -> bool:
        """Return true: a queue in order of arrival may have rows."""
        return True

    def reinsert_folded(self, messages: list[CompactDelivery]) -> None:
        """Add compact messages returned together, by ascending sequence: they may stay compact."""
        self._returned.add_folded(messages)
        self.count += len(messages)

    def first(self) -> QueueEntry | None:
        """Return the next entry without taking it, ``None`` when nothing is pending."""
        tail, returned = self._front, self._returned
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
            self._front.popleft()
        self.count -= 1
        return entry

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED."""
        assert entry.state == REMOVED
        self.count -= 1
        tail = self._front
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
        return self._front[-1].sequence if self._front else 0

    def clear(self) -> None:
        """Forget all entries."""
        self._front.clear()
        self._returned.clear()
        self._removed = 0
        self.count = 0

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries in order of dispatch."""
        back = self._returned.entries()
        tail = [entry for entry in self._front if entry.state == PENDING]
        if not back:
            return tail
        return sorted([*(entry for entry in back if entry.state == PENDING), *tail])

    def take_arrivals(self) -> deque[QueueEntry]:
        """Take out the arrivals. O(1)."""
        arrivals, self._front = self._front, deque()
        return arrivals

    def held(self) -> set[QueueEntry]:
        """Return all entries, those included that were removed and not swept out yet."""
        return {*self._front, *self._returned.entries()}

    def in_memory(self) -> list[QueueEntry]:
        """Return the entries that are objects now."""
        return [*self._returned.entries(), *self._front]

    def arrived_after(self, sequence: int) -> list[QueueEntry]:
        """Return the entries with a higher sequence: O(found + returned), with any number before them."""
        found = [entry for entry in self._returned.entries() if entry.sequence > sequence]
        for entry in reversed(self._front):
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

    def lists(self) -> list[SequenceList]:
        """Return itself."""
        return [self]

    def standing(self, sequence: int) -> QueueEntry | None:
        """Return the pending entry of a sequence if it is neither returned nor among rows. O(log n)."""
        return entry_with(self._front, sequence)

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

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return the next entries of both structures by place; of a paged order those of its front."""
        tail = [entry for entry in islice(self._front, count) if entry.state == PENDING]
        if not self._returned.count:
            return tail
        return sorted([*self._returned.upcoming(count), *tail])[:count]

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries, arrivals in order, removed ones perhaps among them."""
        return [*self._returned.entries(), *self._front]

    def _compact(self) -> None:
        self._front = deque([entry for entry in self._front if entry.state == PENDING])
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
