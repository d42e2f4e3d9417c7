"""The commit pipeline over a log that does what the test says."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Callable

import pytest
import structlog

from annulet.broker.durability.commit import CommitPipeline
from annulet.broker.durability.history import HistoryRecorder
from annulet.store.database.history import History
from annulet.store.database.history_batch import HistoryBatch
from annulet.store.files.errors import LogFailedError, StoreError
from annulet.store.log.memory import MemoryLog
from annulet.store.segments.interface import Batch, MaintenanceTask


class SteeredLog(MemoryLog):
    """Has a batch to write whenever ``dirty``; the disk is as slow and as sound as the test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.dirty = True
        self.written: list[int] = []
        self.completed: list[int] = []
        self.error: Exception | None = None
        self.seal_error: Exception | None = None
        self.go = threading.Event()
        self.go.set()
        self.tasks: list[MaintenanceTask] = []
        self.finished: list[MaintenanceTask] = []
        self.deferred = False
        self.submit: Callable[[Callable[[], None]], None] | None = None  # what it may have a thread do
        self._number = 0

    @property
    def deferring(self) -> bool:
        return self.deferred

    def read_ahead_with(self, submit: Callable[[Callable[[], None]], None] | None) -> None:
        self.submit = submit

    def take_batch(self) -> Batch | None:
        if self.seal_error is not None:
            raise self.seal_error
        if not self.dirty:
            return None
        self._number += 1
        return Batch(self._number, 1)

    def write(self, batch: Batch) -> None:
        self.go.wait()
        if self.error is not None:
            raise self.error
        self.written.append(batch.number)

    def complete(self, batch: Batch) -> None:
        self.completed.append(batch.number)

    def maintenance(self, *, checkpoint: bool = False) -> MaintenanceTask | None:
        return self.tasks.pop(0) if self.tasks else None

    def finish(self, task: MaintenanceTask) -> None:
        self.finished.append(task)


class Waiter:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def window_committed(self, window: int) -> None:
        self.told.append(("committed", window))

    def window_failed(self, window: int) -> None:
        self.told.append(("failed", window))


class DefectiveWaiter(Waiter):
    def window_committed(self, window: int) -> None:
        raise RuntimeError("defect")

    def window_failed(self, window: int) -> None:
        raise RuntimeError("defect")


@pytest.fixture
def log() -> SteeredLog:
    return SteeredLog()


@pytest.fixture
async def pipeline(log: SteeredLog) -> AsyncIterator[CommitPipeline]:
    pipeline = CommitPipeline(log, asyncio.get_running_loop())
    yield pipeline
    log.go.set()
    log.seal_error = None
    await pipeline.close()


async def test_all_of_a_turn_share_one_write(pipeline: CommitPipeline, log: SteeredLog) -> None:
    waiters = [Waiter(), Waiter(), Waiter()]
    assert {pipeline.wait(waiter) for waiter in waiters} == {1}
    await pipeline.durable()
    assert [waiter.told for waiter in waiters] == [[("committed", 1)]] * 3
    assert log.written == log.completed == [1]
    assert pipeline.batches == 1


async def test_what_comes_during_a_write_goes_into_the_next_window(pipeline: CommitPipeline, log: SteeredLog) -> None:
    log.go.clear()
    first, second = Waiter(), Waiter()
    assert pipeline.wait(first) == 1
    await asyncio.sleep(0)
    assert pipeline.wait(second) == 2
    await asyncio.sleep(0)
    assert pipeline.window == 2, "the second window stays open while the disk is at work"
    assert first.told == []
    log.go.set()
    await pipeline.durable()
    assert (first.told, second.told) == ([("committed", 1)], [("committed", 2)])
    assert log.written == [1, 2]


async def test_nothing_to_write_is_committed_at_once(pipeline: CommitPipeline, log: SteeredLog) -> None:
    log.dirty = False
    waiter = Waiter()
    pipeline.wait(waiter)
    await asyncio.sleep(0)
    assert waiter.told == [("committed", 1)]
    assert (log.written, pipeline.batches) == ([], 0)


