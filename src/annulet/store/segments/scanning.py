"""Reading a segment file record by record, past any damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from annulet.store.segments.records import (
    HEADER,
    MAGIC,
    MAGIC_BYTES,
    MESSAGE_FIXED,
    NO_ORDINAL,
    ORDINAL_MASK,
    PREFIX,
    SEGMENT_HEADER_SIZE,
    TARGET,
    TYPE_LAST,
    TYPE_MESSAGE,
    Record,
)

BATCH_STEP_MAX: Final = 1 << 20
"""How far batch numbers may jump between neighbours: sequences of written windows have no gaps, but compaction and
removal make some. A cheap plausibility test before a CRC over a length that may be nonsense."""


class Gap(NamedTuple):
    """Bytes that are no sound record. ``batch`` is that of the next sound record, 0 at the end of the file."""

    offset: int
    end: int
    batch: int


def read_record(data: bytes | memoryview, offset: int, seed: int) -> Record | None:
    """Return the record at ``offset``, or ``None`` when there is no sound one."""
    if offset + HEADER.size > len(data):
        return None
    magic, crc, length, ordinal, batch, transaction, record_type, priority, targets = HEADER.unpack_from(data, offset)
    if magic != MAGIC or not 0 < record_type <= TYPE_LAST or offset + HEADER.size + length > len(data):
        return None
    if record_type == TYPE_MESSAGE:
        if ordinal > ORDINAL_MASK or length < MESSAGE_FIXED.size + TARGET.size * targets:
            return None
    elif ordinal != NO_ORDINAL:
        return None
    end = offset + HEADER.size + length
    if crc32(memoryview(data)[offset + PREFIX.size : end], seed) != crc:
        return None
    return Record(offset, length, ordinal, batch, transaction, record_type, priority, targets)


def scan(data: bytes, seed: int, start: int = SEGMENT_HEADER_SIZE) -> Iterator[Record | Gap]:
    """Yield every sound record from ``start``, and the gaps between them. Zeros up to the end are no gap."""
    view = memoryview(data)
    offset = start
    batch = 0
    while offset < len(data):
        record = read_record(view, offset, seed)
        if record is None:
            following = _resynchronise(data, view, offset, seed, batch)
            if following is None:
                end = offset + len(data[offset:].rstrip(b"\0"))
                if end > offset:
                    yield Gap(offset, end, 0)
                return
            yield Gap(offset, following.offset, following.batch)
            record = following
        yield record
        batch = record.batch
        offset = record.end


def _resynchronise(data: bytes, view: memoryview, offset: int, seed: int, batch: int) -> Record | None:
    """Find the next sound record behind ``offset`` whose batch is not implausible."""
    candidate = data.find(MAGIC_BYTES, offset + 1)
    while candidate >= 0:
        if candidate + HEADER.size <= len(data):
            found = HEADER.unpack_from(data, candidate)[4]
            if batch <= found and (batch == 0 or found - batch <= BATCH_STEP_MAX):
                record = read_record(view, candidate, seed)
                if record is not None:
                    return record
        candidate = data.find(MAGIC_BYTES, candidate + 1)
    return None
