"""From how many bytes on a queue counts, when very many hold a little each (design V1, V7).

The budget has queues measured with each window that are worth it, and not those below the floor: each takes little, ten
thousand of them do not. So all queues are looked at in rounds, some with each tick, and at once when more came than the
budget has room for. What they would keep in memory together, were the floor as high as can be, tells how high it
may be. That depends on what waits and not on what is in memory of it, so the floor does not rise because queues paged.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.residency.budget import waiting_in
from annulet.residency.noting import FLOOR_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.queue import Queue
    from annulet.residency.budget import BodyBudget
    from annulet.residency.noting import ArrivalNotes

LOOKED_AT: Final = 256
"""Queues that are looked at with one tick, or in one turn of a round at once: some 2 ms of the loop. Ten thousand take
forty ticks, ten seconds."""

FLOOR_LEAST: Final = 16 << 10
"""Bytes. With less a queue would keep too few of its next messages to be worth a page. Beyond 16,000 queues with the
default budget, or 64 for each MiB of it, it is exceeded by what these take."""

SIZES: Final = tuple(FLOOR_LEAST << step for step in range((FLOOR_BYTES // FLOOR_LEAST).bit_length()))
"""Between these, of which each is twice the one before, queues are taken together by what they hold."""

FULL: Final = len(SIZES) - 1
"""The place of the highest floor."""

LEFT: Final = 8
"""The part of the budget that lowered floors leave to what comes behind them. The design has all floors together at
half of it, without what is beside a body (V7); of messages of 1 KiB that is as much."""

STEPS: Final = 8
"""Floors are told apart between one size and the next: so few that they rarely change."""

RISING: Final = 8
"""A floor rises when a part of the budget, one of so many, stays free: else it would rise and sink in turns."""

SURPRISE: Final = 8
"""The part of the budget that may come between two rounds at once, which take a tenth of a second with ten thousand
queues."""

IN_VAIN: Final = 8 << 10
"""Bytes for each queue that may come between two rounds at once of which the last found nothing new, as what came was
taken at once: what is published in ten times the time that it takes to look at one. It may as well have stayed."""


def step_of(size: int) -> int:
    """Return the place of the lowest size that is not below so many bytes; behind the last if all are."""
    return min(FULL + 1, (max(0, size - 1) // FLOOR_LEAST).bit_length())


class Round:
    """What was found so far when all queues were looked at, one after the other."""

    def __init__(self, queues: list[Queue]) -> None:
        self.queues = len(queues)
        self._left = iter(queues)
        self._waiting = [0] * (FULL + 2)  # bytes of what queues hold, on disk as well, by the step of that
        self._counts = [0] * (FULL + 2)  # how many queues those are

    def next(self) -> list[Queue]:
        """Return the next few queues; none at the end."""
        return list(islice(self._left, LOOKED_AT))

    def note(self, waiting: int) -> None:
        """A queue holds so many bytes."""
        step = step_of(waiting)
        self._waiting[step] += waiting
        self._counts[step] += waiting > 0

    def together(self, floor: int) -> int:
        """Return what all queues may have in memory with this floor, or somewhat more."""
        step = step_of(floor + 1)  # of the first queues that may hold more
        return sum(self._waiting[:step]) + floor * sum(self._counts[step:])

    def highest_floor(self, budget: int) -> int:
        """Return the highest floor with which they have no more than so many bytes; a lowered one leaves some."""
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
    """Looks at all queues in rounds and sets the floor. ``on_looked`` hears of each queue when it changed."""

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
        self._before = 0  # bytes of what arrived that came before this round: it sees them wherever they are
        self._at_once = False  # a round is not to wait for ticks: too much came, or the floor changed
        self._changed = False  # it did, and not all queues heard of it and are measured by it yet
        self._expected = budget.limit  # bytes that may come before a round is due at once
        self._patience = budget.limit // SURPRISE  # the least of these
        self._held = 0  # bytes in memory at the end of the last round, by the account
        self._below = 0  # of these, those of queues below the floor: who pages as they grow leaves all the same
        self._starting = False  # not all is there that queues held before a start

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
        """Look at the next few queues; after a start at all at once, as everything has come back."""
        if self._starting:
            self._starting = False
            self._round, self._at_once = None, True
        self.look()

    def go_on(self) -> bool:
        """Look at the next few queues if a round is due at once. Returns whether there are more."""
        if self._notes.arrived > self._expected and not self._at_once:
            self._round, self._at_once = None, True
        if self._at_once:
            self.look()
        return self._at_once

    def look(self) -> None:
        """Look at the next few queues; at the end of a round set the floor by what it found."""
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
        self._notes.arrived -= self._before  # what came during the round is not in what it found of whom it saw before
        self._expected = max(self._patience, budget.limit - max(held, found.together(floor)))

    def _floor_for(self, found: Round) -> int:
        """Return the highest floor with which all queues have room: what is in memory of them, and what is yet to be
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