async def test_failed_write_fails_its_window_and_all_later_ones(pipeline: CommitPipeline, log: SteeredLog) -> None:
    log.error = LogFailedError("disk gone")
    failures: list[BaseException] = []
    pipeline.on_failure = failures.append
    waiter, later = Waiter(), Waiter()
    pipeline.wait(waiter)
    with pytest.raises(StoreError, match="window 1"):
        await pipeline.durable()
    assert waiter.told == [("failed", 1)]
    assert failures == [log.error]
    assert pipeline.failed
    pipeline.wait(later)
    with pytest.raises(StoreError):
        await pipeline.durable()
    assert later.told == [("failed", 2)]
    assert log.completed == []
    assert len(failures) == 1


async def test_log_that_cannot_seal_its_window_fails_it(pipeline: CommitPipeline, log: SteeredLog) -> None:
    log.seal_error = LogFailedError("failed before")
    waiter = Waiter()
    pipeline.wait(waiter)
    with pytest.raises(StoreError):
        await pipeline.durable()
    assert waiter.told == [("failed", 1)]
    assert pipeline.failed


@pytest.mark.parametrize("error", [None, LogFailedError("disk gone")], ids=["committed", "failed"])
async def test_defective_waiter_keeps_nobody_waiting(
    pipeline: CommitPipeline, log: SteeredLog, error: Exception | None
) -> None:
    log.go.clear()
    log.error = error
    waiter, later = Waiter(), Waiter()
    pipeline.wait(DefectiveWaiter())
    pipeline.wait(waiter)
    await asyncio.sleep(0)
    pipeline.wait(later)
    with structlog.testing.capture_logs() as lines:
        log.go.set()
        await asyncio.gather(pipeline.durable(), return_exceptions=True)
    outcome = "committed" if error is None else "failed"
    assert (waiter.told, later.told) == ([(outcome, 1)], [(outcome, 2)])
    assert any(line["event"] == "defect in a commit waiter" for line in lines)


async def test_cancelled_wait_disturbs_nobody(pipeline: CommitPipeline, log: SteeredLog) -> None:
    log.go.clear()
    waiting = asyncio.ensure_future(pipeline.durable())
    waiter = Waiter()
    await asyncio.sleep(0)
    pipeline.wait(waiter)
    waiting.cancel()
    log.go.set()
    await pipeline.durable()
    assert [kind for kind, _ in waiter.told] == ["committed"]


async def test_upkeep_runs_until_nothing_is_due(pipeline: CommitPipeline, log: SteeredLog) -> None:
    class Task(MaintenanceTask):
        def work(self) -> None:
            assert threading.current_thread() is not threading.main_thread()

    log.tasks = [Task(), Task()]
    expected = list(log.tasks)
    await pipeline.maintain()
    assert log.finished == expected


async def test_nobody_waits_for_upkeep(pipeline: CommitPipeline, log: SteeredLog) -> None:
    begun, end = threading.Event(), threading.Event()

    class Task(MaintenanceTask):
        def work(self) -> None:
            begun.set()
            end.wait()

    log.tasks = [Task()]
    upkeep = asyncio.create_task(pipeline.maintain())
    await asyncio.to_thread(begun.wait)
    waiter = Waiter()
    pipeline.wait(waiter)
    await pipeline.durable()
    assert waiter.told == [("committed", 1)]
    assert not upkeep.done()
    end.set()
    await upkeep


async def test_upkeep_that_fails_is_left_for_the_next_round(pipeline: CommitPipeline, log: SteeredLog) -> None:
    class Task(MaintenanceTask):
        def work(self) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")

    log.tasks = [Task() for _ in range(3)]  # a checkpoint that fails is due again at once
    await pipeline.maintain()
    assert len(log.finished) == 1
    await pipeline.maintain()
    assert len(log.finished) == 2


async def test_settlements_a_full_disk_deferred_are_made_durable_by_upkeep(
    pipeline: CommitPipeline, log: SteeredLog
) -> None:
    class Checkpoint(MaintenanceTask):
        def work(self) -> None:
            log.deferred = False

    log.dirty = False
    log.deferred = True
    log.tasks = [Checkpoint()]
    waiting = asyncio.ensure_future(pipeline.durable())
    await asyncio.gather(waiting, pipeline.maintain())  # the round of the tick may run at the same time
    assert not log.deferred
    assert len(log.finished) == 1


def threads_of_disks() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(("annulet-disk", "annulet-upkeep"))}


