"""Evaluations of selectors in turns: what one call may take, and how dispatch goes on where it was cut.

A client decides how long a selector takes for a message, and how many consumers have another one. Answers stay with the
entry or in the frontier of the class, so nothing is evaluated twice when a later turn goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.sliced_work import SlicedWork

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue

EVALUATION_STEPS_MAX: Final = 32_000
"""Steps of selectors in one dispatch, scan or slice, but for the evaluation that ends it: some 8 ms in pure Python."""


class ContinuedDispatch(SlicedWork):
    """The dispatch of a queue whose selectors took too long for one turn, as often as it takes."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue

    def step(self, now: int) -> bool:
        """Go on. Returns whether it was cut again."""
        queue = self._queue
        matchers = queue.matchers
        matchers.cut = False
        if not queue.deleted:
            queue.wake(now)
        if matchers.cut:
            return True
        matchers.continued = False
        return False

    def abandon(self, now: int) -> None:
        """Let the next dispatch begin anew."""
        del now
        self._queue.matchers.cut = self._queue.matchers.continued = False


def used_up(queue: Queue) -> bool:
    """Return whether the call has to end because of selectors; the caller has :func:`go_on_later` called at its end."""
    matchers = queue.matchers
    if matchers.steps < EVALUATION_STEPS_MAX:
        return False
    matchers.cut = True
    return True


def go_on_later(queue: Queue, now: int) -> None:
    """Have a dispatch that was cut go on in a later turn. Call it when the queue is consistent."""
    matchers = queue.matchers
    if matchers.cut and not matchers.continued:
        matchers.continued = True
        queue.effects.later(ContinuedDispatch(queue), now)
