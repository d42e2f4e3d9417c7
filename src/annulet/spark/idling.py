"""When a stream has nothing to do: its next request may wait at the broker.

With its default trigger Spark polls an idle source a hundred times a second. In a query with other active sources,
waiting would delay those; there much time passes between two polls, as a batch runs in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

WAIT_MILLISECONDS: Final = 2000
"""Longest wait of one request. Stopping a query waits for it.

Spark asks for the backlog after each, and the two cost the broker 2.6 ms. With the looks at a queue that is waited for
an idle stream adds 0.0035 of a core to the broker's own; with waits of 1000 ms it was up to 0.0053.
"""

IDLE_SECONDS: Final = 0.1
"""Time between an answer without messages and the next request, below which no batch has run: Spark pauses 10 ms. A
batch with a task takes longer."""


class Idling:
    """Finds out how long the next request of one reader may wait. ``clock`` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._empty_at: float | None = None  # time of the last answer, if it was empty

    def wait_milliseconds(self) -> int:
        """Return how long the present request may wait."""
        if self._empty_at is None or self._clock() - self._empty_at > IDLE_SECONDS:
            return 0
        return WAIT_MILLISECONDS

    def answered(self, *, empty: bool) -> None:
        """Note an answer."""
        self._empty_at = self._clock() if empty else None
