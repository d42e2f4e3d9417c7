"""Log lines that a hostile peer can cause, at most so many a second; what is left out is counted."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LINES_PER_SECOND: Final = 5
"""Enough to see who and why; a flood of thousands a second would bury everything else and fill the disk."""


class LimitedLog:
    """Passes warnings on to ``logger``. The first line after some were left out says how many: ``left_out``."""

    def __init__(
        self, logger: Any, lines_per_second: int = LINES_PER_SECOND, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.left_out = 0  # since the last line
        self._logger = logger
        self._most = lines_per_second
        self._clock = clock
        self._since = clock()
        self._lines = 0  # in this second

    def warning(self, event: str, **values: Any) -> None:
        """Log a warning, or count it."""
        now = self._clock()
        if now - self._since >= 1.0:
            self._since = now
            self._lines = 0
        if self._lines >= self._most:
            self.left_out += 1
            return
        self._lines += 1
        if self.left_out:
            values["left_out"] = self.left_out
            self.left_out = 0
        self._logger.warning(event, **values)
