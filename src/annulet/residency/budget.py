"""The budget of bodies in memory: how much pending messages of pageable queues take, and which queue has to page.

Bytes are an account, not a measurement: bodies as they are, and for each message a constant for everything around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.paging import ENTRY_BYTES, pageable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from annulet.core.queue import Queue

MIB: Final = 1 << 20

BODY_BUDGET_BYTES: Final = 256 * MIB
"""Default: half of the smallest machine brokers run on, and what the design's figures are for."""

BODY_BUDGET_LEAST: Final = MIB
"""Bytes. Below it a single queue's front would not fit."""

FLOOR_BYTES: Final = MIB
"""A queue below this is never asked to page: its next messages stay in memory whatever others do."""

FLOOR_MESSAGES: Final = 1024
"""The same for very small messages, of which 1 MiB is not much."""


class BodyBudget:
    """Accounts for queues that are worth it: those with more than the floor in memory."""

    def __init__(self, limit: int = BODY_BUDGET_BYTES) -> None:
        self.limit = limit  # bytes
        self.used = 0  # bytes, by the queues measured last
        self._costs: dict[Queue, int] = {}

    def __len__(self) -> int:
        return len(self._costs)

    def measure(self, queues: Iterable[Queue]) -> None:
        """Account for these queues anew. Those below the floor, or that cannot page, do not count."""
        for queue in queues:
            cost = cost_of(queue) if pageable(queue) else 0
            if cost < FLOOR_BYTES and in_memory(queue) <= FLOOR_MESSAGES:
                cost = 0
            former = self._costs.pop(queue, 0)
            if cost:
                self._costs[queue] = cost
            self.used += cost - former

    def measure_all(self) -> None:
        """Account anew for all queues that count."""
        self.measure(list(self._costs))

    def cost_of(self, queue: Queue) -> int:
        """Return what a queue takes by the last measure, 0 when it does not count."""
        return self._costs.get(queue, 0)

    def exceeded(self) -> bool:
        """Say whether more is in memory than may be."""
        return self.used > self.limit

    @property
    def share(self) -> int:
        """Bytes a queue may have while the budget is exceeded: an equal part, at least the floor."""
        return max(FLOOR_BYTES, self.limit // max(1, len(self._costs)))

    def to_page(self, without: AbstractSet[Queue] = frozenset()) -> list[Queue]:
        """Return the queues over their share but those ``without``, the largest first; none while the budget is kept.

        Fronts may exceed the budget when there are hundreds of queues: who has nothing to page is not asked each time.
        """
        if not self.exceeded():
            return []
        share = self.share
        over = [queue for queue, cost in self._costs.items() if cost > share and queue not in without]
        return sorted(over, key=self._costs.__getitem__, reverse=True)


def in_memory(queue: Queue) -> int:
    """Return how many pending messages of a queue are objects."""
    return queue.order.count - queue.order.paged_count()


def cost_of(queue: Queue) -> int:
    """Return the bytes these take."""
    return in_memory(queue) * ENTRY_BYTES + queue.pending_bytes - queue.order.paged_bytes()


def worth_noting(queue: Queue) -> bool:
    """Say whether a queue that a message was put into may be over the floor. Asked for every stored message."""
    return queue.order.count > FLOOR_MESSAGES or queue.pending_bytes > FLOOR_BYTES // 2
