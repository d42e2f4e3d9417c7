"""Room in memory for commits: a batch is in memory as a whole from its stages until its queues have it.

Commits that do not fit together are done one after the other, in the order of their requests; one that would not fit
alone is refused before a row of it is read. Belongs to the broker's loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from annulet.bulk.protocol.errors import OverLimitError

LIMIT_COMMIT: Final = "max_commit_bytes"

COPIES: Final = 2
"""How often the bodies of a batch are in memory: as messages, and as records on their way to the disk."""

MESSAGE_BYTES: Final = 800
"""Of memory for each message of a batch beside its row's columns: 730 were measured with bodies of 10 bytes."""


PROPERTY_BYTES: Final = 256
"""Of memory for each property of one Arrow batch, whose properties are Python objects until its last row is encoded: a
pair and two texts, however short. 114 to 207 were measured beside the columns, with values of one letter, which Python
shares, and of an emoji."""

DESTINATION_BYTES: Final = 700
"""Of memory for each destination of a batch beside the texts in its columns: its names, its route, and where the rows
of a name go. 610 were measured with 20,000 routing keys of 7 letters, at 670 for a row that had none of its own."""


def commit_bytes(rows: int, size: int, properties: int, destinations: int) -> int:
    """Return the memory of a batch of this many rows, whose columns have ``size`` bytes.

    ``properties``: of the Arrow batch that has most of them, since one after the other is encoded. ``destinations``:
    different ones, at most; they are kept until the batch is published.
    """
    return COPIES * size + rows * MESSAGE_BYTES + properties * PROPERTY_BYTES + destinations * DESTINATION_BYTES


class CommitRoom:
    """The room of one broker, ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiting: deque[tuple[int, asyncio.Event]] = deque()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Have ``size`` bytes, perhaps after others. Raises :class:`OverLimitError` for more than there ever are."""
        if size > self.limit:
            raise OverLimitError(
                f"the batch would need {size} bytes of the broker's memory, {self.limit} are allowed ({LIMIT_COMMIT}); "
                f"write smaller batches (maxMessagesPerTrigger, maxBytesPerTrigger), or raise limits.{LIMIT_COMMIT} or "
                "memory_limit",
                LIMIT_COMMIT,
            )
        if self._waiting or self.used + size > self.limit:
            turn = size, asyncio.Event()
            self._waiting.append(turn)
            try:
                await turn[1].wait()
            except BaseException:
                self._give_up(turn)
                raise
        else:
            self.used += size
        try:
            yield
        finally:
            self.used -= size
            self._let_in()

    def _give_up(self, turn: tuple[int, asyncio.Event]) -> None:
        if turn[1].is_set():  # it was let in, and is cancelled before it could go on
            self.used -= turn[0]
        else:
            self._waiting.remove(turn)
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self.used + self._waiting[0][0] <= self.limit:
            size, turn = self._waiting.popleft()
            self.used += size
            turn.set()
