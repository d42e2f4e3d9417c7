"""Segments behind the checkpoint that end before data written into them.

Batches have consecutive numbers, and a batch's seal counts its records. So where numbers are missing, or a batch has
fewer records than its seal says, and the next record stands in a later segment, an earlier segment was cut: a crash
tears the last write only. How many messages stood there its index says, if there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from annulet.store.segments.records import ORDINAL_BITS
from annulet.store.segments.segment_index import decode, index_path

if TYPE_CHECKING:
    from annulet.store.files.files import FileSystem
    from annulet.store.segments.segment import Segment

UNKNOWN = -1


class Cut(NamedTuple):
    """One of the segments from ``first`` to ``last`` is shorter than it was; ``end`` is where the first ends now, and
    ``messages`` are gone that were not settled, ``UNKNOWN`` where nothing tells."""

    first: int
    last: int
    end: int
    messages: int


class CutSegments:
    """The suspicions of one recovery, and its findings."""

    def __init__(self, files: FileSystem) -> None:
        self._files = files
        self._suspects: dict[tuple[int, int], None] = {}
        self._settled: set[int] = set()  # unread records that were settled

    def suspect(self, first: int, behind: int) -> None:
        """Records are missing that stood in segments from ``first`` on, before ``behind``."""
        if first < behind:
            self._suspects[first, behind] = None

    def settled_unseen(self, record: int) -> None:
        """A record was settled that its segment does not have."""
        self._settled.add(record)

    def find(self, segments: dict[int, Segment], ends: dict[int, int], damaged: set[int]) -> list[Cut]:
        """Return the cut parts. ``ends``: of the last sound record. ``damaged``: segments with bytes that are no
        record, which are reported as such, and explain why records are missing."""
        found: list[Cut] = []
        said: set[int] = set()
        for first, behind in self._suspects:
            suspects = range(first, behind)
            if said.issuperset(suspects):
                continue
            said.update(suspects)
            by_index = [cut for number in suspects if (cut := self._told_by_index(segments[number], ends)) is not None]
            if by_index:
                found += by_index
            elif damaged.isdisjoint(range(first, behind + 1)):
                found.append(Cut(first, behind - 1, ends.get(first, 0), UNKNOWN))
        return found

    def _told_by_index(self, segment: Segment, ends: dict[int, int]) -> Cut | None:
        """Return what a segment lacks of the messages that its index names."""
        count, known = self._count_in_index(segment), len(segment.offsets)
        if count <= known:
            return None
        base = segment.number << ORDINAL_BITS
        gone = sum(base | ordinal not in self._settled for ordinal in range(known, count))
        return Cut(segment.number, segment.number, ends.get(segment.number, 0), gone)

    def _count_in_index(self, segment: Segment) -> int:
        """Return how many messages were written into a segment, as its index says."""
        try:
            file = self._files.open(index_path(segment.path))
        except FileNotFoundError:
            return UNKNOWN
        try:
            index = decode(file.read(0, file.size()), places_only=True)
        except OSError:  # of no use; its content is unknown then
            return UNKNOWN
        finally:
            file.close()
        if index is None or index.number != segment.number or index.identity != segment.identity:
            return UNKNOWN
        return len(index.offsets)
