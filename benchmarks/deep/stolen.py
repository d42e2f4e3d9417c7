"""What the machine's host took away: time in which a processor had work and was given to another machine.

Nothing is faster or more even than its processors: a check that missed a time or a ratio meanwhile says nothing.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

STOLEN: Final = 8
"""Its place in the first line of ``/proc/stat``, in ticks of all processors together since the start."""

TELLING_SHARE: Final = 0.005
"""Of the processors' time. In quiet hours it is 0.0001, in others 0.02 to 0.04, and then the event loop's longest looks
were 50 to 250 ms, and 5 to 20 ms without."""


def stolen_seconds(stat: Path = Path("/proc/stat")) -> float:
    """Return the seconds of all processors together since the machine's start, 0 where the system does not tell."""
    try:
        return int(stat.read_text().split("\n", 1)[0].split()[STOLEN]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):  # not Linux, or one of old
        return 0.0


class StolenTime:
    """Looks from when it is made."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before = stolen_seconds()

    def share(self) -> float:
        """Return which part of the processors' time was taken away since."""
        seconds = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return (stolen_seconds() - self._before) / seconds if seconds > 0 else 0.0
