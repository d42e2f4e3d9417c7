"""The thread that writes, moves and removes what the spill store asks for: the event loop waits for none of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from annulet.broker.turns.ready_threads import ready_threads
from annulet.residency.bodies.spilling import SpillWork

if TYPE_CHECKING:
    from collections.abc import Callable


class SpillThread:
    """One thread, started at once: works are done in the order they came."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._executor = ready_threads(1, "spill")
        self._futures: set[asyncio.Future[None]] = set()

    def submit(self, work: SpillWork, done: Callable[[], None]) -> None:
        """Do a work in the thread, then call ``done`` on the event loop."""
        future = self._loop.run_in_executor(self._executor, work.run)
        self._futures.add(future)

        def ended(future: asyncio.Future[None]) -> None:
            self._futures.discard(future)
            future.result()  # works keep their errors; an exception is a defect, and the loop logs it
            done()

        future.add_done_callback(ended)

    async def idle(self) -> None:
        """Return when nothing is under way, what followed included."""
        while self._futures:
            await asyncio.wait(self._futures)

    async def close(self) -> None:
        """Wait for running work, and end the thread."""
        await self.idle()
        self._executor.shutdown(wait=True)
