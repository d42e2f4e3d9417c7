"""Sequences as ranges: moved messages get consecutive ones, so very many take little memory."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

RANGES_MAX: Final = 4096
"""Ranges of one set, some 300 KiB: it takes so many changes, one by one among arrivals, while a reader waits."""


class SequenceRanges:
    """A set of sequences.

    ``count``: of how many ranges. A sequence that would need one more than ``RANGES_MAX`` is not taken.
    """

    __slots__ = ("_ends", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []  # ascending, as the ends
        self._ends: list[int] = []  # the first sequences behind the ranges

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return len(self._firsts)

    def __contains__(self, sequence: int) -> bool:
        place = bisect_right(self._firsts, sequence)
        return place > 0 and sequence < self._ends[place - 1]

    def add(self, sequence: int) -> None:
        """Take a sequence. O(log n) for one above all others."""
        firsts, ends = self._firsts, self._ends
        place = bisect_right(firsts, sequence)
        follows = place > 0 and sequence <= ends[place - 1]
        if follows and sequence < ends[place - 1]:
            return
        precedes = place < len(firsts) and firsts[place] == sequence + 1
        if follows and precedes:
            ends[place - 1] = ends.pop(place)
            del firsts[place]
        elif follows:
            ends[place - 1] += 1
        elif precedes:
            firsts[place] = sequence
        elif len(firsts) < RANGES_MAX:
            firsts.insert(place, sequence)
            ends.insert(place, sequence + 1)

    def drop_below(self, sequence: int) -> None:
        """Forget all below a sequence."""
        gone = bisect_right(self._ends, sequence)
        del self._firsts[:gone], self._ends[:gone]
        if self._firsts and self._firsts[0] < sequence:
            self._firsts[0] = sequence

    def clear(self) -> None:
        """Forget all."""
        self._firsts.clear()
        self._ends.clear()
