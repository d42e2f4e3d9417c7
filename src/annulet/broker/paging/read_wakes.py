"""Has queues served when a thread has read their next messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from annulet.core.queue.queue import Queue


class ReadWakes:
    """Brings a thread's word to the event loop. ``clock``: milliseconds since 1970, for the queues."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], int]) -> None:
        self._loop = loop
        self._clock = clock

    def of(self, queue: Queue) -> Callable[[], None]:
        """Return what a thread calls when it has read for a queue."""

        def wake() -> None:
            self._loop.call_soon_threadsafe(self._serve, queue)

        return wake

    def _serve(self, queue: Queue) -> None:
        if not queue.deleted:
            queue.wake(self._clock())
