"""Restoring a segment from its index: the log's data of it, and its messages in columns instead of one by one."""

from __future__ import annotations

import logging
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Final

from annulet.store.files.files import FileSystem
from annulet.store.log.checkpoint import SegmentPicture
from annulet.store.log.reading import RecordReader
from annulet.store.segments.columns import is_uniform, picked, places_by_number, shifted
from annulet.store.segments.interface import RecoveredMessage, RecoveredRows
from annulet.store.segments.records import ORDINAL_BITS, checksum_seed, decode_origin
from annulet.store.segments.segment import SHARED, Segment
from annulet.store.segments.segment_index import UNREAD, NearNumbers, SegmentIndex
from annulet.store.segments.segment_index import load as load_index

logger = logging.getLogger(__name__)

ORDINALS_AT_ONCE: Final = 256
"""Ordinals that are read together where the index does not know them; their messages are in memory at once."""

_FROM_DIGITS: Final = bytes.maketrans(b"01", b"\0\1")


def segment_from(index: SegmentIndex, segment: Segment, picture: SegmentPicture | None) -> None:
    """Fill ``segment`` from its index; the checkpoint's bitmap has the live records."""
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
    """Yield the live messages of segments, given by number: in columns if indexed, otherwise read.

    A message of several queues is in columns only where all of them ``may_have_rows``; it is read once for the others.
    """
    for _, segment in sorted(segments.items()):
        if live := segment.live_count:  # records without a queue are settled on the way
            yield from _restorable_of(segment, reader, files, may_have_rows, redelivered=redelivered)
            reader.note_restored(live)


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
    live = _byte_for_bit(segment.live, len(index.offsets))
    start = 0
    for first, end in _unread(index, live):
        yield from _rows(index, segment, live, start, first, origins)
        ordinals = [ordinal for ordinal in range(first, end) if live[ordinal]]
        yield from reader.some(segment, ordinals, redelivered=redelivered)
        start = end
    yield from _rows(index, segment, live, start, len(live), origins)


def _index_of(segment: Segment, files: FileSystem) -> SegmentIndex | None:
    try:
        return load_index(segment.path, segment.number, files)
    except OSError as error:
        logger.warning("message log: cannot read the index of segment %d again: %s", segment.number, error)
        return None


def _unread(index: SegmentIndex, live: bytes) -> Iterator[tuple[int, int]]:
    """Yield ranges of ordinals, start and end, in which all live records have to be read."""
    numbers = index.origin_numbers
    if UNREAD not in (numbers[:1] if is_uniform(numbers) else numbers):
        return
    first = end = 0
    for ordinal in [ordinal for ordinal, number in enumerate(numbers) if number == UNREAD and live[ordinal]]:
        if end != first and ordinal < first + ORDINALS_AT_ONCE and live.find(1, end, ordinal) < 0:
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
    live: bytes,
    start: int,
    end: int,
    origins: list[tuple[str, str, str, str]],
) -> Iterator[RecoveredRows]:
    """Yield the live messages from ``start`` to ``end``, queue by queue."""
    base = index.number << ORDINAL_BITS
    queues = index.queues[start:end]
    alone = start < end and queues[0] != SHARED and is_uniform(queues)
    if alone and live.find(0, start, end) < 0:
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
    part = slice(start, end)
    places_of, shared = _by_queue(index, segment, live[part], start)
    numbers = index.sequences[part] if isinstance(index.sequences, range) else index.sequences[part].tolist()
    sizes, origin_numbers = _Column(index.sizes[part]), _Column(index.origin_numbers[part])
    priorities, expires_at = _Column(index.priorities[part]), _Column(index.expires_at[part])
    times = index.accepted_at[part]
    for queue_id, places in places_of.items():
        sequences = shifted(places, numbers.start) if isinstance(numbers, range) else picked(numbers, places)
        for place, sequence in shared.get(queue_id, ()):
            sequences[place] = sequence
        yield RecoveredRows(
            queue_id,
            shifted(places, base + start),
            sequences,
            sizes.at(places),
            origin_numbers.at(places),
            origins,
            index.duplicate_ids,
            priorities.at(places),
            _times_at(times, places),
            expires_at.at(places),
        )


def _by_queue(
    index: SegmentIndex, segment: Segment, live: bytes, start: int
) -> tuple[dict[int, list[int]], Mapping[int, list[tuple[int, int]]]]:
    """Return by queue id the places of live records, from ``start`` on, which of them are shared, and sequences."""
    queue_ids, queues = index.queue_ids, index.queues[start : start + len(live)].tolist()
    found = places_by_number(queues, live)
    if SHARED not in found:
        return {queue_ids[queue]: places for queue, places in found.items()}, {}
    places_of: defaultdict[int, list[int]] = defaultdict(list)
    shared: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for place in compress(range(len(live)), live):
        queue = queues[place]
        if queue != SHARED:
            places_of[queue_ids[queue]].append(place)
            continue
        targets = index.shared[start + place]
        for queue_id in segment.shared[start + place]:
            places = places_of[queue_id]
            shared[queue_id].append((len(places), targets[2 * targets[::2].index(queue_id) + 1]))
            places.append(place)
    return places_of, shared


class _Column:
    """Return some numbers of a column, without a loop if all are equal."""

    def __init__(self, numbers: array[int]) -> None:
        self._numbers = numbers
        self._uniform = is_uniform(numbers)

    def at(self, places: list[int]) -> array[int]:
        """Return those at some places."""
        if self._uniform:
            return self._numbers[: len(places)]
        return array(self._numbers.typecode, map(self._numbers.__getitem__, places))


def _times_at(times: Sequence[int], places: list[int]) -> Sequence[int]:
    return times.at(places) if isinstance(times, NearNumbers) else array("Q", map(times.__getitem__, places))


def _byte_for_bit(bits: bytearray, count: int) -> bytes:
    """Return a byte, 0 or 1, for each of the first ``count`` bits, of which none behind is set."""
    digits = f"{int.from_bytes(bits, 'little'):b}"[::-1].ljust(count, "0")
    return digits.encode().translate(_FROM_DIGITS)
