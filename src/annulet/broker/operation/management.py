"""Runs management operations in the broker: one slice a turn of the event loop, so that clients are served between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from annulet.core.base.errors import PreconditionFailed
from annulet.core.management import Operation, Tasks

if TYPE_CHECKING:
    from annulet.broker.settings.clock import Clock
    from annulet.core.management import Preview, PreviewResult

logger = structlog.get_logger(__name__)

REFUSED_PAUSE_SECONDS: Final = 0.05
"""Until the disk is asked again when nothing else is to be done: for data on its way to the disk, and for a disk that
refuses."""


class ManagementOperations:
    """The operations of one broker, of all its virtual hosts, by number from 1. Belongs to the event loop.

    Their changes of stored messages go through the effects of the virtual host: a slice's settlements and copies are in
    the next commit window, and its audit entry in the same.
    """

    def __init__(self, clock: Clock, tasks: Tasks | None = None) -> None:
        self._clock = clock
        self._tasks = Tasks() if tasks is None else tasks
        self._handle: asyncio.Handle | None = None
        self._stopped = False

    def start(self, operation: Operation) -> int:
        """Begin an operation and return its number.

        Raises :class:`PreconditionFailed` when too many are under way or the broker is stopping.
        """
        if self._stopped:
            raise PreconditionFailed("the broker is stopping and begins no operation; try again when it is back")
        number = self._tasks.add(operation)
        self._continue()
        return number

    async def preview(self, preview: Preview) -> PreviewResult:
        """Count what an operation would do, and return it.

        Raises :class:`PreconditionFailed` when the broker stops meanwhile. Cancelled it holds nothing of the queue.
        """
        try:
            while not preview.step(self._clock()):
                await asyncio.sleep(REFUSED_PAUSE_SECONDS if preview.waiting else 0)
                if self._stopped:
                    raise PreconditionFailed("the broker is stopping; the preview is not complete")
        finally:
            preview.cancel(self._clock())
        return preview.result

    async def complete(self, operation: Operation) -> None:
        """Do an operation that is a part of a request to its end; it has no number.

        Raises :class:`PreconditionFailed` when the broker stops meanwhile. Cancelled it stays where it is.
        """
        try:
            while not operation.step(self._clock()):
                await asyncio.sleep(REFUSED_PAUSE_SECONDS if operation.waiting else 0)
                if self._stopped:
                    raise PreconditionFailed("the broker is stopping; the operation is not complete")
        finally:
            operation.cancel(self._clock())

    def operation(self, number: int, virtual_host: str, queue: str) -> Operation:
        """Return an operation on a queue, under way or ended. Raises :class:`NotFound`, for those of others too."""
        task = self._tasks.task(number)
        if isinstance(task, Operation) and task.host.name == virtual_host and task.target == queue:
            return task
        return self._tasks.unknown(number)

    def operations(self, virtual_host: str, queue: str) -> list[tuple[int, Operation]]:
        """Return the operations on a queue that are remembered with their numbers, the newest first."""
        found: list[tuple[int, Operation]] = []
        for number in sorted(self._tasks.numbers(), reverse=True):
            task = self._tasks.task(number)
            if isinstance(task, Operation) and task.host.name == virtual_host and task.target == queue:
                found.append((number, task))
        return found

    def cancel(self, number: int, virtual_host: str, queue: str) -> Operation:
        """End an operation where it is; one that has ended stays as it is. Raises as :meth:`operation`."""
        operation = self.operation(number, virtual_host, queue)
        self._tasks.cancel(number, self._clock())
        return operation

    def stop(self) -> None:
        """End everything, so that the audit trail has how far each came. Before the last commit; idempotent."""
        self._stopped = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._tasks.cancel_all(self._clock())

    def _continue(self) -> None:
        """Have the next slice done. A new operation does not wait for those that wait for the disk."""
        loop = asyncio.get_running_loop()
        if self._handle is not None and self._tasks.waiting:
            return
        if self._handle is not None:
            self._handle.cancel()
        if self._tasks.waiting:
            self._handle = loop.call_later(REFUSED_PAUSE_SECONDS, self._step)
        else:
            self._handle = loop.call_soon(self._step)

    def _step(self) -> None:
        self._handle = None
        try:
            self._tasks.step(self._clock())
        except Exception:  # a defect that meets one operation must not end the others
            logger.exception("defect in a management operation")
        if self._tasks.running:
            self._continue()
