"""What the orders of deep queues have in common when entries become rows, and when rows turn out to be damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.bodies import became_row
from annulet.core.expiry import leave_index
from annulet.core.reasons import RemovalReason

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.core.paging import QueueArea
    from annulet.core.queue import Queue


def leave_memory(queue: Queue, entry: QueueEntry) -> None:
    """An entry became a row: it holds its message no more, and the pages know when it expires."""
    became_row(entry)
    leave_index(queue.expiry, entry)


def count_lost(queue: Queue, pages: QueueArea) -> int:
    """Count what the last load or look found to be damaged out of a queue. Returns how many messages.

    The caller counts them out of its order. What was counted is not counted again.
    """
    lost = pages.lost
    if lost or pages.lost_bytes:
        queue.note_unreadable(lost, pages.lost_bytes)
        if queue.events is not None and lost:
            queue.events.emptied(lost, RemovalReason.UNREADABLE, 0)
        pages.lost = pages.lost_bytes = 0
    return lost
