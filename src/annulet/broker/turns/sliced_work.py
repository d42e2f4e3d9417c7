"""Does the core's sliced work: a few milliseconds a turn of the event loop, so that clients are served between."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    import asyncio

    from annulet.broker.settings.clock import Clock
    from annulet.core.base.sliced_work import SlicedWork
    from annulet.store.segments.interface import Log

logger = structlog.get_logger(__name__)

TURN_SECONDS: Final = 0.004
"""Time that sliced work takes of one turn, but for the slice that ends it: with a slice of 1 to 2 ms some 5 ms."""


class SlicedWorker:
    """The work of all virtual hosts, a slice of each in turn: a long piece holds no consumers up for its length.

    Belongs to the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, log: Log) -> None:
        self.slices = 0  # done since the broker started
        self._loop = loop
        self._clock = clock
        self._log = log
        self._waiting: deque[SlicedWork] = deque()
        self._scheduled = False

    @property
    def waiting(self) -> int:
        """How many pieces of work are not done."""
        return len(self._waiting)

    def add(self, work: SlicedWork) -> None:
        """Take on a piece of work. Its first slice is done in the next turn."""
        if work.reads:
            self._log.hold_sweeps()
        self._waiting.append(work)
        self._continue()

    def finish(self) -> None:
        """Do all that is left now: the broker is about to stop."""
        while self._waiting:
            self._step()

    def _continue(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        until = time.monotonic() + TURN_SECONDS
        while self._waiting and time.monotonic() < until:
            self._step()
        if self._waiting:
            self._continue()

    def _step(self) -> None:
        work = self._waiting.popleft()
        self.slices += 1
        try:
            more = work.step(self._clock())
        except Exception:  # a defect that meets one piece of work must not end the others
            logger.exception("defect in sliced work", work=type(work).__name__)
            self._abandon(work)
            more = False
        if more:
            self._waiting.append(work)
        elif work.reads:
            self._log.release_sweeps()

    def _abandon(self, work: SlicedWork) -> None:
        try:
            work.abandon(self._clock())
        except Exception:  # its notices to others may meet the same defect
            logger.exception("defect in the end of sliced work", work=type(work).__name__)
