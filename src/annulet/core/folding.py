"""The end of a front that grew too long becomes rows again: what was read, or stands behind what came back (T8).

So what came back to its place and the front behind it take no more memory together than the front alone (design, R7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.entry import REMOVED
from annulet.core.paging import may_be_row

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.core.paged_order import TargetList

FOLD_MESSAGES_LEAST: Final = 64
"""Messages beyond what is kept before some become rows: a page for a few of them is no gain."""

FOLD_BYTES_LEAST: Final = 64 << 10
"""The same for body bytes: 64 KiB, with ten priorities less than the front."""


def worth_folding(target_list: TargetList) -> bool:
    """Say whether something came back before a front that rows follow, and it is much longer than what is kept."""
    if not target_list._returned.count or not target_list.pages.items:
        return False
    tail = target_list._tail
    excess = len(tail) - target_list.length_kept()
    if excess >= FOLD_MESSAGES_LEAST:
        return True
    return sum([tail[-1 - place].message.size for place in range(excess)]) >= FOLD_BYTES_LEAST


def fold_front(target_list: TargetList, durable_record: int, limit: int) -> int:
    """Turn up to ``limit`` entries at the end of a front into rows. Returns how many moved.

    Where rows follow: else :meth:`TargetList.page_out` cuts the front.
    """
    tail = target_list._tail
    if not target_list.pages.items:
        return 0
    left = min(limit, len(tail) - target_list.length_kept())
    entries: list[QueueEntry] = []
    kept = bytearray()
    while left > 0 and tail[-1].sequence > target_list.pinned:
        left -= 1
        entry = tail[-1]
        if entry.state == REMOVED:
            tail.pop()
            target_list._removed -= 1
            continue
        row = may_be_row(entry)
        if row and entry.message.record >= durable_record:
            break
        entries.append(tail.pop())
        kept.append(0 if row else 1)
    if 0 not in kept:
        tail.extend(reversed(entries))
        return 0
    entries.reverse()
    kept.reverse()
    target_list.add_to_pages(entries, kept, before=True)
    return len(entries)
