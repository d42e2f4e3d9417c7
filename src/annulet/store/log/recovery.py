"""Reading a log directory at start: the live records, the position to continue at, and damage.

Records are applied in file order. Control records (settle, commit, forget) take effect at the end of their batch,
because a crash may have torn the last batch: pages reach the disk in any order, so a settlement may be there although
the message that justified it is not. A torn batch's seal is missing or counts more records than are there. Then

- its messages count (they were not confirmed, they may stay; at-least-once),
- its settlements do not, including those of messages that a ring replaced with these: the report has their number,
- its commits count only if all the transaction's records of that batch are there.

A *void* record passes this decision on to later recoveries, which could no longer make it. It is written twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from annulet.store.database.definitions import KnownQueues
from annulet.store.files.files import UNFINISHED_SUFFIX, FileSystem
from annulet.store.log.checkpoint import Checkpoint, SegmentPicture, checkpoint_number, load
from annulet.store.log.cut_segments import UNKNOWN, CutSegments
from annulet.store.log.index_recovery import segment_from
from annulet.store.log.sweeping import SWEEP_ORDINALS, Sweep, segments_of
from annulet.store.log.written_mark import Written, load_written
from annulet.store.segments.head_blocks import heads_path, stray_heads
from annulet.store.segments.interface import Damage, RecoveryProgress, RecoveryReport
from annulet.store.segments.queue_names import load_names
from annulet.store.segments.records import (
    ORDINAL_BITS,
    ORDINAL_MASK,
    SEGMENT_HEADER_SIZE,
    TYPE_COMMIT,
    TYPE_DISCARD,
    TYPE_FORGET,
    TYPE_MESSAGE,
    TYPE_SEAL,
    TYPE_SETTLE,
    TYPE_VOID,
    Commit,
    Record,
    checksum_seed,
    decode_commit,
    decode_seal,
    decode_targets,
    segment_identity,
    unpack_numbers,
)
from annulet.store.segments.scanning import Gap, scan
from annulet.store.segments.segment import Segment, segment_name, segment_number
from annulet.store.segments.segment_index import index_number, stray
from annulet.store.segments.segment_index import load as load_index

logger = logging.getLogger(__name__)

OUTCOMES_MAX: Final = 4096
"""Outcomes of staged publishes kept, the latest; the catalogue has them permanently once the broker has read them."""


READ_WORK: Final = 200
"""Reading a segment of 16,000 messages is about this many times the work of loading it from its index: used only to
estimate the remaining time of a start."""


@dataclass(slots=True)
class BatchRecords:
    """Control records of one batch, deferred until its end."""

    number: int = 0
    segment: int = 0  # of its first record behind the checkpoint; 0: there is none
    records: int = 0
    sealed: int = -1  # the number in the seal that ``records`` must reach
    own: dict[int, int] = field(default_factory=dict)  # transaction -> its records here
    messages: dict[int, int] = field(default_factory=dict)  # queue id -> number of its messages
    commits: dict[int, Commit] = field(default_factory=dict)
    settled: list[tuple[int, bytes]] = field(default_factory=list)  # (transaction, packed pairs)
    forgotten: list[int] = field(default_factory=list)
    discarded: list[int] = field(default_factory=list)  # queue id, first record, last record, queue id, …

    @property
    def whole(self) -> bool:
        """Every record of the batch was found."""
        return self.sealed == self.records


@dataclass(slots=True)
class OpenTransaction:
    """A transaction whose commit was not found yet."""

    records: list[int] = field(default_factory=list)
    settled: list[bytes] = field(default_factory=list)


class Recovery:
    """Reads one directory. After :meth:`run` the attributes have the log's state."""

    def __init__(
        self, directory: Path, files: FileSystem, progress: Callable[[RecoveryProgress], None] | None = None
    ) -> None:
        self.directory = directory
        self.files = files
        self.segments: dict[int, Segment] = {}
        self.report = RecoveryReport()
        self.base = Checkpoint()
        self.checkpoint_numbers: list[int] = []
        self.transactions: dict[int, OpenTransaction] = {}
        self.sequences: dict[int, int] = {}
        self.outcomes: dict[str, int] = {}
        self.dead: list[int] = []  # segments no checkpoint needs any more
        self.torn = False  # the last batch was torn
        self.advanced = False  # there are records behind the checkpoint
        self.next_transaction = 1
        self.forgotten: dict[int, int] = {}  # deleted queue -> record id below which its records go
        self.discarded: list[tuple[int, int, int]] = []  # of queues that were purged: queue, first and last record
        self.batch = BatchRecords()
        self.written = Written()  # the synced position of the mark
        self.names = KnownQueues()
        self._progress = progress
        self._uncertain = False
        self._voided: set[int] = set()
        self._gaps: list[tuple[int, Gap, int]] = []  # (segment, gap, batch before it)
        self._ends: dict[int, int] = {}  # of the last sound record of segments that were read, by number
        self._pictures: dict[int, SegmentPicture] = {}
        self._cuts = CutSegments(files)
        self._present: set[int] = set()  # segments there are
        self._place = 0  # segment of the last record behind the checkpoint

    def run(self) -> None:
        """Read everything."""
        names = self.files.names(self.directory)
        self._load_marks()
        for name in names:
            if name.endswith(UNFINISHED_SUFFIX):
                self.files.remove(self.directory / name)
        numbers = sorted(number for name in names if (number := segment_number(name)) is not None)
        self._present = set(numbers)
        for name in (*stray(names, self._present), *stray_heads(names, self._present)):
            self.files.remove(self.directory / name)
        indexes = {number for name in names if (number := index_number(name)) is not None}
        self._load_checkpoint(names, numbers)
        self.dead = [number for number in numbers if number < self.base.segment and number not in self._pictures]
        wanted = sorted({*numbers} - {*self.dead})
        indexed = {number for number in wanted if number < self.base.segment and number in indexes}
        work = len(indexed) + READ_WORK * (len(wanted) - len(indexed))
        read = done = 0
        for place, number in enumerate(wanted):
            by_index = number in indexed and self._restore_by_index(number)
            if not by_index:
                self._read_segment(number)
            if self._progress is not None:
                read += self.segments[number].size
                done += 1 if by_index else READ_WORK
                work += READ_WORK - 1 if number in indexed and not by_index else 0  # it was not to be believed
                share = done / work
                self._progress(RecoveryProgress(place + 1, len(wanted), self.report.records, read, share))
        self._finish_batch(last=True)
        self._finish_transactions()
        self._sweep_forgotten()
        self._find_missing()
        self._find_cut()
        self._find_cut_before()
        self._judge_gaps()
        read = sum(number < self.base.segment and not segment.indexed for number, segment in self.segments.items())
        if read:
            logger.info("message log: %d of %d segments had no sound index and were read", read, len(self.segments))
        self.report.live_records = sum(segment.live_count for segment in self.segments.values())
        for damage in self.report.damages:
            logger.warning("message log: %s", damage)

    def _load_marks(self) -> None:
        """Read the files beside the segments: the synced position, and the names of queues."""
        try:
            self.written = load_written(self.directory, self.files)
            names = load_names(self.directory, self.files)
        except OSError as error:
            logger.warning("message log: cannot read the files beside the segments: %s", error)
            return
        if names is not None:
            self.names = names
            if names.damaged:
                logger.warning("message log: %d damaged lines in the names of queues", names.damaged)

    # ------------------------------------------------------------------ checkpoint

    def _load_checkpoint(self, names: list[str], numbers: list[int]) -> None:
        self.checkpoint_numbers = sorted(n for name in names if (n := checkpoint_number(name)) is not None)
        found, damaged = load(self.directory, self.files, names)
        self.report.checkpoint_fallback = damaged > 0
        if damaged:
            logger.warning("message log: %d damaged checkpoint(s) in %s passed over", damaged, self.directory)
        if found is None:
            # Without any checkpoint, commits may be gone with segments that were removed or compacted.
            self._uncertain = damaged > 0 or bool(numbers and numbers[0] > 1)
            return
        self.base = found
        self.batch.number = found.batch
        self._place = found.segment
        self.next_transaction = found.next_transaction
        self.sequences = dict(found.sequences)
        self.outcomes = dict(found.outcomes)
        for picture in found.pictures:
            self._pictures[picture.number] = picture
        last = self._pictures.get(found.segment)
        end = found.segment << ORDINAL_BITS | (last.ordinals if last is not None else 0)
        self.forgotten = dict.fromkeys(found.forgotten, end)
        self.discarded = list(found.discarded)
        for transaction, records in found.transactions.items():
            self.transactions[transaction] = OpenTransaction(list(unpack_numbers(records)))

    # ------------------------------------------------------------------ segments

    def _restore_by_index(self, number: int) -> bool:
        """Take a segment that the checkpoint covers from its index; ``False`` when there is none to be believed."""
        path = self.directory / segment_name(number)
        try:
            index = load_index(path, number, self.files, places_only=True)
        except OSError as error:
            logger.warning("message log: cannot read the index of segment %d: %s", number, error)
            return False
        if index is None:
            return False
        segment = Segment(number, path, index.identity, 0)
        segment_from(index, segment, self._pictures.get(number))
        self._voided.update(segment.voided)
        self.segments[number] = segment
        self.report.indexed_segments += 1
        self.report.records += segment.kept
        return True

    def _read_segment(self, number: int) -> None:
        path = self.directory / segment_name(number)
        file = self.files.open(path)
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        identity, copies = segment_identity(data, number)
        segment = Segment(number, path, identity, checksum_seed(number, identity))
        segment.capacity = len(data)
        self.segments[number] = segment
        if copies == 0:
            segment.header_due = True
            self._note_headless(segment, data)
            self._settle_end(segment, self._pictures.get(number))
            return
        if copies == 1:
            self.report.damages.append(Damage("header", number, 0, SEGMENT_HEADER_SIZE))
            self.report.corrupt_records += 1
        picture = self._pictures.get(number)
        covered = len(data) if number < self.base.segment else 0
        if number == self.base.segment:
            covered = self.base.offset
        before = 0 if covered else self.batch.number
        damaged_to = 0
        for found in scan(data, segment.seed):
            if isinstance(found, Gap):
                self._gaps.append((number, found, before))
                if not found.batch and number == self.written.segment and found.offset < self.written.offset:
                    damaged_to = found.end  # no crash tore it: it stays where it is until it is set aside
                continue
            self.report.records += 1
            segment.size = self._ends[number] = found.end
            before = found.batch
            if found.offset < covered:
                self._restore(segment, data, found, picture)
            else:
                self._replay(segment, data, found)
        segment.size = max(segment.size, damaged_to)
        self._settle_end(segment, picture)

    def _settle_end(self, segment: Segment, picture: SegmentPicture | None) -> None:
        """Never continue before the position that the checkpoint has as written, even if little of it can be read."""
        if segment.number == self.base.segment:
            segment.size = max(segment.size, self.base.offset)
        if picture is not None:
            while len(segment.offsets) < picture.ordinals:
                segment.add_hole()

    def _note_headless(self, segment: Segment, data: bytes) -> None:
        """Judge a file without a sound header: never written, or wiped."""
        if data != bytes(len(data)):  # which is found quickly, unlike their end
            self._gaps.append((segment.number, Gap(0, len(data.rstrip(b"\0")), 0), self.batch.number))

    @staticmethod
    def _fill(segment: Segment, ordinal: int) -> bool:
        """Add holes up to ``ordinal``; ``False`` when its place is taken, which only a damaged file can cause."""
        while len(segment.offsets) < ordinal:
            segment.add_hole()
        return len(segment.offsets) == ordinal

    def _restore(self, segment: Segment, data: bytes, record: Record, picture: SegmentPicture | None) -> None:
        """Enter a message older than the checkpoint, whose bitmap tells whether it is live."""
        if record.type == TYPE_VOID:
            self._note_voided(segment, data, record)
        if record.type != TYPE_MESSAGE or not self._fill(segment, record.ordinal):
            return
        segment.add(record.offset, decode_targets(data, record))
        live = picture.live if picture is not None else b""
        byte = record.ordinal >> 3
        if byte >= len(live) or not live[byte] & (1 << (record.ordinal & 7)):
            segment.kill(record.ordinal)
        elif picture is not None and record.ordinal in segment.shared:
            segment.shared[record.ordinal] = picture.shared.get(record.ordinal, segment.shared[record.ordinal])

    def _note_voided(self, segment: Segment, data: bytes, record: Record) -> None:
        torn = unpack_numbers(data[record.payload : record.end])
        segment.voided.extend([number for number in torn if number not in self._voided])  # it is written twice
        self._voided.update(torn)

    # ------------------------------------------------------------------ replay

    def _replay(self, segment: Segment, data: bytes, record: Record) -> None:
        """Apply a record newer than the checkpoint."""
        self.advanced = True
        if record.batch > self.batch.number:
            self._begin_batch(segment, data, record)
        self._place = segment.number
        self.next_transaction = max(self.next_transaction, record.transaction + 1)
        batch = self.batch
        if record.type == TYPE_SEAL:
            batch.sealed, commits = decode_seal(data[record.payload : record.end])
            for commit in commits:
                batch.commits[commit.transaction] = commit
            return
        batch.records += 1
        if record.transaction:
            batch.own[record.transaction] = batch.own.get(record.transaction, 0) + (record.type != TYPE_COMMIT)
        if record.type == TYPE_MESSAGE:
            self._replay_message(segment, data, record)
        elif record.type == TYPE_SETTLE:
            batch.settled.append((record.transaction, data[record.payload : record.end]))
        elif record.type == TYPE_COMMIT:
            commit = decode_commit(data[record.payload : record.end])
            batch.commits[commit.transaction] = commit
        elif record.type == TYPE_FORGET:
            batch.forgotten += unpack_numbers(data[record.payload : record.end])
        elif record.type == TYPE_DISCARD:
            batch.discarded += unpack_numbers(data[record.payload : record.end])

    def _begin_batch(self, segment: Segment, data: bytes, record: Record) -> None:
        """End the batch before a record, which is the first of another one."""
        if record.type == TYPE_VOID:
            self._note_voided(segment, data, record)
        self._finish_batch(last=False)
        if self.batch.segment and not self.batch.whole and self.batch.number not in self._voided:
            self._suspect(self.batch.segment, segment.number)
        if 0 < self.batch.number < record.batch - 1:
            self._suspect(self._place, segment.number)
        self.batch = BatchRecords(record.batch, segment.number)

    def _suspect(self, first: int, behind: int) -> None:
        """Records are missing between two segments. Where a whole one is missing, that says it."""
        if self._present.issuperset(range(first, behind)):
            self._cuts.suspect(first, behind)

    def _replay_message(self, segment: Segment, data: bytes, record: Record) -> None:
        if not self._fill(segment, record.ordinal):
            return
        targets = decode_targets(data, record)
        segment.add(record.offset, targets)
        for queue_id, sequence in targets:
            if sequence > self.sequences.get(queue_id, 0):
                self.sequences[queue_id] = sequence
            self.batch.messages[queue_id] = self.batch.messages.get(queue_id, 0) + 1
        if record.transaction:
            opened = self.transactions.setdefault(record.transaction, OpenTransaction())
            opened.records.append(segment.number << ORDINAL_BITS | record.ordinal)

    def _finish_batch(self, *, last: bool) -> None:
        """Apply the control records of the finished batch."""
        batch = self.batch
        unsynced = last and self.advanced and not batch.whole and batch.number > self.written.batch
        torn = batch.number in self._voided or unsynced
        self.torn = last and torn
        if torn:
            self._voided.add(batch.number)
            for queue_id, count in batch.messages.items():
                self.report.torn_messages[queue_id] = self.report.torn_messages.get(queue_id, 0) + count
        for transaction, pairs in batch.settled:
            if transaction:
                self.transactions.setdefault(transaction, OpenTransaction()).settled.append(pairs)
        for commit in batch.commits.values():
            if not torn or batch.own.get(commit.transaction, 0) == commit.own:
                self._commit(commit)
        if torn:
            return
        for transaction, pairs in batch.settled:
            if not transaction:
                self._settle(pairs)
        newest = max(self.segments, default=0)
        for queue_id in batch.forgotten:
            self.forgotten[queue_id] = newest << ORDINAL_BITS | len(self.segments[newest].offsets)
            self.sequences.pop(queue_id, None)
        discarded = batch.discarded
        self.discarded += zip(discarded[::3], discarded[1::3], discarded[2::3], strict=True)

    def _commit(self, commit: Commit) -> None:
        opened = self.transactions.pop(commit.transaction, OpenTransaction())
        for pairs in opened.settled:
            self._settle(pairs)
        if commit.outcome is not None:
            note_outcome(self.outcomes, commit.outcome)

    def _settle(self, packed: bytes) -> None:
        numbers = unpack_numbers(packed)
        segment_of = self.segments.get
        for queue_id, record in zip(numbers[::2], numbers[1::2], strict=True):
            segment = segment_of(record >> ORDINAL_BITS)
            if segment is None or not segment.settle(record & ORDINAL_MASK, queue_id):
                self._settle_missing(record, queue_id)

    def _settle_missing(self, record: int, queue_id: int) -> None:
        """Keep the bitmap of unreadable records current, so that only actual losses are reported."""
        number, ordinal = record >> ORDINAL_BITS, record & ORDINAL_MASK
        picture = self._pictures.get(number)
        if number in self.segments and ordinal >= len(self.segments[number].offsets):
            self._cuts.settled_unseen(record)
        if picture is None or ordinal >> 3 >= len(picture.live):
            return
        remaining = tuple(other for other in picture.shared.get(ordinal, ()) if other != queue_id)
        if remaining:
            picture.shared[ordinal] = remaining
        else:
            picture.shared.pop(ordinal, None)
            live = bytearray(picture.live)
            live[ordinal >> 3] &= ~(1 << (ordinal & 7)) & 0xFF
            picture.live = bytes(live)

    # ------------------------------------------------------------------ the end

    def _finish_transactions(self) -> None:
        """Drop uncommitted transactions."""
        for opened in self.transactions.values():
            if self._uncertain and opened.records:
                self.report.uncertain_transactions += 1
                continue
            for record in opened.records:
                segment = self.segments.get(record >> ORDINAL_BITS)
                if segment is not None:
                    segment.kill(record & ORDINAL_MASK)
        self.transactions.clear()

    def _sweep_forgotten(self) -> None:
        """Settle the messages of queues at their deletion or purge, but not later ones.

        A queue whose deletion the catalogue failed to store returns and may receive more.
        """
        for number, segment in self.segments.items():
            for queue_id, end in self.forgotten.items():
                if number <= end >> ORDINAL_BITS and segment.may_hold(queue_id):
                    count = len(segment.offsets) if number < end >> ORDINAL_BITS else end & ORDINAL_MASK
                    segment.forget(queue_id, 0, count)
        if self.report.checkpoint_fallback:
            gone = [(queue_id, 0, end - 1) for queue_id, end in self.forgotten.items()]
            for bounds in (*gone, *self.discarded):
                self._expect_no_more(*bounds)
        self.forgotten.clear()
        for queue_id, first, last in self.discarded:
            sweep = Sweep(queue_id, segments_of(self.segments, queue_id, first, last), (first, last))
            while sweep.go_on(self.segments, SWEEP_ORDINALS):
                pass
        self.discarded.clear()

    def _expect_no_more(self, queue_id: int, first: int, last: int) -> None:
        """Do not report records that are live in an older checkpoint and were purged or deleted since.

        On a full disk such files are removed before a checkpoint covers this. The queues of their records are then
        unknown, so other losses among records of several queues in these bounds are not reported either: this only
        happens if the newest checkpoint is damaged, which is reported.
        """
        for number, picture in self._pictures.items():
            base = number << ORDINAL_BITS
            start, end = max(first - base, 0), min(last - base, picture.ordinals - 1)
            if start > end:
                continue
            mask = ((1 << (end - start + 1)) - 1) << start
            for ordinal in [ordinal for ordinal in picture.shared if start <= ordinal <= end]:
                remaining = tuple(other for other in picture.shared.pop(ordinal) if other != queue_id)
                if remaining:
                    picture.shared[ordinal] = remaining
                    mask &= ~(1 << ordinal)
            live = int.from_bytes(picture.live, "little") & ~mask
            picture.live = live.to_bytes(len(picture.live), "little")

    def _find_missing(self) -> None:
        """Report records that are live in the checkpoint and in no file."""
        for number, picture in self._pictures.items():
            segment = self.segments.get(number)
            if segment is None:
                count = int.from_bytes(picture.live, "little").bit_count()
                if count:
                    self.report.damages.append(Damage("missing", number, 0, count))
                    self.report.lost_records += count
                continue
            self.report.lost_records += self._unreadable_of(number)
        for number in range(min(self.segments, default=0), max(self.segments, default=0)):
            if number not in self.segments and number >= self.base.segment:
                self.report.damages.append(Damage("missing", number, 0, 0))

    def _unreadable_of(self, number: int) -> int:
        """Count the records of a segment that the checkpoint calls live and that cannot be read."""
        segment, picture = self.segments[number], self._pictures.get(number)
        if picture is None or segment.kept == len(segment.offsets):
            return 0
        return sum(
            segment.offsets[ordinal] == 0 and bool(picture.live[ordinal >> 3] & (1 << (ordinal & 7)))
            for ordinal in range(min(picture.ordinals, len(picture.live) * 8))
        )

    def _find_cut(self) -> None:
        """Report synced data behind the checkpoint that is missing: a crash tears only unsynced data."""
        batch, number, offset, messages = self.written
        if not batch or (number, offset) <= (self.base.segment, self.base.offset):
            return
        segment = self.segments.get(number)
        if segment is None:
            self.report.damages.append(Damage("short", number, 0, offset, messages))
            self.report.lost_records += messages
            return
        covered = self.base.offset if number == self.base.segment else 0
        end = max(self._ends.get(number, 0), covered)
        if end >= offset and not any(
            place == number and covered <= gap.offset < offset for place, gap, _ in self._gaps
        ):
            return
        found = sum(1 for place in segment.offsets if 0 < place < offset)
        lost = max(0, messages - found - self._unreadable_of(number))
        self.report.lost_records += lost
        if end < offset:
            self.report.damages.append(Damage("short", number, end, offset - end, lost))

    def _find_cut_before(self) -> None:
        """Report records written behind the checkpoint that are missing before other records."""
        last = self.batch
        if last.segment and not last.whole and not self.torn:
            self._suspect(last.segment, self._place)
        damaged = {number for number, _, _ in self._gaps}
        for first, last_of, end, messages in self._cuts.find(self.segments, self._ends, damaged):
            self.report.damages.append(Damage("cut", first, end, last_of - first, messages))
            self.report.corrupt_records += 1
            if messages == UNKNOWN:
                self.report.doubtful_places += 1
            else:
                self.report.lost_records += messages

    def _judge_gaps(self) -> None:
        """Distinguish data torn by a crash from later damage."""
        written = (self.written.segment, self.written.offset)
        for number, gap, before in self._gaps:
            covered = number < self.base.segment or (number == self.base.segment and gap.offset < self.base.offset)
            at_end = not gap.batch and not covered and before >= self._last_whole_batch()
            at_end = at_end and (number, gap.offset) >= written
            kind = "torn" if at_end or gap.batch in self._voided else "corrupt"
            if kind == "torn":
                self.report.torn_tails += 1
                if at_end:
                    self._cut(number, gap.offset)
            else:
                self.report.corrupt_records += 1
                self.report.doubtful_places += not covered
            self.report.damages.append(Damage(kind, number, gap.offset, gap.end - gap.offset))

    def _cut(self, number: int, size: int) -> None:
        """Drop a torn end, so that a later start, which has less information, does not treat it as corruption."""
        self.files.remove(heads_path(self.segments[number].path))
        file = self.files.open(self.segments[number].path)
        try:
            file.truncate(size)
            file.sync()
        finally:
            file.close()

    def _last_whole_batch(self) -> int:
        return self.batch.number - 1 if self.torn else self.batch.number


def note_outcome(outcomes: dict[str, int], outcome: tuple[str, int]) -> None:
    """Keep the highest batch id of a query, and the latest queries."""
    query, batch_id = outcome
    highest = max(batch_id, outcomes.pop(query, batch_id))
    outcomes[query] = highest
    while len(outcomes) > OUTCOMES_MAX:
        del outcomes[next(iter(outcomes))]
