"""Converts the end of a front that grew too long to rows again (T8): entries read from disk, behind returned ones, or
returned themselves.

So returned messages and the front behind them together take no more memory than the front alone (design, R7).
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.core.entry import BEHIND_ALL, REMOVED, sequence_of
from annulet.core.paging import may_be_row
from annulet.core.pins import pinned_upto

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.core.paged_order import TargetList

FOLD_MESSAGES_LEAST: Final = 64
"""Excess messages before some become rows: a page for a few of them is no gain."""

FOLD_BYTES_LEAST: Final = 64 << 10
"""The same for body bytes: 64 KiB, with ten priorities less than the front."""


def worth_folding(target_list: TargetList) -> bool:
    """Return whether messages returned before a front followed by rows, and it is much longer than allowed.

    Or whether it is longer only because of former pins, or because less may be kept now.
    """
    if not target_list.pages.items:
        return False
    pinned = pinned_upto(target_list._queue)
    let_go = pinned < target_list.pinned
    shorter = let_go or target_list.lowered
    if not shorter and not target_list._returned.count:
        return False
    tail = target_list._tail
    excess = len(tail) - length_kept(target_list)
    if shorter:
        if excess:
            return True
        target_list.pinned, target_list.lowered = pinned, False
    if excess >= FOLD_MESSAGES_LEAST:
        return True
    return sum([tail[-1 - place].message.size for place in range(excess)]) >= target_list.fold_bytes


def fold_front(target_list: TargetList, durable_record: int, limit: int) -> int:
    """Turn up to ``limit`` entries at the end of a front into rows. Returns how many moved."""
    tail = target_list._tail
    left = min(limit + _for_browsers(target_list), len(tail) - length_kept(target_list))
    hidden_from = target_list._queue.hidden_from
    entries: list[QueueEntry] = []
    kept = bytearray()
    pinned = pinned_upto(target_list._queue)
    while left > 0 and pinned < tail[-1].sequence < hidden_from:
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


def length_kept(target_list: TargetList) -> int:
    """Return how many entries of a front stay in memory: together with returned ones before them one front."""
    returned = target_list._returned.upcoming(target_list.keep_messages)
    length = passed = size = 0
    pinned = pinned_upto(target_list._queue)
    for entry in target_list._tail:
        while passed < len(returned) and returned[passed].place < entry.place:
            size += returned[passed].message.size
            passed += 1
        full = length + passed >= target_list.keep_messages or size >= target_list.keep_bytes
        if entry.sequence > pinned and full:
            break
        length += 1
        size += entry.message.size
    return length


def fold_back(target_list: TargetList, durable_record: int, limit: int) -> int:
    """Convert up to ``limit`` returned entries to rows, none of the next ones. Returns how many moved.

    They are taken from the far end of the returned ones, see :meth:`Returned.take_far`. They may be between rows, but
    not before the front, which is converted first, or behind late messages. Not in a queue with lanes, whose frontiers
    require that rows behind them are evaluated by no class or by all. Entries that cannot be rows for another reason
    move along as objects.
    """
    returned, tail, late = target_list._returned, target_list._tail, target_list._pending_cache
    queue = target_list._queue
    if not returned.count or queue.lanes is not None or queue.returns:  # slices of a return may reference them
        return 0
    kept_back, above = _kept_front(target_list)
    excess = returned.count - kept_back
    if excess < target_list.fold_least:
        size = sum([entry.message.size for entry in returned.entries() if entry.place > above])
        if not excess or size < target_list.fold_bytes:
            return 0
    if tail:
        moved = fold_front(target_list, durable_record, limit)
        if moved:  # it is behind most of the returned ones
            return moved
        above = max(above, tail[-1].place)
    below = late[0].place if late else BEHIND_ALL
    going: list[QueueEntry] = []
    stays: list[QueueEntry] = []
    moved = 0
    pinned = pinned_upto(queue)
    for entry in returned.take_far(limit + _for_browsers(target_list), above):
        if entry.state == REMOVED:
            target_list._removed -= 1
            continue
        unwritten = entry.message.record >= durable_record and may_be_row(entry)
        movable = above < entry.place < below and entry.place == entry.sequence > pinned
        (going if movable and not unwritten else stays).append(entry)
    going.sort(key=sequence_of)
    kept = bytearray([not may_be_row(entry) for entry in going])
    if 0 not in kept:
        stays += going
    else:
        refused = target_list.pages.add_among(going, kept)
        stays += refused
        staying = set(refused)
        moved = len(going) - len(refused)
        rows = [entry for entry, keep in zip(going, kept, strict=True) if not keep and entry not in staying]
        target_list.hold_no_more(rows, bytearray(len(rows)))
    for entry in stays:
        returned.push(entry)
    return moved


def _for_browsers(target_list: TargetList) -> int:
    """Return how many entries stay objects for browsers: all far ones may be such, and then nearer ones are
    converted."""
    copies = target_list._queue.copies
    return 0 if copies is None else len(copies.pinned)


def _kept_front(target_list: TargetList) -> tuple[int, int]:
    """Return how many of the kept next entries were returned, and the place of the last kept one."""
    back = target_list._returned.upcoming(target_list.keep_messages)
    front = islice(target_list._tail, target_list.keep_messages)
    size = 0
    last = -BEHIND_ALL
    for entry in islice(merge(back, front), target_list.keep_messages):
        if size >= target_list.keep_bytes:
            break
        size += entry.message.size
        last = entry.place
    return len([entry for entry in back if entry.place <= last]), last
