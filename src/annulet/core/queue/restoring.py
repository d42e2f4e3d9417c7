"""Putting back what the message log held when the broker ended. Nothing is dispatched and no limit trims meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import DELIVERING, SCHEDULED, QueueEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.core.message.message import Message, Origin
    from annulet.core.paging.front_limits import FrontBounds
    from annulet.core.paging.paged_fifo import PagedFifo
    from annulet.core.queue.entries import QueueEntries


def restore(
    queue: QueueEntries, message: Message, sequence: int, redelivered: bool, delivery_count: int, deliver_at: int
) -> QueueEntry:
    """Put back one message; see :meth:`annulet.core.queue.queue.Queue.restore`."""
    entry = QueueEntry(queue, message, sequence)
    entry.redelivered = redelivered
    entry.delivery_count = delivery_count
    in_sequence = sequence >= queue.next_sequence
    queue.continue_from(sequence + 1)
    leased = sequence in queue.leased
    if message.deliver_at and deliver_at != 0 and delivery_count == 0 and not leased:
        # not current for its key before it falls due
        _schedule(queue, entry, message.deliver_at if deliver_at < 0 else deliver_at, fresh=True)
        return entry
    if queue.retention is not None:
        superseded = queue.retention.accept(entry, recovering=True)
        if superseded is not None:
            queue.remove_waiting(superseded, RemovalReason.REPLACED_KEY, message.accepted_at, sequence)
    queue.ranker.assign(entry, message.accepted_at)
    if leased:  # in delivery, so neither key nor time can take it away
        entry.state = DELIVERING
        queue.delivering.add(entry)
        queue.count_delivering(message.size)
        queue.index_expiry(entry)
        if queue.lanes is not None:  # its group waits for it, its fair key has one more in delivery
            queue.lanes.recovered(entry)
    elif queue.retention is not None and queue.retention.superseded(entry):
        queue.finish_removal(entry, RemovalReason.REPLACED_KEY, message.accepted_at, 0)
    elif deliver_at > 0:
        _schedule(queue, entry, deliver_at, fresh=False)
    else:  # out of sequence: a transient message that a lease made durable
        queue.insert(entry, arrival=in_sequence)
        queue.index_expiry(entry)
    return entry


def restore_rows(
    queue: QueueEntries,
    order: PagedFifo,
    columns: tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[Origin]],
    *,
    redelivered: bool,
    times: Sequence[tuple[int, int, int]] = (),
    counts: Sequence[int] = (),
) -> None:
    """Put messages that stay on disk back into an order of the queue, as its next; see :meth:`QueueArea.add_rows`.

    ``columns``: sequences, records, sizes and origins. Nothing but the order may know of the queue's messages.
    """
    if times:
        queue.use_expiry()
    sequences, records, sizes, origins = columns
    size = order.restore_rows(sequences, records, sizes, origins, redelivered=redelivered, times=times, counts=counts)
    queue.count_pending(size)
    queue.continue_from(sequences[-1] + 1)


def _schedule(queue: QueueEntries, entry: QueueEntry, at: int, *, fresh: bool) -> None:
    entry.state = SCHEDULED
    message = entry.message
    name = message.origin.view.schedule_id(message) if fresh else ""
    queue.appoint(entry, at, fresh=fresh, schedule_id=name)
    queue.index_expiry(entry)


def finish_restore(queue: QueueEntries, next_sequence: int, torn: int, now: int) -> None:
    """End recovery; see :meth:`annulet.core.queue.queue.Queue.finish_restore`.

    ``torn`` messages came in windows that a crash tore: they are there, and so is what a ring had replaced with them.
    Each replaces another one now, as its arrival did; a ring that was lowered and not trimmed keeps the rest.
    """
    for _ in range(torn):
        if not 0 <= queue.settings.ring_size < queue.order.count:
            break
        victim = queue.victim()
        if victim is None:
            break
        queue.remove_pending(victim, RemovalReason.REPLACED_RING, now, 0)
    queue.continue_from(next_sequence)
    queue.leased.clear()
    counters = queue.counters
    count = queue.message_count()
    size = queue.pending_bytes + queue.delivering_bytes + queue.schedule.bytes
    counters.messages_added = sum(counters.removed.values()) + count
    counters.bytes_added = counters.bytes_removed + size
    queue.finish(0)


def front_room(queue: QueueEntries, sizes: Sequence[int], bounds: FrontBounds) -> int:
    """Return how many of the next messages, of these sizes in bytes, a restored queue's front has room for."""
    order = queue.order
    if order.split or order.paged_count():
        return 0
    room = bounds.size - queue.pending_bytes
    count = 0
    for size in sizes[: max(0, bounds.messages - order.count)]:
        if room <= 0:
            break
        room -= size
        count += 1
    return count
