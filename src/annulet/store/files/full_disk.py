"""One log line for a full disk: path, free bytes, remedy. All writers fail at the same time.

A full disk is no defect, so that there is no traceback, and a line a minute for each path is enough to see it.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

logger = logging.getLogger(__name__)

NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
"""No room on the disk, or none for this user."""

SECONDS_BETWEEN_LINES: Final = 60.0
"""For one path. A broker under load tries some times a second."""

PATHS_MAX: Final = 64
"""Paths whose last line is remembered: a broker writes to five or six directories."""


def is_full(error: BaseException) -> bool:
    """Return whether the error, or a cause of it, is a full disk."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in NO_SPACE:
            return True
        if isinstance(seen, sqlite3.Error) and getattr(seen, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
            return True
        seen = seen.__cause__
    return False


def free_bytes(path: Path | str) -> int:
    """Return the bytes free for this user on the disk of a path; -1 if unknown."""
    try:
        usage = os.statvfs(path)
    except OSError:
        return -1
    return usage.f_bavail * usage.f_frsize


class FullDiskLog:
    """Logs full disks, a line a minute for each path. May be used from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: dict[str, float] = {}  # by path: when

    def note(self, error: BaseException, path: Path | str, what: str) -> bool:
        """Say that ``what`` could not be written to a directory, if the disk is full. Returns whether it is."""
        if not is_full(error):
            return False
        now, place = self._clock(), str(path)
        last = self._logged.get(place)
        if last is None or now - last >= SECONDS_BETWEEN_LINES:
            if len(self._logged) >= PATHS_MAX:
                self._logged.clear()
            self._logged[place] = now
            logger.error(
                "disk full: %s cannot be written to %s, where %d bytes are free (%s); "
                "free space on that disk, raise the quota, or let consumers catch up",
                what,
                place,
                free_bytes(path),
                error,
            )
        return True


FULL_DISK: Final = FullDiskLog()
"""Of this process."""
