"""Removal of deleted queues from the catalogue's memory, once the message log has nothing of them.

The catalogue keeps the id of a deleted queue until the log's record of the deletion is durable: should the broker die
in between, the next start tells the messages of that queue from those of a queue whose definition was lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from annulet.store.files.errors import StoreError

if TYPE_CHECKING:
    import asyncio

    from annulet.broker.durability.commit import CommitPipeline
    from annulet.store.database.catalogue import Catalogue

logger = structlog.get_logger(__name__)

REMEMBERED_MAX: Final = 1000
"""Ids of deleted queues kept before they are dropped: some KiB in the catalogue, and one more change for so many."""


class DeletedQueues:
    """Drops ids in rounds. Belongs to the loop."""

    def __init__(self, catalogue: Catalogue, commit: CommitPipeline, loop: asyncio.AbstractEventLoop) -> None:
        self._catalogue = catalogue
        self._commit = commit
        self._loop = loop
        self._round: asyncio.Task[None] | None = None

    def tick(self) -> None:
        """Begin a round when there are many."""
        if self._catalogue.deletions >= REMEMBERED_MAX and (self._round is None or self._round.done()):
            self._round = self._loop.create_task(self._drop())

    async def stop(self) -> None:
        """Wait for a round that is under way."""
        if self._round is not None:
            await self._round

    async def _drop(self) -> None:
        deleted = self._catalogue.deleted_queues()
        try:
            await self._commit.durable()
            self.drop(deleted)
        except StoreError as error:
            logger.warning("ids of deleted queues stay in the catalogue", error=str(error))

    def drop(self, deleted: set[int]) -> None:
        """Drop these, whose deletions are in windows that were written. A full disk may have had no room for some."""
        if deleted and not self._commit.log.deferring:
            self._catalogue.forget_deleted_queues(deleted)
