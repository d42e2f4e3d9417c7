"""Sealing the window: message parts and control records become one batch, ended by a seal."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from typing import Final

from annulet.store.files.errors import DiskFullError
from annulet.store.log.space import LogSpace
from annulet.store.log.window import HeadRun, LogBatch, WindowPart, WritePart
from annulet.store.log.written_mark import Written
from annulet.store.segments.records import (
    CONTROL_OVERHEAD,
    ORDINAL_BITS,
    TARGET,
    TYPE_COMMIT,
    TYPE_DISCARD,
    TYPE_FORGET,
    TYPE_SEAL,
    TYPE_SETTLE,
    encode_control,
    encode_seal,
    pack_numbers,
    seal_size,
)
from annulet.store.segments.segment import Segment

PAIRS_PER_RECORD: Final = 4096
"""Settlements in one record: 64 KiB, so that one damaged record affects few of them."""

PAIRS_WORTH_A_RECORD: Final = 64
"""On a full disk, fewer settlements than this (or all there are) do not get the last bytes of a segment."""

SEAL_ROOM: Final = seal_size([])


class Sealer:
    """Builds batches. Settlements and discards are collected between them and wait when the disk is full."""

    def __init__(self, space: LogSpace, sequences: dict[int, int], last_batch: int) -> None:
        self.batch = last_batch + 1  # number of the open window's batch
        self.end = (space.tail.number, space.tail.size)  # where the sealed records end
        self.settled: array[int] = array("Q")  # queue id, record id, queue id, …; packed as it is written
        self.released = 0  # numbers ever taken from the front of ``settled``
        self.forgotten: list[int] = []
        self.discarded: list[int] = []  # queue id, first record id, last record id, queue id, …
        self.noted = 0  # discards and deleted queues ever noted
        self._noted_deferred = 0  # up to this total, those found no room when the last window was sealed; 0: none
        self._noted_elsewhere = 0  # up to this total, they are in a checkpoint
        self._deferred = 0  # up to this total, settlements found no room when the last window was sealed
        self._space = space
        self._sequences = sequences
        self._writes: dict[int, WritePart] = {}
        self._runs: list[HeadRun] = []
        self._records = 0
        self._commits: list[bytes] = []

    def seal(self, parts: list[WindowPart]) -> LogBatch | None:
        """Return the batch of the window, ``None`` when there is nothing to write (or no room for settlements)."""
        self._writes = {}
        self._runs = []
        self._records = 0
        self._commits = []
        for part in parts:
            self._seal_part(part)
        self._release()
        self._deferred = self.released + len(self.settled)
        self._noted_deferred = self.noted if self.discarded or self.forgotten else 0
        if not self._records:
            return None
        tail = self._space.tail
        seal = encode_seal(self._records, self._commits)
        if tail.size + CONTROL_OVERHEAD + len(seal) > tail.capacity:
            seal = encode_seal(self._records, [])  # the copies of the commits are a precaution, not a need
        self._add(tail, TYPE_SEAL, seal, 0)
        return self._finish()

    def _seal_part(self, part: WindowPart) -> None:
        segment = part.segment
        start = segment.size
        runs = self._runs if self._space.heads.active else None
        buffers, count = part.encode(self.batch, self._sequences, runs)
        if buffers:
            self._write_part(segment, start).buffers += buffers
            self._records += count
        for entry, queue_ids in part.settled.items():
            ordinal = part.first + entry
            for queue_id in queue_ids:
                if segment.settle(ordinal, queue_id):
                    self.settled.extend((queue_id, segment.number << ORDINAL_BITS | ordinal))
        for record_type, payload, transaction in part.controls:
            self._add(segment, record_type, payload, transaction)
            self._records += 1
            if record_type == TYPE_COMMIT:
                self._commits.append(payload)

    def _release(self) -> None:
        """Write settlements and deleted queues as far as there is room; the rest waits in memory."""
        if self._write_out(TYPE_FORGET, self.forgotten, 1) and self._write_out(TYPE_DISCARD, self.discarded, 3):
            before = len(self.settled)
            self._write_out(TYPE_SETTLE, self.settled, 2)
            self.released += before - len(self.settled)

    def _write_out(self, record_type: int, numbers: MutableSequence[int], unit: int) -> bool:
        """Write numbers, ``unit`` of which belong together, and remove them. Returns whether there was room for all."""
        start, count = 0, len(numbers)
        while start < count:
            available = min(self._room() // (unit * TARGET.size // 2), PAIRS_PER_RECORD) * unit
            if available < min(count - start, PAIRS_WORTH_A_RECORD * unit):
                break
            self._add(self._space.tail, record_type, pack_numbers(numbers[start : start + available]), 0)
            self._records += 1
            start = min(start + available, count)
        del numbers[:start]  # at once: there are a million where very much has expired or was acknowledged
        return start == count

    @property
    def deferring(self) -> bool:
        """Settlements, discards or deleted queues of a sealed window wait in memory for disk space."""
        return self.released < self._deferred or self._noted_elsewhere < self._noted_deferred

    def forget(self, queue_id: int) -> None:
        """Note a deleted queue."""
        self.forgotten.append(queue_id)
        self.noted += 1

    def discard(self, queue_id: int, first: int, last: int) -> None:
        """Note that a queue is done with these records."""
        self.discarded += (queue_id, first, last)
        self.noted += 1

    def settled_elsewhere(self, released: int, noted: int) -> None:
        """Drop waiting settlements up to the total ``released``: a checkpoint made them durable.

        It did so with the first ``noted`` discards and deleted queues too, which are written again when there is room.
        """
        self._noted_elsewhere = max(self._noted_elsewhere, noted)
        count = max(0, released - self.released)
        del self.settled[:count]
        self.released += count

    def _room(self) -> int:
        """Return the bytes for the payload of one more control record, from the next segment when need be."""
        space = self._space
        tail = space.tail
        if space.free() <= 0 and (space.has_spare or not space.disk_full):
            # The reserve is for a full disk; while there is space elsewhere it is left alone.
            try:
                tail = space.roll(CONTROL_OVERHEAD)
            except DiskFullError:
                tail = space.tail
        return max(0, tail.capacity - tail.size - CONTROL_OVERHEAD - SEAL_ROOM)

    def _add(self, segment: Segment, record_type: int, payload: bytes, transaction: int) -> None:
        part = self._write_part(segment, segment.size)
        part.buffers.append(encode_control(record_type, payload, self.batch, transaction, segment.seed))
        segment.size += CONTROL_OVERHEAD + len(payload)

    def _write_part(self, segment: Segment, offset: int) -> WritePart:
        part = self._writes.get(segment.number)
        if part is None:
            part = self._writes[segment.number] = WritePart(segment, offset, [])
            if segment.header_due:
                part.add_header()
                segment.header_due = False
        return part

    def _finish(self) -> LogBatch:
        space = self._space
        batch = LogBatch(self.batch)
        batch.settles_all = not self.settled
        for segment in space.retired:
            self._write_part(segment, segment.size).final_size = segment.size
        batch.closing = space.retired
        space.retired = []
        batch.runs = self._runs
        batch.parts = [self._writes[number] for number in sorted(self._writes)]
        batch.size = sum(len(buffer) for part in batch.parts for buffer in part.buffers)
        batch.sync_directory = space.directory_changed
        space.directory_changed = False
        self._writes = {}
        self.batch += 1
        self.end = (space.tail.number, space.tail.size)
        batch.written = Written(batch.number, *self.end, space.tail.kept)
        return batch
