"""Disk space of the message log: the tail segment, the spare kept ahead of it, and the answer to a full disk."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Final

from annulet.store.files.errors import DiskFullError, LogFailedError
from annulet.store.files.files import UNFINISHED_SUFFIX, File, FileSystem
from annulet.store.files.full_disk import FULL_DISK
from annulet.store.log.upkeep import allocate_file
from annulet.store.segments.head_blocks import heads_path
from annulet.store.segments.head_writing import PendingHeads
from annulet.store.segments.records import ORDINAL_MASK, RECORD_BYTES_MAX, SEGMENT_HEADER_SIZE, checksum_seed
from annulet.store.segments.segment import Segment, segment_name

logger = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 16 << 20
"""Default size of a segment: removing one gives back a useful amount, keeping one costs little."""

SEGMENT_BYTES_MIN: Final = 16 << 10
"""Smallest segment: the settlement reserve is a sixteenth of it and must hold a seal and some settlements."""

RESERVE_SHARE: Final = 16
"""A segment keeps 1/16 of its size free of messages, so that settlements still fit when the disk is full."""

RESERVE_BYTES_MAX: Final = 256 << 10
"""Upper bound of that reserve: 16 000 settlements."""

ORDINALS_MAX: Final = 1 << 18
"""Records of one segment. Sixteen MiB contain fewer, so only ordinals of cancelled messages can reach it."""

ROOM_OVERHEAD: Final = 4096
"""Bytes ``has_room`` adds to a message for its record header, names and targets: 200 queues and long names."""

RETRY_MILLISECONDS: Final = 1000
"""How long a full disk is left alone before ``has_room`` tries again."""


class LogSpace:
    """Owns the segment files that are open for writing. Belongs to the loop thread."""

    def __init__(self, directory: Path, files: FileSystem, segment_bytes: int) -> None:
        self.directory = directory
        self.files = files
        self.segment_bytes = segment_bytes
        self.segments: dict[int, Segment] = {}
        self.retired: list[Segment] = []  # closed since the last batch
        self.disk_full = False
        self.directory_changed = False  # a segment was created that no batch made durable yet
        self.failed = ""  # why nothing may be written any more; the thread that writes batches sets it too
        self.heads = PendingHeads(files)
        self.reserve_used = False  # a checkpoint used the ballast, and no spare was made since
        self.tail: Segment
        self._spare: File | None = None
        self._spare_path = directory
        self._spare_size = 0
        self._retry_at = 0
        self._names = itertools.count(1)

    def reserve_of(self, capacity: int) -> int:
        """Return how many bytes at the end of a segment no message may use."""
        return min(RESERVE_BYTES_MAX, capacity // RESERVE_SHARE)

    def free(self) -> int:
        """Return the bytes the tail has left for messages (negative when settlements already use the reserve)."""
        tail = self.tail
        if len(tail.offsets) >= min(ORDINALS_MAX, ORDINAL_MASK):
            return 0
        return tail.capacity - self.reserve_of(tail.capacity) - tail.size

    @property
    def has_spare(self) -> bool:
        """A segment is ready for when the tail is full."""
        return self._spare is not None

    def spare_fits(self, size: int) -> bool:
        """Return whether the spare has room for a record of ``size`` bytes."""
        return self._spare is not None and size <= self._usable(self._spare_size)

    def needed_for(self, size: int) -> int:
        """Return the segment size for a record of ``size`` bytes."""
        larger = SEGMENT_HEADER_SIZE + size + RESERVE_BYTES_MAX
        return self.segment_bytes if size <= self._usable(self.segment_bytes) else larger

    def reserve_room(self, size: int, now: int) -> bool:
        """Get a spare for ``size`` bytes. A full disk is tried at most once a second of ``now``.

        Callers also reserve for whole transactions. More than the largest record is not reserved in one segment, whose
        offsets have 32 bits: the rest is reserved when it is written.
        """
        size = min(size, RECORD_BYTES_MAX)
        if self.spare_fits(size):
            return True
        if self.disk_full and now < self._retry_at:
            return False
        self._retry_at = now + RETRY_MILLISECONDS
        return self.make_spare(size)

    def make_spare(self, size: int = 0) -> bool:
        """Allocate a spare, or enlarge it, at once."""
        wanted = self.needed_for(size)
        try:
            if self._spare is not None:
                self._spare.allocate(wanted)
                self._spare_size = wanted
            else:
                path = self.spare_path()
                self.adopt_spare(path, allocate_file(path, wanted, self.files), wanted)
        except OSError as error:
            self._refuse(error)
            return False
        self.space_found()
        return True

    def _refuse(self, error: OSError) -> None:
        """Note that the disk gives no segment: publishes are refused."""
        full = FULL_DISK.note(error, self.directory, "a segment of the message log (publishes are refused)")
        if not full and not self.disk_full:
            logger.warning("message log: no segment in %s: %s; publishes are refused", self.directory, error)
        self.disk_full = True

    def spare_path(self) -> Path:
        """Return a name for a spare, used once; recovery removes its leftovers after a crash."""
        return self.directory / f"spare-{next(self._names)}{UNFINISHED_SUFFIX}"

    def adopt_spare(self, path: Path, file: File, size: int) -> None:
        """Take over a spare made by the disk thread; one too many is removed."""
        if self._spare is not None:
            file.close()
            self._remove_spare(path)
            return
        self._spare, self._spare_path, self._spare_size = file, path, size
        self.space_found()

    def _remove_spare(self, path: Path) -> None:
        try:
            self.files.remove(path)
        except OSError as error:
            logger.warning("message log: cannot remove %s: %s; the next start does", path, error)

    def space_found(self) -> None:
        """Note that the disk gave space."""
        if self.disk_full:
            logger.info("message log: disk space in %s again", self.directory)
        self.disk_full = False

    def roll(self, size: int) -> Segment:
        """Close the tail and continue in a new one for ``size`` bytes.

        Raises :class:`DiskFullError` if there is no spare. A spare was a promise of room, on which a queue may have
        dropped other messages for the new one: if the disk does not put it in place the log has failed
        (:class:`LogFailedError`), so that these drops are not written.
        """
        if not self.spare_fits(size) and not self.make_spare(size):
            raise DiskFullError(
                f"no disk space for a record of {size} bytes in {self.directory}; free space, or let consumers catch up"
            )
        number = self.tail.number + 1
        path = self.directory / segment_name(number)
        try:
            self.files.rename(self._spare_path, path)
        except OSError as error:
            self.failed = f"cannot put segment {path} in place: {error}"
            raise LogFailedError(f"{self.failed}; repair the disk, restart the broker") from error
        self.tail.closed = True
        self.retired.append(self.tail)
        file, self._spare = self._spare, None
        self.tail = self._new_segment(number, path)
        self.tail.file = file
        self.tail.capacity = self._spare_size
        return self.tail

    def start(self, segments: dict[int, Segment], covered: int, *, begun: bool = True) -> None:
        """Take over the recovered segments; the last becomes the tail. ``covered`` is the checkpoint's segment.

        With ``begun`` false nothing was written to that one at the checkpoint.
        """
        self.segments = segments
        for segment in segments.values():
            segment.closed = True
        last = segments.get(max(segments, default=0))
        headless = last is not None and last.header_due and last.size > SEGMENT_HEADER_SIZE
        if last is None or last.number < covered or headless:
            unused = not begun and (last is None or last.number < covered)
            self._start_fresh(covered if unused else max(covered, max(segments, default=0)) + 1)
            return
        last.closed = False
        self.tail = last
        self.files.remove(heads_path(last.path))  # new records may be at places where it describes others
        if last.header_due:
            last.identity = self.files.identity()
            last.seed = checksum_seed(last.number, last.identity)
        file = self.files.open(last.path)
        last.file = file
        if file.size() > last.size:
            file.truncate(last.size)  # torn data must not follow the next records
        wanted = max(self.segment_bytes, last.size)
        try:
            file.allocate(wanted)
        except OSError as error:
            self._refuse(error)
        last.capacity = max(last.size, file.size())

    def end_tail(self) -> None:
        """Cut the tail to its size and close its file: nothing follows in it. Only to be followed by :meth:`close`.

        Raises ``OSError`` when the disk refuses.
        """
        file = self.tail.file
        assert file is not None
        file.truncate(self.tail.size)
        file.sync()
        file.close()
        self.tail.file = None
        self.tail.closed = True

    @property
    def takes_heads(self) -> bool:
        """Free space on the disk may not be enough for the next checkpoint."""
        return not self.disk_full and not self.reserve_used

    def close(self) -> None:
        """Close the files. The spare goes: it is cheap to make again."""
        self.heads.close(write=self.takes_heads)
        for segment in (*self.retired, self.tail):
            if segment.file is not None:
                segment.file.close()
                segment.file = None
        if self._spare is not None:
            self._spare.close()
            self._spare = None
            self._remove_spare(self._spare_path)

    def _start_fresh(self, number: int) -> None:
        path = self.directory / segment_name(number)
        try:
            file = allocate_file(path, self.segment_bytes, self.files)
        except OSError as error:
            raise DiskFullError(
                f"cannot reserve {self.segment_bytes} bytes for {path}: {error}; free space on that disk"
            ) from error
        self.tail = self._new_segment(number, path)
        self.tail.file = file
        self.tail.capacity = self.segment_bytes

    def _new_segment(self, number: int, path: Path) -> Segment:
        identity = self.files.identity()
        segment = Segment(number, path, identity, checksum_seed(number, identity))
        segment.header_due = True
        self.segments[number] = segment
        self.directory_changed = True
        return segment

    def _usable(self, capacity: int) -> int:
        return capacity - SEGMENT_HEADER_SIZE - self.reserve_of(capacity)
