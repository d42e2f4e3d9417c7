"""The thread that reads ahead of the event loop.

A queue and a loop instead of an executor: creating and completing a future holds the interpreter for longer than the
loop's own wait, and a fast drain submits 200 reads a second.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

logger = structlog.get_logger(__name__)


class ReadingThread:
    """One thread, started at once, as later there may be none left: works are done in the order they came.

    They keep their own errors.
    """

    def __init__(self) -> None:
        self._works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="annulet-read", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], None]) -> None:
        """Do a work in the thread.

        An exception from it is a defect, and logged. Not to be called after :meth:`close`.
        """
        self._works.put(work)

    def close(self) -> None:
        """Do the submitted work, and end the thread."""
        self._works.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (work := self._works.get()) is not None:
            try:
                work()
            except Exception:  # the others are done all the same
                logger.exception("defect while reading ahead")
            del work  # or its result would stay in memory until the next one
