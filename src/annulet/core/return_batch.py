"""What is on its way back from one session, until it is back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.entry import QueueEntry
    from annulet.core.queue import Queue

LOOKED_AT: Final = 4
"""Deliveries of other queues that are put aside in a slice, for each that it may put back: they take a quarter of the
time."""


class ReturnBatch:
    """What a session gives back to one queue or several: taken out a few at a time, from the last delivery on.

    So nobody looks at all of it in one turn, though nobody knows which of a session's deliveries are of which queue.
    """

    def __init__(self, queues: Iterable[Queue], table: dict[int, QueueEntry]) -> None:
        self._table = table
        self._found: dict[Queue, list[QueueEntry]] = {queue: [] for queue in queues}  # the first one at the end

    def add(self, queue: Queue, entries: list[QueueEntry]) -> None:
        """Add some of a queue that are in no table: they go back from the first on."""
        self._found[queue] += reversed(entries)

    def left(self, queue: Queue) -> int:
        """Return how many of a queue are there at most."""
        return len(self._table) + len(self._found.get(queue, ()))

    def take(self, queue: Queue, most: int) -> list[QueueEntry]:
        """Return up to ``most`` of a queue, by ascending tag; none, perhaps, where there are very many of others."""
        stock, table = self._found[queue], self._table
        entries = stock[: -most - 1 : -1]
        del stock[-most:]
        if not table or len(entries) == most:
            return entries
        before: list[QueueEntry] = []  # popped from the last on: all of them were delivered before those in stock
        missing = most - len(entries)
        for _ in range(LOOKED_AT * most):
            entry = table.popitem()[1]
            if entry.queue is queue:
                before.append(entry)
                missing -= 1
            elif entry.queue in self._found:  # else its queue was deleted before the session ended
                self._found[entry.queue].append(entry)
            if not missing or not table:
                break
        before.reverse()
        return before + entries

    def forget(self, queue: Queue) -> None:
        """Nothing more goes back to a queue."""
        self._found.pop(queue, None)
