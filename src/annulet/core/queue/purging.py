"""Emptying a queue of any depth at once: a purge, or a deletion.

The queue is empty for all clients when the call returns, and its counters are exact. What was in it then is swapped out
of its collections and examined in slices (:mod:`annulet.core.queue.emptying`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.policies.eviction import eviction_index_for
from annulet.core.policies.staged_batches import StagedEntries
from annulet.core.queue.emptying import Emptying, Gone, LeftDeliveries

if TYPE_CHECKING:
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.queue.entries import QueueEntries


class Purge:
    """Empties one queue, now and for one reason."""

    def __init__(self, queue: QueueEntries, reason: RemovalReason, now: int) -> None:
        self._queue = queue
        self._reason = reason
        self._now = now

    def suits(self) -> bool:
        """Return whether :meth:`empty` has to do it: in a deep queue, or one with hidden messages that stay."""
        queue = self._queue
        return queue.order.count + queue.schedule.count > AT_ONCE_MAX or bool(queue.hidden)

    def empty(self) -> int:
        """Remove all pending and scheduled messages that are not hidden. Returns how many."""
        queue = self._queue
        if self._alone():
            return self._swap_out()
        order = queue.order
        kept = StagedEntries(queue)
        entries = order.in_memory()
        size = queue.shown_bytes() + queue.shown_scheduled_bytes()
        gone = Gone(order.take_pages())
        order.clear()
        queue.count_pending(-queue.pending_bytes)
        kept.put_back()
        entries += queue.schedule.take_all()
        kept.schedule_again()
        gone.found = queue.shown(entries)
        return self._empty_now(gone, size)

    def _alone(self) -> bool:
        """Return whether only structures that are swapped out as a whole refer to the pending messages.

        Not where hidden messages stay, a reader keeps a list of messages, an operation keeps some from turn to turn, or
        messages in delivery or on their way back share the state of a retention rule with them.
        """
        queue = self._queue
        if queue.hidden or queue.pins or queue.copies is not None:
            return False
        return queue.retention is None or not (queue.delivering or queue.returns)

    def _swap_out(self) -> int:
        """Take everything out of the collections without examining it."""
        queue = self._queue
        order, schedule = queue.order, queue.schedule
        count = order.count + schedule.count
        size = queue.pending_bytes + schedule.bytes
        leaving, leaving_bytes = count - order.paged_count(), size - order.paged_bytes()
        arrivals = order.take_arrivals()
        found = order.in_memory()
        gone = Gone(order.take_pages())
        gone.found, gone.arrivals = found, arrivals
        order.clear()
        queue.count_pending(-queue.pending_bytes)
        if schedule.count:
            gone.found += schedule.unordered()
            gone.schedule = queue.detach_schedule()
        if queue.evictions is not None:
            gone.evictions, queue.evictions = queue.evictions, eviction_index_for(queue.settings)
        if queue.retention is not None:
            gone.retention = queue.retention.detached()
        if queue.expiry is not None:
            gone.times = queue.expiry.detached()
        if gone.pages is not None and queue.accounts is not None:
            queue.accounts.rows_gone(queue, gone.pages)
        gone.held = [] if queue.deleted else queue.kept_records()
        self._count(count, size)
        work = Emptying(queue, gone, self._reason, self._now, leaving, leaving_bytes)
        if leaving <= AT_ONCE_MAX:
            work.mark_all()
        queue.effects.later(work, self._now)
        return count

    def empty_deliveries(self) -> None:
        """Remove all messages in delivery, in slices: the queue is deleted, and its consumers are gone."""
        queue = self._queue
        gone = Gone(None)
        gone.marked = True
        gone.deliveries = LeftDeliveries(queue)
        gone.shared_retention = queue.retention
        queue.effects.later(Emptying(queue, gone, self._reason, self._now), self._now)

    def _empty_now(self, gone: Gone, size: int) -> int:
        """Account for entries removed from the collections, examine them in this turn, and leave the rest to slices.

        Returns how many messages are gone.
        """
        queue = self._queue
        gone.held = [] if queue.deleted else queue.kept_records()
        if queue.accounts is not None and gone.pages is not None:
            queue.accounts.rows_gone(queue, gone.pages)
        gone.shared_retention = queue.retention
        if queue.expiry is not None:
            gone.times = queue.expiry.detached()
        rows = 0 if gone.pages is None else gone.pages.rows
        work = Emptying(queue, gone, self._reason, self._now)
        work.mark_all()
        if queue.evictions is not None:
            queue.evictions.compact(queue.order.count)
        count = gone.count + len(gone.folded) + rows
        self._count(count, size)
        queue.effects.later(work, self._now)
        return count

    def _count(self, count: int, size: int) -> None:
        queue = self._queue
        queue.counters.removed[self._reason] += count
        queue.counters.bytes_removed += size
        if queue.events is not None:
            queue.events.emptied(count, self._reason, self._now)
