"""Counts the accounts of queues' bodies anew, now and then: what it finds is a defect."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from annulet.residency.budget import drift_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from annulet.core.queue import Queue
    from annulet.residency.candidates import BodyCandidates

logger = logging.getLogger(__name__)

AUDITED_ENTRIES_MAX: Final = 5000
"""Entries in memory of a queue whose account a tick counts anew: 1 ms of the loop. Deeper queues are not counted."""


class AccountAudit:
    """By how much the accounts of queues were wrong when last counted anew (V8)."""

    def __init__(self) -> None:
        self._drifts: dict[Queue, int] = {}  # bytes
        self._next: list[Queue] = []  # those whose turn is yet to come

    def tick(self, queues: Mapping[Queue, BodyCandidates]) -> None:
        """Count the account of one of these queues anew, each tick of the next."""
        self._next = self._next or list(queues)
        if not self._next:
            return
        queue = self._next.pop()
        bodies = queues.get(queue)
        if bodies is None or bodies.in_memory + bodies.count > AUDITED_ENTRIES_MAX:
            return
        drift = drift_of(queue)
        if drift and not self._drifts.get(queue):
            logger.error("defect: the account of the bodies of queue %s is wrong by %d bytes", queue.name, drift)
        self._drifts[queue] = drift

    def forget(self, queue: Queue) -> None:
        """A queue is gone."""
        self._drifts.pop(queue, None)

    @property
    def drift(self) -> int:
        """Bytes, of all queues together: 0, or there is a defect."""
        return sum(self._drifts.values())
