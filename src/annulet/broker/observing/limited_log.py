"""Log lines that a peer can cause, at most a fixed number a second; omitted lines are counted."""

from __future__ import annotations

import time
import traceback
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LINES_PER_SECOND: Final = 5
"""Enough to see the peers and the reasons; a flood of thousands a second would bury everything else and fill the
disk."""


ERROR_CHARACTERS_MAX: Final = 200
"""Of an exception's text, which may repeat what a peer sent, so many are logged."""


PLACE_FRAMES: Final = 3
"""Frames that a line names instead of a traceback of dozens of lines."""


class LimitedLog:
    """Passes warnings and defects on to ``logger``.

    The first line after some were left out says how many: ``left_out``.
    """

    def __init__(
        self, logger: Any, lines_per_second: int = LINES_PER_SECOND, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.left_out = 0  # since the last line
        self.left_out_total = 0
        self._logger = logger
        self._most = lines_per_second
        self._clock = clock
        self._since = clock()
        self._lines = 0  # in this second

    def info(self, event: str, **values: Any) -> None:
        """Log what is usual, or count it."""
        if self._may_log(values):
            self._logger.info(event, **values)

    def warning(self, event: str, **values: Any) -> None:
        """Log a warning, or count it."""
        if self._may_log(values):
            self._logger.warning(event, **values)

    def defect(self, event: str, error: BaseException | None, **values: Any) -> None:
        """Log a defect of ours that any peer can cause, or count it: with its place, in one line."""
        if error is not None:
            values["error"] = f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
            values["place"] = place_of(error)
        if self._may_log(values):
            self._logger.error(event, **values)

    def _may_log(self, values: dict[str, Any]) -> bool:
        """Return whether there is a line left in this second; the line says how many were left out before it."""
        now = self._clock()
        if now - self._since >= 1.0:
            self._since = now
            self._lines = 0
        if self._lines >= self._most:
            self.left_out += 1
            self.left_out_total += 1
            return False
        self._lines += 1
        if self.left_out:
            values["left_out"] = self.left_out
            self.left_out = 0
        return True


def place_of(error: BaseException) -> str:
    """Return where an exception was raised: module, line and function of the innermost frames, innermost first."""
    frames = list(traceback.walk_tb(error.__traceback__))[-PLACE_FRAMES:]
    return " < ".join(
        f"{frame.f_globals.get('__name__', '?')}:{line} {frame.f_code.co_name}" for frame, line in reversed(frames)
    )
