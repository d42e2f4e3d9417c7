"""Emptying a queue of any depth at once: a purge, or a deletion.

The queue is empty for all clients when the call returns, and its counters are exact. What was in it then is swapped out
of its collections and examined in slices (:mod:`annulet.core.queue.emptying`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.model.compact_messages import CompactDelivery, entry_in
from annulet.core.model.entry import QueueEntry
from annulet.core.policies.eviction import eviction_index_for
from annulet.core.policies.staged_batches import StagedEntries
from annulet.core.queue.emptying import Emptying, Gone

if TYPE_CHECKING:
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.model.consumer import DeliveryOwner
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
        found = order.in_memory()
        gone = Gone(order.take_pages())
        gone.found = found
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
        gone.held = queue.kept_records()
        self._count(count, size)
        work = Emptying(queue, gone, self._reason, self._now, leaving, leaving_bytes)
        if leaving <= AT_ONCE_MAX:
            work.mark_all()
        queue.effects.later(work, self._now)
        return count

    def empty_deliveries(self) -> dict[DeliveryOwner, None]:
        """Remove all messages in delivery: the queue is deleted. Returns the sessions that had them.

        Compact ones stay compact, except the newest, which the ledger records. The others are only marked as removed,
        which every settlement asks for, and examined in slices.
        """
        queue = self._queue
        size = queue.delivering_bytes
        slots = queue.delivering.slots()
        recorded_from = max(0, len(slots) - queue.ledger.records_max)  # the ledger of an event log records none
        newest = [entry_in(slot) for slot in slots[recorded_from:]]
        del slots[recorded_from:]
        gone = Gone(None)
        gone.folded = [slot for slot in slots if isinstance(slot, CompactDelivery)]
        entries = [slot for slot in slots if isinstance(slot, QueueEntry)] if len(gone.folded) < len(slots) else []
        entries += newest
        holders = queue.end_deliveries(entries)
        if gone.folded:
            kinds, folded_bytes = queue.take_folded(gone.folded, everything=True)
            size_here = size - folded_bytes
            for kind in kinds:
                assert kind.consumer is not None
                holders[kind.consumer.session] = None
                kind.consumer = None
                kind.removed = True
            assert queue.bodies is not None
            queue.bodies.count -= len(gone.folded)
            queue.bodies.bytes -= folded_bytes
        else:
            size_here = size
        gone.found, gone.marked = entries, True
        gone.held = queue.kept_records()
        gone.shared_retention = queue.retention
        if queue.expiry is not None:
            gone.times = queue.expiry.detached()
        self._count(len(entries) + len(gone.folded), size)
        queue.effects.later(Emptying(queue, gone, self._reason, self._now, len(entries), size_here), self._now)
        return holders

    def _empty_now(self, gone: Gone, size: int) -> int:
        """Account for entries removed from the collections, examine them in this turn, and leave the rest to slices.

        Returns how many messages are gone.
        """
        queue = self._queue
        gone.held = queue.kept_records()
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
