"""Deliveries that a transaction has taken out of its session's table, in runs of neighbouring tags.

An acknowledgement of very many names them by their last tag. Whole blocks of the table move here and back, so that none
of them is examined before a commit settles it in its slice: a tuple for each of 200,000 held the event loop for 0.1 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.model.compact_messages import removed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.model.compact_messages import Slot


class Run:
    """Deliveries of neighbouring tags from the tag ``first`` on, ``None`` where there is none."""

    __slots__ = ("first", "slots")

    def __init__(self, first: int, slots: list[Slot | None]) -> None:
        self.first = first
        self.slots = slots


class TakenDeliveries:
    """Runs of deliveries, in the order in which they were taken."""

    __slots__ = ("_count", "runs")

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self._count = 0

    def __len__(self) -> int:
        """Return how many deliveries there are. O(1)."""
        return self._count

    def add(self, tag: int, slot: Slot) -> None:
        """Add one: to the last run if it follows that."""
        self._count += 1
        last = self.runs[-1] if self.runs else None
        if last is not None and last.first + len(last.slots) == tag:
            last.slots.append(slot)
        else:
            self.runs.append(Run(tag, [slot]))

    def add_runs(self, runs: list[Run], count: int) -> None:
        """Add runs of ``count`` deliveries together, which nothing else may use any more."""
        self._count += count
        self.runs += runs

    def slots(self) -> Iterator[Slot]:
        """Yield them in the order in which they were taken, folded ones as they are."""
        for run in self.runs:
            for slot in run.slots:
                if slot is not None:
                    yield slot

    def without_removed(self) -> TakenDeliveries:
        """Return those whose messages are still there."""
        kept = TakenDeliveries()
        for run in self.runs:
            slots = [None if slot is None or removed(slot) else slot for slot in run.slots]
            count = len(slots) - slots.count(None)
            if count:
                kept.add_runs([Run(run.first, slots)], count)
        return kept
