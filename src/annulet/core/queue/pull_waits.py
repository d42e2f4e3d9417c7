"""Pulls that wait for a walk over a deep grouped queue, or for work in slices (``basic.get``).

A pull passes over some messages that belong to other consumers, and the rest is passed over in turns
(:meth:`annulet.core.searching.grouped_lanes.GroupedLanes.first_free`). A client that asks whether there is a message
for it waits here until one was found, or the walk has passed everything that was in the queue when it asked. Then it
pulls again.

The invariant is that of :mod:`annulet.core.queue.draining`: while a pull waits, the queue has a turn to come, and each
turn ends with a call of :func:`settle`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.model.entry import BEHIND_ALL
from annulet.core.searching.grouped_lanes import GroupedLanes

if TYPE_CHECKING:
    from annulet.core.queue.entries import QueueEntries


class PullWaiter:
    """A client that waits for its pull."""

    def look_again(self) -> None:
        """The walk has found something or has ended: pull again, soon. Must not call back into the core."""
        raise NotImplementedError


def begin(queue: QueueEntries, waiter: PullWaiter, upto: int, now: int) -> bool:
    """Have a client told when it is to pull again. False: nothing under way can bring it a message below ``upto``.

    Call it behind a pull that brought nothing.
    """
    lanes = queue.grouped_lanes
    if not _goes_on(queue, lanes, upto):
        return False
    if lanes is not None:
        lanes.ask_turn(now)
    queue.pull_waiters[waiter] = upto
    return True


def settle(queue: QueueEntries) -> None:
    """Tell clients for which the walk has found something, or which it can bring nothing any more."""
    lanes = queue.grouped_lanes
    for waiter, upto in list(queue.pull_waiters.items()):
        if not _goes_on(queue, lanes, upto):
            del queue.pull_waiters[waiter]
            waiter.look_again()


def _goes_on(queue: QueueEntries, lanes: GroupedLanes | None, upto: int) -> bool:
    """Return whether messages come back or expire in slices, or turns go on for a pull, with nothing found yet and
    messages below ``upto`` to pass.
    """
    if queue.sliced and not queue.deleted and not queue.paused and queue.gate.open and not queue.gate.rebalancing:
        return True
    if lanes is None or queue.deleted or queue.halted or not lanes.pulled or lanes.free().low != BEHIND_ALL:
        return False
    return lanes.unpassed() and lanes.passed < upto
