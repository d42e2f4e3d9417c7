"""The state of a group whose messages stay behind the lanes: their sequences, and the consumers that could be given
them.

A deep grouped queue passes over its messages once (:mod:`annulet.core.searching.group_walk`). One whose group has
enough in the lanes is parked: it stays where it is, perhaps a row on disk, and only its sequence is kept here
(massive-queues §2.9).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final, TypeAlias

from annulet.core.model.entry import BEHIND_ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from annulet.core.model.consumer import Consumer
    from annulet.core.policies.message_groups import Group

Chunk: TypeAlias = "range | array[int]"

RUN_LEAST: Final = 64
"""Sequences in a row that are kept as a range, some 90 bytes; fewer take 8 bytes each."""

CHUNK_MAX: Final = 4096
"""Sequences of one array: the most that an insertion moves."""

OUTDATED_MINIMUM: Final = 64
"""Items of a heap that mean nothing any more, beside one for each group, before they are swept out: 6 KiB."""


class ParkedSequences:
    """Sequences, ascending. ``count``: how many. Sequences are added at the end and taken from the front."""

    __slots__ = ("_chunks", "_start", "count")

    def __init__(self) -> None:
        self.count = 0
        self._chunks: deque[Chunk] = deque()
        self._start = 0  # place of the first in the first chunk

    def chunks(self) -> list[Chunk]:
        """Return the chunks, ranges and arrays, by ascending sequence; of the first some may be used up."""
        return list(self._chunks)

    @property
    def first(self) -> int:
        """The lowest; there is one."""
        return self._chunks[0][self._start]

    def append(self, sequence: int) -> None:
        """Add one that is above all others."""
        chunks = self._chunks
        self.count += 1
        last = chunks[-1] if chunks else None
        if isinstance(last, range):
            if last.stop == sequence:
                chunks[-1] = range(last.start, sequence + 1)
                return
            if len(last) < RUN_LEAST:
                self._flatten_last(last)
        chunks.append(range(sequence, sequence + 1))

    def extend(self, sequences: list[int]) -> None:
        """Add some that ascend and are above all others; there is one."""
        self.append(sequences[0])
        if sequences[-1] - sequences[0] + 1 > len(sequences):
            for sequence in sequences[1:]:
                self.append(sequence)
            return
        self._chunks[-1] = range(
            self._chunks[-1][0], sequences[-1] + 1
        )  # an appended sequence ends a run, if only its own
        self.count += len(sequences) - 1

    def _flatten_last(self, last: range) -> None:
        """Put a short run that has ended into an array."""
        chunks = self._chunks
        chunks.pop()
        before = chunks[-1] if chunks else None
        if isinstance(before, array) and len(before) < CHUNK_MAX:
            before.extend(last)
        else:
            chunks.append(array("Q", last))

    def leading(self, most: int) -> list[int]:
        """Return the first ``most``, or all when there are fewer."""
        found: list[int] = []
        start = self._start
        for chunk in self._chunks:
            found.extend(chunk[start : start + most - len(found)])
            start = 0
            if len(found) >= most:
                break
        return found

    def drop(self, count: int) -> None:
        """Forget the first ``count``; there are so many."""
        self.count -= count
        while count:
            left = len(self._chunks[0]) - self._start
            if count < left:
                self._start += count
                return
            self._chunks.popleft()
            self._start = 0
            count -= left

    def drop_below(self, sequence: int) -> int:
        """Forget those below a sequence. Returns how many."""
        dropped = 0
        while self.count and self.first < sequence:
            chunk = self._chunks[0]
            below = bisect_left(chunk, sequence, self._start) - self._start
            dropped += below
            self.drop(below)
        return dropped

    def sift(self, least: int, most: int, standing: Callable[[Sequence[int]], list[int]]) -> tuple[int, int]:
        """Forget those of the first ``most`` from ``least`` on, of one chunk, that ``standing`` does not return.

        Returns how many were looked at, 0 at the end, and the lowest sequence that was not.
        """
        chunks = self._chunks
        place = bisect_left(chunks, least, key=_last_of)
        if place == len(chunks):
            return 0, least
        if place == 0 and self._start:
            chunks[0] = chunks[0][self._start :]
            self._start = 0
        chunk = chunks[place]
        inner = bisect_left(chunk, least)
        looked = chunk[inner : inner + most]
        behind = looked[-1] + 1
        kept = standing(looked)
        if len(kept) < len(looked):
            self.count -= len(looked) - len(kept)
            self._replace(place, [chunk[:inner], array("Q", kept), chunk[inner + len(looked) :]])
        return len(looked), behind

    def _replace(self, place: int, pieces: list[Chunk]) -> None:
        """Put the rest of a chunk back in its place; all but long runs go into one array with their neighbours."""
        chunks = self._chunks
        left: list[Chunk] = [chunks[place - 1]] if place else []
        for piece in pieces:
            last = left[-1] if left else None
            if isinstance(piece, range) and len(piece) >= RUN_LEAST:
                left.append(piece)
            elif isinstance(last, array) and len(last) + len(piece) <= CHUNK_MAX:
                last.extend(piece)
            elif piece:
                left.append(array("Q", piece))
        del chunks[place]
        for number, piece in enumerate(left[1:] if place else left):
            chunks.insert(place + number, piece)

    def insert(self, sequence: int) -> bool:
        """Add one at its place. Returns whether it was not there yet. O(chunks)."""
        chunks = self._chunks
        place, start = 0, self._start
        while place < len(chunks) and chunks[place][-1] < sequence:
            place, start = place + 1, 0
        if place == len(chunks):
            self.append(sequence)
            return True
        chunk = chunks[place]
        inner = bisect_left(chunk, sequence, start)
        if chunk[inner] == sequence:
            return False
        self.count += 1
        if isinstance(chunk, range) or inner == start:  # between two chunks: no run has a gap
            chunks.insert(place, range(sequence, sequence + 1))
            if place == 0 and self._start:
                chunks[1] = chunks[1][self._start :]
                self._start = 0
        else:
            chunk.insert(inner, sequence)
        return True


def _last_of(chunk: Chunk) -> int:
    return chunk[-1]


class OwnerBacklog:
    """The groups of one consumer, or those without an owner (``owner`` ``None``): how many of their messages stand in
    lanes, ``count``, and which of them have parked ones, ``backlog``. Nothing parked there is below ``low``.

    A heap says which group has the oldest. A group's parked sequences can only begin later than the heap says, which is
    corrected when the group reaches its top.
    """

    __slots__ = ("_filed", "_heap", "backlog", "count", "low", "owner")

    def __init__(self, owner: Consumer | None) -> None:
        self.owner = owner
        self.count = 0
        self.backlog: dict[Group, int] = {}  # each with the number of its item in the heap
        self.low = BEHIND_ALL
        self._heap: list[tuple[int, int, Group]] = []  # first parked sequence or a lower one, number
        self._filed = 0

    @property
    def size(self) -> int:
        """How many items its heap has, outdated ones included."""
        return len(self._heap)

    @property
    def empty(self) -> bool:
        """Return whether nothing of its groups is known to wait."""
        return not self.count and not self.backlog

    def file(self, group: Group, first: int) -> None:
        """Take in a group whose lowest parked sequence is ``first``. O(log groups), amortised."""
        self._filed += 1
        self.backlog[group] = self._filed
        heappush(self._heap, (first, self._filed, group))
        self.low = min(self.low, first)
        if len(self._heap) > 2 * len(self.backlog) + OUTDATED_MINIMUM:
            self._heap = [item for item in self._heap if self.backlog.get(item[2]) == item[1]]
            heapify(self._heap)

    def unfile(self, group: Group) -> None:
        """Remove a group that has nothing parked any more or changes its owner."""
        self.backlog.pop(group, None)
        if not self.backlog:
            self._heap = []
            self.low = BEHIND_ALL

    def find_low(self) -> None:
        """Set ``low`` to the lowest sequence that is parked. O(groups whose first has changed * log groups)."""
        first = self._first()
        self.low = BEHIND_ALL if first is None else first[0]

    def oldest(self, most: int) -> list[tuple[int, Group]]:
        """Return the ``most`` lowest parked sequences with their groups, ascending, or all when there are fewer.

        O(log groups) for each that is returned, and for each group whose first has changed.
        """
        heap = self._heap
        begun: list[tuple[int, int, Group]] = []
        following: list[tuple[int, int, Group]] = []  # the next sequence of each of these
        rests: dict[Group, list[int]] = {}
        chosen: list[tuple[int, Group]] = []
        while len(chosen) < most:
            first = self._first()
            if first is not None and (not following or first < following[0]):
                sequence, number, group = heappop(heap)
                begun.append(first)
                assert group.parked_sequences is not None
                rest = group.parked_sequences.leading(most - len(chosen))
                rest.reverse()
                rest.pop()
                rests[group] = rest
            elif following:
                sequence, number, group = heappop(following)
                rest = rests[group]
            else:
                break
            chosen.append((sequence, group))
            if rest:
                heappush(following, (rest.pop(), number, group))
        for item in begun:
            heappush(heap, item)
        return chosen

    def _first(self) -> tuple[int, int, Group] | None:
        """Return the item of the group with the lowest parked sequence, which is its first; now atop the heap."""
        heap = self._heap
        while heap:
            sequence, number, group = heap[0]
            if self.backlog.get(group) != number:
                heappop(heap)
                continue
            assert group.parked_sequences is not None
            first = group.parked_sequences.first
            if first == sequence:
                return heap[0]
            heapreplace(heap, (first, number, group))
        return None
