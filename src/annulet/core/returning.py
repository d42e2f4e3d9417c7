"""The one return path: requeue, recover, rollback, close, connection loss, release, whatever the protocol calls it.

Artemis checks its ring on some of these ways back and not on others (spec artemis §2.4); here there is one way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.entry import DELIVERING, PENDING, SCHEDULED, DeliveryCopy
from annulet.core.eviction import eviction_rank
from annulet.core.reasons import RemovalReason
from annulet.core.redelivery import redelivery_delay, redelivery_spread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.consumer import Consumer
    from annulet.core.entry import QueueEntry
    from annulet.core.queue import Queue


def return_entries(
    queue: Queue, entries: Iterable[QueueEntry], now: int, *, counted: bool, exclude: Consumer | None
) -> None:
    """Put deliveries back; see :meth:`annulet.core.queue.Queue.return_entries`."""
    back: list[QueueEntry] = []
    delayed: list[QueueEntry] = []
    for entry in entries:
        if isinstance(entry, DeliveryCopy):
            queue.release_copy(entry)
            continue
        if entry.state != DELIVERING:
            continue
        queue.unmark_delivering(entry)
        queue.counters.messages_returned += 1
        entry.redelivered = True
        if counted:
            entry.delivery_count += 1
        reason = _reason_to_go(queue, entry, now)
        if reason is not None:
            queue.finish_removal(entry, reason, now, 0)
            continue
        if exclude is not None:
            queue.refuse_for(exclude, entry)
        if counted and queue.settings.redelivery_delay > 0:
            delayed.append(entry)
        else:
            back.append(entry)
            queue.insert(entry, arrival=False)
            queue.index_expiry(entry)
        if entry.message.record and counted:
            queue.effects.entry_changed(queue, entry)
    queue.expire_due(now)
    queue.update_gate(now)
    queue.dispatch(now)
    _delay(queue, delayed, now)
    if delayed and queue.copies is not None:  # a browser does not wait for what is delayed now
        queue.copies.serve(now, consumers_too=False)
    _drop_excess(queue, back, now)


def _reason_to_go(queue: Queue, entry: QueueEntry, now: int) -> RemovalReason | None:
    """Say why an entry does not come back; attempts are tested before ring and limits (Artemis §2.4)."""
    settings = queue.settings
    expires_at = queue.expires_at(entry)
    if 0 < expires_at <= now:
        return RemovalReason.EXPIRED
    if queue.keys is not None and queue.keys.superseded(entry):
        return RemovalReason.REPLACED_KEY
    if 0 < settings.max_delivery_attempts <= entry.delivery_count:
        return queue.rejection_reason
    if settings.purge_on_no_consumers and queue.unattended:
        return RemovalReason.PURGED
    return None


def _delay(queue: Queue, entries: list[QueueEntry], now: int) -> None:
    """Schedule what comes back later. A ring or limit that is full now drops it now (spec R20).

    Where limits count what is scheduled, the most important and newest find room first.
    """
    limits = queue.limits
    rule = queue.settings.evict
    dropped: list[tuple[QueueEntry, RemovalReason]] = []
    for entry in sorted(entries, key=lambda entry: eviction_rank(entry, rule), reverse=True):
        if 0 <= queue.settings.ring_size <= queue.order.count:
            dropped.append((entry, RemovalReason.REPLACED_RING))
            continue
        if limits is not None and limits.evicts and limits.full(queue):
            dropped.append((entry, RemovalReason.OVERFLOW))
            continue
        spread = redelivery_spread(queue.name, entry.sequence, entry.delivery_count)
        at = now + redelivery_delay(queue.settings, entry.delivery_count, spread)
        entry.state = SCHEDULED
        queue.schedule.add(entry, at, fresh=False)
        queue.index_expiry(entry)
        queue.effects.wake_at(at)
        if entry.message.record:
            queue.effects.entry_changed(queue, entry)
    for entry, reason in reversed(dropped):  # what is sent on goes in the order in which it would have been dropped
        queue.finish_removal(entry, reason, now, 0)


def _drop_excess(queue: Queue, back: list[QueueEntry], now: int) -> None:
    """Drop what came back and does not fit, least important and oldest first; what was pending before stays."""
    ring_size = queue.settings.ring_size
    limits = queue.limits
    ring_full = 0 <= ring_size < queue.order.count
    if not ring_full and (limits is None or not limits.evicts or not limits.exceeded(queue)):
        return
    rule = queue.settings.evict
    for entry in sorted(back, key=lambda entry: eviction_rank(entry, rule)):
        if entry.state != PENDING:
            continue
        if 0 <= ring_size < queue.order.count:
            queue.remove_pending(entry, RemovalReason.REPLACED_RING, now, 0)
        elif limits is not None and limits.evicts and limits.exceeded(queue):
            queue.remove_pending(entry, RemovalReason.OVERFLOW, now, 0)
        else:
            return
        queue.dispatch(now)  # who waited for room for it may take another, which then need not go