async def test_closing_writes_what_is_open_and_ends_the_thread(log: SteeredLog) -> None:
    others = threads_of_disks()  # of brokers that tests before this one killed
    pipeline = CommitPipeline(log, asyncio.get_running_loop())
    waiter = Waiter()
    pipeline.wait(waiter)
    await pipeline.close()
    assert waiter.told == [("committed", 1)]
    assert not threads_of_disks() - others


async def test_a_thread_reads_ahead_until_closing(log: SteeredLog) -> None:
    others = set(threading.enumerate())  # as above
    pipeline = CommitPipeline(log, asyncio.get_running_loop())
    names: list[str] = []
    assert log.submit is not None
    log.submit(lambda: names.append(threading.current_thread().name))
    await pipeline.close()
    assert len(names) == 1, "what was asked for is done"
    assert names[0].startswith("annulet-read")
    assert log.submit is None
    assert not any(thread.name.startswith("annulet-read") for thread in set(threading.enumerate()) - others)


async def test_defects_of_reading_ahead_are_logged(log: SteeredLog) -> None:
    pipeline = CommitPipeline(log, asyncio.get_running_loop())

    def fail() -> None:
        raise RuntimeError("defect")

    assert log.submit is not None
    with structlog.testing.capture_logs() as lines:
        log.submit(lambda: None)
        log.submit(fail)
        await pipeline.close()
    assert [line["event"] for line in lines] == ["defect while reading ahead"]


async def test_closing_ends_the_thread_when_the_last_write_fails(log: SteeredLog) -> None:
    others = threads_of_disks()
    pipeline = CommitPipeline(log, asyncio.get_running_loop())
    log.error = LogFailedError("disk gone")
    with pytest.raises(StoreError):
        await pipeline.close()
    assert not threads_of_disks() - others


@pytest.mark.parametrize(("helps", "told"), [(True, "committed"), (False, "failed")])
async def test_who_frees_space_on_a_full_disk_is_told_whether_a_checkpoint_has_it(
    pipeline: CommitPipeline, log: SteeredLog, helps: bool, told: str
) -> None:
    class Checkpoint(MaintenanceTask):
        def work(self) -> None:
            log.deferred = not helps

    log.deferred = True
    log.tasks.append(Checkpoint())
    waiter = Waiter()
    pipeline.wait_until_noted(waiter)
    await asyncio.wait(pipeline._upkeep)
    assert [what for what, _ in waiter.told] == [told]
    assert len(log.finished) == 1


async def test_who_frees_space_is_told_of_a_failed_disk(log: SteeredLog) -> None:
    pipeline = CommitPipeline(log, asyncio.get_running_loop())
    log.error = LogFailedError("disk gone")
    waiter = Waiter()
    pipeline.wait_until_noted(waiter)
    with pytest.raises(StoreError):
        await pipeline.close()
    await asyncio.sleep(0)
    assert [what for what, _ in waiter.told] == ["failed"]


class SteeredHistory(History):
    """Fails when the test says so, and keeps the order of writes in the log's list."""

    def __init__(self, log: SteeredLog) -> None:
        super().__init__(":memory:")
        self.log = log
        self.error: Exception | None = None

    def write(self, batch: HistoryBatch) -> None:
        assert threading.current_thread() is not threading.main_thread()
        self.log.written.append(-len(batch.entries))
        if self.error is not None:
            raise self.error
        super().write(batch)


class Remembering:
    """A pipeline with a history."""

    def __init__(self, log: SteeredLog) -> None:
        self.log = log
        self.history = SteeredHistory(log)
        self.recorder = HistoryRecorder(self.history)
        self.pipeline = CommitPipeline(log, asyncio.get_running_loop(), self.recorder)

    def note(self, *sequences: int) -> None:
        self.recorder.pending.entries.update(dict.fromkeys((1, sequence) for sequence in sequences))


@pytest.fixture
async def remembering(log: SteeredLog) -> AsyncIterator[Remembering]:
    remembering = Remembering(log)
    yield remembering
    log.go.set()
    log.error = None
    if not remembering.pipeline.failed:
        await remembering.pipeline.close()
    remembering.history.close()


async def test_the_history_is_written_after_the_log_and_before_anybody_is_told(remembering: Remembering) -> None:
    waiter = Waiter()
    remembering.note(1, 2)
    remembering.pipeline.wait(waiter)
    remembering.log.go.clear()
    await asyncio.sleep(0)
    assert (remembering.log.written, waiter.told) == ([], [])
    remembering.log.go.set()
    await remembering.pipeline.durable()
    assert waiter.told == [("committed", 1)]
    assert remembering.log.written[:2] == [1, -2]
    assert remembering.recorder.batches == 1


