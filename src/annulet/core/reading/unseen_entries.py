"""The unseen messages of a reader as entries: those there were when it attached, and arrivals if it follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import REMOVED
from annulet.core.model.order import UnseenMessages

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.policies.queue_policies import QueuePolicies

PRUNE_MINIMUM: Final = 64
"""Entries that left the queue before a slow reader's list is swept."""


class UnseenEntries(UnseenMessages):
    """A list in the order of the queue. ``there``: its first entries, by rank and place."""

    def __init__(self, queue: QueuePolicies, there: list[QueueEntry]) -> None:
        super().__init__(of_rows=False)
        self._queue = queue
        self._list = queue.ranker.new_list()
        for entry in there:
            self._list.append(entry)

    def first(self) -> QueueEntry | None:
        """Return the next entry without taking it, ``None`` when all were seen."""
        return self._list.first()

    def take_first(self) -> QueueEntry | None:
        """Remove and return the next entry, ``None`` when all were seen."""
        return self._list.take_first()

    def arrived(self, entry: QueueEntry) -> None:
        """Add a new pending entry, and drop those that left the queue if they are most of the list."""
        unseen = self._list
        unseen.reinsert(entry)
        if unseen.count > PRUNE_MINIMUM and unseen.count > 2 * self._queue.readable_count() + PRUNE_MINIMUM:
            self._prune()

    def reinsert(self, entry: QueueEntry) -> None:
        """Add an entry that the reader reached while it waited for redelivery."""
        self._list.reinsert(entry)

    def revised(self, former: QueueEntry, entry: QueueEntry) -> None:
        """Replace ``former`` by ``entry`` if that was not seen. O(n)."""
        if former in self._list.held():
            self._list.reinsert(entry)

    def held(self) -> set[QueueEntry]:
        """Return all entries, those included that left the queue."""
        return self._list.held()

    def entries(self) -> list[QueueEntry]:
        """Return the entries by rank and place."""
        return self._list.entries()

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries in no particular order, removed ones perhaps among them."""
        return self._list.snapshot()

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return about the next ``count`` entries."""
        return self._list.upcoming(count)

    def _prune(self) -> None:
        kept = self._queue.ranker.new_list()
        while (entry := self._list.take_first()) is not None:
            if entry.state != REMOVED:
                kept.append(entry)
        self._list = kept
