"""The log lines of a long start: how far it is, and how long the rest will take."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

logger = structlog.get_logger(__name__)

PROGRESS_SECONDS: Final = 1.0
"""Time between two progress lines while recovering."""


class ProgressLines:
    """Log lines about one piece of work that begins now: one a second at most. ``clock`` tells seconds."""

    def __init__(self, event: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._event = event
        self._clock = clock
        self._began = self._last = clock()

    def say(self, share: float, **figures: int) -> None:
        """Say how far it has come, if it is time: ``share`` is the part of the work that is done, 0 to 1.

        ``seconds_left``, rounded up, is the time of the rest at the pace so far; it is omitted before any progress.
        More than all (a message in several queues may be counted in each) leaves 0.
        """
        now = self._clock()
        if now - self._last < PROGRESS_SECONDS:
            return
        self._last = now
        if share > 0:
            figures["seconds_left"] = math.ceil((now - self._began) * max(0.0, 1 / share - 1))
        logger.info(self._event, **figures)
