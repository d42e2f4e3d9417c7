"""The columns of a segment's index, taken from the segment's file: done for each message that stays, so it is compiled.

Only the heads of records are read, at the places the log knows. Checksums are verified only for records of several
queues: later readers of other records verify them, and check that they are the ones of their rows.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from struct import error as struct_error
from typing import Final, TypeAlias

from librt.strings import (
    BytesWriter,
    read_i16_le,
    read_i32_le,
    read_i64_le,
    write_i16_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i16, i32, i64

from annulet.core.message.message import DEFAULT_PRIORITY
from annulet.store.files.files import File
from annulet.store.segments.columns import little_endian, short_numbers
from annulet.store.segments.decoding import FIXED_BYTES, HEADER_BYTES, TARGET_BYTES, UNTARGETED_BYTES, stands_at
from annulet.store.segments.interface import NO_PRIORITY
from annulet.store.segments.records import (
    MAGIC,
    RECORD_BYTES_MAX,
    TYPE_MESSAGE,
    decode_origin,
    decode_targets,
    pack_numbers,
    swapped_where_big,
    unpack_numbers,
)
from annulet.store.segments.scanning import read_record
from annulet.store.segments.segment import SHARED
from annulet.store.segments.segment_index import UNREAD, SegmentIndex

HeaderCheck: TypeAlias = "Callable[[str, bytes], int]"
"""Maps the name of a protocol's view and a header to the possible requests, the sum of ``SETS_TIME`` and
``HAS_DUPLICATE_ID``. In doubt it includes a request, except ``GIVES_PRIORITY``."""

SETS_TIME: Final = 1
"""The message may request a delay."""
HAS_DUPLICATE_ID: Final = 2
"""It may carry an id for duplicate detection."""
GIVES_PRIORITY: Final = 4
"""It has an explicit priority, even if this equals the default. Exact, without doubt."""

DENSE_RECORDS: Final = 128
"""Where as many lie in one piece, at most 2 KiB each with the usual piece, longer pieces are read."""

DENSE_PIECES: Final = 4
"""Bytes of a longer piece: the heads of about a thousand messages of 1 KiB, processed in 0.1 ms.

Each time this thread takes the interpreter lock, the event loop waits for the work and for its own wake-up, so fewer
times are better. For large bodies little has to be read.
"""

LOOKS: Final = 256
"""Records that differ from the one before, or of several queues: after this many there is a pause as well.

Each takes 1 to 3 µs, others 0.07.
"""

PAUSE_SECONDS: Final = 50e-6
"""Pause after each piece except longer ones.

