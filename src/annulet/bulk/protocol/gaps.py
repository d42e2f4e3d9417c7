"""Positions that were lost, each counted once: a batch is read in several shares, and again after a crash."""

from __future__ import annotations

from collections.abc import Iterable


class Gaps:
    """Counts lost positions. Keeps those that a query may request again, as ranges ``(after, upto]``."""

    __slots__ = ("_ranges", "count")

    def __init__(self) -> None:
        self.count = 0
        self._ranges: list[tuple[int, int]] = []  # disjoint

    def __len__(self) -> int:
        """Return how many ranges are remembered."""
        return len(self._ranges)

    def note(self, after: int, upto: int, found: Iterable[int] = ()) -> int:
        """Count the positions of ``(after, upto]`` that are not ``found`` (ascending). Returns how many are new."""
        before = self.count
        for position in [*found, upto + 1]:
            if position - 1 > after:
                self._add(after, position - 1)
            after = position
        return self.count - before

    def forget(self, upto: int) -> None:
        """Drop ranges that end by ``upto``; their count stays."""
        self._ranges = [held for held in self._ranges if held[1] > upto]

    def _add(self, after: int, upto: int) -> None:
        apart: list[tuple[int, int]] = []
        known = 0
        for first, last in self._ranges:
            if last < after or first > upto:
                apart.append((first, last))
            else:
                known += last - first
                after, upto = min(after, first), max(upto, last)
        self._ranges = [*apart, (after, upto)]
        self.count += upto - after - known
