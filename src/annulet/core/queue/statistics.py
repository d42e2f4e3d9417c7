"""Statistics of a queue, with Artemis's names and rules (spec artemis §1.1) without its double counting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.searching.selector_walk import remaining

if TYPE_CHECKING:
    from annulet.core.queue.entries import QueueEntries


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """A point-in-time view of one queue. Sizes are body bytes; counts are messages."""

    name: str
    message_count: int  # pending + scheduled + delivering, each message once
    pending_count: int
    delivering_count: int  # on a non-destructive queue copies, which message_count does not count again
    scheduled_count: int
    paged_count: int  # of the pending, those beyond the limits of ``overflow=page``
    messages_paged: int  # of the pending, those that are on disk only
    messages_unreadable: int  # whose records turned out to be damaged
    pending_bytes: int
    delivering_bytes: int
    consumer_count: int
    messages_added: int
    bytes_added: int
    messages_delivered: int
    messages_returned: int
    messages_browsed: int
    messages_acknowledged: int
    messages_expired: int
    messages_killed: int  # dead-lettered, purged, deleted
    messages_replaced: int  # ring and key
    messages_dropped: int  # overflow
    messages_rejected: int
    messages_dead_lettered: int
    removed: dict[str, int]  # by reason
    key_count: int  # distinct keys of a keep-per-key queue with a message in it
    group_count: int  # message groups that are assigned or have something in the queue
    matcher_count: int  # distinct selectors and exclusions of its consumers, including remembered ones
    selector_evaluations: int  # evaluations for them since the broker started
    scan_remaining: int  # sequences in a deep backlog that the slowest selector has not examined
    first_sequence: int  # of the oldest pending message, 0 when none
    next_sequence: int  # of the next message that can be seen


def message_counts_of(queue: QueueEntries) -> tuple[int, int, int]:
    """Return how many messages are pending, delivered and not settled, and scheduled: a tenth of the work of all."""
    copies = queue.copies
    copied = copies is not None and queue.settings.non_destructive
    delivering = len(copies.out) if copied and copies is not None else len(queue.delivering)
    return queue.shown_count(), delivering, queue.shown_scheduled()


def statistics_of(queue: QueueEntries) -> QueueStatistics:
    """Return the counters and sizes of a queue at this moment."""
    removed = queue.counters.removed
    counters = queue.counters
    replaced = removed[RemovalReason.REPLACED_RING] + removed[RemovalReason.REPLACED_KEY]
    killed = removed[RemovalReason.PURGED] + removed[RemovalReason.DELETED] + removed[RemovalReason.DEAD_LETTERED]
    copies = queue.copies
    copied = copies is not None and queue.settings.non_destructive
    pending, delivering, scheduled = message_counts_of(queue)
    hidden = queue.order.count - pending + queue.schedule.count - scheduled
    first, pending_size = queue.order.first_sequence(), queue.shown_bytes()
    hidden_size = queue.pending_bytes - pending_size + queue.schedule.bytes - queue.shown_scheduled_bytes()
    return QueueStatistics(
        name=queue.name,
        message_count=pending + len(queue.delivering) + scheduled,
        pending_count=pending,
        delivering_count=delivering,
        scheduled_count=scheduled,
        paged_count=queue.limits.beyond(queue) if queue.limits is not None and queue.limits.pages else 0,
        messages_paged=queue.order.paged_count(),
        messages_unreadable=removed[RemovalReason.UNREADABLE],
        pending_bytes=pending_size,
        delivering_bytes=copies.bytes if copied and copies is not None else queue.delivering_bytes,
        consumer_count=queue.consumers.count,
        messages_added=counters.messages_added - hidden,
        bytes_added=counters.bytes_added - hidden_size,
        messages_delivered=counters.messages_delivered,
        messages_returned=counters.messages_returned,
        messages_browsed=counters.messages_browsed,
        messages_acknowledged=removed[RemovalReason.ACKNOWLEDGED],
        messages_expired=removed[RemovalReason.EXPIRED],
        messages_killed=killed,
        messages_replaced=replaced,
        messages_dropped=removed[RemovalReason.OVERFLOW],
        messages_rejected=removed[RemovalReason.REJECTED],
        messages_dead_lettered=removed[RemovalReason.DEAD_LETTERED],
        removed={reason.value: count for reason, count in removed.items() if count},
        key_count=queue.key_count,
        group_count=0 if queue.lanes is None or queue.lanes.groups is None else len(queue.lanes.groups.groups),
        matcher_count=len(queue.matchers),
        selector_evaluations=queue.matchers.evaluations,
        scan_remaining=remaining(queue, queue.deep_lanes),
        first_sequence=first if first < queue.hidden_from else 0,
        next_sequence=queue.visible_end,
    )


def lag_of(queue: QueueEntries, now: int) -> int | None:
    """Return for how many milliseconds the oldest pending message has waited; 0 when there is none, or all are hidden.

    Defined by :meth:`annulet.core.model.order.Order.oldest_accepted_at`. Not among the statistics, because the log
    is read, once, if the next message is on disk only. ``None`` if messages wait and the disk refuses to read.
    """
    if not queue.shown_count():
        return 0
    at = queue.order.oldest_accepted_at()
    if at:
        return max(0, now - at)
    return None
