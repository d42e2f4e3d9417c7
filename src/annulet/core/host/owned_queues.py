"""Removes the exclusive queues of a connection that ended, in slices if there are very many.

Remaining ones stay locked until their slice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.sliced_work import SlicedWork

if TYPE_CHECKING:
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

QUEUES_AT_ONCE: Final = 100
"""Exclusive queues of a connection that are deleted when it ends: some 4 ms of the loop."""

SLICE_QUEUES: Final = 25
"""Of one slice: 1 ms of the loop."""


class OwnedQueues(SlicedWork):
    """Exclusive queues of a connection that ended."""

    def __init__(self, host: VirtualHost, queues: list[Queue]) -> None:
        super().__init__()
        self._host = host
        self._queues = queues
        self._queues.reverse()

    def step(self, now: int) -> bool:
        """Delete some."""
        queues = self._queues
        for _ in range(min(SLICE_QUEUES, len(queues))):
            self._host.delete_queue(queues.pop(), now)
        return bool(queues)
