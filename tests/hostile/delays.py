"""What a slow machine adds to a wait, measured beside it, so that a held broker can be told from a busy processor.

Three things delay an answer that are no fault of the broker: this process has no processor or its threads wait for one
another, the thread of the broker's loop is ready and has no processor, the disk takes long to sync. Each is noted with
the time it ended at. A wait is charged with what passed within it beside them.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from types import TracebackType

PULSE_SECONDS = 0.02
"""Sleep of the thread that looks; what it oversleeps, this process was delayed."""

SYNC_SECONDS = 0.25
"""Between two writes to the disk."""

FORGET_SECONDS = 120.0
"""Delays are kept for so long: longer than any wait of a neighbour."""


class Delays:
    """Measures while it is the context of a block.

    Args:
        process: the broker's; its main thread runs the loop.
        folder: on the disk of its data.
    """

    def __init__(self, process: int, folder: Path) -> None:
        self._waits = Path(f"/proc/{process}/task/{process}/schedstat")
        self._file = folder / "delays"
        self._found: list[tuple[float, float]] = []  # when it ended, seconds
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._pulse, self._sync)]

    def note(self, ended: float, seconds: float) -> None:
        """Note a delay that ended at a time of the monotonic clock."""
        with self._lock:
            self._found.append((ended, seconds))
            while self._found[0][0] < ended - FORGET_SECONDS:
                del self._found[0]

    def within(self, began: float, ended: float) -> float:
        """Return the seconds of delays between two times. Those of different causes add up, so this may be more."""
        with self._lock:
            found = [one for one in self._found if one[0] > began]
        return sum(max(0.0, min(end, ended) - max(end - seconds, began)) for end, seconds in found)

    def _pulse(self) -> None:
        before, waited = time.monotonic(), self._waited()
        while not self._stop.wait(PULSE_SECONDS):
            now, waited_now = time.monotonic(), self._waited()
            if now - before > 2 * PULSE_SECONDS:
                self.note(now, now - before - PULSE_SECONDS)
            if waited_now > waited:
                self.note(now, min(waited_now - waited, now - before))
            before, waited = now, waited_now

    def _waited(self) -> float:
        """Return for how long the broker's loop has been ready without a processor; 0 where the system does not say."""
        try:
            return int(self._waits.read_text().split()[1]) / 1e9
        except (OSError, IndexError):  # the broker has ended, or the system keeps no such figure
            return 0.0

    def _sync(self) -> None:
        with self._file.open("wb") as file:
            while not self._stop.wait(SYNC_SECONDS):
                began = time.monotonic()
                file.seek(0)
                file.write(b"x")
                file.flush()
                os.fsync(file.fileno())
                ended = time.monotonic()
                self.note(ended, ended - began)

    def __enter__(self) -> Delays:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
