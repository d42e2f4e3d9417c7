"""Decides the next upkeep of the message log, and applies its result."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable
from typing import Final

from annulet.store.files.full_disk import FULL_DISK, NO_SPACE
from annulet.store.log.checkpoint import Checkpoint, CheckpointTask, SegmentPicture, take_picture
from annulet.store.log.quarantine import REASON_RECOVERY, DamageNote, Quarantine, QuarantineTask, quarantine_directory
from annulet.store.log.reading import RecordReader
from annulet.store.log.recovery import Recovery
from annulet.store.log.sealing import Sealer
from annulet.store.log.space import LogSpace
from annulet.store.log.sweeping import SWEEP_ORDINALS, Sweep, segments_of
from annulet.store.log.upkeep import CompactTask, RemoveTask, SpareTask
from annulet.store.log.window import LogBatch, LogTransaction
from annulet.store.segments.head_writing import HeadTask
from annulet.store.segments.index_building import IndexTask
from annulet.store.segments.index_filling import HeaderCheck
from annulet.store.segments.interface import MaintenanceTask
from annulet.store.segments.records import ORDINAL_BITS, pack_numbers
from annulet.store.segments.segment import Segment, segment_name

logger = logging.getLogger(__name__)

CHECKPOINT_BYTES: Final = 64 << 20
"""A checkpoint is due after this much was written: a start then reads little more than that twice."""

COMPACT_BELOW: Final = 4
"""A segment is compacted when live records take less than 1/4 of it: copying costs at most a third of the freed
space."""

EMPTYING_ROUNDS: Final = 20
"""A segment that would be empty after this many more rounds of upkeep, 5 s in the broker, at the pace of the last ones
is not compacted: its consumers are reading it, and the copies would be settled before they are of use."""

INDEXES_AT_CLOSE: Final = 32
"""Segments whose index a clean stop still writes, at some 30 ms each. There are more only right after an upgrade."""

TAIL_SHARE: Final = 16
"""A clean stop ends a tail that is longer than 1/16 of a segment: shorter ones are read quickly, and frequent stops do
not leave a segment each."""


class SweepTask(MaintenanceTask):
    """One slice of settling a deleted or purged queue's records; the work is in ``finish``, on the loop."""

    def work(self) -> None:
        """Nothing to do on the disk."""


