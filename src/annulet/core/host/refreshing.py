"""Queues that follow a change of policies or address settings: of very many, some in each slice."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.base.sliced_work import SlicedWork

if TYPE_CHECKING:
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

REFRESHED_AT_ONCE: Final = 50
"""Queues that follow in the call of the change: 13 ms of the loop."""

REFRESHED_PER_SLICE: Final = 20
"""Queues of one slice: 5 ms of the loop, most of it to find the policy of each."""


class Refreshing(SlicedWork):
    """The queues of a virtual host that are about to follow. Each gets what is in force when its turn comes."""

    def __init__(self, host: VirtualHost) -> None:
        super().__init__()
        self._host = host
        self._waiting: deque[Queue] = deque()
        self._listed: set[Queue] = set()  # those that wait

    @property
    def waiting(self) -> int:
        """How many have not followed yet."""
        return len(self._waiting)

    def begin(self, queues: list[Queue]) -> None:
        """Let these follow: at once, or behind those that wait."""
        if not self._waiting and len(queues) <= REFRESHED_AT_ONCE:
            for queue in queues:
                self._host.refresh_queue(queue)
            return
        begun = bool(self._waiting)
        for queue in queues:
            if queue not in self._listed:
                self._listed.add(queue)
                self._waiting.append(queue)
        if not begun:
            self._host.effects.later(self, self._host.latest)

    def step(self, now: int) -> bool:
        """Let the next ones follow."""
        del now
        for _ in range(min(REFRESHED_PER_SLICE, len(self._waiting))):
            queue = self._waiting.popleft()
            self._listed.discard(queue)
            if not queue.deleted:
                self._host.refresh_queue(queue)
        return bool(self._waiting)

    def abandon(self, now: int) -> None:
        """A defect has met one queue: the others follow."""
        if self._waiting:
            self._host.effects.later(self, now)
