"""The durable message log: segments with group commit, as the broker uses it.

The loop appends to a window in memory. ``take_batch`` seals it, a disk thread writes and syncs it, ``complete``
accounts for it. The log has no thread, no clock and no lock; see ``interface`` for the contract of each method and
``recovery`` for the state after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from mypy_extensions import mypyc_attr

from annulet.core.message.message import Message, Origin
from annulet.store.database.definitions import QueueName
from annulet.store.files.data_format import MARK_FILE
from annulet.store.files.errors import DiskFullError, LogFailedError, StoreError
from annulet.store.files.files import FileSystem, OsFileSystem
from annulet.store.log.checkpoint import BALLAST_FILE, OPEN_MARKER
from annulet.store.log.index_recovery import restorable
from annulet.store.log.maintenance import Maintenance
from annulet.store.log.read_ahead import AheadStretch
from annulet.store.log.reading import RecordReader
from annulet.store.log.recovery import Recovery, note_outcome
from annulet.store.log.sealing import PAIRS_PER_RECORD, Sealer
from annulet.store.log.space import ROOM_OVERHEAD, SEGMENT_BYTES, SEGMENT_BYTES_MIN, LogSpace
from annulet.store.log.window import PREPARED_BEHIND, LogBatch, LogTransaction, WindowPart
from annulet.store.log.written_mark import WRITTEN_FILE, Written, written_mark
from annulet.store.segments.index_filling import HeaderCheck
from annulet.store.segments.interface import (
    Batch,
    Log,
    LoggedMessage,
    LogStatistics,
    MaintenanceTask,
    RecoveredMessage,
    RecoveredRows,
    RecoveryProgress,
    sequences_as_next,
)
from annulet.store.segments.queue_names import NAMES_FILE, QueueNames, deleted_line, name_line
from annulet.store.segments.records import (
    CONTROL_OVERHEAD,
    ORDINAL_BITS,
    ORDINAL_MASK,
    RECORD_BYTES_MAX,
    TARGET,
    TYPE_COMMIT,
    TYPE_SETTLE,
    TYPE_VOID,
    Commit,
    check_message,
    encode_commit,
    message_size,
    pack_numbers,
)
from annulet.store.segments.segment import Segment

logger = logging.getLogger(__name__)

NO_RECORDS: Final = (BALLAST_FILE, OPEN_MARKER, NAMES_FILE, WRITTEN_FILE, MARK_FILE)
"""Files of a log's directory that say nothing of whether it was ever written to."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageLog(Log):
    """A :class:`~annulet.store.segments.interface.Log` in a directory. Use :meth:`open`."""

    def __init__(
        self,
        directory: Path,
        files: FileSystem,
        segment_bytes: int,
        recovery: Recovery,
        asks_for: HeaderCheck | None,
        *,
        clean: bool,
        heads: bool,
    ) -> None:
        self.directory = directory
        self.report = recovery.report
        self.clean = clean
        self._closed = False
        self.next_sequences = sequences_as_next(recovery.sequences)
        self._files = files
        self.outcomes, self.sequences = recovery.outcomes, recovery.sequences
        self._transactions: dict[int, LogTransaction] = {}
        self._next_transaction = recovery.next_transaction
        self._appended = self._cancelled = self._settled = 0
        self._space = LogSpace(directory, files, segment_bytes)
        self._space.heads.active = heads
        self._space.start(recovery.segments, recovery.base.segment, begun=recovery.base.begun)
        self._sealer = Sealer(self._space, self.sequences, recovery.batch.number)
        self._reader = RecordReader(self._space.segments, files, self.report)
        self.search = self._reader.search
        self._maintenance = Maintenance(self._space, self._sealer, recovery, self._transactions, self._reader, asks_for)
        self._segments = self._space.segments
        self._part: WindowPart
        self._parts: list[WindowPart]
        self._window_first = 0  # record id from which on records are in the open window
        self._window_bytes = self._free = 0
        self._promised = 0  # bytes of the tail that are set aside for transactions, and not in ``_free``
        self._open_window()
        self._written_below = self._window_first
        self._bounds: list[tuple[int, int]] = []  # of batches that are not complete: number, ``next_record`` behind it
        self.known_queues = recovery.names
        self._names = QueueNames(directory, files)
        self._named = False  # the queues were given
        self._names_due: list[bytes] = []  # for the next batch
        self._written_mark = written_mark(directory, files)
        self._start(recovery)

    @classmethod
    def open(
        cls,
        directory: Path | str,
        *,
        files: FileSystem | None = None,
        segment_bytes: int = SEGMENT_BYTES,
        progress: Callable[[RecoveryProgress], None] | None = None,
        asks_for: HeaderCheck | None = None,
        heads: bool = False,
    ) -> MessageLog:
        """Open the log in ``directory``, creating it if needed, after recovering its contents.

        ``segment_bytes`` (default 16 MiB, at least 16 KiB) is the size of new segments; a larger message gets a segment
        of its own size. ``progress`` is called after each segment. ``asks_for`` evaluates headers for segment indexes;
        without it all messages are read at start. ``heads``: keep them beside segments, for the search process. Damage
        does not raise: see ``report``. Raises :class:`StoreError` when the directory cannot be read or written.
        """
        if segment_bytes < SEGMENT_BYTES_MIN:
            raise StoreError(f"segment_bytes: {segment_bytes} is too small; give at least {SEGMENT_BYTES_MIN}")
        path = Path(directory)
        files = files if files is not None else OsFileSystem()
        try:
            files.make_directory(path)
            names = files.names(path)
            recovery = Recovery(path, files, progress)
            recovery.run()
            unused = not any(name not in NO_RECORDS for name in names)
            clean = OPEN_MARKER not in names and not recovery.advanced and (recovery.base.closed or unused)
            log = cls(path, files, segment_bytes, recovery, asks_for, clean=clean, heads=heads)
        except OSError as error:
            raise StoreError(f"cannot open the message log in {path}: {error}; check disk and permissions") from error
        return log

    def _start(self, recovery: Recovery) -> None:
        """Leave the marker, and the verdict on a batch the crash tore."""
        try:
            self._files.open(self.directory / OPEN_MARKER, create=True).close()
            self._files.sync_directory(self.directory)
        except OSError as error:
            logger.warning("message log: cannot mark %s as open: %s", self.directory, error)
        if recovery.torn:
            payload = pack_numbers([recovery.batch.number])
            self._claim(2 * (CONTROL_OVERHEAD + len(payload)), may_use_reserve=True)
            self._part.controls += [(TYPE_VOID, payload, 0)] * 2  # else one damaged record makes torn data count
            self._part.segment.voided.append(recovery.batch.number)
            self._flush()
        last, (segment, offset) = self._sealer.batch - 1, self._sealer.end
        self._written_mark.begin(Written(last, segment, offset, self._space.tail.kept).mark())

    @property
    def deferring(self) -> bool:
        """See the sealer."""
        return self._sealer.deferring

    # ------------------------------------------------------------------ messages

    def recovered(self) -> Iterator[RecoveredMessage]:
        """Read segment by segment: each is in memory once, while its messages are yielded."""
        for _, segment in sorted(self._segments.items()):
            if segment.live_count:
                yield from self._reader.live(segment, redelivered=not self.clean)

    def restorable(self, may_have_rows: Callable[[int], bool]) -> Iterator[RecoveredMessage | RecoveredRows]:
        """Use the segments' indexes; read segments without one."""
        return restorable(self._segments, self._reader, self._files, may_have_rows, redelivered=not self.clean)

    @property
    def segments(self) -> Mapping[int, Segment]:
        """The segments by number, each with the offsets of its records."""
        return self._segments

    @property
    def next_record(self) -> int:
        """Return the first id of the open window."""
        return self._window_first

    @property
    def written_below(self) -> int:
        """Return the bound of the last complete batch, or the first record of an open transaction below it."""
        return min([self._written_below, *[some.records[0] for some in self._transactions.values() if some.records]])

    def read(self, records: Sequence[int]) -> list[LoggedMessage | None]:
        """See the reader."""
        return self._reader.read(records)

    def lack(self, records: Sequence[int], needles: Sequence[list[bytes]]) -> bool:
        """See the reader."""
        return self._reader.lack(records, needles)

    def holds(self, record: int, queue_id: int) -> bool:
        """Check the live bit, and the queues of a record that several share."""
        segment = self._segments.get(record >> ORDINAL_BITS)
        return record >= self._window_first or (segment is not None and segment.holds(record & ORDINAL_MASK, queue_id))

    def messages(
        self, queue_id: int, records: Sequence[int], sequences: Sequence[int], origins: list[Origin]
    ) -> list[Message | None]:
        """See the reader."""
        return self._reader.messages(queue_id, records, sequences, origins)

    def fitting(self, records: Sequence[int], size: int) -> int:
        """See the reader."""
        return self._reader.fitting(records, size)

    def prefetch(self, records: Sequence[int]) -> AheadStretch | None:
        """See the reader."""
        return self._reader.prefetch(records)

    def read_ahead_with(self, submit: Callable[[Callable[[], None]], None] | None) -> None:
        """Let the reader have a thread, or none."""
        self._reader.ahead.submit = submit

    def append(self, message: Message, targets: Sequence[tuple[int, int]], transaction: int = 0) -> int:
        """Add the message to the window; it is encoded when the window is sealed, or earlier if many followed and it is
        still unsettled."""
        opened = self._transaction(transaction) if transaction else None
        size = message_size(message, len(targets))
        if opened is not None and opened.promised and opened.expected(message, size):
            self._promised -= size
        elif size > self._free or not targets or self._space.failed or not 0 <= message.priority <= 255:
            check_message(message, len(targets), size)
            self._claim(size)
        else:
            self._free -= size
        self._window_bytes += size
        self._appended += 1
        part = self._part
        messages = part.messages
        entry = len(messages)
        record = part.base + entry
        if opened is not None:
            opened.add(record, self._sealer.batch)
            part.transactions[entry] = transaction
        messages.append(message)
        part.targets.append(targets)
        part.sizes.append(size)
        if entry >= PREPARED_BEHIND:
            part.prepare(self._sealer.batch)
        return record

    def settle(self, record: int, queue_id: int, transaction: int = 0) -> None:
        """Clear the record's bit, or cancel it while it is in the window."""
        if transaction:
            self._transaction(transaction).settled += (queue_id, record)
        elif record >= self._window_first:
            self._settle_in_window(record, queue_id)
        else:
            segment = self._segments.get(record >> ORDINAL_BITS)
            if segment is not None and segment.settle(record & ORDINAL_MASK, queue_id):
                self._settled += 1
                settled = self._sealer.settled
                settled.append(queue_id)
                settled.append(record)

    def _settle_in_window(self, record: int, queue_id: int) -> None:
        part = self._part
        if record < part.base:
            part = next(part for part in reversed(self._parts) if part.base <= record)
        entry = record - part.base
        if entry >= len(part.messages) or part.messages[entry] is None:
            return
        targets = part.targets[entry]
        if len(targets) > 1 or entry in part.transactions:
            settled = part.settled.setdefault(entry, [])
            if queue_id in settled or all(queue_id != target for target, _ in targets):
                return
            settled.append(queue_id)
            self._settled += 1
            if len(settled) < len(targets) or entry in part.transactions:
                return
        elif targets[0][0] != queue_id:
            return
        else:
            self._settled += 1
        self._cancel(part, entry)

    def _cancel(self, part: WindowPart, entry: int) -> None:
        size = part.drop(entry)
        self._cancelled += 1
        self._window_bytes -= size
        self._free += size if part is self._part else 0

    def written_ends(self) -> dict[int, int]:
        """Return the sealed length of each segment that still receives records, by number. All others are final."""
        return {number: segment.size for number, segment in self._segments.items() if segment.file is not None}

    def forget_queue(self, queue_id: int) -> None:
        """Cancel the queue's part of the window; sweep the segments in slices of upkeep."""
        for part in self._parts:
            for entry, targets in enumerate(part.targets):
                if any(queue_id == target for target, _ in targets):
                    self._settle_in_window(part.base + entry, queue_id)
        self.sequences.pop(queue_id, None)
        if self._named:
            self._names_due.append(deleted_line(queue_id))
        held = [number for number, segment in self._segments.items() if segment.may_hold(queue_id)]
        if held:
            self._sealer.forget(queue_id)
            self._maintenance.sweep(queue_id, held)

    def name_queue(self, name: QueueName) -> None:
        """Note the line for the next batch: no message of the queue is durable before."""
        self._named = True
        self._names_due.append(name_line(name))

    def name_queues(self, names: Iterable[QueueName]) -> None:
        """Rewrite the file of names if its contents differ."""
        self._named = True
        self._names.begin(names)

    def discard(self, queue_id: int, ranges: Sequence[tuple[int, int]]) -> None:
        """Note the ranges for the next window; sweep the segments in slices of upkeep."""
        for first, last in ranges:
            self._sealer.discard(queue_id, first, last)
            self._maintenance.sweep_range(queue_id, first, last)

    def hold_sweeps(self) -> None:
        """See upkeep."""
        self._maintenance.sweeps_held += 1

    def release_sweeps(self) -> None:
        """See upkeep."""
        self._maintenance.sweeps_held -= 1

    # ------------------------------------------------------------------ transactions

    def begin(self) -> int:
        """Give out the next id; nothing is written."""
        transaction = self._next_transaction
        self._next_transaction += 1
        self._transactions[transaction] = LogTransaction()
        return transaction

    def promise(self, transaction: int, records: Sequence[tuple[Message, int]], settlements: int) -> None:
        """Set the bytes aside in one segment: a full disk refuses here, and nothing after it."""
        opened = self._transaction(transaction)
        self._refuse_when_failed()
        size = _commit_size(transaction, settlements)
        for message, targets in records:
            own = message_size(message, targets)
            check_message(message, targets, own)
            opened.expect(message, own)
            size += own
        size = min(size, RECORD_BYTES_MAX)  # no more in one segment; what is beyond has no promise
        self._claim(size)
        opened.promised += size
        self._promised += size

    def commit(self, transaction: int, outcome: tuple[str, int] | None = None) -> None:
        """Write the transaction's settlements and the commit record. When it raises, the transaction stays open."""
        opened = self._transaction(transaction)
        if outcome is not None and not outcome[0]:
            raise StoreError("outcome: the query id is empty; give the id of the streaming query")
        if not opened.records and not opened.settled and outcome is None:
            self._take_back_promise(opened)
            del self._transactions[transaction]
            return
        step = 2 * PAIRS_PER_RECORD
        chunks = [pack_numbers(opened.settled[at : at + step]) for at in range(0, len(opened.settled), step)]
        size = sum(CONTROL_OVERHEAD + len(chunk) for chunk in chunks)
        commit = encode_commit(Commit(transaction, opened.own(self._sealer.batch) + len(chunks), outcome))
        size += CONTROL_OVERHEAD + len(commit)
        promised = opened.promised
        self._take_back_promise(opened)
        if size <= promised:
            self._free -= size
        else:
            self._claim(size)
        del self._transactions[transaction]
        controls = [(TYPE_SETTLE, chunk, transaction) for chunk in chunks]
        self._part.controls += [*controls, (TYPE_COMMIT, commit, transaction)]
        self._settle_committed(opened.settled)
        if outcome is not None:
            note_outcome(self.outcomes, outcome)

    def _settle_committed(self, settled: list[int]) -> None:
        """Clear the bits of queue id, record, queue id, …; the settlements are in the transaction's own record.

        No other turn may see a part of it: a checkpoint of it would outlive a commit that is not on disk. So it is done
        in this one, by segment.
        """
        by_segment: dict[int, list[int]] = {}
        for index in range(0, len(settled), 2):
            queue_id, record = settled[index], settled[index + 1]
            if record >= self._window_first:
                self._settle_in_window(record, queue_id)
                continue
            number = record >> ORDINAL_BITS
            pairs = by_segment.get(number)
            if pairs is None:
                pairs = by_segment[number] = []
            pairs.append(queue_id)
            pairs.append(record & ORDINAL_MASK)
        for number, pairs in by_segment.items():
            segment = self._segments.get(number)
            if segment is not None:
                self._settled += segment.settle_all(pairs)

    def abort(self, transaction: int) -> None:
        """Drop the records. Nothing is written: without a commit they do not count."""
        opened = self._transaction(transaction)
        self._take_back_promise(opened)
        del self._transactions[transaction]
        for record in opened.records:
            if record < self._window_first:
                segment = self._segments.get(record >> ORDINAL_BITS)
                if segment is not None:  # removed when all its records were settled
                    segment.kill(record & ORDINAL_MASK)
                continue
            part = next(part for part in reversed(self._parts) if part.base <= record)
            self._cancel(part, record - part.base)

    def _take_back_promise(self, opened: LogTransaction) -> None:
        self._free += opened.promised
        self._promised -= opened.promised
        opened.promised = 0

    def _transaction(self, transaction: int) -> LogTransaction:
        opened = self._transactions.get(transaction)
        if opened is None:
            raise StoreError(f"transaction {transaction} is not open; begin() gives the ids")
        return opened

    # ------------------------------------------------------------------ space

    def has_room(self, size: int, now: int) -> bool:
        """Check reserved space first; reserve on disk only when that is used up."""
        if self._space.failed:
            return False
        return size + ROOM_OVERHEAD <= self._free or self._space.reserve_room(size + ROOM_OVERHEAD, now)

    def retry(self) -> bool:
        """Reserve a spare segment on disk now."""
        return not self._space.failed and (self._space.has_spare or self._space.make_spare())

    def _claim(self, size: int, *, may_use_reserve: bool = False) -> None:
        """Set ``size`` bytes of the tail aside, going to the next segment when it is full."""
        self._refuse_when_failed()
        if size > self._free:
            try:
                self._space.roll(size + self._promised)
            except DiskFullError:
                tail = self._space.tail
                if not may_use_reserve or tail.size + size + CONTROL_OVERHEAD > tail.capacity:
                    raise
            else:
                self._part = WindowPart(self._space.tail)
                self._parts.append(self._part)
                self._free = self._space.free() - self._promised
        self._free -= size

    def _refuse_when_failed(self) -> None:
        if self._closed:
            raise StoreError("the message log is closed")
        if failed := self._space.failed:
            raise LogFailedError(f"the message log failed and takes nothing more: {failed}; restart the broker")

    # ------------------------------------------------------------------ batches

    def _open_window(self) -> None:
        self._part = WindowPart(self._space.tail)
        self._parts = [self._part]
        self._window_first = self._part.base
        self._window_bytes = 0
        self._free = self._space.free() - self._promised

    def take_batch(self) -> LogBatch | None:
        """Encode the window. Its bytes belong to the batch, the log continues with an empty window."""
        self._refuse_when_failed()
        batch = self._sealer.seal(self._parts)
        self._open_window()
        if batch is not None:
            batch.names, self._names_due = self._names_due, []
            self._bounds.append((batch.number, self._window_first))
            self._maintenance.sealed(batch, self._next_transaction, self.outcomes)
        return batch

    def write(self, batch: Batch) -> None:
        """Write and sync every part. After an error nothing is ever written again."""
        assert isinstance(batch, LogBatch)
        if failed := self._space.failed:
            raise LogFailedError(f"batch {batch.number} was not written, an earlier write failed: {failed}")
        if batch.names:
            self._names.append(batch.names)
        try:
            for part in batch.parts:
                part.write()
            if batch.sync_directory:
                self._files.sync_directory(self.directory)
        except OSError as error:
            self._space.failed = str(error)  # the one attribute that the disk thread sets too
            for part in batch.parts:
                part.withdraw()
            raise LogFailedError(
                f"cannot write batch {batch.number} to {self.directory}: {error}; repair the disk, restart the broker"
            ) from error
        self._written_mark.write(batch.written.mark())

    def complete(self, batch: Batch) -> None:
        """Close files that were written for the last time."""
        assert isinstance(batch, LogBatch)
        for segment in batch.closing:
            if segment.file is not None:
                segment.file.close()
                segment.file = None
        while self._bounds and self._bounds[0][0] <= batch.number:
            self._written_below = self._bounds.pop(0)[1]
        self._maintenance.written(batch)

    def _flush(self) -> None:
        if (batch := self.take_batch()) is not None:
            self.write(batch)
            self.complete(batch)

    # ------------------------------------------------------------------ upkeep

    def maintenance(self, *, checkpoint: bool = False) -> MaintenanceTask | None:
        """Choose by need: checkpoint, removal, spare segment, sweep, compaction."""
        if self._space.failed or self._closed:
            return None
        return self._maintenance.next_task(
            window_empty=not self._part.messages and not self._part.controls and len(self._parts) == 1,
            next_transaction=self._next_transaction,
            outcomes=self.outcomes,
            wanted=checkpoint,
        )

    def finish(self, task: MaintenanceTask) -> None:
        """Take in new offsets, removed segments, durable checkpoints, the spare."""
        self._maintenance.finish(task)

    def statistics(self) -> LogStatistics:
        """Count live records over the segments; everything else is kept."""
        records = sum(part.live_count() for part in self._parts if part.messages)
        return LogStatistics(
            appended=self._appended,
            cancelled=self._cancelled,
            settled=self._settled,
            live_records=sum(segment.live_count for segment in self._segments.values()) + records,
            segments=len(self._segments),
            window_records=records,
            window_bytes=self._window_bytes,
            open_transactions=len(self._transactions),
            deferred_settlements=len(self._sealer.settled) // 2,
            indexed_segments=self.report.indexed_segments,
            corrupt_records=self.report.corrupt_records,
            lost_records=self.report.lost_records,
            doubtful_places=self.report.doubtful_places,
            **self._maintenance.figures(),
            disk_full=self._space.disk_full,
            failed=bool(self._space.failed),
        )

    def close(self) -> None:
        """Flush, checkpoint, remove the marker. No upkeep task may be under way. A second close does nothing.

        Raises :class:`StoreError` when that fails; the next open then recovers as after a crash.
        """
        if self._closed:
            return
        try:
            if not self._space.failed:
                self._flush()
                self._maintenance.close(self._next_transaction, self.outcomes)
                self._files.remove(self.directory / OPEN_MARKER)
                self._files.sync_directory(self.directory)
        except OSError as error:
            raise StoreError(
                f"the message log in {self.directory} was not closed cleanly: {error}; the next start takes longer"
            ) from error
        finally:
            self._closed = True
            for opened in self._transactions.values():
                self._take_back_promise(opened)
            self._free = -1  # append looks no further than this
            self._space.close()
            self._reader.close()
            self._names.close()
            self._written_mark.close()


def _commit_size(transaction: int, settlements: int) -> int:
    """Return the most bytes that so many settlements and the commit record of a transaction take."""
    chunks = -(-settlements // PAIRS_PER_RECORD)
    commit = encode_commit(Commit(transaction, 0, None))
    return chunks * CONTROL_OVERHEAD + settlements * TARGET.size + CONTROL_OVERHEAD + len(commit)
