"""How long the event loop was held: a timer that notes how late it fires.

It sees a stall only while its own time comes: one of ``s`` milliseconds with a probability of ``s / 50``, then as
something between 0 and ``s``; one longer than 50 ms always, as at least ``s - 50``. Cheap enough to be always on.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

WATCH_SECONDS: Final = 0.05
"""Between two looks: 20 wake-ups a second cost 0.1 % of a core."""

STALL_BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram in seconds; a last class without bound follows."""


class LoopWatch:
    """Histogram of the timer's lateness since the start. All times in seconds of the loop's clock."""

    def __init__(self) -> None:
        self.counts = [0] * (len(STALL_BOUNDS) + 1)
        self.total = 0.0
        self.longest = 0.0
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look from now on."""
        self._again(loop)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def note(self, late: float) -> None:
        """Count one look that came ``late`` seconds after its time."""
        self.counts[bisect_left(STALL_BOUNDS, late)] += 1
        self.total += late
        self.longest = max(self.longest, late)

    def _again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + WATCH_SECONDS
        self._timer = loop.call_at(self._due, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self.note(max(0.0, loop.time() - self._due))
        self._again(loop)
