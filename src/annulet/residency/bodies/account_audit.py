"""Recounts the accounts of queues' bodies periodically: any difference is a defect."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from annulet.residency.bodies.budget import Recount

if TYPE_CHECKING:
    from collections.abc import Mapping

    from annulet.core.queue.queue import Queue
    from annulet.residency.bodies.candidates import BodyCandidates

logger = logging.getLogger(__name__)

RECOUNTED_WAITING_MAX: Final = 16_384
"""Most waiting or scheduled messages in memory of a queue whose account a tick recounts: 3 ms of the loop.

A queue with more is not counted; that is one of which only bodies page, or which has not paged yet.
"""

RECOUNTED_RETURNED_MAX: Final = 5000
"""Of these, returned messages: each may be compact, and takes 1 µs to become an entry again. More are rows soon."""

RECOUNTED_DELIVERIES: Final = 8192
"""Messages in delivery that are recounted with one tick: 2 to 3 ms of the loop.

A million take half a minute, if no message arrives at or leaves their queue during that time; otherwise the recount is
restarted at the queue's next turn.
"""


class AccountAudit:
    """Differences of the accounts of queues at their last recount (V8)."""

    def __init__(self) -> None:
        self.recounts = 0  # completely recounted accounts
        self.messages_most = 0  # messages in memory of the largest of these
        self._drifts: dict[Queue, int] = {}  # bytes
        self._next: list[Queue] = []  # queues still to be counted in this round
        self._recount: Recount | None = None  # the recount in progress

    def tick(self, queues: Mapping[Queue, BodyCandidates]) -> None:
        """Recount the account of one of these queues, with each tick the next: a part of a large one.

        It is given up when the queue has changed since the tick before, as it would say nothing.
        """
        recount = self._recount
        if recount is None or recount.queue not in queues or recount.changed:
            recount = self._begin(queues)
        more = recount is not None and recount.step(RECOUNTED_DELIVERIES)
        self._recount = recount if more else None
        if recount is not None and not more:
            self._note(recount)

    def _begin(self, queues: Mapping[Queue, BodyCandidates]) -> Recount | None:
        self._next = self._next or list(queues)
        queue = self._next.pop() if self._next else None
        if queue is None or queue not in queues or queue.leaving:  # what leaves is in no collection
            return None
        order = queue.order
        waiting = order.count - order.paged_count() + queue.schedule.count
        if waiting > RECOUNTED_WAITING_MAX or order.came_back() > RECOUNTED_RETURNED_MAX:
            return None
        return Recount(queue)

    def _note(self, recount: Recount) -> None:
        queue, drift = recount.queue, recount.drift()
        if drift and not self._drifts.get(queue):
            logger.error("defect: the account of the bodies of queue %s is wrong by %d bytes", queue.name, drift)
        self._drifts[queue] = drift
        self.recounts += 1
        self.messages_most = max(self.messages_most, recount.messages)

    def forget(self, queue: Queue) -> None:
        """Forget a deleted queue."""
        self._drifts.pop(queue, None)

    @property
    def drift(self) -> int:
        """Bytes, of all queues together: 0, or there is a defect."""
        return sum(self._drifts.values())
