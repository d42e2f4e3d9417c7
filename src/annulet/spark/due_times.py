"""Virtual time of a queue of the core: what falls due on the way is done at its own time, as a running broker does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.core.queue import Queue


def due_times(queue: Queue, until: float) -> Iterator[int]:
    """Yield the times up to ``until`` at which a queue has something to do, in milliseconds since 1970.

    The caller ticks the queue at each before it asks for the next. What is not done by its tick is not asked for again.
    """
    before = -1
    while before < (due := queue.next_due_at()) <= until and due:
        yield due
        before = due
