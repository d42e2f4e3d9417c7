"""Which message of a queue with rows may be one: all there is to know of it is then in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import PENDING
from annulet.core.paging.sort_key_runs import fits

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry

ENTRY_BYTES: Final = 640
"""Bytes of a pending message beside its body: entry, message, header and numbers, 520 measured with a header of 60
bytes; the rest is for larger headers and what the allocator keeps."""

ROW_COUNT_MOST: Final = 0xFFFF
"""The highest delivery count of a row: it has 16 bits there. A message that came back more often stays an object."""


def refusal_for(rows: int, size: int, room: int) -> str:
    """Return why rows with bodies of ``size`` bytes do not fit into ``room`` bytes of memory; empty when they do."""
    needed = size + rows * ENTRY_BYTES
    if not rows or needed <= room:
        return ""
    return (
        f"{rows} of its messages are on disk only and take about {needed} bytes in memory, where "
        f"{max(room, 0)} are left of memory_limit; consume some first, or raise memory_limit"
    )


def may_be_row(entry: QueueEntry) -> bool:
    """Return whether the log has all there is to know of an entry of a pageable queue but what its row keeps.

    Its rank, where it has one, is that of the level in which the row stands, or a sort key that is kept beside it; its
    times stand beside the row. An address with limits finds its count by the message, which a row does not have. The
    results of selectors matter only in lanes: elsewhere they were asked for readers, and may be again. A browser may
    refer to it and not look for a row instead: see :meth:`annulet.core.reading.copies.Copies.pin`.
    """
    message = entry.message
    return (
        message.record > 0
        and message.durable
        and message.deliver_at == 0
        and entry.state == PENDING
        and entry.delivery_count <= ROW_COUNT_MOST
        and entry.place == entry.sequence
        and entry.key is None
        and (entry.rank is None or fits(entry.rank))
        and not entry.queue.needs_object(entry)
    )