async def test_notes_without_records_are_waited_for(remembering: Remembering) -> None:
    remembering.log.dirty = False
    waiter = Waiter()
    remembering.note(1)
    remembering.pipeline.wait(waiter)
    await asyncio.sleep(0)
    assert waiter.told == []
    await remembering.pipeline.durable()
    assert waiter.told == [("committed", 1)]
    assert (remembering.log.written, remembering.pipeline.batches) == ([-1], 0)


async def test_a_history_that_cannot_be_written_fails_nobody_and_is_tried_again(remembering: Remembering) -> None:
    remembering.history.error = OSError(errno.ENOSPC, "no space left on device")
    with structlog.testing.capture_logs() as lines:
        for sequence in (1, 2):
            waiter = Waiter()
            remembering.note(sequence)
            remembering.pipeline.wait(waiter)
            await remembering.pipeline.durable()
            assert [kind for kind, _ in waiter.told] == ["committed"]
    assert [line["event"] for line in lines] == ["history cannot be written"], "once, not with every window"
    assert (remembering.recorder.failures, remembering.recorder.batches) == (2, 0)
    remembering.history.error = None
    await remembering.pipeline.durable()
    assert (remembering.log.written[-1], remembering.recorder.batches) == (-2, 1)
    assert not remembering.recorder.pending


async def test_notes_of_a_window_the_log_lost_are_never_written(remembering: Remembering) -> None:
    remembering.log.error = LogFailedError("disk gone")
    remembering.note(1)
    with pytest.raises(StoreError):
        await remembering.pipeline.durable()
    assert remembering.log.written == []


async def test_who_asked_hears_of_windows_on_disk_after_those_who_waited(remembering: Remembering) -> None:
    waiter = Waiter()
    heard: list[int] = []
    remembering.pipeline.on_written = lambda: heard.append(len(waiter.told))
    remembering.pipeline.wait(waiter)
    await remembering.pipeline.durable()
    await asyncio.sleep(0)
    assert heard == [1]


async def test_between_windows_nothing_is_written_and_the_next_window_follows(log: SteeredLog) -> None:
    """The interlude waits for the write under way; what comes meanwhile waits for the interlude."""
    pipeline = CommitPipeline(log, asyncio.get_running_loop())
    log.go.clear()
    first, second = Waiter(), Waiter()
    pipeline.wait(first)
    await asyncio.sleep(0)
    seen: list[tuple[str, list[int]]] = []
    waiting = asyncio.create_task(
        pipeline.between_windows(
            lambda: seen.append(("loop", list(log.completed))), lambda: seen.append(("disk", list(log.written)))
        )
    )
    await asyncio.sleep(0)
    pipeline.wait(second)
    await asyncio.sleep(0.01)
    assert seen == []
    log.go.set()
    await waiting
    assert seen == [("loop", [1]), ("disk", [1])]
    await pipeline.durable()
    assert second.told
    assert log.written[:2] == [1, 2]
    await pipeline.close()


async def test_an_interlude_that_fails_tells_its_caller_only(log: SteeredLog) -> None:
    pipeline = CommitPipeline(log, asyncio.get_running_loop())

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        await pipeline.between_windows(fail, lambda: None)
    with pytest.raises(OSError, match="Input/output"):
        await pipeline.between_windows(lambda: None, fail)
    await pipeline.durable()
    assert not pipeline.failed
    log.error = LogFailedError("the disk is gone")
    with pytest.raises(StoreError):
        await pipeline.durable()
    with pytest.raises(StoreError, match="cannot be written"):
        await pipeline.between_windows(lambda: None, lambda: None)
    await pipeline.close()


async def test_no_upkeep_runs_inside_a_pause(log: SteeredLog) -> None:
    pipeline = CommitPipeline(log, asyncio.get_running_loop())
    async with pipeline.upkeep_paused():
        log.tasks = [MaintenanceTask()]
        upkeep = asyncio.create_task(pipeline.maintain())
        await asyncio.sleep(0)
        assert log.tasks, "it has not begun"
    with pytest.raises(NotImplementedError):  # the task of the interface does nothing
        await upkeep
    await pipeline.close()
