"""Decide which entries become rows again when a front has grown too long (T8), and take them out of the front.

Returned messages and the front behind them take no more memory together than the front alone (design, R7). These
functions see the entries of an order. The order itself calls them, counts the entries taken and makes rows of them:
:class:`annulet.core.paging.paged_fifo.PagedFifo`.
"""

from __future__ import annotations

from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import BEHIND_ALL, REMOVED
from annulet.core.paging.row_conditions import may_be_row

if TYPE_CHECKING:
    from collections import deque

    from annulet.core.model.entry import QueueEntry
    from annulet.core.ordering.returned_entries import Returned

FOLD_MESSAGES_LEAST: Final = 64
"""Excess messages before some become rows: a page for a few of them is no gain."""

FOLD_BYTES_LEAST: Final = 64 << 10
"""The same for body bytes: 64 KiB, with ten priorities less than the front."""


def length_kept(front: deque[QueueEntry], returned: Returned, keep_messages: int, keep_bytes: int, pinned: int) -> int:
    """Return how many entries of a front stay in memory: together with the returned ones before them one front.

    Entries up to the sequence ``pinned`` stay in any case.
    """
    back = returned.upcoming(keep_messages)
    length = passed = size = 0
    for entry in front:
        while passed < len(back) and back[passed].place < entry.place:
            size += back[passed].message.size
            passed += 1
        full = length + passed >= keep_messages or size >= keep_bytes
        if entry.sequence > pinned and full:
            break
        length += 1
        size += entry.message.size
    return length


def take_end(
    front: deque[QueueEntry], most: int, durable_record: int, pinned: int, hidden_from: int
) -> tuple[list[QueueEntry], bytearray]:
    """Take up to ``most`` entries off the end of a front, the removed ones among them, until one may not become a row.

    Returns those that were not removed, by ascending place, with a 1 for each that cannot be a row. When none can, they
    are back at the end of the front, and nothing is returned.
    """
    entries: list[QueueEntry] = []
    kept = bytearray()
    while most > 0 and pinned < front[-1].sequence < hidden_from:
        most -= 1
        entry = front[-1]
        if entry.state == REMOVED:
            front.pop()
            continue
        row = may_be_row(entry)
        if row and entry.message.record >= durable_record:
            break
        entries.append(front.pop())
        kept.append(0 if row else 1)
    entries.reverse()
    kept.reverse()
    if 0 not in kept:
        front.extend(entries)
        return [], bytearray()
    return entries, kept


def kept_of_both(front: deque[QueueEntry], returned: Returned, keep_messages: int, keep_bytes: int) -> tuple[int, int]:
    """Return how many of the kept next entries were returned, and the place of the last kept one."""
    back = returned.upcoming(keep_messages)
    size = 0
    last = -BEHIND_ALL
    for entry in islice(merge(back, islice(front, keep_messages)), keep_messages):
        if size >= keep_bytes:
            break
        size += entry.message.size
        last = entry.place
    return len([entry for entry in back if entry.place <= last]), last


def sort_out(
    entries: list[QueueEntry], above: int, below: int, durable_record: int, pinned: int
) -> tuple[list[QueueEntry], list[QueueEntry]]:
    """Return which entries that came back may stand among the rows, and which go back to where they were.

    Removed ones are in neither list. Between the places ``above`` and ``below`` rows may stand. An entry that cannot be
    a row for another reason than its record may go there as the object it is.
    """
    going: list[QueueEntry] = []
    stays: list[QueueEntry] = []
    for entry in entries:
        if entry.state == REMOVED:
            continue
        unwritten = entry.message.record >= durable_record and may_be_row(entry)
        movable = above < entry.place < below and entry.place == entry.sequence > pinned
        (going if movable and not unwritten else stays).append(entry)
    return going, stays
