"""Reading single records of the log, for queues whose messages are on disk only.

Records near each other are read together. A damaged record is reported and skipped; the others of the same read are
returned.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Iterator, Sequence
from typing import Final

from isal.isal_zlib import crc32

from annulet.core.message.message import Message, Origin, logged_message
from annulet.store.files.files import File, FileSystem
from annulet.store.log.quarantine import REASON_READ, DamageNote, DamageNotes
from annulet.store.log.read_ahead import BLOCK_BYTES_MAX, AheadStretch, ReadAhead
from annulet.store.searching.search import Search
from annulet.store.segments.decoding import decode_rows, decode_run, first_doubtful, grow_by_one, stand_in_order
from annulet.store.segments.head_reading import HeadFiles
from annulet.store.segments.interface import LoggedMessage, RecoveredMessage, RecoveryReport
from annulet.store.segments.records import (
    HEADER,
    MAGIC,
    ORDINAL_BITS,
    ORDINAL_MASK,
    PREFIX,
    RECORD_BYTES_MAX,
    SINGLE,
    TYPE_MESSAGE,
    decode_message,
    decode_origin,
    decode_targets,
)
from annulet.store.segments.scanning import read_record
from annulet.store.segments.segment import Segment

logger = logging.getLogger(__name__)

OPEN_FILES_MAX: Final = 32
"""Segment files kept open for reading. Each costs a descriptor; deep queues read a few segments at a time."""

GAP_BYTES_MAX: Final = 64 << 10
"""Bytes between two records that are read along rather than skipped with a second read."""

READ_BYTES_MAX: Final = 1 << 20
"""Bytes of one read, except for a single larger record."""

TOGETHER: Final = 256
"""Records requested ahead together: neighbours of 1 KiB are then one read, without examining each of them."""

TAIL_BYTES: Final = 8 << 10
"""Bytes read behind the start of the last record, whose header has its length. Most records are smaller."""

ORIGINS_MAX: Final = 4096
"""Decoded origins kept, as many as encoded ones when records are written."""

APART: Final = 1 << 60
"""Distance from one segment to another, which no read spans."""

NOWHERE: Final[array[int]] = array("I")
"""Offsets of a missing segment."""


class RecordReader:
    """Reads records of the segments in ``segments``, which the log keeps current. Belongs to the event loop."""

    def __init__(self, segments: dict[int, Segment], files: FileSystem, report: RecoveryReport) -> None:
        self._segments = segments
        self._files = files
        self._report = report
        self.ahead = ReadAhead()
        self.gap_bytes_max = GAP_BYTES_MAX  # attributes: a compiled module has its constants built in
        self.read_bytes_max = READ_BYTES_MAX
        self.open_files_max = OPEN_FILES_MAX
        self.heads = HeadFiles(files)
        self.search = Search(segments, self._file, self.heads.of)
        self.damaged = DamageNotes()  # for the quarantine
        self._open: dict[int, File] = {}  # least recently used first
        self._held: set[int] = set()  # a compaction replaces the file: the old one stays open until it has
        self._origins: dict[bytes, tuple[str, str, str, str]] = {}

    def read(self, records: Sequence[int]) -> list[LoggedMessage | None]:
        """Return the messages of ``records``, in their order; ``None`` for each that is damaged or missing.

        Raises ``OSError`` when a file cannot be read: then nothing is known about its records.
        """
        found: list[LoggedMessage | None] = []
        for segment, start, offsets in self._spans(records):
            self._read_span(segment, records[start : start + len(offsets)], offsets, found)
        return found

    def lack(self, records: Sequence[int], needles: Sequence[list[bytes]]) -> bool:
        """Return whether it is certain that no header of some neighbours, read together, has all octets of one of these
        lists.

        False also means unknown. It takes a fraction of the time of decoding messages. Raises ``OSError``.
        """
        together = self._together(records)
        if together is None:
            return False
        data, first = self._bytes_of(together[0], together[2])
        return first_doubtful(data, first, together[2], 0, needles) == len(together[2])

    def messages(
        self, queue_id: int, records: Sequence[int], sequences: Sequence[int], origins: list[Origin]
    ) -> list[Message | None]:
        """Return the messages of a queue's rows, as :meth:`read` does, made with the origins that the rows know."""
        if isinstance(records, range) and isinstance(sequences, range):
            run = self._run(queue_id, records, sequences, origins)
            if run is not None:
                return run
        records, sequences = list(records), list(sequences)
        found: list[Message | None] = []
        for segment, start, offsets in self._spans(records):
            stop = start + len(offsets)
            if segment is None or not offsets[0]:
                for record in records[start:stop]:
                    self._note_damaged(record, 0)
                found.extend([None] * len(offsets))
                continue
            data, first = self._bytes_of(segment, offsets)
            made, others = decode_rows(
                data, first, offsets, segment.seed, queue_id,
                records[start:stop], sequences[start:stop], origins[start:stop],
            )  # fmt: skip
            for index in others:
                place, offset = start + index, offsets[index]
                logged = self._decoded(data, memoryview(data), records[place], offset - first, segment.seed)
                if logged is None:
                    self._note_damaged(records[place], offset)
                elif (queue_id, sequences[place]) in logged.targets:
                    made[index] = _message_of(logged, records[place], origins[place])
            found += made
        return found

    def _run(
        self, queue_id: int, records: range, sequences: range, origins: list[Origin]
    ) -> list[Message | None] | None:
        """Return the messages of a run of rows; ``None`` if one read cannot return them, or one is another record."""
        together = self._together(records)
        if together is None:
            return None
        segment, _, offsets = together
        data, first = self._bytes_of(segment, offsets)
        return decode_run(data, first, offsets, segment.seed, queue_id, records.start, sequences.start, origins)

    def live(self, segment: Segment, *, redelivered: bool) -> Iterator[RecoveredMessage]:
        """Yield the live messages of a segment, which is read as a whole, with the targets that need them still."""
        file = self._files.open(segment.path)
        try:
            data = file.read(0, segment.size)
        finally:
            file.close()
        view = memoryview(data)
        base = segment.number << ORDINAL_BITS
        for ordinal in list(segment.live_ordinals()):
            offset = segment.offsets[ordinal]
            found = self._decoded(data, view, ordinal, offset, segment.seed) if offset else None
            if found is None:
                self._note_damaged(base | ordinal, offset)
                continue
            yield _recovered(segment, ordinal, found, redelivered=redelivered)

    def some(self, segment: Segment, ordinals: Sequence[int], *, redelivered: bool) -> list[RecoveredMessage]:
        """Return these live messages of a segment, damaged ones left out. Raises ``OSError``."""
        base = segment.number << ORDINAL_BITS
        found = self.read([base | ordinal for ordinal in ordinals])
        return [
            _recovered(segment, ordinal, message, redelivered=redelivered)
            for ordinal, message in zip(ordinals, found, strict=True)
            if message is not None
        ]

    def fitting(self, records: Sequence[int], size: int) -> int:
        """Return how many of the first records are at most ``size`` bytes long together; at least 1.

        Bytes between two messages count for the first one; missing records count nothing.
        """
        if len(records) < 2 or self._span_of(records[0], records[-1]) <= size:
            return len(records)
        left = size
        for place, record in enumerate(records):
            left -= self._span_of(record, record)
            if left < 0:
                return max(1, place)
        return len(records)

    def _span_of(self, first: int, last: int) -> int:
        """Return the bytes from one record to the end of another; ``APART`` for records of two segments."""
        segment = self._segments.get(first >> ORDINAL_BITS)
        if first > last or first >> ORDINAL_BITS != last >> ORDINAL_BITS:
            return APART
        if segment is None or last & ORDINAL_MASK >= len(segment.offsets):
            return 0
        end = segment.behind(last & ORDINAL_MASK)
        return max(0, end - (segment.offsets[first & ORDINAL_MASK] or end))

    def prefetch(self, records: Sequence[int]) -> AheadStretch | None:
        """Read these records ahead, by the thread if they are adjacent and otherwise by the system.

        Returns at once, with the last block that the thread will read, if any; failures are left out.
        """
        last = None
        for segment, first, behind, end in self._stretches(records):
            try:
                file = self._file(segment)
                block = self.ahead.ask(file, segment.number, first, behind, end - first)
                if block is None:
                    file.prefetch(first, end - first)
                else:
                    last = block.stretch
            except OSError as error:
                logger.debug("message log: cannot read ahead in segment %d: %s", segment.number, error)
        return last

    def _stretches(self, records: Sequence[int]) -> Iterator[tuple[Segment, int, int, int]]:
        """Yield ranges to read ahead together: segment, start of the first and last record, and end."""
        stretch = self._stretch_of(records) if isinstance(records, range) else None
        if stretch is not None:
            yield stretch
            return
        for start in range(0, len(records), TOGETHER):
            for segment, place, offsets in self._spans(records[start : start + TOGETHER]):
                if segment is None or not offsets[0]:
                    continue
                ordinal = records[start + place + len(offsets) - 1] & ORDINAL_MASK
                first, last, end = offsets[0], offsets[-1], _end_of(segment, ordinal)
                if (
                    stretch is not None
                    and stretch[0] is segment
                    and stretch[2] < first <= stretch[3] + GAP_BYTES_MAX
                    and end - stretch[1] <= BLOCK_BYTES_MAX
                ):
                    first = stretch[1]
                elif stretch is not None:
                    yield stretch
                stretch = (segment, first, last, end)
        if stretch is not None:
            yield stretch

    def _stretch_of(self, records: range) -> tuple[Segment, int, int, int] | None:
        """Return the range to read ahead for neighbours, without examining each, if it is one block."""
        ordinal, last = records.start & ORDINAL_MASK, records[-1] & ORDINAL_MASK
        segment = self._segments.get(records.start >> ORDINAL_BITS)
        if segment is None or last - ordinal != len(records) - 1 or last >= len(segment.offsets):
            return None
        first, end = segment.offsets[ordinal], _end_of(segment, last)
        if not 0 < first <= segment.offsets[last] or end - first > BLOCK_BYTES_MAX:
            return None
        return segment, first, segment.offsets[last], end

    def hold(self, segment: Segment) -> None:
        """Keep a segment's present file open until :meth:`release`. Raises ``OSError`` when it cannot be opened."""
        self._file(segment)
        self._held.add(segment.number)

    def release(self, number: int) -> None:
        """Close a segment's file: it was replaced or removed."""
        self._held.discard(number)
        self.ahead.release(number)
        self.search.release(number)
        self.heads.close(number)
        file = self._open.pop(number, None)
        if file is not None:
            self.ahead.close(file)

    def close(self) -> None:
        """Close all files."""
        for number in list(self._open):
            self.release(number)

    @property
    def open_files(self) -> int:
        """How many segment files are open for reading."""
        return len(self._open)

    def _spans(self, records: Sequence[int]) -> Iterator[tuple[Segment | None, int, list[int]]]:
        """Yield the records of each read: segment, index of the first record, and the offsets from there on.

        An offset of 0 means that the record is missing; it is yielded alone.
        """
        together = self._together(records)
        if together is not None:
            yield together
            return
        place, count = 0, len(records)
        while place < count:
            number = records[place] >> ORDINAL_BITS
            segment = self._segments.get(number)
            places = NOWHERE if segment is None else segment.offsets
            start, first, previous = place, 0, 0
            offsets: list[int] = []
            while place < count and records[place] >> ORDINAL_BITS == number:
                ordinal = records[place] & ORDINAL_MASK
                offset = places[ordinal] if ordinal < len(places) else 0
                if not offsets:
                    first = offset
                elif (
                    not first
                    or not previous < offset <= previous + self.gap_bytes_max
                    or offset - first > self.read_bytes_max - TAIL_BYTES
                ):
                    break
                offsets.append(offset)
                previous = offset
                place += 1
            yield segment, start, offsets

    def _together(self, records: Sequence[int]) -> tuple[Segment, int, list[int]] | None:
        """Check in a few steps whether these are neighbours for one read, as most are."""
        if not records or records[-1] - records[0] != len(records) - 1:
            return None
        segment = self._segments.get(records[0] >> ORDINAL_BITS)
        start = records[0] & ORDINAL_MASK
        if segment is None or not (isinstance(records, range) or grow_by_one(list(records))):
            return None
        offsets = segment.offsets[start : start + len(records)].tolist()
        if len(offsets) < len(records) or offsets[-1] - offsets[0] > self.read_bytes_max - TAIL_BYTES:
            return None
        if not stand_in_order(offsets):
            return None
        return segment, 0, offsets

    def _read_span(
        self, segment: Segment | None, records: Sequence[int], offsets: list[int], found: list[LoggedMessage | None]
    ) -> None:
        """Add the messages of one read to ``found``."""
        if segment is None or not offsets[0]:
            for record in records:
                self._note_damaged(record, 0)
            found.extend([None] * len(records))
            return
        data, first = self._bytes_of(segment, offsets)
        seed = segment.seed
        view = memoryview(data)
        for record, offset in zip(records, offsets, strict=True):
            message = self._decoded(data, view, record, offset - first, seed)
            if message is None:
                self._note_damaged(record, offset)
            found.append(message)

    def _bytes_of(self, segment: Segment, offsets: list[int]) -> tuple[bytes, int]:
        """Return bytes with all of these records, and the offset of the first byte."""
        first, last = offsets[0], offsets[-1]
        ahead = self._bytes_ahead(segment.number, first, last)
        if ahead is not None:
            return ahead
        file = self._file(segment)
        data = file.read(first, last + TAIL_BYTES - first)
        missing = self._missing(data, last - first)
        if missing:
            data += file.read(first + len(data), missing)
        return data, first

    def _bytes_ahead(self, number: int, first: int, last: int) -> tuple[bytes, int] | None:
        """Return the result of :meth:`_bytes_of` from data read ahead, joined if it is in several blocks."""
        block = self.ahead.find(number, first, last)
        if block is None:
            return None
        data, start = block.data, block.first
        while True:
            behind = last + HEADER.size - start - len(data)
            missing = behind + TAIL_BYTES if behind > 0 else self._missing(data, last - start)
            if not missing:
                return data, start
            end = start + len(data)
            block = self.ahead.find(number, end, last)
            if block is None:
                return None
            at = end - block.first
            data = data[first - start :] + block.data[at : at + missing]
            start = first

    def _missing(self, data: bytes, offset: int) -> int:
        """Return how many bytes of the record at ``offset`` are behind the data."""
        if offset + HEADER.size > len(data):
            return 0  # the file ends here
        length = int(HEADER.unpack_from(data, offset)[2])
        if length > RECORD_BYTES_MAX:  # damaged: never take its word for how much to read
            return 0
        return max(0, offset + HEADER.size + length - len(data))

    def _decoded(self, data: bytes, view: memoryview, number: int, start: int, seed: int) -> LoggedMessage | None:
        """Decode the record at ``start``, in one go when it is of one queue, as nearly all are."""
        fixed = start + PREFIX.size
        if fixed + SINGLE.size <= len(data):
            magic, crc = PREFIX.unpack_from(data, start)
            values = SINGLE.unpack_from(data, fixed)
            length, ordinal, _, _, kind, priority, targets, accepted_at, expires_at, origin, header = values[:11]
            end = start + HEADER.size + length
            if magic == MAGIC and kind == TYPE_MESSAGE and targets == 1 and end <= len(data):
                if ordinal != number & ORDINAL_MASK or crc32(view[fixed:end], seed) != crc:
                    return None
                header_start = fixed + SINGLE.size + origin
                body_start = header_start + header
                return LoggedMessage(
                    data[header_start:body_start],
                    data[body_start:end],
                    self._origin(data[fixed + SINGLE.size : header_start]),
                    priority,
                    accepted_at,
                    expires_at,
                    [(values[11], values[12])],
                )
        record = read_record(view, start, seed)
        if record is None or record.type != TYPE_MESSAGE or record.ordinal != number & ORDINAL_MASK:
            return None
        content = decode_message(data, record)
        return LoggedMessage(
            content.header,
            content.body,
            self._origin(content.origin),
            record.priority,
            content.accepted_at,
            content.expires_at,
            decode_targets(data, record),
        )

    def _origin(self, encoded: bytes) -> tuple[str, str, str, str]:
        origin = self._origins.get(encoded)
        if origin is None:
            if len(self._origins) >= ORIGINS_MAX:
                self._origins.clear()
            origin = self._origins[encoded] = decode_origin(encoded)
        return origin

    def note_restored(self, records: int) -> None:
        """The broker has taken this many more at start: those of a whole segment."""
        self._report.restored_records += records

    def _note_damaged(self, record: int, offset: int) -> None:
        self._report.lost_records += 1
        if offset:
            self.damaged.add(DamageNote(record >> ORDINAL_BITS, offset, 0, REASON_READ))
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
                if len(self._open) < self.open_files_max:
                    break
                if other not in self._held:
                    self.ahead.close(self._open.pop(other))
                    self.heads.close(other)
        self._open[number] = file
        return file


def _end_of(segment: Segment, ordinal: int) -> int:
    """Return the end of a record, or of a first read of it that is short enough for one of many.

    Never behind the beginning of the next message, which may not be written yet.
    """
    offset, following = segment.offsets[ordinal], segment.behind(ordinal)
    return following if offset < following <= offset + READ_BYTES_MAX else offset + TAIL_BYTES


def _message_of(logged: LoggedMessage, record: int, origin: Origin) -> Message:
    return logged_message(
        record, logged.header, logged.body, origin, logged.priority, logged.accepted_at, logged.expires_at
    )


def _recovered(segment: Segment, ordinal: int, found: LoggedMessage, *, redelivered: bool) -> RecoveredMessage:
    """Return a live message with the targets that have not settled it."""
    remaining = segment.remaining(ordinal)
    exchange, routing_key, publisher, view_name = found.origin
    return RecoveredMessage(
        segment.number << ORDINAL_BITS | ordinal,
        found.header,
        found.body,
        exchange,
        routing_key,
        publisher,
        view_name,
        found.priority,
        found.accepted_at,
        found.expires_at,
        [target for target in found.targets if target[0] in remaining],
        redelivered,
    )
