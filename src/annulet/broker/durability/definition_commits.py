"""Definitions of one turn of the loop become durable together, in a thread; their clients are answered then.

A connection whose input changed the catalogue writes nothing until its group is durable, so that answers keep their
order. When the disk refuses a group, its declarations are undone in memory, and the connections that wait are cut
without an answer; for a while each change is then committed by itself, and a refusal is the answer to its command.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from annulet.broker.turns.ready_threads import ready_threads

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from annulet.store.database.catalogue import Catalogue

logger = structlog.get_logger(__name__)

SINGLE_SECONDS: Final = 60.0
"""How long changes are committed one by one after a group was refused: a full disk is full for a while."""

NESTED: Final = -1
"""Inside of something that groups already."""


class WaitingConnection(Protocol):
    """A waiter that answers when definitions are durable."""

    def wait_for_definitions(self) -> None:
        """Write nothing from now on."""

    def definitions_written(self) -> None:
        """All that was asked for is durable."""

    def abort(self) -> None:
        """Some of it could not be written."""


class DefinitionCommits:
    """Groups changes and commits the groups. Belongs to the loop.

    ``catalogue`` of ``None``: a broker in memory, where nothing is to be waited for.
    """

    def __init__(
        self,
        catalogue: Catalogue | None,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.commits = 0  # groups that were handed to the thread
        self.refused = 0  # groups that the disk refused
        self.serving = False  # input of a client is handled: its changes are grouped
        self.asked = False  # it may have changed something
        self._grouped = False  # its changes join the group: decided when the first one asks
        self._changes = 0  # before that
        self._catalogue = catalogue
        if catalogue is not None:
            catalogue.joins_group = self._joins
        self._loop = loop
        self._clock = clock
        self._single_until = 0.0
        self._waiting: dict[WaitingConnection, int] = {}  # the last group it waits for
        self._scheduled = self._busy = False
        self._executor = ready_threads(1, "annulet-definitions")

    @property
    def pending(self) -> bool:
        """The turn has changed something that is not durable."""
        return self._catalogue is not None and bool(self._catalogue.groups.open.statements)

    def begin(self) -> int:
        """Group changes from here to :meth:`end`, in the same turn. Returns what that takes."""
        catalogue = self._catalogue
        if catalogue is None or catalogue.grouping or self.serving:
            return NESTED
        catalogue.grouping = self._may_group()
        return catalogue.groups.changes

    def end(self, begun: int, connection: WaitingConnection | None) -> None:
        """End the group of changes; ``connection`` waits for them if there were any."""
        if begun != NESTED and self._catalogue is not None:
            self._catalogue.grouping = False
            self._end(begun, connection)

    def _end(self, begun: int, connection: WaitingConnection | None) -> None:
        assert self._catalogue is not None
        groups = self._catalogue.groups
        if groups.changes == begun:
            return
        if connection is not None:
            self._waiting[connection] = groups.open.number if groups.open.statements else groups.open.number - 1
            connection.wait_for_definitions()
        self._request()

    def _may_group(self) -> bool:
        return self._single_until <= 0.0 or self._clock() >= self._single_until

    def _joins(self) -> bool:
        """Return whether a change joins the open group because a client's input is handled."""
        if not self.serving or self._catalogue is None:
            return False
        if not self.asked:
            self.asked = True
            self._grouped = self._may_group()
            self._changes = self._catalogue.groups.changes
        return self._grouped

    def served(self, connection: WaitingConnection) -> None:
        """Have a connection wait for what its input changed, if anything ``asked``."""
        self.asked = False
        self._end(self._changes, connection)

    def settle(self) -> None:
        """Have everything durable when this returns: for callers that cannot wait."""
        if self._catalogue is not None:
            self._catalogue.settle()
            self._tell()

    def close(self) -> None:
        """Have everything durable and end the thread."""
        self._executor.shutdown(wait=True)
        self.settle()

    def _request(self) -> None:
        if not self._scheduled and not self._busy:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        """At the end of the turn: all connections that were read in it are in one group."""
        self._scheduled = False
        assert self._catalogue is not None
        self._catalogue.groups.seal()
        future = self._loop.run_in_executor(self._executor, self._catalogue.groups.run_all)
        self._busy = True  # not before: if it cannot be handed over, the next request tries again
        self.commits += 1
        future.add_done_callback(self._done)

    def _done(self, future: asyncio.Future[None]) -> None:
        self._busy = False
        error = future.exception()
        if error is not None:
            logger.error("defect while definitions were written", error=repr(error))
        self._tell()
        if self._catalogue is not None and self._catalogue.groups.waiting:
            self._request()

    def _tell(self) -> None:
        """Answer those whose groups are durable, or disconnect all waiters when one was refused."""
        assert self._catalogue is not None
        failed = self._catalogue.groups.take_failed()
        waiting = self._waiting
        if failed:
            self._waiting = {}
            self.refused += len(failed)
            self._single_until = self._clock() + SINGLE_SECONDS
            logger.error(
                "definitions could not be written and are undone", error=str(failed[0].error), connections=len(waiting)
            )
            for group in reversed(failed):
                for undo in reversed(group.undo):
                    undo()
            for connection in waiting:
                connection.abort()
            return
        done = self._catalogue.groups.done
        for connection in [connection for connection, number in waiting.items() if number <= done]:
            del waiting[connection]
            connection.definitions_written()
