"""Queues below the floor: each takes little, ten thousand of them do not (design V1, V7).

The budget accounts for queues that are worth a measure with each window, and does not know the others. With each tick
some of all queues are looked at. When a round has found more bodies than the budget, the floor sinks to half of an
equal part of the budget, so that they count, and page, as large ones do; it rises when all have room again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.residency.noting import FLOOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.queue import Queue
    from annulet.residency.budget import BodyBudget
    from annulet.residency.noting import ArrivalNotes

LOOKED_AT: Final = 512
"""Queues that are looked at with one tick: 0.5 ms of the loop. Ten thousand take twenty ticks, five seconds."""

FLOOR_LEAST: Final = 16 << 10
"""Bytes. With less a queue would keep too few of its next messages to be worth a page: of ten thousand queues and the
default budget it is 13 KiB. Beyond that the budget is exceeded by what these take."""

RISING: Final = 8
"""All have room again with so many eighths of the budget less one: else the floor would rise and sink in turns."""


class SmallQueues:
    """Looks at all queues in turn and says from how many bytes on one counts."""

    def __init__(self, budget: BodyBudget, notes: ArrivalNotes, queues: Callable[[], list[Queue]]) -> None:
        self._budget = budget
        self._notes = notes
        self._queues = queues
        self._left: list[Queue] = []  # of the round under way
        self._cost = 0  # bytes, of those looked at in this round: all, and of these what is below the floor
        self._below = 0
        self._holding = 0  # how many of them hold anything

    def expect(self) -> None:
        """Before a start: all queues there are may be deep, and their fronts are read before there was a round."""
        self._set_floor(len(self._queues()) * FLOOR_BYTES, 0, len(self._queues()))

    def look(self) -> None:
        """Look at the next few queues; at the end of a round set the floor by what it found."""
        budget = self._budget
        if not self._left:
            self._left = self._queues()
            self._cost = self._below = self._holding = 0
        some = self._left[-LOOKED_AT:]
        del self._left[-LOOKED_AT:]
        if budget.floor < FLOOR_BYTES:
            budget.measure(some)
            self._notes.queues.update([queue for queue in some if budget.cost_of(queue)])
        for queue in some:
            cost = budget.cost_now(queue)
            self._cost += cost
            self._holding += cost > 0
            if not budget.cost_of(queue):
                self._below += cost
        if not self._left:
            self._set_floor(self._cost, self._below, self._holding)

    def _set_floor(self, cost: int, below: int, holding: int) -> None:
        budget = self._budget
        limit = budget.limit
        lowered = budget.floor < FLOOR_BYTES
        if cost > (limit - limit // RISING if lowered else limit) and holding * FLOOR_BYTES > limit:
            budget.floor = min(FLOOR_BYTES, max(FLOOR_LEAST, limit // (2 * holding)))
            budget.below = below if lowered else 0
        else:
            budget.floor, budget.below = FLOOR_BYTES, 0
        self._notes.lower(budget.floor)
