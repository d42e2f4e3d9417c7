"""Restoring a segment from its index: what the log keeps of it, and its messages in columns instead of one by one."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from annulet.store.checkpoint import SegmentPicture
from annulet.store.columns import is_uniform
from annulet.store.files import FileSystem
from annulet.store.interface import RecoveredMessage, RecoveredRows
from annulet.store.reading import RecordReader
from annulet.store.records import ORDINAL_BITS, checksum_seed, decode_origin
from annulet.store.segment import SHARED, Segment
from annulet.store.segment_index import UNREAD, SegmentIndex
from annulet.store.segment_index import load as load_index

logger = logging.getLogger(__name__)

ORDINALS_AT_ONCE: Final = 256
"""Ordinals that are read together where the index does not know them; their messages are in memory at once."""


def segment_from(index: SegmentIndex, segment: Segment, picture: SegmentPicture | None) -> None:
    """Fill ``segment`` from its index; the checkpoint's picture says what is live."""
    segment.identity = index.identity
    segment.seed = checksum_seed(index.number, index.identity)
    segment.size = index.size
    segment.capacity = index.length
    segment.indexed = True
    segment.voided = list(index.voided)
    segment.adopt(index.offsets, index.queues, index.queue_ids)
    if picture is None:
        return
    while len(segment.offsets) < picture.ordinals:
        segment.add_hole()
    live = int.from_bytes(picture.live, "little") & _present(segment)
    segment.live = bytearray(live.to_bytes((len(segment.offsets) + 7) >> 3, "little"))
    segment.live_count = live.bit_count()
    for ordinal, targets in index.shared.items():
        if segment.is_live(ordinal):
            segment.shared[ordinal] = picture.shared.get(ordinal, targets[::2])


def _present(segment: Segment) -> int:
    """Return a bit for each ordinal that has a record."""
    offsets = segment.offsets
    present = bytearray(b"\xff") * ((len(offsets) + 7) >> 3)
    hole = -1
    for _ in range(len(offsets) - segment.kept):
        hole = offsets.index(0, hole + 1)
        present[hole >> 3] ^= 1 << (hole & 7)
    return int.from_bytes(present, "little") & ((1 << len(offsets)) - 1)


def restorable(
    segments: Mapping[int, Segment],
    reader: RecordReader,
    files: FileSystem,
    may_have_rows: Callable[[int], bool],
    *,
    redelivered: bool,
) -> Iterator[RecoveredMessage | RecoveredRows]:
    """Yield what is live in segments, given by number: in columns where their indexes know it, else as messages read.

    A message of several queues is in columns only where all of them ``may_have_rows``; it is read once for the others.
    """
    for _, segment in sorted(segments.items()):
        if segment.live_count:
            yield from _restorable_of(segment, reader, files, may_have_rows, redelivered=redelivered)


def _restorable_of(
    segment: Segment,
    reader: RecordReader,
    files: FileSystem,
    may_have_rows: Callable[[int], bool],
    *,
    redelivered: bool,
) -> Iterator[RecoveredMessage | RecoveredRows]:
    index = _index_of(segment, files) if segment.indexed else None
    if index is None:
        yield from reader.live(segment, redelivered=redelivered)
        return
    origins = [decode_origin(encoded) for encoded in index.origins]
    for ordinal, queue_ids in segment.shared.items():
        if not all(map(may_have_rows, queue_ids)):
            index.origin_numbers[ordinal] = UNREAD
    live = f"{int.from_bytes(segment.live, 'little'):b}"[::-1].ljust(len(index.offsets), "0")
    start = 0
    for first, end in _unread(index, live):
        yield from _rows(index, segment, live, start, first, origins)
        ordinals = [ordinal for ordinal in range(first, end) if live[ordinal] == "1"]
        yield from reader.some(segment, ordinals, redelivered=redelivered)
        start = end
    yield from _rows(index, segment, live, start, len(live), origins)


def _index_of(segment: Segment, files: FileSystem) -> SegmentIndex | None:
    try:
        return load_index(segment.path, segment.number, files)
    except OSError as error:
        logger.warning("message log: cannot read the index of segment %d again: %s", segment.number, error)
        return None


def _unread(index: SegmentIndex, live: str) -> Iterator[tuple[int, int]]:
    """Yield stretches of ordinals, start and end, in which everything that is live has to be read."""
    numbers = index.origin_numbers
    if UNREAD not in (numbers[:1] if is_uniform(numbers) else numbers):
        return
    first = end = 0
    for ordinal in [ordinal for ordinal, number in enumerate(numbers) if number == UNREAD and live[ordinal] == "1"]:
        if end != first and ordinal < first + ORDINALS_AT_ONCE and live.find("1", end, ordinal) < 0:
            end = ordinal + 1
            continue
        if end != first:
            yield first, end
        first, end = ordinal, ordinal + 1
    if end != first:
        yield first, end


def _rows(
    index: SegmentIndex,
    segment: Segment,
    live: str,
    start: int,
    end: int,
    origins: list[tuple[str, str, str, str]],
) -> Iterator[RecoveredRows]:
    """Yield what is live from ``start`` to ``end``, queue by queue."""
    base = index.number << ORDINAL_BITS
    queues = index.queues[start:end]
    alone = start < end and queues[0] != SHARED and is_uniform(queues)
    if alone and live.find("0", start, end) < 0:
        yield RecoveredRows(
            index.queue_ids[queues[0]],
            range(base + start, base + end),
            index.sequences[start:end],
            index.sizes[start:end],
            index.origin_numbers[start:end],
            origins,
            index.duplicate_ids,
            index.priorities[start:end],
            index.accepted_at[start:end],
            index.expires_at[start:end],
        )
        return
    by_queue: dict[int, tuple[array[int], array[int]]] = {}  # queue id -> ordinals and sequences
    for ordinal, queue in enumerate(queues, start):
        if live[ordinal] == "0":
            continue
        if queue != SHARED:
            _note(by_queue, index.queue_ids[queue], ordinal, index.sequences[ordinal])
            continue
        targets = index.shared[ordinal]
        for queue_id in segment.shared[ordinal]:
            _note(by_queue, queue_id, ordinal, targets[2 * targets[::2].index(queue_id) + 1])
    for queue_id, (ordinals, sequences) in by_queue.items():
        yield RecoveredRows(
            queue_id,
            array("Q", [base + ordinal for ordinal in ordinals]),
            sequences,
            array("I", map(index.sizes.__getitem__, ordinals)),
            array("H", map(index.origin_numbers.__getitem__, ordinals)),
            origins,
            index.duplicate_ids,
            array("H", map(index.priorities.__getitem__, ordinals)),
            array("Q", map(index.accepted_at.__getitem__, ordinals)),
            array("Q", map(index.expires_at.__getitem__, ordinals)),
        )


def _note(by_queue: dict[int, tuple[array[int], array[int]]], queue_id: int, ordinal: int, sequence: int) -> None:
    columns = by_queue.get(queue_id)
    if columns is None:
        columns = by_queue[queue_id] = (array("I"), array("Q"))
    columns[0].append(ordinal)
    columns[1].append(sequence)
