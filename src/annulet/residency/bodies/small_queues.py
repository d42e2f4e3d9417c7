"""The size from which a queue counts if very many queues have a little each (design V1, V7).

With each window the budget measures large queues, but not those below the floor: each takes little, but ten thousand of
them take much. So all queues are examined in rounds, some with each tick, and at once when more arrived than the budget
has room for. The memory they would use together with the highest possible floor determines how high it may be. This
depends on all waiting messages, not only those in memory, so the floor does not rise because queues paged.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.residency.bodies.arrival_notes import FLOOR_BYTES
from annulet.residency.bodies.budget import waiting_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.queue.queue import Queue
    from annulet.residency.bodies.arrival_notes import ArrivalNotes
    from annulet.residency.bodies.budget import BodyBudget

LOOKED_AT: Final = 256
"""Queues examined with one tick, or in one turn of an immediate round: about 2 ms of the loop. Ten thousand take forty
ticks, ten seconds."""

FLOOR_LEAST: Final = 16 << 10
"""Bytes.

With less a queue would keep too few of its next messages to be worth a page. Beyond 16,000 queues with the default
budget, or 64 for each MiB of it, these exceed the budget.
"""

SIZES: Final = tuple(FLOOR_LEAST << step for step in range((FLOOR_BYTES // FLOOR_LEAST).bit_length()))
"""Bounds, each twice the one before, between which queues are grouped by size."""

FULL: Final = len(SIZES) - 1
"""The place of the highest floor."""

LEFT: Final = 8
"""The part of the budget that lowered floors leave to messages behind them.

