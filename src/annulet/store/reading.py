"""Reading single records of the log back: what queues need whose messages are on disk only.

Records that lie near each other come with one read. A damaged record is reported and passed over; the others of the
same read are served.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from annulet.store.files import File, FileSystem
from annulet.store.interface import RecoveredMessage, RecoveryReport
from annulet.store.records import (
    HEADER,
    ORDINAL_BITS,
    ORDINAL_MASK,
    RECORD_BYTES_MAX,
    TYPE_MESSAGE,
    decode_message,
    decode_origin,
    decode_targets,
)
from annulet.store.scanning import read_record
from annulet.store.segment import Segment

logger = logging.getLogger(__name__)

OPEN_FILES_MAX: Final = 32
"""Segment files kept open for reading. Each costs a descriptor; deep queues read a few segments at a time."""

GAP_BYTES_MAX: Final = 64 << 10
"""Bytes between two records that are read along rather than skipped with a second read."""

READ_BYTES_MAX: Final = 1 << 20
"""Bytes of one read, but for a single record that is larger."""

TAIL_BYTES: Final = 8 << 10
"""Read behind the start of the last record: where it ends stands in its header. Most records are smaller."""

ORIGINS_MAX: Final = 4096
"""Decoded origins kept, as many as encoded ones when records are written."""


class RecordReader:
    """Reads records of the segments in ``segments``, which the log keeps current. Belongs to the event loop."""

    def __init__(self, segments: dict[int, Segment], files: FileSystem, report: RecoveryReport) -> None:
        self._segments = segments
        self._files = files
        self._report = report
        self._open: dict[int, File] = {}  # least recently used first
        self._held: set[int] = set()  # a compaction replaces the file: the old one stays open until it has
        self._origins: dict[bytes, tuple[str, str, str, str]] = {}

    def read(self, records: Sequence[int]) -> list[RecoveredMessage | None]:
        """Return the messages of ``records``, in their order; ``None`` for each that is damaged or gone.

        Raises ``OSError`` when a file cannot be read: then nothing is known about its records.
        """
        found: list[RecoveredMessage | None] = []
        start = 0
        while start < len(records):
            end = self._span(records, start)
            found += self._read_span(records[start:end])
            start = end
        return found

    def prefetch(self, records: Sequence[int]) -> None:
        """Ask the system to have these records in its page cache soon. Returns at once; what fails is left out."""
        start = 0
        while start < len(records):
            end = self._span(records, start)
            segment = self._segments.get(records[start] >> ORDINAL_BITS)
            first, last = self._offset(records[start]), self._offset(records[end - 1])
            if segment is not None and first and last:
                try:
                    self._file(segment).prefetch(first, last + TAIL_BYTES - first)
                except OSError as error:
                    logger.debug("message log: cannot read ahead in segment %d: %s", segment.number, error)
            start = end

    def hold(self, segment: Segment) -> None:
        """Keep a segment's present file open until :meth:`release`. Raises ``OSError`` when it cannot be opened."""
        self._file(segment)
        self._held.add(segment.number)

    def release(self, number: int) -> None:
        """Close a segment's file: another has taken its place, or it is gone."""
        self._held.discard(number)
        file = self._open.pop(number, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all files."""
        for number in list(self._open):
            self.release(number)

    @property
    def open_files(self) -> int:
        """How many segment files are open for reading."""
        return len(self._open)

    def _offset(self, record: int) -> int:
        """Return where a record starts in its segment, 0 when it is nowhere."""
        segment = self._segments.get(record >> ORDINAL_BITS)
        ordinal = record & ORDINAL_MASK
        return 0 if segment is None or ordinal >= len(segment.offsets) else segment.offsets[ordinal]

    def _span(self, records: Sequence[int], start: int) -> int:
        """Return the end of the records from ``start`` that one read brings."""
        number = records[start] >> ORDINAL_BITS
        first = previous = self._offset(records[start])
        end = start + 1
        while first and end < len(records) and records[end] >> ORDINAL_BITS == number:
            offset = self._offset(records[end])
            if not previous < offset <= previous + GAP_BYTES_MAX or offset - first > READ_BYTES_MAX - TAIL_BYTES:
                break
            previous = offset
            end += 1
        return end

    def _read_span(self, records: Sequence[int]) -> list[RecoveredMessage | None]:
        segment = self._segments.get(records[0] >> ORDINAL_BITS)
        first, last = self._offset(records[0]), self._offset(records[-1])
        if segment is None or not first:
            for record in records:
                self._note_damaged(record, 0)
            return [None] * len(records)
        file = self._file(segment)
        data = file.read(first, last + TAIL_BYTES - first)
        missing = self._missing(data, last - first)
        if missing:
            data += file.read(first + len(data), missing)
        return [self._decoded(data, record, self._offset(record), first, segment.seed) for record in records]

    def _missing(self, data: bytes, offset: int) -> int:
        """Return how many bytes of the record at ``offset`` are behind the data."""
        if offset + HEADER.size > len(data):
            return 0  # the file ends here
        length = int(HEADER.unpack_from(data, offset)[2])
        if length > RECORD_BYTES_MAX:  # damaged: never take its word for how much to read
            return 0
        return max(0, offset + HEADER.size + length - len(data))

    def _decoded(self, data: bytes, number: int, offset: int, base: int, seed: int) -> RecoveredMessage | None:
        record = read_record(data, offset - base, seed) if offset else None
        if record is None or record.type != TYPE_MESSAGE or record.ordinal != number & ORDINAL_MASK:
            self._note_damaged(number, offset)
            return None
        content = decode_message(data, record)
        origin = self._origins.get(content.origin)
        if origin is None:
            if len(self._origins) >= ORIGINS_MAX:
                self._origins.clear()
            origin = self._origins[content.origin] = decode_origin(content.origin)
        return RecoveredMessage(
            number,
            content.header,
            content.body,
            *origin,
            record.priority,
            content.accepted_at,
            content.expires_at,
            decode_targets(data, record),
            redelivered=False,
        )

    def _note_damaged(self, record: int, offset: int) -> None:
        self._report.lost_records += 1
        logger.error(
            "message log: record %d of segment %d at offset %d is damaged and cannot be delivered",
            record & ORDINAL_MASK,
            record >> ORDINAL_BITS,
            offset,
        )

    def _file(self, segment: Segment) -> File:
        number = segment.number
        file = self._open.pop(number, None)
        if file is None:
            file = self._files.open(segment.path)
            for other in list(self._open):
                if len(self._open) < OPEN_FILES_MAX:
                    break
                if other not in self._held:
                    self._open.pop(other).close()
        self._open[number] = file
        return file