class Maintenance:
    """Schedules upkeep: one task at a time. Belongs to the loop."""

    def __init__(
        self,
        space: LogSpace,
        sealer: Sealer,
        recovery: Recovery,
        transactions: dict[int, LogTransaction],
        reader: RecordReader,
        asks_for: HeaderCheck | None,
    ) -> None:
        self.bytes_written = 0
        self.batches = 0
        self.checkpoints = 0
        self.compactions = 0
        self.indexes = 0  # written
        self.errors = 0
        self._space = space
        self._sealer = sealer
        self._transactions = transactions
        self._reader = reader
        self._quarantine = Quarantine(quarantine_directory(space.directory), space.files)
        for damage in recovery.report.damages:
            if damage.kind == "corrupt":
                reader.damaged.add(DamageNote(damage.segment, damage.offset, damage.length, REASON_RECOVERY))
        self._sequences = recovery.sequences
        self._number = max(recovery.checkpoint_numbers, default=0)
        self._newest = recovery.base  # the newest durable checkpoint
        self._covered = 0  # segments below this are covered by both checkpoints that are kept
        self._dead = {number: space.directory / segment_name(number) for number in recovery.dead}
        self._pictures: dict[int, SegmentPicture] = {}
        self.sweeps_held = 0  # number of readers of records to be swept
        self._sweeps: list[Sweep] = []
        self._swept: set[int] = set()  # segments settled by sweeps that no checkpoint has pictured since
        self._picturing: dict[int, int] = {}  # swept segment -> the checkpoint that pictured it first, or will
        self._waiting: Checkpoint | None = None  # taken at a seal whose batch is not durable yet
        self._wanted = False  # one is due, and taken when the open window is sealed
        self._asked = False  # a checkpoint is to be made if it is of use
        self._sealed = recovery.batch.number
        self._durable = recovery.batch.number
        self._settled = recovery.batch.number  # settlements noted before this batch was sealed are durable
        self._quiet = False  # no settlement is on its way to the disk
        self._dead_since: dict[int, int] = {}  # segment without live records -> batch that makes that durable
        self._rounds = 0  # of finished upkeep
        self._sparse: dict[int, tuple[int, int]] = {}  # segment worth compacting -> round that saw it, live then
        self._chosen: tuple[Segment, list[int], int] | None = None  # to compact: ordinals to keep, batch as above
        self._unsaved = 0  # bytes since the last checkpoint
        self._asks_for = asks_for
        self._to_index: deque[int] = deque()  # segments the newest checkpoint covers that may lack their index
        self._unindexed: list[int] = []  # whose index could not be written: once more after the next checkpoint
        self._note_unindexed(sorted(number for number in space.segments if number < recovery.base.segment))
        self._postponed: list[Segment] = []  # compaction found no space: once more after the next checkpoint
        self._task: MaintenanceTask | None = None

    # ------------------------------------------------------------------ events

    def sealed(self, batch: LogBatch, next_transaction: int, outcomes: dict[str, int]) -> None:
        """A window was sealed: the moment to take a checkpoint's picture."""
        self._sealed = batch.number
        self._unsaved += batch.size
        if self._wanted:
            self._wanted = False
            self._waiting = self._take(next_transaction, outcomes)

    def written(self, batch: LogBatch) -> None:
        """A batch is durable."""
        self._durable = batch.number
        if batch.settles_all:
            self._settled = batch.number
        self.batches += 1
        self.bytes_written += batch.size
        self._space.heads.add(batch.runs, takes_heads=self._space.takes_heads)

    def sweep(self, queue_id: int, segments: list[int]) -> None:
        """Settle the queue's records in these segments, bit by bit."""
        self._sweeps.append(Sweep(queue_id, segments))
        self._swept.update(segments)

    def sweep_range(self, queue_id: int, first: int, last: int) -> None:
        """Settle the records of the queue in this range, in slices."""
        held = segments_of(self._space.segments, queue_id, first, last)
        if held:
            self._sweeps.append(Sweep(queue_id, held, (first, last)))
            self._swept.update(held)

    def figures(self) -> dict[str, int]:
        """Return counts of upkeep, of quarantined and refused damage, of read-ahead, and the figures of the files of
        heads, under the names of the statistics.
        """
        kept = self._quarantine
        return {
            "bytes_written": self.bytes_written,
            "batches": self.batches,
            "checkpoints": self.checkpoints,
            "compactions": self.compactions,
            "indexes": self.indexes,
            "maintenance_errors": self.errors,
            **self._space.heads.figures(),
            "quarantined_records": kept.records,
            "quarantined_bytes": kept.bytes,
            "quarantine_refused": kept.refused + self._reader.damaged.dropped,
            "read_ahead_bytes": self._reader.ahead.bytes,
        }

    # ------------------------------------------------------------------ the next task

    def next_task(
        self, *, window_empty: bool, next_transaction: int, outcomes: dict[str, int], wanted: bool
    ) -> MaintenanceTask | None:
        """Return the most useful task, ``None`` while one is under way or nothing is needed.

        ``wanted`` is kept until it is the checkpoint's turn.
        """
        self._asked |= wanted
        if self._task is not None:
            return None
        self._quiet = window_empty and not self._sealer.settled and self._sealed == self._durable
        self._task = (
            self._quarantine_task()  # before anything rewrites or removes the segment
            or self._remove_task()  # first: it frees the space that a checkpoint may be failing for
            or self._checkpoint_task(window_empty=window_empty, next_transaction=next_transaction, outcomes=outcomes)
            or self._spare_task()
            or self._head_task()  # there may be more as soon as it is done: urgent work must not wait for it
            or self._sweep_task()
            or self._compact_task()
            or self._index_task()
        )
        if self._task is None:
            self._rounds += 1
            self._reader.ahead.tidy()
        return self._task

    def _quarantine_task(self) -> QuarantineTask | None:
        notes = self._reader.damaged.take()
        return QuarantineTask(notes, self._space.segments, self._quarantine, self._space.files) if notes else None

    def _checkpoint_task(
        self, *, window_empty: bool, next_transaction: int, outcomes: dict[str, int]
    ) -> CheckpointTask | None:
        asked, self._asked = self._asked, False
        if self._waiting is None and (self._wanted or self._checkpoint_due() or (asked and self._checkpoint_of_use())):
            self._wanted = not window_empty  # a completely cancelled window ends without being sealed
            if window_empty:
                self._waiting = self._take(next_transaction, outcomes)
        if self._waiting is None or self._waiting.batch > self._durable:
            return None
        checkpoint, self._waiting = self._waiting, None
        return self._task_for(checkpoint)

    def _task_for(self, checkpoint: Checkpoint) -> CheckpointTask:
        self._number += 1
        checkpoint.number = self._number
        return CheckpointTask(checkpoint, self._space.directory, self._space.files, self._newest.number)

    def _checkpoint_of_use(self) -> bool:
        """Return whether a checkpoint now would record or free anything: an idle log writes none, however often
        requested.

        A segment can be removed when both kept checkpoints are behind it, so the last one with new information is
        followed by one more if that frees a segment. No checkpoint can cover segments from the log's end on.
        """
        if self._unsaved > 0 or self._sealer.settled or self._sealer.deferring:
            return True
        coverable = range(self._covered, self._sealer.end[0])
        return any(number in coverable for number in self._dead) or any(
            number in coverable and self._disposable(segment) for number, segment in self._space.segments.items()
        )

    def _checkpoint_due(self) -> bool:
        if self._unsaved >= CHECKPOINT_BYTES:
            return True
        if not self._sweeps and any(self._frees(number) for number in (*self._swept, *self._picturing)):
            return True
        if self._unsaved < self._space.segment_bytes and not self._space.disk_full:
            return False
        dead = any(
            segment.closed and not segment.live_count and number >= self._covered
            for number, segment in self._space.segments.items()
        )
        return dead or (self._space.disk_full and (bool(self._sealer.settled) or self._sealer.deferring))

    def _frees(self, number: int) -> bool:
        """Return whether a checkpoint lets a segment that was swept be removed or compacted."""
        segment = self._space.segments.get(number)
        return segment is not None and number < self._covered and self._disposable(segment)

    def _disposable(self, segment: Segment) -> bool:
        """Return whether the segment receives no more records and is mostly dead."""
        if not segment.closed or segment.file is not None:
            return False
        return not segment.live_count or self._worth_compacting(segment)

    def _take(self, next_transaction: int, outcomes: dict[str, int]) -> Checkpoint:
        """Picture the log as it is behind the last sealed batch. The window must be empty."""
        segment, offset = self._sealer.end
        checkpoint = Checkpoint(0, segment, offset, self._sealed, next_transaction)
        pictures = {}
        for number, found in self._space.segments.items():
            if found.closed and not found.live_count and number < segment:
                continue
            old = self._pictures.get(number)
            pictures[number] = old if old is not None and not found.changed else take_picture(found)
            found.changed = False
        self._pictures = pictures
        checkpoint.pictures = list(pictures.values())
        for transaction, opened in self._transactions.items():
            if opened.records:
                checkpoint.transactions[transaction] = pack_numbers(opened.records)
        checkpoint.forgotten = [sweep.queue_id for sweep in self._sweeps if sweep.bounds is None]
        checkpoint.discarded = [(sweep.queue_id, *sweep.bounds) for sweep in self._sweeps if sweep.bounds is not None]
        pending = {number for sweep in self._sweeps for number, _, _ in sweep.stretches}
        self._picturing.update(dict.fromkeys(self._swept - pending, self._number + 1))
        self._swept &= pending
        checkpoint.sequences = dict(self._sequences)
        checkpoint.outcomes = dict(outcomes)
        checkpoint.released = self._sealer.released + len(self._sealer.settled)
        checkpoint.noted = self._sealer.noted
        self._unsaved = 0
        return checkpoint

    def _remove_task(self) -> RemoveTask | None:
        """Remove dead records and segments, but only after their settlements are durable.

        The successor of a message (the next value of its key, the other half of a transaction) may be in the same
        batch. Records settled by a sweep wait for both kept checkpoints: the queues of records in a removed file are
        unknown, so a start from a checkpoint where they are live would report them as lost.
        """
        paths = {number: path for number, path in self._dead.items() if number < self._covered}
        for number, segment in self._space.segments.items():
            dead = number < self._covered and segment.closed and not segment.live_count and segment.file is None
            dead = dead and self._pictured(number)
            if dead and self._durably_settled(self._dead_since.setdefault(number, self._sealer.batch)):
                paths[number] = segment.path
        for number in paths:  # closing the last descriptor of a removed file waits until its pages are released
            self._reader.release(number)
        if paths:
            self._space.heads.forget(paths)
        return RemoveTask(paths, self._space.directory, self._space.files) if paths else None

    def _pictured(self, number: int) -> bool:
        """Return whether both kept checkpoints include the settlements of sweeps in a segment."""
        return number not in self._swept and number not in self._picturing

    def _durably_settled(self, batch: int) -> bool:
        """Return whether the settlements made while ``batch`` was the open window are on disk."""
        return self._quiet or batch <= self._settled

    def _spare_task(self) -> SpareTask | None:
        if self._space.has_spare or self._space.disk_full:
            return None
        return SpareTask(self._space.spare_path(), self._space.segment_bytes, self._space.files)

    def _head_task(self) -> HeadTask | None:
        return self._space.heads.task() if self._space.takes_heads else None

    def _sweep_task(self) -> SweepTask | None:
        return SweepTask() if self._sweeps and not self.sweeps_held else None

    def _compact_task(self) -> CompactTask | None:
        """Copy the records that were live when the segment was chosen, once the settlements of the others are
        durable."""
        if self._chosen is None or self._chosen[0].number not in self._space.segments:
            self._chosen = self._choose()
        if self._chosen is None or not self._durably_settled(self._chosen[2]):
            return None
        segment, ordinals, _ = self._chosen
        self._chosen = None
        try:
            self._reader.hold(segment)  # concurrent readers read the old file, at the old offsets
        except OSError as error:
            segment.compactable = False
            logger.warning("message log: cannot open segment %d to compact it: %s", segment.number, error)
            return None
        self._space.heads.forget((segment.number,))
        live = [(ordinal, segment.offsets[ordinal]) for ordinal in ordinals]
        return CompactTask(segment, live, self._space.files, self._quarantine)

    def _note_unindexed(self, numbers: Iterable[int]) -> None:
        segments = self._space.segments
        self._to_index.extend([n for n in numbers if n in segments and not segments[n].indexed])

    def _index_task(self) -> IndexTask | None:
        """Write the index of a segment that receives no more records. None while the disk is full: it can wait."""
        while self._to_index and not self._space.disk_full:
            segment = self._space.segments.get(self._to_index.popleft())
            if segment is not None and segment.file is None and _worth_an_index(segment):
                return IndexTask(segment, self._asks_for, self._space.files)
        return None

    def _choose(self) -> tuple[Segment, list[int], int] | None:
        """Find a segment worth compacting that will still be so later: see :data:`EMPTYING_ROUNDS`."""
        opened = [state.records[0] >> ORDINAL_BITS for state in self._transactions.values() if state.records]
        below = min([self._covered, *opened])  # an open transaction's records must keep its id
        sparse: dict[int, tuple[int, int]] = {}
        for number, segment in self._space.segments.items():
            if number >= below or segment.file is not None or not self._pictured(number):
                continue
            if not self._worth_compacting(segment):
                continue
            since, live = self._sparse.get(number, (self._rounds, segment.live_count))
            rounds = self._rounds - since
            empty_soon = (live - segment.live_count) * EMPTYING_ROUNDS >= segment.live_count * max(1, rounds)
            if (rounds or self._quiet) and not empty_soon:
                return segment, list(segment.live_ordinals()), self._sealer.batch
            sparse[number] = (self._rounds, segment.live_count) if rounds else (since, live)
        self._sparse = sparse
        return None

    def _worth_compacting(self, segment: Segment) -> bool:
        smallest = self._space.segment_bytes // 8  # less is not worth the work
        if not segment.compactable or not segment.live_count or segment.size < smallest:
            return False
        return segment.live_bytes_estimate() * COMPACT_BELOW < segment.size

    # ------------------------------------------------------------------ results

    def finish(self, task: MaintenanceTask) -> None:
        """Take in a finished task."""
        self._task = None
        if task.error is not None:
            self.errors += 1
            if task.error.errno in NO_SPACE and not isinstance(task, IndexTask):
                self._space.disk_full = True
            if not FULL_DISK.note(task.error, self._space.directory, "upkeep of the message log"):
                logger.warning("message log: upkeep %s failed: %s", type(task).__name__, task.error)
        if isinstance(task, CheckpointTask):
            self._finish_checkpoint(task)
        elif isinstance(task, RemoveTask):
            self._finish_removal(task)
        elif isinstance(task, SpareTask):
            self._finish_spare(task)
        elif isinstance(task, CompactTask):
            self._finish_compaction(task)
        elif isinstance(task, IndexTask):
            self._finish_index(task)
        elif isinstance(task, SweepTask):
            self._sweep_slice()

    def _finish_checkpoint(self, task: CheckpointTask) -> None:
        former = self._newest.number
        self._space.reserve_used |= task.ballast_dropped
        if task.error is not None:
            self._picturing.clear()  # otherwise the disk stays full; recovery allows for swept records to be missing
            self._unsaved = max(self._unsaved, CHECKPOINT_BYTES)  # due again at once
            return
        self.checkpoints += 1
        self._picturing = {number: first for number, first in self._picturing.items() if first > former}
        self._covered = self._newest.segment
        self._newest = task.checkpoint
        self._note_unindexed([*self._unindexed, *range(self._covered, self._newest.segment)])
        self._unindexed.clear()
        self._sealer.settled_elsewhere(task.checkpoint.released, task.checkpoint.noted)
        for segment in self._postponed:
            segment.compactable = True
        self._postponed.clear()
        if self._space.has_spare:
            self._space.space_found()

    def _finish_removal(self, task: RemoveTask) -> None:
        for number in task.removed:
            self._reader.release(number)
            self._dead.pop(number, None)
            self._dead_since.pop(number, None)
            self._space.segments.pop(number, None)
        if task.removed:
            self._space.space_found()

    def _finish_spare(self, task: SpareTask) -> None:
        if task.file is not None:
            self._space.reserve_used = False
            self._space.adopt_spare(task.path, task.file, task.size)

    def _finish_compaction(self, task: CompactTask) -> None:
        segment = task.segment
        self._reader.release(segment.number)
        if task.error is not None:
            segment.compactable = False
            if task.error.errno in NO_SPACE:
                self._postponed.append(segment)
            if not task.renamed:
                return
        self.compactions += 1
        if task.unreadable:
            logger.warning("message log: %d damaged records of segment %d", task.unreadable, segment.number)
        segment.offsets = task.offsets
        segment.size = task.size
        segment.kept = task.kept
        segment.indexed = False
        self._to_index.append(segment.number)
        self._space.space_found()

    def _finish_index(self, task: IndexTask) -> None:
        segment = task.segment
        if task.error is not None:
            self._unindexed.append(segment.number)
            return
        self.indexes += 1
        segment.indexed = True

    def _sweep_slice(self) -> None:
        if not self._sweeps[0].go_on(self._space.segments, SWEEP_ORDINALS):
            self._sweeps.pop(0)

    def close(self, next_transaction: int, outcomes: dict[str, int]) -> None:
        """Write the indexes that are missing and the last checkpoint. Raises ``OSError`` when the latter fails."""
        self._note_unindexed([*self._unindexed, *range(self._newest.segment, self._space.tail.number)])
        for _ in range(min(len(self._to_index), INDEXES_AT_CLOSE)):
            task = self._index_task()
            if task is not None:
                task.run()
                self.finish(task)
        self._close_tail()
        checkpoint = self._take(next_transaction, outcomes)
        checkpoint.closed = True
        written = self._task_for(checkpoint)
        try:
            written.work()
        finally:
            self._space.reserve_used |= written.ballast_dropped

    def _close_tail(self) -> None:
        """End the tail here if reading it at a start would take long, so that it gets an index as well."""
        tail = self._space.tail
        if tail.size < self._space.segment_bytes // TAIL_SHARE or not _worth_an_index(tail):
            return
        try:
            self._space.end_tail()
        except OSError as error:  # then the next start reads it
            logger.warning("message log: cannot close segment %d: %s", tail.number, error)
            return
        task = IndexTask(tail, self._asks_for, self._space.files)
        task.run()
        self.finish(task)
        if task.error is None:
            self._sealer.end = (tail.number + 1, 0)


def _worth_an_index(segment: Segment) -> bool:
    return segment.live_count > 0 and not segment.indexed
