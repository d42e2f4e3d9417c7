"""Making a segment's index of the segment: when it is closed and covered by a checkpoint, and after a compaction."""

from __future__ import annotations

from typing import Final

from annulet.store.files.files import File, FileSystem, write_durably
from annulet.store.segments.index_filling import Filling, HeaderCheck, OriginNumbers
from annulet.store.segments.interface import MaintenanceTask
from annulet.store.segments.segment import Segment
from annulet.store.segments.segment_index import UNREAD, SegmentIndex, index_path

PIECE_BYTES: Final = 256 << 10
"""Bytes of a segment read at once: heads of about a hundred messages of 1 KiB, and little of a large body."""

ORIGINS_MAX: Final = UNREAD
"""Origins of one index; messages of further ones are read at start."""


class IndexTask(MaintenanceTask):
    """Writes the index of one closed segment. Everything of the segment that changes is copied on the loop."""

    def __init__(self, segment: Segment, asks_for: HeaderCheck | None, files: FileSystem) -> None:
        self.segment = segment
        self._number = segment.number
        self._identity = segment.identity
        self._seed = segment.seed
        self._size = segment.size
        self._path = segment.path
        self._offsets = segment.offsets[:]
        self._queues = segment.queues[:]
        self._queue_ids = segment.queue_ids.copy()
        self._voided = segment.voided.copy()
        self._asks_for = asks_for
        self._files = files

    def work(self) -> None:
        """Read the heads of all records, write the index, make it durable."""
        file = self._files.open(self._path)
        try:
            index = SegmentIndex(self._number, self._identity, self._size, file.size())
            index.offsets = self._offsets
            index.queues = self._queues
            index.queue_ids = self._queue_ids
            index.voided.extend(self._voided)
            fill(index, file, self._seed, self._asks_for)
        finally:
            file.close()
        write_durably(index_path(self._path), index.encode(), self._files)


def fill(index: SegmentIndex, file: File, seed: int, asks_for: HeaderCheck | None) -> None:
    """Read the data that the log does not keep from the segment's file.

    Without ``asks_for`` all has to be read at start.
    """
    Filling(index, file, seed, OriginNumbers(index, asks_for, ORIGINS_MAX), PIECE_BYTES).run()