In the design all floors together have half of it, without the overhead of bodies (V7); for messages of 1 KiB that is
the same.
"""

STEPS: Final = 8
"""Distinct floors between one size and the next: so few that they rarely change."""

RISING: Final = 8
"""A floor rises only if 1 / this of the budget stays free: otherwise it would oscillate."""

SURPRISE: Final = 8
"""The part of the budget that may arrive between two immediate rounds, which take a tenth of a second with ten thousand
queues."""

IN_VAIN: Final = 8 << 10
"""Bytes per queue that may arrive between two immediate rounds if the last one found no change, because messages were
consumed on arrival: the amount published in ten times the time of examining a queue. They may also have stayed."""


def step_of(size: int) -> int:
    """Return the place of the lowest size of at least this many bytes; behind the last if there is none."""
    return min(FULL + 1, (max(0, size - 1) // FLOOR_LEAST).bit_length())


class Round:
    """Interim results of a round over all queues."""

    def __init__(self, queues: list[Queue]) -> None:
        self.queues = len(queues)
        self._left = iter(queues)
        self._waiting = [0] * (FULL + 2)  # bytes of queues, including those on disk, by their size group
        self._counts = [0] * (FULL + 2)  # how many queues those are

    def next(self) -> list[Queue]:
        """Return the next few queues; none at the end."""
        return list(islice(self._left, LOOKED_AT))

    def note(self, waiting: int) -> None:
        """Count a queue of this many bytes."""
        step = step_of(waiting)
        self._waiting[step] += waiting
        self._counts[step] += waiting > 0

    def together(self, floor: int) -> int:
        """Return an upper bound of the memory of all queues with this floor."""
        step = step_of(floor + 1)  # of the first queues that may have more
        return sum(self._waiting[:step]) + floor * sum(self._counts[step:])

    def highest_floor(self, budget: int) -> int:
        """Return the highest floor with which they use at most this many bytes; a lowered one leaves some free."""
        if self.together(FLOOR_BYTES) <= budget:
            return FLOOR_BYTES
        allowed = budget - budget // LEFT
        for step in range(FULL - 1, -1, -1):
            if self.together(SIZES[step]) <= allowed:
                more = (allowed - sum(self._waiting[: step + 1])) // max(1, sum(self._counts[step + 1 :]))
                part = SIZES[step] // STEPS
                return SIZES[step] + min(STEPS - 1, max(0, more - SIZES[step]) // part) * part
        return FLOOR_LEAST


class SmallQueues:
    """Examines all queues in rounds and sets the floor. ``on_looked`` is called for each queue after a change."""

    def __init__(
        self,
        budget: BodyBudget,
        notes: ArrivalNotes,
        queues: Callable[[], list[Queue]],
        on_looked: Callable[[Queue], None],
    ) -> None:
        self._budget = budget
        self._notes = notes
        self._queues = queues
        self._on_looked = on_looked
        self._round: Round | None = None
        self._before = 0  # bytes that arrived before this round: it counts them in any case
        self._at_once = False  # a round must not wait for ticks: too much arrived, or the floor changed
        self._changed = False  # it did, and not all queues heard of it and are measured by it yet
        self._expected = budget.limit  # bytes that may arrive before an immediate round is due
        self._patience = budget.limit // SURPRISE  # the least of these
        self._held = 0  # bytes in memory at the end of the last round, by the account
        self._below = 0  # of these, those of queues below the floor: larger ones page anyway
        self._starting = False  # not all messages of the queues are recovered yet

    def expect(self) -> None:
        """Before a start: all queues there are may be deep, and their fronts are read before there was a round.

        Until the first tick the floor may sink but not rise: a round finds queues empty that are restored behind it.
        """
        found = Round([])
        for _ in self._queues():
            found.note(FLOOR_BYTES)
        self._set(self._floor_for(found))
        self._starting = True

    def tick(self) -> None:
        """Examine the next few queues; after a start all at once, when everything is recovered."""
        if self._starting:
            self._starting = False
            self._round, self._at_once = None, True
        self.look()

    @property
    def due(self) -> bool:
        """Return whether an immediate round goes on or is to begin."""
        return self._at_once or self._notes.arrived > self._expected

    def go_on(self) -> bool:
        """Examine the next few queues if an immediate round is due. Returns whether there are more."""
        if self.due and not self._at_once:
            self._round, self._at_once = None, True
        if self._at_once:
            self.look()
        return self._at_once

    def look(self) -> None:
        """Examine the next few queues; at the end of a round set the floor by its result."""
        if self._round is None:
            self._round = Round(self._queues())
            self._before = self._notes.arrived
        account = self._budget.account
        some = self._round.next()
        for queue in some:
            account(queue)
            self._round.note(waiting_in(queue) if self._budget.concerns(queue) else 0)
            if self._changed:
                self._on_looked(queue)
        if len(some) < LOOKED_AT:
            self._end(self._round)
            self._round = None

    def _end(self, found: Round) -> None:
        budget = self._budget
        floor = self._floor_for(found)
        held, below, least = budget.used + budget.below, budget.below, budget.limit // SURPRISE
        for_arrivals = self._at_once and not self._changed and floor == budget.floor
        in_vain = for_arrivals and max(held - self._held, below - self._below) < least // 2
        most = max(least, min(budget.limit, found.queues * IN_VAIN))
        self._patience = min(2 * self._patience, most) if in_vain else least
        self._held, self._below = held, below
        self._at_once = self._changed = False
        if floor != budget.floor:
            self._set(floor)
        self._notes.arrived -= self._before  # arrivals during the round are missing in earlier results
        self._expected = max(self._patience, budget.limit - max(held, found.together(floor)))

    def _floor_for(self, found: Round) -> int:
        """Return the highest floor with which all queues have room, for their messages in memory and those still to be
        read.
        """
        limit, now = self._budget.limit, self._budget.floor
        highest = found.highest_floor(limit)
        if highest <= now or self._starting:
            return min(highest, now)
        return max(now, found.highest_floor(limit - limit // RISING))

    def _set(self, floor: int) -> None:
        self._at_once = self._changed = floor != self._budget.floor
        self._budget.floor = floor
        self._notes.lower(floor)
