"""Finds wake-ups that were lost: messages that only the tick delivers or pages although nothing had kept them back
(design §2.5).

Code that removes an obstacle between messages and consumers, or the disk, serves the queue at once. The tick is for
changes without notice: the disk works again, a queue shrank, very many messages were returned. Any other work it finds
had to wait for it for want of a wake-up. So it looks for that too, does it, and counts it: more than none is a defect.

Between two turns of the loop a queue may have something to do that is due in the next one. Work that has to wait
because the disk refused, for a turn of a walk, or for work in slices is marked; for any other it is checked whether it
was there at the tick before, and whether anything has come to the queue or left it since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from annulet.core.queue.queue import Queue
    from annulet.residency.loading.figures import PagingFigures

logger = structlog.get_logger(__name__)

CONSUMERS_LOOKED_AT: Final = 2048
"""Consumers that are asked with one tick whether they are ready: 1 ms of the loop. Queues that are not reached have
their turn with the next one, so with up to as many consumers a lost wake-up costs two ticks, half a second."""

QUEUE_COST: Final = 8
"""A look at a queue counts as one at so many consumers, so that those of 256 queues fit in."""


class LostWakes:
    """Looks at some queues with each tick. Belongs to the event loop.

    ``figures``: reads and findings are counted there. ``due``: says whether a queue has a turn of a walk coming.
    """

    def __init__(self, figures: PagingFigures, due: Callable[[Queue], bool]) -> None:
        self._figures = figures
        self._due = due
        self._next: list[Queue] = []  # those whose turn is yet to come
        self._suspects: dict[Queue, tuple[int, ...]] = {}  # had work at the last tick; see _progress
        self._overdue: list[tuple[Queue, int]] = []  # should have paged, and what they had on disk before the tick

    # ------------------------------------------------------------------ deliveries

    def serve(self, paging: Mapping[Queue, object], bodies: Mapping[Queue, object], now: int) -> None:
        """Serve those that had something for a ready consumer with the last tick and with this one; look at others.

        ``paging``, ``bodies``: the queues that may have something on disk. ``now``: milliseconds since 1970.
        """
        suspects, self._suspects = self._suspects, {}
        for queue, before in suspects.items():
            if _progress(queue) == before and self._waits(queue):
                self._wake(queue, now)
        self._next = self._next or [*paging, *[queue for queue in bodies if queue not in paging]]
        left = CONSUMERS_LOOKED_AT
        while self._next and left > 0:
            queue = self._next.pop()
            left -= QUEUE_COST + queue.consumers.count
            if self._waits(queue):
                self._suspects[queue] = _progress(queue)

    def _waits(self, queue: Queue) -> bool:
        """Return whether a queue has messages and a ready consumer, and nothing says why he should not get any.

        Perhaps none is for him, or all are too large: to wake the queue finds out.
        """
        if not queue.order.count or not queue.consumers.takers or queue.settings.non_destructive:
            return False  # readers of the latter are given turns by the tick, as browsers are
        if queue.deleted or queue.halted or queue.turn_asked or self._due(queue):
            return False
        if 0 <= queue.settings.in_flight_max <= len(queue.delivering):
            return False
        lanes, bodies = queue.deep_lanes, queue.bodies
        if queue.matchers.continued or (lanes is not None and lanes.looking):
            return False
        parts = queue.order.page_parts()
        if (bodies is not None and bodies.stalled) or any(pages.stalled or pages.awaits_read() for pages in parts):
            return False
        return any(consumer.ready and not consumer.settings.browse for consumer in queue.consumers)

    def _wake(self, queue: Queue, now: int) -> None:
        delivered, read = queue.counters.messages_delivered, self._read()
        queue.wake(now)
        self._found(queue, max(queue.counters.messages_delivered - delivered, self._read() - read), "deliver")

    def _read(self) -> int:
        return self._figures.loaded + self._figures.bodies_brought_back

    # ------------------------------------------------------------------ paging

    def begin(self, overdue: Iterable[Queue]) -> None:
        """Before a tick: these should have paged by now."""
        self._overdue = [(queue, on_disk(queue)) for queue in overdue]

    def end(self) -> None:
        """Behind a tick: count what they paged with it."""
        for queue, before in self._overdue:
            self._found(queue, on_disk(queue) - before, "page")
        self._overdue = []

    # ------------------------------------------------------------------ findings

    def _found(self, queue: Queue, messages: int, what: str) -> None:
        if messages > 0:
            self._figures.found_by_tick += messages
            logger.error("defect: only the tick found something to do", queue=queue.name, to=what, messages=messages)


def on_disk(queue: Queue) -> int:
    """Return how many messages of a queue have their bodies on disk only, as rows or in entries."""
    return queue.order.paged_count() + (0 if queue.bodies is None else queue.bodies.count)


def _progress(queue: Queue) -> tuple[int, ...]:
    """Return figures of which one changes when anything comes to a queue, is handed out, settled, or leaves."""
    counters = queue.counters
    return (
        counters.messages_added,
        counters.messages_delivered,
        counters.bytes_removed,
        queue.order.count,
        len(queue.delivering),
        queue.schedule.count,
    )
