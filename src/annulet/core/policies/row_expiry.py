"""The expiry of rows: when they do is known without reading what they hold, wherever they stand.

Rows are in no expiry index: their keepers know which is the next. Messages to be dead-lettered are read all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.expiry_times import NEVER
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.model.entry import PENDING, REMOVED, SCHEDULED

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.order import OrderRows
    from annulet.core.policies.expiry import ExpiryIndex
    from annulet.core.policies.queue_policies import QueuePolicies


ORDERED_MAX: Final = 1 << 14
"""Rows that one slice puts in the order in which they expire: some 4 ms of the loop where their times are all
different. Then comes the next slice, as thousands of pages may have their first row due at about the same time."""


ENDED_PAGES: Final = 16
"""Times that some thousand rows go together in one slice: few ranges of records are left to write."""

ENDED_RANGES: Final = 256
"""Ranges of records from which on no more rows go in the same slice: where messages of several queues alternate in the
log there is one for each row, and each costs what a settlement does."""


def some_expire(entries: list[QueueEntry], kept: bytearray) -> bool:
    """Return whether a message that becomes a row, an entry with a 0 in ``kept``, has its sender's time to live."""
    return any(entry.message.expires_at and not kept[place] for place, entry in enumerate(entries))


def next_expiry(order: OrderRows, index: ExpiryIndex | None, now: int) -> int:
    """Return when the next message expires, row or indexed entry; 0 for never. Sure where that is until ``now``."""
    first = order.first_expiry(now)
    if index is not None:
        first = min(first, index.first())
    return 0 if first == NEVER else first[0]


def expire(queue: QueuePolicies, index: ExpiryIndex, now: int, most: int) -> None:
    """Remove up to ``most`` (-1: all) messages of a queue whose time has passed, the earliest first.

    Fewer, but at least one, where rows have to be put in order first and that is much work.
    """
    counts = queue.counters.removed
    until = counts[RemovalReason.EXPIRED] + most
    ordered_until = index.ordered + ORDERED_MAX
    while most < 0 or (counts[RemovalReason.EXPIRED] < until and index.ordered < ordered_until):
        left = SLICE_MESSAGES if most < 0 else until - counts[RemovalReason.EXPIRED]
        entry_at, row_at = index.first(), queue.order.first_expiry(now)
        if min(entry_at, row_at)[0] > now:
            return
        if row_at < entry_at:
            _expire_rows(queue, min(entry_at, (now + 1, 0)), left, now)
            continue
        for entry in index.due(now, -1 if most < 0 else left, row_at):
            if entry.state in (PENDING, SCHEDULED):
                queue.remove_waiting(entry, RemovalReason.EXPIRED, now, 0)


def expire_ended(queue: QueuePolicies, now: int) -> bool:
    """Remove some thousand rows together that have all expired, if the ledger would keep nothing of them.

    Nor may anybody else want to know of each. Returns whether there were such rows.
    """
    if queue.events is not None or queue.forwarder.takes(queue, RemovalReason.EXPIRED):
        return False
    ranges: list[tuple[int, int]] = []
    for _ in range(ENDED_PAGES):
        ended = queue.order.take_ended(now, queue.ledger.records_max) if len(ranges) < ENDED_RANGES else None
        if ended is None:
            break
        queue.count_pending(-ended.size)
        queue.counters.removed[RemovalReason.EXPIRED] += ended.rows
        queue.counters.bytes_removed += ended.size
        queue.ledger.skip(ended.rows, ended.rows)  # messages on disk are durable
        for first, last in ended.ranges:
            if ranges and ranges[-1][1] + 1 == first:  # rows go on behind the end of a page
                ranges[-1] = (ranges[-1][0], last)
            else:
                ranges.append((first, last))
    if ranges:
        queue.effects.settle_records(queue, ranges)
    return bool(ranges)


def _expire_rows(queue: QueuePolicies, before: tuple[int, int], limit: int, now: int) -> None:
    """Remove some rows whose time and sequence are lower than ``before``."""
    read = queue.forwarder.takes(queue, RemovalReason.EXPIRED)
    for entry in queue.order.take_expired(before, limit, read=read):
        entry.state = REMOVED
        queue.count_pending(-entry.message.size)
        queue.finish_removal(entry, RemovalReason.EXPIRED, now, 0)
