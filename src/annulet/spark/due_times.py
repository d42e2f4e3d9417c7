"""Virtual time of a queue of the core: due events are processed at their own times, as in a running broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue


def due_times(queue: Queue, until: float) -> Iterator[int]:
    """Yield the times up to ``until`` at which a queue has something to do, in milliseconds since 1970.

    The caller ticks the queue at each before it requests the next. A time whose tick did nothing is not returned again.
    """
    before = -1
    while before < (due := queue.next_due_at()) <= until and due:
        yield due
        before = due
