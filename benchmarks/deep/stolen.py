"""What the machine's host took away: time in which a processor had work and was given to another machine.

Nothing is faster or more even than its processors: a check that missed a time or a ratio meanwhile says nothing. The
slowest in a thousand looks at the event loop are those that met a pause, where one look in a thousand did.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

STOLEN: Final = 8
"""Its place in the first line of ``/proc/stat``, in ticks of all processors together since the start."""

TELLING_SHARE: Final = 0.005
"""Of the processors' time. In quiet hours it is 0.0001, in others 0.02 to 0.04, and then the event loop's longest looks
were 50 to 250 ms, and 5 to 20 ms without."""

LOOK_SECONDS: Final = 0.05
"""Between two looks for pauses, as the broker's at its event loop."""

PAUSE_TICKS: Final = 2
"""Of 10 ms: what one processor lost between two looks, and the event loop cannot make up for."""

PAUSED_SHARE: Final = 0.001
"""Of the looks: from there on the 99.9th percentile of the loop's lateness is the host's. Measured with single turns of
the loop: those of 24 to 70 ms in a drain beside a browser, with 3 ms computed, were pauses of both processors."""


def stolen_ticks(stat: Path = Path("/proc/stat")) -> list[int]:
    """Return what was taken from each processor since the machine's start, in ticks; empty where nobody tells."""
    try:
        lines = [line.split() for line in stat.read_text().split("\n") if line.startswith("cpu")]
        return [int(fields[STOLEN]) for fields in lines[1:]]
    except (OSError, IndexError, ValueError):
        return []


class PauseWatch(threading.Thread):
    """Looks for pauses until the block is left. ``ticks``: what was taken from each processor so far."""

    def __init__(self, ticks: Callable[[], list[int]] = stolen_ticks) -> None:
        super().__init__(daemon=True)
        self.looks = 0
        self.met = 0  # of these, those before which a processor was away for long
        self._ticks = ticks
        self._before = ticks()
        self._ended = threading.Event()

    def __enter__(self) -> PauseWatch:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        """Look."""
        while not self._ended.wait(LOOK_SECONDS):
            self.look()

    def look(self) -> None:
        """Count one look, but for one that cannot be held against the one before it: the system did not tell."""
        before, self._before = self._before, self._ticks()
        if len(before) == len(self._before):
            self.looks += 1
            self.met += any(now - then >= PAUSE_TICKS for then, now in zip(before, self._before, strict=True))


def stolen_seconds(stat: Path = Path("/proc/stat")) -> float:
    """Return the seconds of all processors together since the machine's start, 0 where the system does not tell."""
    try:
        return int(stat.read_text().split("\n", 1)[0].split()[STOLEN]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):  # not Linux, or one of old
        return 0.0


class StolenTime:
    """Looks from when it is made; at pauses only where somebody watches for them."""

    def __init__(self, watch: PauseWatch | None = None) -> None:
        self._began = time.monotonic()
        self._watch = watch
        self._looks, self._met = (0, 0) if watch is None else (watch.looks, watch.met)
        self._before = stolen_seconds()

    def share(self) -> float:
        """Return which part of the processors' time was taken away since."""
        seconds = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return (stolen_seconds() - self._before) / seconds if seconds > 0 else 0.0

    def paused(self) -> float:
        """Return which part of the looks met a pause since."""
        if self._watch is None or self._watch.looks == self._looks:
            return 0.0
        return (self._watch.met - self._met) / (self._watch.looks - self._looks)
