"""The commit pipeline: one group commit for everything the broker writes.

Records gather in the log's open window during a loop turn. The window is sealed when the disk is idle, written by one
disk thread, and all waiters are told at once. While a write is under way the next window fills, so the batch size
follows the load without a timer; messages settled in between are never written. Upkeep has a thread of its own: an
index or checkpoint takes some ten milliseconds, and no publisher waits for it.

The history (losses, duplicate ids, delivery counts) goes along: notes of a window are written after its records and
before anybody is told. Should the broker die in between, the records are there and nothing has been promised.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import structlog

from annulet.broker.paging.reading_thread import ReadingThread
from annulet.broker.turns.ready_threads import ready_threads
from annulet.store.files.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from annulet.broker.durability.history import HistoryRecorder
    from annulet.store.database.definition_groups import DefinitionGroups
    from annulet.store.database.history_batch import HistoryBatch
    from annulet.store.segments.interface import Batch, Log

logger = structlog.get_logger(__name__)


class CommitWaiter(Protocol):
    """A waiter whose answer to a client depends on a window being durable."""

    def window_committed(self, window: int) -> None:
        """Everything appended up to and including ``window`` is durable."""

    def window_failed(self, window: int) -> None:
        """The window could not be written; nothing in it may be confirmed."""


@dataclass(frozen=True, slots=True)
class Interlude:
    """Work between two windows. See :meth:`CommitPipeline.between_windows`."""

    on_loop: Callable[[], None]
    on_disk: Callable[[], None]
    ended: asyncio.Future[None]

    def end(self, error: BaseException | None) -> None:
        """Tell whoever waits."""
        if self.ended.done():  # the wait was cancelled
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


class CommitPipeline:
    """Seals windows, writes them in order, and reports. Lives on the loop; only writing is done in its thread.

    ``history`` of ``None`` remembers nothing beside the log: a broker in memory.
    """

    def __init__(self, log: Log, loop: asyncio.AbstractEventLoop, history: HistoryRecorder | None = None) -> None:
        self.log = log
        self.history = history
        self.window = 1  # number of the open window
        self.failed = False  # a write failed: nothing can be made durable until the broker is restarted
        self.batches = 0  # windows that reached the disk
        self._loop = loop
        self._executor = ready_threads(1, "annulet-disk")
        self._upkeep_executor = ready_threads(1, "annulet-upkeep")
        self._reading = ReadingThread()
        self._waiters: list[CommitWaiter] = []  # of the open window
        self._scheduled = False
        self._busy = False  # the disk thread is at work
        self._maintaining = asyncio.Lock()
        self._upkeep: set[asyncio.Task[None]] = set()  # rounds requested by durable(), and their waiters
        self._interludes: deque[Interlude] = deque()  # to be played before the next window is sealed
        self.definitions: DefinitionGroups | None = None  # durable before the messages of their queues
        self.on_failure: Callable[[BaseException], None] | None = None
        self.on_written: Callable[[], None] | None = None  # a window reached the disk, and its waiters were told
        log.read_ahead_with(self._reading.submit)

    def request(self) -> None:
        """Seal the open window at the end of this loop turn, or as soon as the disk is idle."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._seal)

    def wait(self, waiter: CommitWaiter) -> int:
        """Tell ``waiter`` when the current content of the open window is durable. Returns the window's number."""
        self._waiters.append(waiter)
        self.request()
        return self.window

    async def durable(self) -> None:
        """Return when everything appended so far is on disk. Cancelling the wait does not undo the write.

        Settlements that a full disk has no room for are tried in a checkpoint; where that fails too they stay in
        memory. Raises :class:`StoreError` when the disk refused the write.
        """
        waiter = _FutureWaiter(self._loop.create_future())
        self.wait(waiter)
        await waiter.future
        if self.log.deferring:
            await asyncio.shield(self._keep(self.maintain(checkpoint=True)))  # a step that began must end

    def wait_until_noted(self, waiter: CommitWaiter) -> None:
        """As :meth:`wait`, for callers that free space: on a full disk the checkpoint is waited for that takes the
        place of records which found no room. When that fails too, the waiter is told so.
        """
        self._keep(self._tell_when_noted(waiter))

    async def _tell_when_noted(self, waiter: CommitWaiter) -> None:
        window = self.window
        try:
            await self.durable()
        except StoreError:
            _fail([waiter], window)
            return
        if self.log.deferring:
            _fail([waiter], window)
        else:
            _commit([waiter], window)

    def _keep(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run ``work``, which :meth:`close` waits for in any case."""
        task = self._loop.create_task(work)
        self._upkeep.add(task)
        task.add_done_callback(self._upkeep.discard)
        return task

    async def maintain(self, *, checkpoint: bool = False) -> None:
        """Run the log's upkeep (checkpoint, compaction) step by step in its thread, until nothing is due.

        ``checkpoint`` asks for a checkpoint as well, if anything changed. Ends at the first step that fails: work that
        fails on a full disk is due again at once, and would be for ever.
        """
        async with self._maintaining:
            while not self.failed:
                task = self.log.maintenance(checkpoint=checkpoint)
                checkpoint = False
                if task is None:
                    return
                await self._loop.run_in_executor(self._upkeep_executor, task.run)
                self.log.finish(task)
                if task.error is not None:
                    return

    @asynccontextmanager
    async def upkeep_paused(self) -> AsyncIterator[None]:
        """Have no upkeep inside the block: no file of the log is replaced or removed, and no checkpoint written."""
        async with self._maintaining:
            yield

    async def between_windows(self, on_loop: Callable[[], None], on_disk: Callable[[], None]) -> None:
        """Call ``on_loop``, then ``on_disk`` in the disk thread, while no window is being written.

        So both see log, history and catalogue as the death of the process would leave them. The next window fills
        meanwhile. Raises what they raise, :class:`StoreError` when the disk failed before.
        """
        interlude = Interlude(on_loop, on_disk, self._loop.create_future())
        self._interludes.append(interlude)
        self.request()
        await interlude.ended

    async def close(self) -> None:
        """Write the open window and stop the threads, which end even when this raises :class:`StoreError`."""
        try:
            if not self.failed:
                await self.durable()
            if self._upkeep:
                await asyncio.wait(self._upkeep)
        finally:
            self.log.read_ahead_with(None)
            self._executor.shutdown(wait=True)
            self._upkeep_executor.shutdown(wait=True)
            self._reading.close()

    def _seal(self) -> None:
        if self._busy:
            return  # _written() comes back here
        if self._interludes and not self.failed:
            self._play(self._interludes.popleft())
            return
        self._scheduled = False
        waiters, self._waiters = self._waiters, []
        window = self.window
        self.window += 1
        if self.failed:
            self._cancel_interludes()
            _fail(waiters, window)
            return
        try:
            batch = self.log.take_batch()
        except StoreError as error:
            self._give_up(error, waiters, window)
            return
        notes = None
        if self.history is not None:
            notes = self.history.take(self.log.next_record, deferring=self.log.deferring)
        if batch is None and notes is None:
            _commit(waiters, window)
            return
        self._busy = True
        if self.definitions is not None:
            self.definitions.seal()
        future = self._loop.run_in_executor(self._executor, self._write, batch, notes)
        future.add_done_callback(lambda done: self._written(done, batch, notes, waiters, window))

    def _play(self, interlude: Interlude) -> None:
        """Run an interlude; the window that is due follows."""
        try:
            interlude.on_loop()
        except Exception as error:  # noqa: BLE001 - whoever asked for it judges
            interlude.end(error)
            self._seal()
            return
        self._busy = True
        future = self._loop.run_in_executor(self._executor, interlude.on_disk)

        def played(done: asyncio.Future[None]) -> None:
            self._busy = False
            interlude.end(done.exception())
            self._seal()

        future.add_done_callback(played)

    def _cancel_interludes(self) -> None:
        while self._interludes:
            self._interludes.popleft().end(StoreError("the message log cannot be written; see the broker's log"))

    def _write(self, batch: Batch | None, notes: HistoryBatch | None) -> Exception | None:
        """Disk thread: the log first, since notes of records that are not there mislead. Returns history's error."""
        if self.definitions is not None:
            self.definitions.run_all()
        if batch is not None:
            self.log.write(batch)
        return None if self.history is None or notes is None else self.history.write(notes)

    def _written(
        self,
        done: asyncio.Future[Exception | None],
        batch: Batch | None,
        notes: HistoryBatch | None,
        waiters: list[CommitWaiter],
        window: int,
    ) -> None:
        self._busy = False
        error = done.exception()
        if error is None:
            if batch is not None:
                self.batches += 1
                self.log.complete(batch)
            if self.history is not None and notes is not None:
                self.history.finish(notes, done.result())
            _commit(waiters, window)
            if self.on_written is not None:
                self._loop.call_soon(self.on_written)  # in a turn of its own: its defects must not stop the pipeline
        else:
            self._give_up(error, waiters, window)
        if self._scheduled:
            self._seal()

    def _give_up(self, error: BaseException, waiters: list[CommitWaiter], window: int) -> None:
        self.failed = True
        logger.critical("message log cannot be written", error=str(error), remedy="free or repair the disk, restart")
        _fail(waiters, window)
        if self.on_failure is not None:
            self.on_failure(error)


class _FutureWaiter:
    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future

    def window_committed(self, window: int) -> None:  # noqa: ARG002 - of the interface; it waits for one only
        if not self.future.done():
            self.future.set_result(None)

    def window_failed(self, window: int) -> None:
        if not self.future.done():
            self.future.set_exception(
                StoreError(f"the message log could not write window {window}; see the broker's log")
            )


def _commit(waiters: list[CommitWaiter], window: int) -> None:
    for waiter in waiters:
        try:
            waiter.window_committed(window)
        except Exception:  # one waiter's defect must neither keep the others waiting nor stop the pipeline
            logger.exception("defect in a commit waiter", waiter=type(waiter).__name__, window=window)


def _fail(waiters: list[CommitWaiter], window: int) -> None:
    for waiter in waiters:
        try:
            waiter.window_failed(window)
        except Exception:  # as above
            logger.exception("defect in a commit waiter", waiter=type(waiter).__name__, window=window)
