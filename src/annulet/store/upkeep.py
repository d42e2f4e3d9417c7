"""Upkeep of the message log: the tasks a disk thread runs besides writing batches."""

from __future__ import annotations

import logging
from array import array
from pathlib import Path
from typing import Final

from annulet.store.checkpoint import BALLAST_FILE, UNFINISHED_SUFFIX
from annulet.store.files import File, FileSystem
from annulet.store.interface import MaintenanceTask
from annulet.store.quarantine import REASON_COMPACTION, DamageNote, Quarantine, gap_length
from annulet.store.records import SEGMENT_HEADER_SIZE, reseal_message, segment_header
from annulet.store.scanning import read_record
from annulet.store.segment import Segment
from annulet.store.segment_index import index_path

logger = logging.getLogger(__name__)

BALLAST_BYTES: Final = 1 << 20
"""Size of the reserve for checkpoints on a full disk: the bitmaps of ten million records, uncompressed, are 1.2 MB."""


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
    """Removes segments without live records, and their indexes."""

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
        self._files.sync_directory(self._directory)


class CompactTask(MaintenanceTask):
    """Copies the live records of one segment into a new file of the same name. Ids stay, offsets change.

    Control records are left out: both checkpoints that are kept cover them.
    """

    def __init__(
        self, segment: Segment, live: list[tuple[int, int]], files: FileSystem, quarantine: Quarantine
    ) -> None:
        self.segment = segment
        self.offsets = array("I", bytes(4 * len(segment.offsets)))  # by ordinal; 0 for what is not kept
        self.kept = 0  # records
        self.size = 0
        self.unreadable = 0
        self.renamed = False  # the new file is in place, whatever went wrong afterwards
        self._live = live
        self._quarantine = quarantine
        self._files = files
        self._seed = segment.seed
        self._identity = segment.identity
        self._path = segment.path

    def work(self) -> None:
        """Copy, sync, rename. A crash leaves the old file or the new one, both right."""
        source = self._files.open(self._path)
        try:
            data = source.read(0, source.size())
        finally:
            source.close()
        buffers = [segment_header(self.segment.number, self._identity)]
        offset = SEGMENT_HEADER_SIZE
        for ordinal, place in self._live:
            record = read_record(data, place, self._seed)
            if record is None:
                self.unreadable += 1  # damaged since it was written; recovery would pass over it too
                self._set_aside(data, place)
                continue
            copy = reseal_message(data[record.offset : record.end], self._seed)
            self.offsets[ordinal] = offset
            self.kept += 1
            buffers.append(copy)
            offset += len(copy)
        self.size = offset
        unfinished = self._path.with_name(self._path.name + UNFINISHED_SUFFIX)
        try:
            target = self._files.open(unfinished, create=True)
            try:
                target.write(buffers, 0)
                target.sync()
            finally:
                target.close()
            self._files.remove(index_path(self._path))  # of the old file; by its length it would not be believed
            self._files.rename(unfinished, self._path)
            self.renamed = True
        except OSError:
            self._files.remove(unfinished)
            raise
        self._files.sync_directory(self._path.parent)

    def _set_aside(self, data: bytes, place: int) -> None:
        """Keep what will not be in the new file. A disk that refuses does not stop the compaction: it is counted."""
        end = place + gap_length(data, self._seed, place)
        note = DamageNote(self.segment.number, place, 0, REASON_COMPACTION)
        try:
            self._quarantine.keep(note, data[place:end])
        except OSError as error:
            logger.warning("message log: %s cannot be kept: %s", note, error)


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
    """Reserve the ballast unless it is there."""
    if BALLAST_FILE not in files.names(directory):
        allocate_file(directory / BALLAST_FILE, BALLAST_BYTES, files).close()
