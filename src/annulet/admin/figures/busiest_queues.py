"""The choice of the queues that have series of their own, when there are more than a scrape can list."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.core.queue.statistics import QueueStatistics


def activity(statistics: QueueStatistics) -> tuple[int, int]:
    """Return how busy a queue is: messages accepted, delivered and browsed since it was made; then those that wait.

    Sums rather than rates: a queue that is listed stays so until others overtake it for good, and its series have no
    gaps.
    """
    moved = statistics.messages_added + statistics.messages_delivered + statistics.messages_browsed
    return moved, statistics.pending_count


class BusiestQueues:
    """Keeps the busiest ``most`` of all queues it is shown, each in logarithmic time; of equals the first ones."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.shown = 0
        self._kept: list[tuple[tuple[int, int], int, str, QueueStatistics]] = []  # a heap, the least busy first

    def show(self, host: str, statistics: QueueStatistics) -> None:
        """Consider a queue of a virtual host."""
        self.shown += 1
        item = (activity(statistics), -self.shown, host, statistics)
        if len(self._kept) < self.most:
            heapq.heappush(self._kept, item)
        elif item[:2] > self._kept[0][:2]:
            heapq.heapreplace(self._kept, item)

    def chosen(self) -> list[tuple[str, QueueStatistics]]:
        """Return the kept ones in the order in which they were shown."""
        return [(item[2], item[3]) for item in sorted(self._kept, key=lambda item: -item[1])]
