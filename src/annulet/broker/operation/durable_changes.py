"""Changes of definitions for callers that can wait: the loop goes on while a thread writes the group to disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from annulet.broker.durability.definition_commits import DefinitionCommits

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
