"""When the message log is looked after: its upkeep at each tick of the broker, and checkpoints by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    import asyncio

    from annulet.broker.durability.commit import CommitPipeline

logger = structlog.get_logger(__name__)

CHECKPOINT_MILLISECONDS: Final = 10_000
"""Between two requests for a checkpoint. The log writes one by itself with every 64 MiB; a log that grows more slowly
gives disk space back within two of these, since a segment goes when two checkpoints know that it is dead."""


class LogUpkeep:
    """Runs rounds of upkeep one after another. Belongs to the loop; the work is done in a thread of the pipeline."""

    def __init__(self, commit: CommitPipeline, loop: asyncio.AbstractEventLoop, now: int) -> None:
        self._commit = commit
        self._loop = loop
        self._asked_at = now  # milliseconds
        self._round: asyncio.Task[None] | None = None
        self._stopped = False

    def tick(self, now: int) -> None:
        """Begin a round unless one is under way. ``now`` in milliseconds; a clock that was set back asks at once."""
        if self._stopped or (self._round is not None and not self._round.done()):
            return
        checkpoint = not 0 <= now - self._asked_at < CHECKPOINT_MILLISECONDS
        if checkpoint:
            self._asked_at = now
        self._round = self._loop.create_task(self._maintain(checkpoint=checkpoint))

    async def round_ended(self) -> None:
        """Wait for the round under way, if there is one."""
        if self._round is not None:
            await self._round

    async def stop(self) -> None:
        """Begin no more rounds and let the one under way end: its step in the disk thread cannot be called back."""
        self._stopped = True
        await self.round_ended()

    async def _maintain(self, *, checkpoint: bool) -> None:
        try:
            await self._commit.maintain(checkpoint=checkpoint)
        except Exception:  # upkeep is tried again with the next tick; a stop must not meet its errors
            logger.exception("upkeep of the message log failed")
