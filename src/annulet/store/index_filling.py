"""The columns of a segment's index, taken from the segment's file: done for each message that stays, so it is compiled.

Only the heads of records are looked at, at the places the log knows. Checksums are computed of records of several
queues only: whoever reads another later verifies it, and checks that it is the one its row names.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from struct import error as struct_error
from typing import Final, TypeAlias

from librt.strings import read_i64_le
from mypy_extensions import i64

from annulet.core.message import DEFAULT_PRIORITY
from annulet.store.columns import Column, narrowed, short_numbers
from annulet.store.files import File
from annulet.store.interface import NO_PRIORITY
from annulet.store.records import (
    HEADER,
    MAGIC,
    MESSAGE_FIXED,
    RECORD_BYTES_MAX,
    TARGET,
    TYPE_MESSAGE,
    decode_origin,
    decode_targets,
    unpack_numbers,
)
from annulet.store.scanning import read_record
from annulet.store.segment import SHARED
from annulet.store.segment_index import UNREAD, SegmentIndex

HeaderCheck: TypeAlias = "Callable[[str, bytes], int]"
"""Given the name of a protocol's view and a header: what may it ask for, ``SETS_TIME`` and ``HAS_DUPLICATE_ID`` added
up? Errs on the side of yes, but for ``GIVES_PRIORITY``."""

SETS_TIME: Final = 1
"""The message may ask to wait."""
HAS_DUPLICATE_ID: Final = 2
"""It may carry an id for duplicate detection."""
GIVES_PRIORITY: Final = 4
"""It says how important it is, though that be what counts for those that do not. Neither yes nor no in doubt: exact."""

BEFORE_TARGETS: Final = HEADER.size + MESSAGE_FIXED.size
HEAD_BYTES: Final = BEFORE_TARGETS + TARGET.size  # up to behind the first target

PAUSE_SECONDS: Final = 50e-6
"""Between two pieces. Compiled code keeps the interpreter lock; a read that finds its bytes in memory is over before
another thread that waits for the lock has woken up. So each call of the event loop that gives the lock away, of which
a read of a connection has two or three, got it back 5 ms later: passes of up to 44 ms while messages came."""

_LOW: Final = 0xFFFFFFFF


class OriginNumbers:
    """Numbers the origins of an index, at most ``most``, and asks which messages have to be read."""

    def __init__(self, index: SegmentIndex, asks_for: HeaderCheck | None, most: int) -> None:
        self._index = index
        self._asks_for = asks_for
        self._most = most
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
        if len(origins) >= self._most:
            return UNREAD, ""
        try:
            view = decode_origin(encoded)[3]
        except (ValueError, struct_error):  # damaged
            return UNREAD, ""
        known = self._known[encoded] = (len(origins), view)
        origins.append(encoded)
        return known


class Filling:
    """Fills an index from its segment's ``file``, of which ``piece_bytes`` are read at once.

    That is the heads of some hundred messages of 1 KiB, and little of a large body.
    """

    def __init__(self, index: SegmentIndex, file: File, seed: int, origins: OriginNumbers, piece_bytes: int) -> None:
        ordinals = len(index.offsets)
        self._index = index
        self._file = file
        self._seed = seed
        self._origins = origins
        self._piece_bytes = piece_bytes
        self._piece = b""
        self._base = 0  # of the piece, in the file
        self._sequences = Column()
        self._sizes = Column()
        self._times = Column()
        self._ends = Column()
        self._priorities = [0] * ordinals
        self._numbers = [UNREAD] * ordinals
        self._head = b""  # origin and header of the record before
        self._head_origin = -1  # bytes of it that are the origin
        self._number = UNREAD  # of the origin
        self._given = False  # the header gives a priority

    def run(self) -> None:
        """Fill all columns. Raises ``OSError`` when the file cannot be read."""
        index = self._index
        numbers = self._numbers
        queues = index.queues.tolist()
        for ordinal, offset in enumerate(index.offsets.tolist()):
            queue = queues[ordinal]
            if offset and not self._note(ordinal, offset, queue) and queue == SHARED:
                index.offsets[ordinal] = 0  # nothing else names its queues
            if numbers[ordinal] == UNREAD:
                self._enter(0, 0, 0, 0)
        index.sequences = unpack_numbers(self._sequences.content())
        index.sizes = short_numbers(narrowed(self._sizes.content(), 0))
        index.accepted_at = unpack_numbers(self._times.content())
        index.expires_at = unpack_numbers(self._ends.content())
        index.priorities = array("H", self._priorities)
        index.origin_numbers = array("H", numbers)

    def _enter(self, sequence: i64, size: i64, accepted_at: i64, expires_at: i64) -> None:
        self._sequences.append(sequence)
        self._sizes.append(size)
        self._times.append(accepted_at)
        self._ends.append(expires_at)

    def _note(self, ordinal: int, offset: int, queue: int) -> bool:
        """Note what the record at ``offset`` says; False when it is damaged: it is left to whoever reads it."""
        if not self._base <= offset <= self._base + len(self._piece) - HEAD_BYTES:
            self._read(offset, self._piece_bytes)
            if len(self._piece) < HEAD_BYTES:  # cut off
                return False
        piece = self._piece
        place = offset - self._base
        at: i64 = place
        magic: i64 = read_i64_le(piece, at) & _LOW
        length: i64 = read_i64_le(piece, at + 8) & _LOW
        own: i64 = read_i64_le(piece, at + 8) >> 32 & _LOW
        kind: i64 = read_i64_le(piece, at + 32)
        if magic != MAGIC or own != ordinal or kind & 0xFF != TYPE_MESSAGE:
            return False
        priority: i64 = kind >> 8 & 0xFF
        targets: i64 = kind >> 16 & 0xFFFF
        accepted_at: i64 = read_i64_le(piece, at + 36)
        expires_at: i64 = read_i64_le(piece, at + 44)
        origin: i64 = read_i64_le(piece, at + 52) & _LOW
        header: i64 = read_i64_le(piece, at + 52) >> 32 & _LOW
        index = self._index
        if queue == SHARED:
            if not self._note_shared(ordinal, self._file.read(offset, HEADER.size + length)):
                return False
        elif targets != 1 or index.queue_ids[queue] != read_i64_le(piece, at + 60):
            return True
        sequence: i64 = read_i64_le(piece, at + 68)
        size: i64 = length - MESSAGE_FIXED.size - TARGET.size * targets - origin - header
        if not 0 <= size <= RECORD_BYTES_MAX or accepted_at < 0 or sequence < 0:
            return True
        if expires_at != 0 and expires_at < accepted_at:
            return True
        head = self._bytes_of(offset + BEFORE_TARGETS + TARGET.size * targets, origin + header, offset)
        if head != self._head or origin != self._head_origin:
            self._head, self._head_origin = head, origin
            self._number, self._given = self._origins.of(head, origin)
        if self._number != UNREAD:
            self._numbers[ordinal] = self._number
            self._enter(sequence, size, accepted_at, expires_at)
            self._priorities[ordinal] = priority if self._given or priority != DEFAULT_PRIORITY else NO_PRIORITY
        return True

    def _bytes_of(self, start: int, length: int, offset: int) -> bytes:
        """Return what stands at ``start`` in the file, behind the head of the record at ``offset``."""
        if start + length > self._base + len(self._piece):
            self._read(offset, max(self._piece_bytes, start + length - offset))
        return self._piece[start - self._base : start - self._base + length]

    def _read(self, offset: int, length: int) -> None:
        """Take another piece of the file, and let the event loop pass first."""
        self._piece = self._file.read(offset, length)
        self._base = offset
        time.sleep(PAUSE_SECONDS)

    def _note_shared(self, ordinal: int, data: bytes) -> bool:
        """Keep all targets of a record with several; False for a damaged one, as in a segment that is read.

        Here the checksum is computed: nothing else would notice a wrong queue.
        """
        record = read_record(data, 0, self._seed)
        if record is None:
            return False
        targets = decode_targets(data, record)
        self._index.shared[ordinal] = tuple([number for target in targets for number in target])
        return True
