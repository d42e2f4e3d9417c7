"""Which messages of a queue came back, as ranges of sequences: the form of their marks written at a clean stop.

A message that may have been seen is delivered as redelivered (AMQP 0-9-1 §1.8.3.13.2), and no other is. In life each
entry and each run of rows has its mark. Written down are ranges: as a rule a queue has few, the messages a consumer had
when it left. Where there are more than ``RANGES_MAX``, those nearest to one another are joined: messages between them
are marked too, so none loses its mark.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import PENDING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from annulet.core.policies.queue_policies import QueuePolicies

RANGES_MAX: Final = 4096
"""Ranges of one queue: some 20 to 40 KB in the catalogue, read and written in 1 ms. A consumer that chose one in ten
of the messages and left with four thousand of them has as many."""

LOOSE_MAX: Final = 4 * RANGES_MAX
"""Ranges gathered before they are joined: 2 MB, however many stretches of rows there are."""


class RedeliveredRanges:
    """A set of sequences. ``bound``: ranges it may have at the end. ``filled``: of those, in no range that was given.

    Part of ``filled`` may be given later, or be of messages that are gone: it is the most there can be.
    """

    __slots__ = ("_bound", "_firsts", "_lasts", "_near", "filled")

    def __init__(self, bound: int = RANGES_MAX) -> None:
        self._bound = bound
        self._firsts: list[int] = []  # ascending, as the lasts
        self._lasts: list[int] = []
        self._near = 0  # so wide a gap is closed at once: far too many were given for it to be kept
        self.filled = 0

    @classmethod
    def upto(cls, sequence: int) -> RedeliveredRanges:
        """Return all sequences up to this one; none for 0."""
        return cls.of_lengths([1, sequence] if sequence else [])

    @classmethod
    def of_lengths(cls, lengths: Sequence[int]) -> RedeliveredRanges:
        """Return the set of which these are the :meth:`lengths`."""
        made = cls()
        behind = 0
        for gap, length in zip(lengths[::2], lengths[1::2], strict=True):
            made._firsts.append(behind + gap)
            behind += gap + length
            made._lasts.append(behind - 1)
        return made

    def lengths(self) -> list[int]:
        """Return how many sequences from 0 on are not in the set, then how many are, and so on by turns."""
        found: list[int] = []
        behind = 0
        for first, last in zip(self._firsts, self._lasts, strict=True):
            found += (first - behind, last + 1 - first)
            behind = last + 1
        return found

    @property
    def highest(self) -> int:
        """The highest sequence, 0 when there is none."""
        return self._lasts[-1] if self._lasts else 0

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return len(self._firsts)

    def __contains__(self, sequence: int) -> bool:
        place = bisect_right(self._firsts, sequence)
        return place > 0 and sequence <= self._lasts[place - 1]

    def add(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Take ranges, each its first and last sequence, in any order. Joins some where there are too many."""
        loose: list[tuple[int, int]] = []
        start, end = 0, -1  # the range that the next one may go on with
        for first, last in ranges:
            if start <= first <= end + 1 + self._near and start <= end:
                self.filled += max(0, first - end - 1)
                end = max(last, end)
                continue
            if start <= end:
                loose.append((start, end))
            if len(loose) >= LOOSE_MAX:
                self._near = max(self._near, self._take(loose))
                loose = []
            start, end = first, last
        if start <= end:
            loose.append((start, end))
        self._take(loose)

    def _take(self, loose: list[tuple[int, int]]) -> int:
        """Take in ranges, and keep to the bound. Returns the widest gap that was closed for it."""
        firsts: list[int] = []
        lasts: list[int] = []
        for first, last in sorted([*zip(self._firsts, self._lasts, strict=True), *loose]):
            if lasts and first <= lasts[-1] + 1:
                lasts[-1] = max(lasts[-1], last)
            else:
                firsts.append(first)
                lasts.append(last)
        self._firsts, self._lasts = firsts, lasts
        return self._join_nearest(len(firsts) - self._bound) if len(firsts) > self._bound else 0

    def _join_nearest(self, count: int) -> int:
        """Join so many ranges with the one before: those to which it is nearest, the lowest of equals.

        Returns the widest gap that was closed.
        """
        firsts, lasts = self._firsts, self._lasts
        gaps = [first - last - 1 for first, last in zip(firsts[1:], lasts[:-1], strict=True)]
        joined = sorted(range(len(gaps)), key=gaps.__getitem__)[:count]
        self.filled += sum([gaps[place] for place in joined])
        gone = set(joined)
        self._firsts = [first for place, first in enumerate(firsts) if place - 1 not in gone]
        self._lasts = [last for place, last in enumerate(lasts) if place not in gone]
        return gaps[joined[-1]]

    def cut(self, sequences: Sequence[int], start: int, end: int) -> list[tuple[int, int, bool]]:
        """Cut ascending sequences from place ``start`` to ``end`` into parts that are all in the set or all not.

        Returns where each begins and ends, and whether it is. O(parts log n).
        """
        parts: list[tuple[int, int, bool]] = []
        while start < end:
            number = bisect_left(self._lasts, sequences[start])
            known = number < len(self._lasts)
            inside = known and self._firsts[number] <= sequences[start]
            behind = end
            if inside:
                behind = bisect_right(sequences, self._lasts[number], start, end)
            elif known:
                behind = bisect_left(sequences, self._firsts[number], start, end)
            if parts and parts[-1][2] is inside:  # nothing is left between two ranges
                parts[-1] = (parts[-1][0], behind, inside)
            else:
                parts.append((start, behind, inside))
            start = behind
        return parts


def redelivered_ranges(queue: QueuePolicies) -> RedeliveredRanges:
    """Return which messages of a queue came back or are out now. O(entries in memory and runs of rows that came back).

    Every pending message is an entry in memory or a row of one part of the order's pages.
    """
    found = RedeliveredRanges(RANGES_MAX)
    entries = queue.order.in_memory()
    sequences = [entry.sequence for entry in entries if entry.redelivered and entry.state == PENDING]
    sequences += [item.entry.sequence for item in queue.schedule.snapshot() if item.entry.redelivered]
    sequences += [slot.sequence for slot in queue.delivering.slots()]
    sequences.sort()
    found.add([(sequence, sequence) for sequence in sequences])
    for part in queue.order.page_parts():
        found.add(part.redelivered_ranges())
    return found
