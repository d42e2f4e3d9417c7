"""One file of the spill store, and the place of a body in it.

A record is ``checksum, length`` (two little-endian 32-bit numbers) and the body; the checksum (CRC-32) covers number of
the file, number of the record in it, length and body.
"""

from __future__ import annotations

import logging
import struct
from array import array
from typing import TYPE_CHECKING, Final

from isal.isal_zlib import crc32

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from annulet.store.files.files import File

logger = logging.getLogger(__name__)

SPAN_BYTES: Final = 1 << 20
"""Bytes read or moved at once, unless one body is larger."""

GAP_BYTES: Final = 64 << 10
"""Dead bytes between two bodies that are read over rather than jumped over."""

RECORD_HEADER: Final = struct.Struct("<II")
IDENTITY: Final = struct.Struct("<QQI")

UNWRITTEN, LIVE, DAMAGED, DEAD = range(4)
"""States of a record. A refused write also leaves unwritten records: space that is dead until its file is removed."""


class SpillFile:
    """One file and the state of its records, by their ordinals."""

    def __init__(self, number: int, path: Path, released: deque[tuple[SpillFile, int]]) -> None:
        self.number = number
        self.path = path
        self.released = released
        self.handle: File | None = None  # opened with the first write, in the disk thread
        self.size = 0  # bytes, those of writes under way included
        self.offsets = array("Q")
        self.states = bytearray()
        self.live = 0
        self.live_bytes = 0  # of records
        self.works = 0  # writes and moves under way
        self.ended = False  # nothing more is written to it
        self.refusals = 0  # times it could not be removed
        self.unread_bytes = 0  # live bytes when it last could not be read to be moved; 0: it always could
        self.moved: dict[int, tuple[SpillFile, int]] = {}  # present place of a record that was moved to another file
        self.roots: dict[int, tuple[SpillFile, int]] = {}  # of a record that was moved here: where it was first

    def add(self, length: int) -> int:
        """Reserve the place of a body of ``length`` bytes behind all others. Returns its ordinal."""
        self.offsets.append(self.size)
        self.states.append(UNWRITTEN)
        self.size += RECORD_HEADER.size + length
        return len(self.offsets) - 1

    def extent(self, ordinal: int) -> tuple[int, int]:
        """Return start and end of a record."""
        following = ordinal + 1
        return self.offsets[ordinal], self.offsets[following] if following < len(self.offsets) else self.size

    def begin_life(self, first: int, count: int) -> None:
        """Let neighbours be live that were written."""
        self.states[first : first + count] = bytes([LIVE]) * count
        self.live += count
        self.live_bytes += self.extent(first + count - 1)[1] - self.offsets[first]

    def end_life(self, ordinal: int, state: int = DEAD) -> None:
        """Let a live record be that no more."""
        start, end = self.extent(ordinal)
        self.states[ordinal] = state
        self.live -= 1
        self.live_bytes -= end - start

    def is_live(self, ordinal: int) -> bool:
        """Return whether a record is live; of a removed file none is."""
        return ordinal < len(self.states) and self.states[ordinal] == LIVE

    @property
    def movable(self) -> bool:
        """Return whether live bodies may move elsewhere. Where the disk refused to read them, half has to go first.

        Otherwise a file with a bad sector would be retried as long as its body is in use, and no other file emptied.
        """
        return (
            self.ended
            and self.live > 0
            and not self.works
            and (not self.unread_bytes or self.live_bytes * 2 <= self.unread_bytes)
        )

    def lead_on(self, ordinal: int, file: SpillFile, copy: int) -> None:
        """Let a live record be in another file, however often it was moved before.

        Only its first file records it: long-lived bodies are moved repeatedly, and the files between have to be
        released.
        """
        self.end_life(ordinal)
        first, former = self.roots.pop(ordinal, (self, ordinal))
        first.moved[former] = (file, copy)
        file.roots[copy] = (first, former)

    def give_back(self, ordinal: int) -> SpillFile | None:
        """Release the record whose first place this is. Returns the file in which it was live."""
        file = self
        if ordinal in self.moved:
            file, ordinal = self.moved.pop(ordinal)
            file.roots.pop(ordinal, None)
        if not file.is_live(ordinal):
            return None
        file.end_life(ordinal)
        return file

    def forget(self) -> None:
        """The file is removed and has no live record: keep nothing but where those are that were moved."""
        self.offsets = array("Q")
        self.states = bytearray()
        self.roots.clear()

    def checksum(self, ordinal: int, body: bytes) -> int:
        """Return the checksum of a record."""
        return crc32(body, crc32(IDENTITY.pack(self.number, ordinal, len(body))))

    def body_in(self, data: bytes, offset: int, ordinal: int) -> bytes | None:
        """Return the body of a record out of ``data``, which was read from ``offset``; ``None`` when it is damaged."""
        start, end = self.extent(ordinal)
        place = start - offset
        if len(data) >= end - offset:
            body = data[place + RECORD_HEADER.size : end - offset]
            if RECORD_HEADER.unpack_from(data, place) == (self.checksum(ordinal, body), len(body)):
                return body
        logger.error("spill store: the body at offset %d of %s is damaged", start, self.path)
        return None


class SpilledBody:
    """The place of one body. When the last reference to it goes, in whatever thread, the space is given back."""

    __slots__ = ("_file", "_ordinal")

    def __init__(self, file: SpillFile, ordinal: int) -> None:
        self._file = file
        self._ordinal = ordinal

    def __del__(self) -> None:
        self._file.released.append((self._file, self._ordinal))

    @property
    def where(self) -> tuple[SpillFile, int]:
        """File and ordinal at present."""
        return self._file.moved.get(self._ordinal) or (self._file, self._ordinal)

    @property
    def readable(self) -> bool:
        """Return whether it was written, and no reader found it damaged while it was moved."""
        file, ordinal = self.where
        return file.is_live(ordinal)

    @property
    def number(self) -> int:
        """A number above 0 that no other body ever had or gets while the store is open."""
        return (self._file.number << 40) + self._ordinal


def spans_of(wanted: Sequence[tuple[SpillFile, int]]) -> Iterator[tuple[SpillFile, list[int]]]:
    """Group live records into stretches of a file worth reading at once, ascending."""
    ordered = sorted({(file.number, ordinal): file for file, ordinal in wanted if file.is_live(ordinal)}.items())
    span: list[int] = []
    last: SpillFile | None = None
    for (_, ordinal), file in ordered:
        if span and last is not None:
            first, end = file.extent(span[0])[0] if file is last else 0, last.extent(span[-1])[1]
            start, stop = file.extent(ordinal)
            if file is not last or start - end > GAP_BYTES or stop - first > SPAN_BYTES:
                yield last, span
                span = []
        span.append(ordinal)
        last = file
    if span and last is not None:
        yield last, span
