"""The expiry of rows: by the queue's time to live and when they were accepted, without reading what they hold.

Rows are in no expiry index. Their times never decrease (:mod:`annulet.core.row_choice`), so the first row is the next
to expire. What is to be sent on as a dead letter is read all the same, as the next entries of the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.entry import PENDING, REMOVED, SCHEDULED
from annulet.core.reasons import RemovalReason
from annulet.core.sliced import SLICE_MESSAGES

if TYPE_CHECKING:
    from annulet.core.expiry import ExpiryIndex
    from annulet.core.queue import Queue
    from annulet.core.settings import QueueSettings


NEVER: Final = (1 << 62, 0)
"""A time and sequence behind all others."""


def life_of(settings: QueueSettings) -> int:
    """Return how long a message without a time of its own lives in a queue, in milliseconds; -1 for ever."""
    lives = [life for life in (settings.message_ttl, settings.max_ttl) if life >= 0]
    return min(lives, default=-1)


def first_row(queue: Queue) -> tuple[int, int]:
    """When the first row expires (milliseconds since 1970) and its sequence; neither is later than it really is.

    ``NEVER`` when no row does, or the disk does not give it now.
    """
    accepted_at, sequence = queue.order.oldest_row() if queue.ages else (0, 0)
    return (accepted_at + life_of(queue.settings), sequence) if accepted_at else NEVER


def next_expiry(queue: Queue) -> int:
    """When the next message of a queue expires, row or not; 0 for never."""
    first = first_row(queue)
    if queue.expiry is not None:
        first = min(first, queue.expiry.first())
    return 0 if first == NEVER else first[0]


def expire(queue: Queue, index: ExpiryIndex, now: int, most: int) -> None:
    """Remove up to ``most`` (-1: all) messages of a queue whose time has passed, the earliest first."""
    counts = queue.counters.removed
    until = counts[RemovalReason.EXPIRED] + most
    while most < 0 or counts[RemovalReason.EXPIRED] < until:
        left = SLICE_MESSAGES if most < 0 else until - counts[RemovalReason.EXPIRED]
        entry_at, row_at = index.first(), first_row(queue)
        if min(entry_at, row_at)[0] > now:
            return
        if row_at < entry_at:
            _expire_rows(queue, row_at, entry_at, left, now)
            continue
        for entry in index.due(now, -1 if most < 0 else left, row_at):
            if entry.state in (PENDING, SCHEDULED):
                queue.remove_waiting(entry, RemovalReason.EXPIRED, now, 0)


def _expire_rows(queue: Queue, first: tuple[int, int], before: tuple[int, int], limit: int, now: int) -> None:
    """Remove some rows, of which the first is at ``first``, whose time and sequence are lower than ``before``.

    Or make them entries where they are to be read.
    """
    if queue.forwarder.takes(queue, RemovalReason.EXPIRED):
        queue.order.bring_oldest()
        return
    life = life_of(queue.settings)
    if first[0] < before[0]:
        expired = queue.order.take_expired(min(now, before[0] - 1) - life, 0, limit)
    else:
        expired = queue.order.take_expired(before[0] - life, before[1], limit)
    for entry in expired:
        entry.state = REMOVED
        queue.pending_bytes -= entry.message.size
        queue.finish_removal(entry, RemovalReason.EXPIRED, now, 0)
