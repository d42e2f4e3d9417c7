"""What is on its way back from one session, until it is back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.entry import QueueEntry
    from annulet.core.held_deliveries import HeldDeliveries
    from annulet.core.queue import Queue

LOOKED_AT: Final = 4
"""Deliveries of other queues that are put aside in a slice, for each that it may put back: they take a quarter of the
time."""


class ReturnBatch:
    """What a session gives back to one queue or several: taken out a few at a time, from the last delivery on.

    So nobody looks at all of it in one turn, though nobody knows which of a session's deliveries are of which queue.
    """

    def __init__(self, queues: Iterable[Queue], table: HeldDeliveries) -> None:
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
        blocks: list[list[QueueEntry]] = []  # each of them was delivered before the one before it, and all before stock
        found, looked_at = len(entries), 0
        while table and found < most and looked_at < LOOKED_AT * most:
            block = table.pop_block()
            looked_at += len(block)
            own = [entry for entry in block if entry.queue is queue]
            if len(own) < len(block):
                self._put_aside(block, queue)
            blocks.append(own)
            found += len(own)
        if blocks:
            before = [entry for block in reversed(blocks) for entry in block]
            surplus = max(0, found - most)
            stock += reversed(before[:surplus])
            entries = before[surplus:] + entries
        return entries

    def _put_aside(self, block: list[QueueEntry], queue: Queue) -> None:
        """Keep what is for other queues. What is of none of them is of a queue that was deleted before."""
        for entry in reversed(block):
            if entry.queue is not queue and entry.queue in self._found:
                self._found[entry.queue].append(entry)

    def forget(self, queue: Queue) -> None:
        """Nothing more goes back to a queue."""
        self._found.pop(queue, None)
