"""What is on its way back from one session, until it is back."""

from __future__ import annotations

from collections import deque
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
    """What a session gives back to one queue or several: taken out a few at a time, from the first delivery on.

    So nobody looks at all of it in one turn, though nobody knows which of a session's deliveries are of which queue.
    """

    def __init__(self, queues: Iterable[Queue], table: HeldDeliveries) -> None:
        self._held = len(table)  # how many are in blocks
        self._blocks = table.take_blocks()
        self._found: dict[Queue, deque[QueueEntry]] = {queue: deque() for queue in queues}

    def add(self, queue: Queue, entries: list[QueueEntry]) -> None:
        """Add some of a queue that are in no table: they go back from the first on, before all others."""
        self._found[queue].extend(entries)

    def left(self, queue: Queue) -> int:
        """Return how many of a queue are there at most."""
        return self._held + len(self._found.get(queue, ()))

    def take(self, queue: Queue, most: int) -> list[QueueEntry]:
        """Return up to ``most`` of a queue, by ascending tag; none, perhaps, where there are very many of others."""
        stock, blocks = self._found[queue], self._blocks
        entries = [stock.popleft() for _ in range(min(most, len(stock)))]
        looked_at = 0
        while blocks and len(entries) < most and looked_at < LOOKED_AT * most:
            block = [entry for entry in blocks.popleft() if entry is not None]
            self._held -= len(block)
            looked_at += len(block)
            own = [entry for entry in block if entry.queue is queue]
            if len(own) < len(block):
                self._put_aside(block, queue)
            entries += own
        stock.extend(entries[most:])  # there are some of a block only when nothing was left in stock
        return entries[:most]

    def _put_aside(self, block: list[QueueEntry], queue: Queue) -> None:
        """Keep what is for other queues. What is of none of them is of a queue that was deleted before."""
        for entry in block:
            if entry.queue is not queue and entry.queue in self._found:
                self._found[entry.queue].append(entry)

    def forget(self, queue: Queue) -> None:
        """Nothing more goes back to a queue."""
        self._found.pop(queue, None)
