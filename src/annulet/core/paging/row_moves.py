"""The common part of the orders of deep queues when entries become rows, and when rows are found damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.deliveries.bodies import became_row
from annulet.core.model.entry import REMOVED
from annulet.core.paging.row_conditions import may_be_row

if TYPE_CHECKING:
    from collections import deque

    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.model.queue_state import QueueState


def take_written(
    late: deque[QueueEntry], durable_record: int, limit: int, hidden_from: int
) -> tuple[list[QueueEntry], bytearray]:
    """Take up to ``limit`` of the first entries that were not removed, until one may not go: hidden entries, and a row
    from ``durable_record`` on.

    Returns them, and a 1 for each that cannot be a row.
    """
    entries: list[QueueEntry] = []
    kept = bytearray(min(limit, len(late)))
    while late and len(entries) < limit:
        entry = (
            late.popleft()
        )  # the end of the eligible entries is reached once, so putting it back costs less than looking first
        hidden = entry.sequence >= hidden_from
        if entry.state == REMOVED and not hidden:
            continue
        row = may_be_row(entry)
        if hidden or (row and entry.message.record >= durable_record):
            late.appendleft(entry)
            break
        if not row:
            kept[len(entries)] = 1
        entries.append(entry)
    del kept[len(entries) :]
    return entries, kept


def let_rows_go(entries: list[QueueEntry], kept: bytearray) -> None:
    """Entries with a 0 in ``kept`` became rows."""
    some_stay = 1 in kept
    for place, entry in enumerate(entries):
        if not (some_stay and kept[place]):
            leave_memory(entry)


def leave_memory(entry: QueueEntry) -> None:
    """An entry became a row: it holds its message no more, and the pages know when it expires."""
    became_row(entry)
    entry.queue.leave_expiry(entry)


def count_lost(queue: QueueState, pages: QueueArea) -> int:
    """Count what the last load or look found to be damaged out of a queue. Returns how many messages.

    The caller counts them out of its order. Nothing is counted twice.
    """
    lost = pages.lost
    if lost or pages.lost_bytes:
        queue.note_unreadable(lost, pages.lost_bytes)
        if queue.accounts is not None:
            queue.accounts.rows_lost(queue, lost, pages.lost_bytes)
        if queue.events is not None and lost:
            queue.events.emptied(lost, RemovalReason.UNREADABLE, 0)
        pages.lost = pages.lost_bytes = 0
    return lost
