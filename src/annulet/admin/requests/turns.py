"""Long work of a request on the event loop, with turns of other tasks in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

TURN_SECONDS: Final = 0.001
"""How long a list computes before other tasks get a turn. The clock is read after each item, so that the loop is held
for this time and one item more: under 5 ms with the other work of a turn."""


class Turns:
    """Gives other tasks a turn of the event loop once this one has computed for :data:`TURN_SECONDS`."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.given = 0
        self._clock = clock
        self._until = clock() + TURN_SECONDS

    async def look(self) -> None:
        """Give a turn if it is time; called after each item."""
        if self._clock() >= self._until:
            self.given += 1
            await asyncio.sleep(0)
            self._until = self._clock() + TURN_SECONDS
