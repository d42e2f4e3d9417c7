"""Upkeep of the message log: the tasks a disk thread runs besides writing batches."""

from __future__ import annotations

import logging
from array import array
from pathlib import Path
from typing import Final

from annulet.store.files.files import UNFINISHED_SUFFIX, File, FileSystem
from annulet.store.log.checkpoint import BALLAST_FILE
from annulet.store.log.quarantine import REASON_COMPACTION, DamageNote, Quarantine, gap_length
from annulet.store.segments.head_blocks import heads_path
from annulet.store.segments.interface import MaintenanceTask
from annulet.store.segments.records import HEADER, SEGMENT_HEADER_SIZE, reseal_message, segment_header
from annulet.store.segments.scanning import read_record
from annulet.store.segments.segment import Segment
from annulet.store.segments.segment_index import index_path

logger = logging.getLogger(__name__)

BALLAST_BYTES: Final = 1 << 20
"""Size of the reserve for checkpoints on a full disk: the bitmaps of ten million records, uncompressed, are 1.2 MB."""

COPY_BYTES: Final = 1 << 20
"""Bytes that a compaction reads and writes at once, unless one record is larger.

With a whole segment at once the process grew by 16 MiB while everything expired.
"""


class SpareTask(MaintenanceTask):
    """Reserves the next segment's disk space ahead of its use, and restores the ballast."""

    def __init__(self, path: Path, size: int, files: FileSystem) -> None:
        self.path = path
        self.size = size
        self.file: File | None = None
        self._files = files

    def work(self) -> None:
        """Allocate; leave nothing behind when the disk is full."""
        ensure_ballast(self.path.parent, self._files)
        self.file = allocate_file(self.path, self.size, self._files)


class RemoveTask(MaintenanceTask):
    """Removes segments without live records, and the files beside them."""

    def __init__(self, paths: dict[int, Path], directory: Path, files: FileSystem) -> None:
        self.numbers = list(paths)
        self.removed: list[int] = []
        self._paths = paths
        self._directory = directory
        self._files = files

    def work(self) -> None:
        """Remove the files; the last step makes that durable, which only matters for the space."""
        for number, path in self._paths.items():
            self._files.remove(path)
            self.removed.append(number)
            self._files.remove(index_path(path))
            self._files.remove(heads_path(path))
        self._files.sync_directory(self._directory)


class CompactTask(MaintenanceTask):
    """Copies the live records of one segment into a new file of the same name. Ids stay, offsets change.

    Control records are left out: both checkpoints that are kept cover them.
    """

    def __init__(
        self, segment: Segment, live: list[tuple[int, int]], files: FileSystem, quarantine: Quarantine
    ) -> None:
        self.segment = segment
        self.offsets = array("I", bytes(4 * len(segment.offsets)))  # by ordinal; 0 for records that are not kept
        self.kept = 0  # records
        self.size = 0
        self.unreadable = 0
        self.renamed = False  # the new file is in place, even if a later step failed
        self._live = live
        self._quarantine = quarantine
        self._files = files
        self._seed = segment.seed
        self._identity = segment.identity
        self._path = segment.path

    def work(self) -> None:
        """Copy, sync, rename. A crash leaves the old file or the new one, both right."""
        unfinished = self._path.with_name(self._path.name + UNFINISHED_SUFFIX)
        source = self._files.open(self._path)
        try:
            self._copy(source, unfinished)
            self._files.remove(index_path(self._path))  # of the old file; by its length it would not be believed
            self._files.remove(heads_path(self._path))
            self._files.rename(unfinished, self._path)
            self.renamed = True
        except OSError:
            self._files.remove(unfinished)
            raise
        finally:
            source.close()
        self._files.sync_directory(self._path.parent)

    def _copy(self, source: File, unfinished: Path) -> None:
        """Write the new file, piece by piece: a segment in memory at once would be felt beside the body budget."""
        reader = RecordPieces(source, self._seed)
        buffers = [segment_header(self.segment.number, self._identity)]
        written, offset = 0, SEGMENT_HEADER_SIZE
        target = self._files.open(unfinished, create=True)
        try:
            for ordinal, place in self._live:
                record = reader.record_at(place)
                if record is None:
                    self.unreadable += 1  # damaged since it was written; recovery would pass over it too
                    self._set_aside(source, place)
                    continue
                copy = reseal_message(record, self._seed)
                self.offsets[ordinal] = offset
                self.kept += 1
                buffers.append(copy)
                offset += len(copy)
                if offset - written >= COPY_BYTES:
                    target.write(buffers, written)
                    buffers, written = [], offset
            if buffers:
                target.write(buffers, written)
            target.sync()
        finally:
            target.close()
        self.size = offset

    def _set_aside(self, source: File, place: int) -> None:
        """Quarantine records that will not be in the new file.

        A refusing disk does not stop the compaction: it is counted.
        """
        note = DamageNote(self.segment.number, place, 0, REASON_COMPACTION)
        try:
            data = source.read(place, source.size() - place)
            self._quarantine.keep(note, data[: gap_length(data, self._seed, 0)])
        except OSError as error:
            logger.warning("message log: %s cannot be kept: %s", note, error)


class RecordPieces:
    """Reads records of a file at ascending places, ``COPY_BYTES`` at once, or one record that is larger."""

    def __init__(self, file: File, seed: int) -> None:
        self._file = file
        self._seed = seed
        self._piece = b""
        self._base = 0  # of the piece, in the file

    def record_at(self, place: int) -> bytes | None:
        """Return the record that begins at a place (bytes), ``None`` if there is no valid one."""
        start = place - self._base
        end = start + HEADER.size
        if start >= 0 and end <= len(self._piece):
            end += self._length_at(start)
        if start < 0 or end > len(self._piece):
            self._read(place, COPY_BYTES)
            start, end = 0, HEADER.size
            if end <= len(self._piece):
                end += self._length_at(0)
            if end > len(self._piece):
                self._read(place, min(end, max(0, self._file.size() - place)))  # a damaged length may say anything
        record = read_record(self._piece, start, self._seed)
        return None if record is None else self._piece[start : record.end]

    def _length_at(self, start: int) -> int:
        length: int = HEADER.unpack_from(self._piece, start)[2]
        return length

    def _read(self, place: int, length: int) -> None:
        self._piece = b""  # or there would be two at once
        self._piece = self._file.read(place, length)
        self._base = place


def allocate_file(path: Path, size: int, files: FileSystem) -> File:
    """Create a file with ``size`` bytes of reserved space; on failure nothing stays."""
    file = files.open(path, create=True)
    try:
        file.allocate(size)
    except OSError:
        file.close()
        files.remove(path)
        raise
    return file


def ensure_ballast(directory: Path, files: FileSystem) -> None:
    """Reserve the ballast unless it exists."""
    if BALLAST_FILE not in files.names(directory):
        allocate_file(directory / BALLAST_FILE, BALLAST_BYTES, files).close()
