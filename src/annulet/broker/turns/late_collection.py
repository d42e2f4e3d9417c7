"""A full garbage collection now and then, where it is short, and figures that show when a reference cycle came back.

Ended objects dissolve their cycles, so a full collection finds nothing; it holds the event loop for as long as it takes
to traverse all objects. So it runs seldom, and only where it is expected to take less than ``COLLECTION_SECONDS_MAX``:
with some 15,000 messages in memory or fewer. Anything it frees is a defect, of the broker or of a library.
"""

from __future__ import annotations

import gc
import sys
import time
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

logger = structlog.get_logger(__name__)

COLLECTION_INTERVAL_SECONDS: Final = 300.0
"""Between two collections. A cycle with each of a hundred connections a second would leave 60 to 500 MB until then."""

COLLECTION_SECONDS_MAX: Final = 0.04
"""The permitted expected time of a collection; its limit is 50 ms, as the rest of a turn is added."""

SECONDS_PER_BLOCK: Final = 300e-9
"""The expected time of a collection for each block of memory in use, at least: 240 to 270 ns were measured with 50,000
to 200,000 messages on a busy machine, 80 with hardly any. Where the last one took longer, what that took."""

FREED_WORTH_TELLING: Final = 1000
"""Objects that a collection freed, from which on the log says so: libraries leave a few now and then."""


class LateCollection:
    """Belongs to the event loop. Does nothing until :meth:`start`: not every process belongs to a broker."""

    def __init__(
        self,
        *,
        collect: Callable[[], int] = gc.collect,
        blocks: Callable[[], int] = sys.getallocatedblocks,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.collections = 0
        self.put_off = 0  # times it would have taken too long
        self.freed = 0  # objects that the last one freed
        self.freed_total = 0
        self.seconds = 0.0  # that the last one took
        self._collect = collect
        self._blocks = blocks
        self._clock = clock
        self._blocks_left_out = 0  # of start-up and recovery, which no collection looks at
        self._seconds_per_block = SECONDS_PER_BLOCK
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin, once what there is was left out of collections (``gc.freeze``)."""
        self._loop = loop
        self._blocks_left_out = self._blocks()
        self._timer = loop.call_later(COLLECTION_INTERVAL_SECONDS, self._due)

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        assert self._loop is not None
        self._timer = self._loop.call_later(COLLECTION_INTERVAL_SECONDS, self._due)
        self.run()

    def run(self) -> None:
        """Collect, unless that is expected to take too long."""
        blocks = max(1, self._blocks() - self._blocks_left_out)
        if blocks * self._seconds_per_block > COLLECTION_SECONDS_MAX:
            self.put_off += 1
            return
        began = self._clock()
        self.freed = self._collect()
        self.seconds = self._clock() - began
        self._seconds_per_block = max(self.seconds / blocks, SECONDS_PER_BLOCK)
        self.collections += 1
        self.freed_total += self.freed
        if self.freed >= FREED_WORTH_TELLING:
            logger.warning("objects were freed only by a garbage collection: a defect", objects=self.freed)
