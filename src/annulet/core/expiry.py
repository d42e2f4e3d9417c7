"""When messages of one queue expire: an index over the whole queue, so that expiry does not wait for the head."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from annulet.core.entry import REMOVED

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry

COMPACTION_MINIMUM: Final = 64
"""Entries that left the queue before their time, before the index is rebuilt without them."""


class ExpiryIndex:
    """A heap of (time, entry). Entries that leave early stay until they outnumber the live ones."""

    __slots__ = ("_heap", "_removed")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, QueueEntry]] = []
        self._removed = 0

    def add(self, at: int, entry: QueueEntry) -> None:
        """Note that ``entry`` expires at ``at`` (milliseconds since 1970)."""
        entry.indexed = True
        heappush(self._heap, (at, entry.sequence, entry))

    def note_removed(self) -> None:
        """An indexed entry left the queue before its time."""
        self._removed += 1
        if self._removed * 2 > len(self._heap) + COMPACTION_MINIMUM:
            self._heap = [item for item in self._heap if item[2].state != REMOVED]
            heapify(self._heap)
            self._removed = 0

    def due(self, now: int) -> list[QueueEntry]:
        """Take out the entries whose time has come and that are still alive, earliest first."""
        entries: list[QueueEntry] = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            entry = heappop(heap)[2]
            entry.indexed = False
            if entry.state == REMOVED:
                self._removed -= 1
            else:
                entries.append(entry)
        return entries

    def next_at(self) -> int:
        """When the next entry may expire; 0 when nothing is indexed."""
        return self._heap[0][0] if self._heap else 0
