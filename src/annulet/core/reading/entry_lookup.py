"""The queue's own entries, found by sequence at any depth: for callers that have read a message on disk and will change
it.

Reading rows yields entries that belong to no queue. Before one of them is touched, the queue is asked what became of
the message meanwhile: it may still be a row, or an entry in memory, waiting or in delivery, or gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.model.entry import REMOVED
from annulet.core.reading.browse_order import may_be_noted_as_row

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.order import SequenceList
    from annulet.core.policies.queue_policies import QueuePolicies


class EntryLookup:
    """Finds entries of one queue."""

    def __init__(self, queue: QueuePolicies) -> None:
        self._queue = queue
        self._aside: dict[int, QueueEntry] = {}  # entries that neither a page nor a search finds, by sequence
        self._noted_at: tuple[int, ...] = ()
        self._noted_in = queue.order
        self._stored = 0  # what :attr:`Lanes.stored` was when they were noted

    def own(self, shown: QueueEntry) -> QueueEntry | None:
        """Return what the queue holds of a message that was shown; ``None`` when it has left.

        ``shown`` itself when it is the queue's, and when the message is a row, see :meth:`claim`.
        """
        if shown.queue.deleted:
            return None
        if not may_be_noted_as_row(shown):  # it cannot have become a row
            return None if shown.state == REMOVED else shown
        return self.find(shown.sequence) if self._list_with_row(shown.sequence) is None else shown

    def find(self, sequence: int) -> QueueEntry | None:
        """Return the queue's entry with a sequence, if it is one that could have been a row and is not now."""
        found = None
        for standing in self._queue.order.lists():
            found = found or standing.standing(sequence)
        found = found or self._queue.delivering.get(sequence)
        if found is None:
            self._forget_stored()
            found = self._aside.get(sequence)
        if found is None and self._is_outdated():
            found = self._aside.get(sequence)
        return None if found is None or found.state == REMOVED else found

    def claim(self, entry: QueueEntry) -> None:
        """Make the queue's own what :meth:`own` returned just now, if it is a row: pending, at its place."""
        standing = self._list_with_row(entry.sequence) if may_be_noted_as_row(entry) else None
        if standing is None:
            return
        standing.take_out([entry])
        order = self._queue.order
        order.recount()
        if self._queue.lanes is not None:
            self._queue.lanes.bring(entry, 0)
        else:
            order.reinsert(entry)

    def _list_with_row(self, sequence: int) -> SequenceList | None:
        return next((standing for standing in self._queue.order.lists() if standing.has_row(sequence)), None)

    def _forget_stored(self) -> None:
        """Note nothing any more when what stood in lanes may have become rows, and those other entries."""
        order = self._queue.order
        stored = 0 if self._queue.lanes is None else self._queue.lanes.stored
        if order is not self._noted_in or stored != self._stored:
            self.release()
            self._noted_in, self._stored = order, stored

    def _is_outdated(self) -> bool:
        """Note again the messages aside, if any may have moved there since; return whether it was done."""
        queue = self._queue
        counters, order = queue.counters, queue.order
        at: tuple[int, ...] = (counters.messages_delivered, counters.messages_returned, order.paged_count())
        for standing in order.lists():  # into lanes and out of them they go without a delivery
            at += (standing.count, standing.front_length, standing.came_back())
        if at == self._noted_at:
            return False
        self._noted_at = at
        self._aside = {
            entry.sequence: entry for entry in [*order.aside(), *queue.schedule.entries()] if entry.state != REMOVED
        }
        return True

    def release(self) -> None:
        """Hold no entries any more."""
        self._aside = {}
        self._noted_at = ()
