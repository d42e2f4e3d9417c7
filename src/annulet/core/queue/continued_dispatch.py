"""How dispatch goes on where it was cut because of selectors (:mod:`annulet.core.policies.evaluation_turns`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.sliced_work import SlicedWork

if TYPE_CHECKING:
    from annulet.core.queue.entries import QueueEntries


class ContinuedDispatch(SlicedWork):
    """The dispatch of a queue whose selectors took too long for one turn, as often as it takes."""

    def __init__(self, queue: QueueEntries) -> None:
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


def go_on_later(queue: QueueEntries, now: int) -> None:
    """Have a dispatch that was cut go on in a later turn. Call it when the queue is consistent."""
    matchers = queue.matchers
    if matchers.cut and not matchers.continued:
        matchers.continued = True
        queue.effects.later(ContinuedDispatch(queue), now)
