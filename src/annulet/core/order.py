"""Which pending message is next. One class per order; this release has FIFO, the others join it here."""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from annulet.core.entry import PENDING, REMOVED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.entry import QueueEntry

COMPACTION_MINIMUM: Final = 64
"""Entries removed from the middle before the order is rebuilt; below it a rebuild costs more than it frees."""


class FifoOrder:
    """Pending entries by sequence: arrivals at the tail, returned entries at their original place.

    Removal from the middle (replace by key, expiry) is lazy: the entry is marked REMOVED by its queue, skipped when it
    is met, and swept out when such entries outnumber the pending ones, so every operation is amortised O(1), a return
    O(log returned).
    """

    __slots__ = ("_removed", "_returned", "_tail", "count")

    def __init__(self) -> None:
        self._tail: deque[QueueEntry] = deque()  # arrivals, ascending sequence
        self._returned: list[QueueEntry] = []  # heap of entries that came back
        self._removed = 0  # entries still in either structure whose state is REMOVED
        self.count = 0  # pending entries

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival; its sequence is above all others."""
        self._tail.append(entry)
        self.count += 1

    def reinsert(self, entry: QueueEntry) -> None:
        """Put a returned entry back at its original place."""
        heappush(self._returned, entry)
        self.count += 1

    def first(self) -> QueueEntry | None:
        """Return the next entry without taking it, ``None`` when nothing is pending."""
        tail, returned = self._tail, self._returned
        if self._removed:
            while returned and returned[0].state == REMOVED:
                heappop(returned)
                self._removed -= 1
            while tail and tail[0].state == REMOVED:
                tail.popleft()
                self._removed -= 1
        if returned and (not tail or returned[0].sequence < tail[0].sequence):
            return returned[0]
        return tail[0] if tail else None

    def take_first(self) -> QueueEntry | None:
        """Remove and return the next entry, ``None`` when nothing is pending."""
        entry = self.first()
        if entry is None:
            return None
        if self._returned and self._returned[0] is entry:
            heappop(self._returned)
        else:
            self._tail.popleft()
        self.count -= 1
        return entry

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED."""
        assert entry.state == REMOVED
        self.count -= 1
        self._removed += 1
        if self._removed > self.count + COMPACTION_MINIMUM:
            self._compact()

    def clear(self) -> None:
        """Forget all entries."""
        self._tail.clear()
        self._returned.clear()
        self._removed = 0
        self.count = 0

    def entries(self) -> Iterator[QueueEntry]:
        """Iterate the pending entries in order of dispatch. The order must not change meanwhile."""
        returned = [entry for entry in sorted(self._returned) if entry.state == PENDING]
        position = 0
        for entry in self._tail:
            if entry.state != PENDING:
                continue
            while position < len(returned) and returned[position].sequence < entry.sequence:
                yield returned[position]
                position += 1
            yield entry
        yield from returned[position:]

    def _compact(self) -> None:
        self._tail = deque([entry for entry in self._tail if entry.state == PENDING])
        self._returned = sorted([entry for entry in self._returned if entry.state == PENDING])
        self._removed = 0
