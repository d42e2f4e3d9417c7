"""Taking messages out of a deep order by their sequences, at any place: as entries, as rows, or aside."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import sequence_of

if TYPE_CHECKING:
    from collections import deque

    from annulet.core.model.entry import QueueEntry
    from annulet.core.paging.paged_fifo import PagedFifo

LOOK_SEQUENCES: Final = 256
"""Sequences that one look covers at most."""

DENSE: Final = 4
"""Neighbours are read together if at least one of this many messages is wanted; else each is read alone."""

GATHERED_BYTES: Final = 512 << 10
"""Body bytes that are taken out at once, but for the last look."""


def gather(order: PagedFifo, wanted: list[int]) -> tuple[list[QueueEntry], int]:
    """Take out the pending ones of the ascending ``wanted`` sequences. Returns them, and how many were searched.

    Fewer than all when the disk does not give the next one now, or enough bytes were found.
    """
    if not wanted:
        return [], 0
    aside = {entry.sequence: entry for entry in order.take_returned(wanted[-1] + 1)}
    found: list[QueueEntry] = []
    place = size = 0
    while place < len(wanted) and size < GATHERED_BYTES:
        entries = order.look(wanted[place], [], _span(wanted, place))
        if entries is None:
            break
        behind = max(place + 1, bisect_left(wanted, order.looked_upto, place))
        chosen = set(wanted[place:behind])
        standing = [entry for entry in entries if entry.sequence in chosen]
        if standing:
            order.take_out(standing)
        found += standing
        found += [aside.pop(sequence) for sequence in wanted[place:behind] if sequence in aside]
        size += sum([entry.message.size for entry in standing])
        place = behind
    for entry in aside.values():
        order.reinsert(entry)
    found.sort(key=sequence_of)
    return found, place


def _span(wanted: list[int], place: int) -> int:
    """Return how many messages to read from a wanted one on."""
    first = wanted[place]
    behind = bisect_left(wanted, first + LOOK_SEQUENCES, place)
    span = wanted[behind - 1] - first + 1
    return span if (behind - place) * DENSE >= span else 1


def take_from(standing: deque[QueueEntry], wanted: list[QueueEntry]) -> None:
    """Take entries out of the middle of others, both by ascending sequence. O(from the end to there, and between)."""
    if not wanted:
        return
    start = bisect_left(standing, wanted[0].sequence, key=sequence_of)
    standing.rotate(-start)
    passed: list[QueueEntry] = []
    for entry in wanted:
        while (head := standing.popleft()) is not entry:
            passed.append(head)
    standing.extendleft(reversed(passed))
    standing.rotate(start)
