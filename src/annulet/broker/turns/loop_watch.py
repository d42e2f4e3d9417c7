"""How long the event loop was held: a timer that notes how late it fires.

It sees a stall only while its own time comes: one of ``s`` milliseconds with a probability of ``s / 50``, then as
something between 0 and ``s``; one longer than 50 ms always, as at least ``s - 50``. Cheap enough to be always on.

A loop that wants to run and gets no processor is late as well, and for its clients that is the same. It is reported
separately, for the search for the cause: where the system tells how long the thread waited for a processor, there is a
second histogram without that. Of the waits it leaves in as much as other threads of the broker computed meanwhile: the
processor that was not there may be the one that these had, and where it is not, that counts nevertheless. A child
process, of searches, counts as another program.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

WATCH_SECONDS: Final = 0.05
"""Between two looks: 20 wake-ups a second cost 0.1 % of a core."""

STALL_BOUNDS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds of the histogram in seconds; a last class without bound follows."""


class ProcessorWaits:
    """How long the thread that opens it was ready and had no processor, since it began.

    The file stays open, and a look at it is one call: each gives the interpreter lock away, and a thread that computes
    meanwhile keeps it for up to 5 ms. A file opened, read and closed twice a look held the loop for up to 44 ms.
    """

    def __init__(self) -> None:
        self._descriptor = -1

    def open(self) -> None:
        """Begin, in the thread that is meant."""
        with contextlib.suppress(OSError):  # not Linux
            self._descriptor = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)

    def seconds(self) -> float:
        """Return the seconds, 0 where the system does not tell."""
        return int(os.pread(self._descriptor, 64, 0).split()[1]) / 1e9 if self._descriptor >= 0 else 0.0

    def close(self) -> None:
        """Tell nothing any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def computed_beside() -> float:
    """Return the seconds that other threads of this process have computed."""
    return time.process_time() - time.thread_time()


class LoopWatch:
    """Histograms of the timer's lateness since the start. All times in seconds of the loop's clock."""

    def __init__(self, waits: ProcessorWaits | None = None, beside: Callable[[], float] = computed_beside) -> None:
        self.counts = [0] * (len(STALL_BOUNDS) + 1)
        self.total = 0.0
        self.longest = 0.0
        self.counts_held = [0] * (len(STALL_BOUNDS) + 1)  # without waits for others, about
        self.total_held = 0.0
        self._waits = waits or ProcessorWaits()
        self._beside = beside
        self._waited = self._computed = 0.0  # when the timer was set
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look from now on."""
        self._waits.open()
        self._again(loop, self._waits.seconds())

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._waits.close()

    def note(self, late: float, waited: float = 0.0, beside: float = 0.0) -> None:
        """Count one look that came ``late`` seconds after its time.

        ``waited``: seconds without a processor since the look before; ``beside``: seconds that our other threads have
        computed since then. Some of either may have been before its time.
        """
        self.counts[bisect_left(STALL_BOUNDS, late)] += 1
        self.total += late
        self.longest = max(self.longest, late)
        held = max(0.0, late - max(0.0, waited - beside))
        self.counts_held[bisect_left(STALL_BOUNDS, held)] += 1
        self.total_held += held

    def _again(self, loop: asyncio.AbstractEventLoop, waited: float) -> None:
        self._waited = waited
        self._computed = self._beside()
        self._due = loop.time() + WATCH_SECONDS
        self._timer = loop.call_at(self._due, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        late = max(0.0, loop.time() - self._due)
        waited = self._waits.seconds()
        self.note(late, waited - self._waited, self._beside() - self._computed)
        self._again(loop, waited)
