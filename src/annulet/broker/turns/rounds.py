"""Work that is done in rounds: again some time after its last end, by the clock of the broker's timers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class RoundTimer:
    """Begins rounds of ``work``, each ``seconds`` after the end of the one before. Belongs to the event loop.

    Between two rounds there is a timer and no task: a clock of the test kit moves the timer, and a broker that waits
    for its next round counts as idle.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._work = work
        self._round: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False

    def begin(self) -> None:
        """Begin a round. The next ones follow by themselves."""
        self._timer = None
        self._round = self._loop.create_task(self._work())
        self._round.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Begin no more rounds, and cancel the one under way; it has ended then."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)

    def _ended(self, ended: asyncio.Task[None]) -> None:
        del ended
        if not self._stopped:
            self._timer = self._loop.call_later(self._seconds, self.begin)
