"""Marks: a few bytes that say how far something was durable, in a small file of two slots written in turn.

A mark is written after the sync of the data it describes, and is not synced itself: it survives the process, and after
a power loss an older one may be there. So a mark is a lower bound. A slot is magic, CRC32, generation, length and
payload in a separate sector; of two valid slots the one with the higher generation counts.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Final

from isal.isal_zlib import crc32

if TYPE_CHECKING:
    from pathlib import Path

    from annulet.store.files.files import File, FileSystem

logger = logging.getLogger(__name__)

SLOT_BYTES: Final = 512
"""Distance of the slots: a sector each, so that a torn write damages one of them only."""

SLOTS: Final = 2
PAYLOAD_MAX: Final = 64
"""Bytes a mark may carry."""

_SLOT: Final = Struct("<4sIQI")  # magic, crc of the rest, generation, length of the payload
_MAGIC: Final = b"ANM1"


@dataclass(frozen=True, slots=True)
class Mark:
    """A generation, incremented by its writer, and the writer's payload."""

    generation: int
    payload: bytes


def encode_mark(mark: Mark) -> bytes:
    """Return the content of a slot."""
    if len(mark.payload) > PAYLOAD_MAX:
        raise ValueError(f"payload: {len(mark.payload)} bytes are too many; give at most {PAYLOAD_MAX}")
    tail = _SLOT.pack(b"", 0, mark.generation, len(mark.payload))[8:] + mark.payload
    return _MAGIC + crc32(tail).to_bytes(4, "little") + tail


def decode_mark(data: bytes) -> Mark | None:
    """Undo :func:`encode_mark`; ``None`` for a slot that is empty or damaged."""
    if len(data) < _SLOT.size:
        return None
    magic, crc, generation, length = _SLOT.unpack_from(data)
    if magic != _MAGIC or length > PAYLOAD_MAX or len(data) < _SLOT.size + length:
        return None
    if crc32(data[8 : _SLOT.size + length]) != crc:
        return None
    return Mark(generation, data[_SLOT.size : _SLOT.size + length])


def load_mark(path: Path, files: FileSystem) -> Mark | None:
    """Return the newest sound mark of a file, ``None`` when there is none. Raises ``OSError`` from reading."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return None
    try:
        slots = [decode_mark(file.read(slot * SLOT_BYTES, SLOT_BYTES)) for slot in range(SLOTS)]
    finally:
        file.close()
    return max([mark for mark in slots if mark is not None], key=lambda mark: mark.generation, default=None)


class MarkFile:
    """Writes marks to one file. A write error is logged once: a missing mark costs a report, no data."""

    def __init__(self, path: Path, files: FileSystem) -> None:
        self.path = path
        self._files = files
        self._file: File | None = None
        self._slot = 0
        self._refused = False

    def begin(self, mark: Mark) -> None:
        """Write one mark to both slots, durably, in any case: a start has evaluated the old ones by then."""
        data = encode_mark(mark)
        both = data.ljust(SLOT_BYTES, b"\0") + data
        try:
            file = self._files.open(self.path, create=True)
            self._file = file
            file.write([both], 0)
            file.sync()
            self._files.sync_directory(self.path.parent)
        except OSError as error:
            self._refuse(error)

    def write(self, mark: Mark) -> None:
        """Write the next mark, without a sync."""
        file = self._file
        if file is None:
            return
        self._slot ^= 1
        try:
            file.write([encode_mark(mark)], self._slot * SLOT_BYTES)
        except OSError as error:
            self._refuse(error)

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _refuse(self, error: OSError) -> None:
        if not self._refused:
            self._refused = True
            logger.warning("mark %s cannot be written: %s; damage may be noticed later", self.path, error)
