"""Making a segment's index of the segment: when it is closed and covered by a checkpoint, and after a compaction.

Only the heads of records are looked at, at the places the log knows. Checksums are computed of records of several
queues only: whoever reads another later verifies it, and checks that it is the one its row names.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Final, TypeAlias

from annulet.core.message import DEFAULT_PRIORITY
from annulet.store.checkpoint import write_durably
from annulet.store.files import File, FileSystem
from annulet.store.interface import NO_PRIORITY, MaintenanceTask
from annulet.store.records import (
    HEADER,
    MAGIC,
    MESSAGE_FIXED,
    TARGET,
    TYPE_MESSAGE,
    decode_origin,
    decode_targets,
)
from annulet.store.scanning import read_record
from annulet.store.segment import SHARED, Segment
from annulet.store.segment_index import UNREAD, SegmentIndex, index_path

HeaderCheck: TypeAlias = "Callable[[str, bytes], int]"
"""Given the name of a protocol's view and a header: what may it ask for, ``SETS_TIME`` and ``HAS_DUPLICATE_ID`` added
up? Errs on the side of yes, but for ``GIVES_PRIORITY``."""

SETS_TIME: Final = 1
"""The message may ask to wait."""
HAS_DUPLICATE_ID: Final = 2
"""It may carry an id for duplicate detection."""
GIVES_PRIORITY: Final = 4
"""It says how important it is, though that be what counts for those that do not. Neither yes nor no in doubt: exact."""

PIECE_BYTES: Final = 256 << 10
"""What is read of a segment at once: heads of some hundred messages of 1 KiB, and little of a large body."""

ORIGINS_MAX: Final = UNREAD
"""Origins of one index; messages of further ones are read at start."""

_HEAD: Final = Struct("<I4xII8x8xBBHqqIIQQ")
"""Magic, length, ordinal, type, priority, targets, accepted_at, expires_at, length of origin and of header; queue id
and sequence of the first target."""

_BEFORE_TARGETS: Final = HEADER.size + MESSAGE_FIXED.size


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
    """Take from the segment's file what the log keeps nowhere. Without ``asks_for`` all is to be read at start."""
    offsets, queues, queue_ids = index.offsets, index.queues, index.queue_ids
    sequences = index.sequences = array("Q", bytes(8 * len(offsets)))
    sizes = index.sizes = array("I", bytes(4 * len(offsets)))
    priorities = index.priorities = array("H", bytes(2 * len(offsets)))
    times = index.accepted_at = array("Q", bytes(8 * len(offsets)))
    ends = index.expires_at = array("Q", bytes(8 * len(offsets)))
    numbers = index.origin_numbers = array("H", [UNREAD]) * len(offsets)
    origins = OriginNumbers(index, asks_for)
    unpack = _HEAD.unpack_from
    piece = b""
    base = end = 0  # of the piece, in the file
    head, head_origin = b"", -1  # origin and header as in the record before
    number, given = UNREAD, False  # what they mean: number of the origin, and that it gives its priority
    for ordinal, offset in enumerate(offsets):
        if not offset:
            continue
        if not base <= offset <= end - _HEAD.size:
            piece = file.read(offset, PIECE_BYTES)
            base, end = offset, offset + len(piece)
            if len(piece) < _HEAD.size:
                _pass_over(index, ordinal)  # cut off
                continue
        magic, length, own, kind, priority, targets, accepted_at, expires_at, origin, header, *target = unpack(
            piece, offset - base
        )
        queue_id, sequence = target
        if magic != MAGIC or own != ordinal or kind != TYPE_MESSAGE:
            _pass_over(index, ordinal)
            continue
        queue = queues[ordinal]
        several = queue == SHARED and _note_shared(index, ordinal, file.read(offset, HEADER.size + length), seed)
        one = queue != SHARED and targets == 1 and queue_ids[queue] == queue_id
        size = length - MESSAGE_FIXED.size - TARGET.size * targets - origin - header
        if not (one or several) or size < 0 or accepted_at < 0 or (expires_at and expires_at < accepted_at):
            continue
        start = offset + _BEFORE_TARGETS + TARGET.size * targets
        if start + origin + header > end:
            piece = file.read(offset, max(PIECE_BYTES, start + origin + header - offset))
            base, end = offset, offset + len(piece)
        found = piece[start - base : start - base + origin + header]
        if found != head or origin != head_origin:
            head, head_origin = found, origin
            number, given = origins.of(found, origin)
        if number != UNREAD:
            numbers[ordinal] = number
            sequences[ordinal] = sequence
            sizes[ordinal] = size
            times[ordinal] = accepted_at
            ends[ordinal] = expires_at
            priorities[ordinal] = priority if given or priority != DEFAULT_PRIORITY else NO_PRIORITY


class OriginNumbers:
    """Numbers the origins of an index, and asks which messages have to be read."""

    def __init__(self, index: SegmentIndex, asks_for: HeaderCheck | None) -> None:
        self._index = index
        self._asks_for = asks_for
        self._known: dict[bytes, tuple[int, str]] = {}  # encoded origin -> number and name of its view

    def of(self, head: bytes, origin_length: int) -> tuple[int, bool]:
        """Return the number of the origin that ``head`` begins with, UNREAD when such a message has to be read.

        And whether the header that follows gives a priority.
        """
        encoded = head[:origin_length]
        number, view = self._known.get(encoded) or self._note(encoded)
        if number == UNREAD or self._asks_for is None:
            return UNREAD, False
        asked = self._asks_for(view, head[origin_length:])
        if asked & HAS_DUPLICATE_ID:
            self._index.duplicate_ids = True
        return UNREAD if asked & SETS_TIME else number, bool(asked & GIVES_PRIORITY)

    def _note(self, encoded: bytes) -> tuple[int, str]:
        origins = self._index.origins
        if len(origins) >= ORIGINS_MAX:
            return UNREAD, ""
        try:
            view = decode_origin(encoded)[3]
        except (ValueError, struct_error):  # damaged
            return UNREAD, ""
        known = self._known[encoded] = (len(origins), view)
        origins.append(encoded)
        return known


def _pass_over(index: SegmentIndex, ordinal: int) -> None:
    """Leave a damaged record to whoever reads it. One of several queues is nowhere: nothing else names these."""
    if index.queues[ordinal] == SHARED:
        index.offsets[ordinal] = 0


def _note_shared(index: SegmentIndex, ordinal: int, data: bytes, seed: int) -> bool:
    """Keep all targets of a record with several. A damaged one is nowhere, as in a segment that is read.

    Here the checksum is computed: nothing else would notice a wrong queue.
    """
    record = read_record(data, 0, seed)
    if record is None:
        index.offsets[ordinal] = 0
        return False
    index.shared[ordinal] = tuple([number for target in decode_targets(data, record) for number in target])
    return True
