"""Changes of definitions for callers that can wait: the loop goes on while a thread writes the group to disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from annulet.store.files.errors import CatalogueError, StoreError

if TYPE_CHECKING:
    from annulet.broker.durability.definition_commits import DefinitionCommits
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

Result = TypeVar("Result")


async def durably(definitions: DefinitionCommits, change: Callable[[], Result]) -> Result:
    """Make changes of definitions and return when they are durable, with what ``change`` returned.

    Raises what ``change`` raises, and :class:`~annulet.store.files.errors.CatalogueError` when the disk refuses: the
    declarations are undone then. Cancelling the wait does not undo the change.
    """
    waiter = _Waiter(asyncio.get_running_loop())
    begun = definitions.begin()
    try:
        result = change()
    finally:
        definitions.end(begun, waiter)
    if waiter.waits:
        await waiter.written
    return result


async def departure(host: VirtualHost, queue: Queue) -> None:
    """Return when a deleted queue is forgotten, after its last dead letter.

    Raises :class:`~annulet.store.files.errors.StoreError` if it could not be: see the log.
    """
    gone: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def tell(well: bool) -> None:
        if not gone.done():
            gone.set_result(well)

    if host.departures.when_gone(queue, tell) and not await gone:
        raise StoreError(f"queue '{queue.name}' could not be deleted for good; see the log, and delete it again")


class _Waiter:
    """Waits for one group of definitions."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.waits = False
        self.written: asyncio.Future[None] = loop.create_future()

    def wait_for_definitions(self) -> None:
        """The group has to be written."""
        self.waits = True

    def definitions_written(self) -> None:
        """The group is durable."""
        if not self.written.done():
            self.written.set_result(None)

    def abort(self) -> None:
        """The disk refused the group."""
        if not self.written.done():
            self.written.set_exception(
                CatalogueError("the change could not be written and is undone; free space on the disk and try again")
            )
