"""The in-memory state of one segment: places of its records, live ones, and their queues.

Six bytes and a bit per record: a u32 offset, a u16 index into the segment's own list of queue ids, one bit of the live
bitmap. Only records with several targets have an entry in a dictionary.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from annulet.store.files.files import File
from annulet.store.segments.records import SEGMENT_HEADER_SIZE

SHARED: Final = 0xFFFF
"""Queue index of a record whose remaining queues are in ``Segment.shared``."""

SEGMENT_SUFFIX: Final = ".segment"

_NOWHERE: Final = bytes(4)
"""An offset of 0 as bytes; found as such also where two others meet, but not missed."""


def segment_name(number: int) -> str:
    """Return a segment's file name; names sort by number."""
    return f"{number:012d}{SEGMENT_SUFFIX}"


def segment_number(name: str) -> int | None:
    """Undo :func:`segment_name`; ``None`` for other files."""
    stem = name.removesuffix(SEGMENT_SUFFIX)
    return int(stem) if stem != name and stem.isdecimal() else None


class Segment:
    """One segment. ``size`` is where the sealed records end, ``capacity`` how far disk space is reserved (bytes)."""

    __slots__ = (
        "_indexes",
        "capacity",
        "changed",
        "closed",
        "compactable",
        "file",
        "header_due",
        "identity",
        "indexed",
        "kept",
        "live",
        "live_count",
        "number",
        "offsets",
        "path",
        "queue_ids",
        "queues",
        "seed",
        "shared",
        "size",
        "voided",
    )

    def __init__(self, number: int, path: Path, identity: int, seed: int) -> None:
        self.number = number
        self.path = path
        self.identity = identity
        self.seed = seed
        self.file: File | None = None  # open while records are written to it
        self.size = SEGMENT_HEADER_SIZE
        self.capacity = 0
        self.header_due = False  # the file's header is written with the first batch
        self.closed = False  # receives no more records
        self.compactable = True  # a compaction that failed for another reason than space is not tried again
        self.indexed = False  # there is an index of the file as it is
        self.voided: list[int] = []  # torn batches named by a record of the segment
        self.changed = True  # since the last checkpoint copied its bitmap
        self.offsets: array[int] = array("I")  # 0 = no record (cancelled in the window, or damaged)
        self.queues: array[int] = array("H")
        self.live = bytearray()
        self.live_count = 0
        self.kept = 0  # messages in the file, live or not: compaction leaves fewer than there are ordinals
        self.queue_ids: list[int] = []
        self._indexes: dict[int, int] = {}
        self.shared: dict[int, tuple[int, ...]] = {}  # ordinal -> remaining queues; tuples, so that a copy is cheap

    def add(self, offset: int, targets: Sequence[tuple[int, int]]) -> None:
        """Add the next record, live for all its targets."""
        ordinal = len(self.offsets)
        self.offsets.append(offset)
        if len(targets) == 1:
            queue_id = targets[0][0]
            index = self._indexes.get(queue_id)
            if index is None:
                index = self._new_index(queue_id)
            if index == SHARED:
                self.shared[ordinal] = (queue_id,)
        else:
            index = SHARED
            self.shared[ordinal] = tuple([queue_id for queue_id, _ in targets])
        self.queues.append(index)
        if ordinal >> 3 == len(self.live):
            self.live.append(0)
        self.live[ordinal >> 3] |= 1 << (ordinal & 7)
        self.live_count += 1
        self.kept += 1
        self.changed = True

    def add_hole(self) -> None:
        """Add an ordinal without a record."""
        if len(self.offsets) >> 3 == len(self.live):
            self.live.append(0)
        self.offsets.append(0)
        self.queues.append(SHARED)

    def adopt(self, offsets: array[int], queues: array[int], queue_ids: list[int]) -> None:
        """Take over the records that an index names, none of them live yet."""
        self.offsets, self.queues, self.queue_ids = offsets, queues, queue_ids
        self._indexes = {queue_id: index for index, queue_id in enumerate(queue_ids)}
        self.live = bytearray((len(offsets) + 7) >> 3)
        self.live_count = 0
        self.kept = len(offsets) - (offsets.count(0) if _NOWHERE in offsets.tobytes() else 0)

    def behind(self, ordinal: int) -> int:
        """Return the start, present or future, of the next message after an ordinal: later ordinals may have none."""
        following = ordinal + 1
        while following < len(self.offsets) and not self.offsets[following]:
            following += 1
        return self.offsets[following] if following < len(self.offsets) else self.size

    def is_live(self, ordinal: int) -> bool:
        """Return whether some queue still needs the record."""
        byte = ordinal >> 3
        return byte < len(self.live) and bool(self.live[byte] & (1 << (ordinal & 7)))

    def holds(self, ordinal: int, queue_id: int) -> bool:
        """Return whether a queue still needs the record."""
        return self.is_live(ordinal) and queue_id in self.remaining(ordinal)

    def settle(self, ordinal: int, queue_id: int) -> bool:
        """Let one queue be done with a record; ``False`` when it was already, or never had it."""
        byte = ordinal >> 3
        bit = 1 << (ordinal & 7)
        if byte >= len(self.live) or not self.live[byte] & bit:
            return False
        index = self.queues[ordinal]
        if index == SHARED:
            before = self.shared[ordinal]
            if queue_id not in before:
                return False
            self.changed = True
            remaining = tuple([other for other in before if other != queue_id])
            if remaining:
                self.shared[ordinal] = remaining
                return True
            del self.shared[ordinal]
        elif self.queue_ids[index] != queue_id:
            return False
        self.live[byte] ^= bit
        self.live_count -= 1
        self.changed = True
        return True

    def settle_all(self, settled: list[int]) -> int:
        """Settle queue id, ordinal, queue id, … as :meth:`settle` does each; return how many were not settled before.

        Records of a single queue are settled as one number of many bits: a commit may have 100,000.
        """
        queues, indexes, end = self.queues, self._indexes, len(self.offsets)
        single: list[int] = []
        count = 0
        for position in range(0, len(settled), 2):
            queue_id, ordinal = settled[position], settled[position + 1]
            if ordinal >= end:
                continue
            index = queues[ordinal]
            if index == SHARED:
                count += self.settle(ordinal, queue_id)
            elif indexes.get(queue_id) == index:
                single.append(ordinal)
        return count + self._clear_all(single)

    def _clear_all(self, ordinals: list[int]) -> int:
        """Settle records of one queue each. Returns how many were live."""
        if not ordinals:
            return 0
        first, last = min(ordinals) >> 3, (max(ordinals) >> 3) + 1
        mask = bytearray(last - first)
        for ordinal in ordinals:
            mask[(ordinal >> 3) - first] |= 1 << (ordinal & 7)
        bits, wanted = int.from_bytes(self.live[first:last], "little"), int.from_bytes(mask, "little")
        count = (bits & wanted).bit_count()
        self.live[first:last] = (bits & ~wanted).to_bytes(last - first, "little")
        self.live_count -= count
        self.changed = self.changed or count > 0
        return count

    def kill(self, ordinal: int) -> None:
        """Drop a record for all its queues."""
        if self.is_live(ordinal):
            self.live[ordinal >> 3] ^= 1 << (ordinal & 7)
            self.live_count -= 1
            self.changed = True
            self.shared.pop(ordinal, None)

    def remaining(self, ordinal: int) -> tuple[int, ...]:
        """Return the ids of the queues that still need a live record."""
        index = self.queues[ordinal]
        return self.shared[ordinal] if index == SHARED else (self.queue_ids[index],)

    def may_hold(self, queue_id: int) -> bool:
        """Return whether some live record here may be for the queue. Errs on the side of yes."""
        return self.live_count > 0 and (queue_id in self._indexes or bool(self.shared))

    def forget(self, queue_id: int, start: int, count: int) -> int:
        """Settle all a queue has in up to ``count`` ordinals from ``start``; return where to go on."""
        end = min(start + count, len(self.offsets))
        index = self._indexes.get(queue_id, -1)
        queues = self.queues
        if index >= 0 and index != SHARED and queues[start:end].count(index) == end - start:
            self._clear(start, end)
            return end
        for ordinal in range(start, end):
            if queues[ordinal] == index or queues[ordinal] == SHARED:
                self.settle(ordinal, queue_id)
        return end

    def _clear(self, start: int, end: int) -> None:
        """Settle a stretch whose records are all of one queue and no other: as one number of many bits."""
        first, last = start >> 3, (end + 7) >> 3
        bits = int.from_bytes(self.live[first:last], "little")
        mask = ((1 << (end - start)) - 1) << (start & 7)
        count = (bits & mask).bit_count()
        if count:
            self.live[first:last] = (bits & ~mask).to_bytes(len(self.live[first:last]), "little")
            self.live_count -= count
            self.changed = True

    def live_ordinals(self) -> Iterator[int]:
        """Yield the ordinals of live records, ascending."""
        for byte in range(len(self.live)):
            base = byte << 3
            rest = self.live[byte]
            while rest:
                lowest = rest & -rest
                yield base + lowest.bit_length() - 1
                rest ^= lowest

    def live_bytes_estimate(self) -> int:
        """Return the bytes live records take, assuming all messages in the file to be of one size."""
        return self.size * self.live_count // max(1, self.kept)

    def _new_index(self, queue_id: int) -> int:
        index = len(self.queue_ids)
        if index < SHARED:
            self.queue_ids.append(queue_id)
        else:
            index = SHARED  # more queues than 16 bits can tell apart: the rest live in the dictionary
        self._indexes[queue_id] = index
        return index