Compiled code keeps the interpreter lock; a read of cached bytes is over before another thread that waits for the lock
has woken up. So each call of the event loop that releases the lock, two or three per read of a connection, got it back
5 ms later: passes of up to 44 ms while messages arrived. A longer piece takes as long to read: 100 to 150 µs for 1 MiB.
"""

_LOW: Final = 0xFFFFFFFF
_KIND: Final = 0xFFFF00FF  # type and number of targets, without the priority between them
_SINGLE_MESSAGE: Final = 1 << 16 | TYPE_MESSAGE


class OriginNumbers:
    """Numbers the origins of an index, at most ``most``, and determines which messages have to be read."""

    def __init__(self, index: SegmentIndex, asks_for: HeaderCheck | None, most: int) -> None:
        self._index = index
        self._asks_for = asks_for
        self._most = most
        self._known: dict[bytes, tuple[int, str]] = {}  # encoded origin -> number and name of its view
        self._former = b""  # the last origin, its number and its view
        self._former_number = UNREAD
        self._former_view = ""

    def of(self, origin: bytes, header: bytes) -> tuple[int, bool]:
        """Return the number of an encoded ``origin``, UNREAD when a message of this header has to be read.

        And whether the header gives a priority.
        """
        if origin != self._former:
            self._former_number, self._former_view = self._known.get(origin) or self._note(origin)
            self._former = origin
        number = self._former_number
        if number == UNREAD or self._asks_for is None:
            return UNREAD, False
        asked = self._asks_for(self._former_view, header)
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

    Records of one queue whose heads are complete in a piece are processed in one loop (:meth:`_take_plain`); each
    record at which it stops is processed separately (:meth:`_take`).
    """

    def __init__(self, index: SegmentIndex, file: File, seed: int, origins: OriginNumbers, piece_bytes: int) -> None:
        self._index = index
        self._file = file
        self._seed = seed
        self._origins = origins
        self._piece_bytes = piece_bytes
        self._piece = b""
        self._base: i64 = 0  # of the piece, in the file
        self._places = little_endian(index.offsets)
        self._queues = little_endian(index.queues)
        self._queue_ids = pack_numbers(index.queue_ids)
        self._sequences = BytesWriter()
        self._sizes = BytesWriter()
        self._times = BytesWriter()
        self._ends = BytesWriter()
        self._priorities = BytesWriter()
        self._numbers = BytesWriter()
        self._head = b""  # origin and header of the record before
        self._head_origin: i64 = -1  # bytes of it that are the origin
        self._number: i64 = UNREAD  # of the origin
        self._looks: i64 = 0  # since the last pause for them
        self._usual: i64 = NO_PRIORITY  # the entry for the usual priority: that one if the header gives it

    def run(self) -> None:
        """Fill all columns. Raises ``OSError`` when the file cannot be read."""
        index = self._index
        count: i64 = len(index.offsets)
        ordinal: i64 = 0
        while ordinal < count:
            ordinal = self._take_plain(ordinal)
            if ordinal < count:
                self._take(ordinal)
                ordinal += 1
        index.sequences = unpack_numbers(self._sequences.getvalue())
        index.sizes = short_numbers(self._sizes.getvalue())
        index.accepted_at = unpack_numbers(self._times.getvalue())
        index.expires_at = unpack_numbers(self._ends.getvalue())
        index.priorities = swapped_where_big(array("H", self._priorities.getvalue()))
        index.origin_numbers = swapped_where_big(array("H", self._numbers.getvalue()))

    def _take_plain(self, ordinal: i64) -> i64:
        """Enter records from ``ordinal`` on; return the first to be processed separately, or their number.

        No object is made of a number, nor of a record whose origin and header are those of the one before.
        """
        piece, places, queues, queue_ids = self._piece, self._places, self._queues, self._queue_ids
        base: i64 = self._base
        size: i64 = len(piece)
        count: i64 = len(queues) >> 1
        fixed: i64 = FIXED_BYTES
        in_payload: i64 = fixed - HEADER_BYTES  # of those
        message: i64 = MAGIC
        while ordinal < count:
            at: i64 = (i64(read_i32_le(places, ordinal << 2)) & _LOW) - base
            queue: i64 = i64(read_i16_le(queues, ordinal << 1)) & SHARED
            if at < 0 or at + fixed > size or queue == SHARED:
                break
            magic: i64 = read_i64_le(piece, at)  # and the checksum
            length: i64 = read_i64_le(piece, at + 8)  # and the ordinal
            kind: i64 = read_i64_le(piece, at + 32)  # and priority, number of targets, half of the time
            if magic & _LOW != message or length >> 32 & _LOW != ordinal or kind & _KIND != _SINGLE_MESSAGE:
                break
            if read_i64_le(queue_ids, queue << 3) != read_i64_le(piece, at + 60):
                break
            origin: i64 = read_i64_le(piece, at + 52)  # and bytes of the header
            head: i64 = (origin & _LOW) + (origin >> 32 & _LOW)
            body: i64 = (length & _LOW) - in_payload - head
            if at + fixed + head > size or not is_sound(piece, at, body):
                break
            if not self._is_former(at + fixed, origin & _LOW, head):
                self._follow(at + fixed, origin & _LOW, head)
            if self._number == UNREAD:
                break
            self._enter(at, body)
            ordinal += 1
        return ordinal

    def _is_former(self, at: i64, origin: i64, length: i64) -> bool:
        """Return whether origin and header, ``length`` bytes ``at`` a place of the piece, are the former record's."""
        end: i64 = at + length
        if origin != self._head_origin or end > len(self._piece):
            return False
        return stands_at(self._piece, at, end, self._head)

    def _follow(self, at: i64, origin: i64, length: i64) -> None:
        """Determine the requests of origin and header at a place of the piece; the following records may have the
        same."""
        self._looked()
        self._head = self._piece[at : at + length]
        self._head_origin = origin
        number, given = self._origins.of(self._head[:origin], self._head[origin:])
        self._number = number
        self._usual = DEFAULT_PRIORITY if given else NO_PRIORITY

    def _enter(self, at: i64, body: i64) -> None:
        """Enter the record ``at`` a place of the piece, whose body has this many bytes."""
        piece = self._piece
        kind: i64 = read_i64_le(piece, at + 32)
        priority: i64 = kind >> 8 & 0xFF
        write_i64_le(self._sequences, read_i64_le(piece, at + 68))
        write_i32_le(self._sizes, i32(body))
        write_i64_le(self._times, read_i64_le(piece, at + 36))
        write_i64_le(self._ends, read_i64_le(piece, at + 44))
        write_i16_le(self._priorities, i16(self._usual if priority == DEFAULT_PRIORITY else priority))
        write_i16_le(self._numbers, i16(self._number if self._number < 0x8000 else self._number - 0x10000))

    def _take(self, ordinal: i64) -> None:
        """Enter any record, or that it has to be read."""
        offset: i64 = i64(read_i32_le(self._places, ordinal << 2)) & _LOW
        is_shared: bool = i64(read_i16_le(self._queues, ordinal << 1)) & SHARED == SHARED
        if offset and not self._note(ordinal, offset) and is_shared:
            self._index.offsets[ordinal] = 0  # nothing else names its queues
        if len(self._numbers) == ordinal << 1:
            write_i64_le(self._sequences, 0)
            write_i32_le(self._sizes, 0)
            write_i64_le(self._times, 0)
            write_i64_le(self._ends, 0)
            write_i16_le(self._priorities, 0)
            write_i16_le(self._numbers, -1)  # UNREAD

    def _note(self, ordinal: i64, offset: i64) -> bool:
        """Enter the record at ``offset``; False if it is damaged: it is left to its later reader."""
        if not self._base <= offset <= self._base + len(self._piece) - FIXED_BYTES:
            self._read(offset, self._bytes_from(ordinal, offset))
            if len(self._piece) < FIXED_BYTES:  # cut off
                return False
        piece = self._piece
        at: i64 = offset - self._base
        magic: i64 = read_i64_le(piece, at) & _LOW
        length: i64 = read_i64_le(piece, at + 8) & _LOW
        own: i64 = read_i64_le(piece, at + 8) >> 32 & _LOW
        kind: i64 = read_i64_le(piece, at + 32)
        if magic != MAGIC or own != ordinal or kind & 0xFF != TYPE_MESSAGE:
            return False
        targets: i64 = kind >> 16 & 0xFFFF
        origin: i64 = read_i64_le(piece, at + 52) & _LOW
        head: i64 = origin + (read_i64_le(piece, at + 52) >> 32 & _LOW)
        queue: i64 = i64(read_i16_le(self._queues, ordinal << 1)) & SHARED
        if queue == SHARED:
            whole: i64 = HEADER_BYTES + length
            inside = at + whole <= len(piece)
            if not self._note_shared(ordinal, piece[at : at + whole] if inside else self._file.read(offset, whole)):
                return False
        elif targets != 1 or read_i64_le(self._queue_ids, queue << 3) != read_i64_le(piece, at + 60):
            return True
        start: i64 = UNTARGETED_BYTES + TARGET_BYTES * targets  # of origin and header
        body: i64 = HEADER_BYTES + length - start - head
        if not is_sound(piece, at, body):
            return True
        if at + start + head > len(piece):
            self._read(offset, max(self._piece_bytes, start + head))
            at = 0
        if not self._is_former(at + start, origin, head):
            self._follow(at + start, origin, head)
        if self._number != UNREAD:
            self._enter(at, body)
        return True

    def _bytes_from(self, ordinal: i64, offset: i64) -> i64:
        """Return how much to read at once from a record on."""
        piece: i64 = self._piece_bytes
        ahead: i64 = (ordinal + DENSE_RECORDS) << 2
        if ahead >= len(self._places):
            return piece
        distance: i64 = (i64(read_i32_le(self._places, ahead)) & _LOW) - offset  # below 0 where there is no record
        return piece * DENSE_PIECES if 0 < distance <= piece else piece

    def _read(self, offset: i64, length: i64) -> None:
        """Take another piece of the file, and let the event loop pass first."""
        self._piece = b""  # so that the next has its memory
        self._piece = self._file.read(offset, length)
        self._base = offset
        if length < DENSE_PIECES * self._piece_bytes:
            time.sleep(PAUSE_SECONDS)

    def _looked(self) -> None:
        """Count an expensive record, and yield to the event loop after many."""
        self._looks += 1
        if self._looks == LOOKS:
            self._looks = 0
            time.sleep(PAUSE_SECONDS)

    def _note_shared(self, ordinal: int, data: bytes) -> bool:
        """Keep all targets of a record with several; False for a damaged one, as when reading a segment.

        Here the checksum is computed: nothing else would notice a wrong queue.
        """
        self._looked()
        record = read_record(data, 0, self._seed)
        if record is None:
            return False
        targets = decode_targets(data, record)
        self._index.shared[ordinal] = tuple([number for target in targets for number in target])
        return True


def is_sound(piece: bytes, at: i64, body: i64) -> bool:
    """Return whether sequence, times and the length of the ``body`` are such that a row can have them."""
    accepted_at: i64 = read_i64_le(piece, at + 36)
    expires_at: i64 = read_i64_le(piece, at + 44)
    if body < 0 or body > RECORD_BYTES_MAX or accepted_at < 0 or read_i64_le(piece, at + 68) < 0:
        return False
    return expires_at == 0 or expires_at >= accepted_at
