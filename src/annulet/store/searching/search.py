"""Results of a separate process that searches headers of stored messages, so that the event loop need not read them.

A range of a segment is passed to ``submit`` with the searched octets; the answer names the records in doubt, which may
have them. All others certainly lack them: a record never changes, and an answer that arrives after the file was
replaced or removed is dropped. Without ``submit`` there are no results. All of it belongs to the event loop.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from annulet.store.segments.records import ORDINAL_BITS, ORDINAL_MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from annulet.store.files.files import File
    from annulet.store.segments.segment import Segment

Needles = frozenset[tuple[bytes, ...]]
"""The searched octets: a header may match if it has all octets of one of these."""

STRETCH_RECORDS_MAX: Final = 16_384
"""Records of one range: four times those of a page, and a segment of messages of 1 KiB.

Wider ranges are searched by the event loop, because the process would read mostly other records. Its offsets are 64
KiB, which fit into one packet.
"""

GAPS_SHARE: Final = 8
"""The largest part of a range, 1 / this, between the pages it is for.

A range and its answer take 0.2 ms of the event loop, at any length, and each record 0.15 µs of the process.
"""

PENDING_MAX: Final = 128
"""Stretches that were not answered: 100 ms and more of the process, so that it has work between two turns."""

PENDING_BYTES_MAX: Final = 512 << 20
"""Bytes of the file they cover, together: of large messages a few stretches are as much work."""

STRETCHES_MAX: Final = 1024
"""Ranges kept, answered or not; the oldest are dropped first.

Unused ones are searched again: their consumer has left, or has no credit. They take 0.5 MB, up to 2 MB for the records
in doubt, and 8 for the offsets of unanswered ones.
"""

DOUBTS_MAX: Final = 256
"""Most records in doubt of a kept answer: with more, each scan of a few hundred rows would read nearly all.

Without a bound, answers about octets that most messages have would take 135 MB.
"""

PART_RECORDS: Final = 4096
"""Records of a page, for each of which an answer with more in doubt is kept or not, because matches may be close
together."""

NEEDLES_BYTES_MAX: Final = 4096
"""Bytes of the searched octets together: they are sent with each range."""


class Stretch:
    """Records ``first`` to ``last`` of a segment and the octets searched in them."""

    __slots__ = ("doubts", "end", "first", "last", "needles", "number", "places", "seed")

    def __init__(self, number: int, first: int, last: int, needles: Needles) -> None:
        self.number = number
        self.first = first
        self.last = last
        self.needles = needles
        self.places: array[int] = array("I")  # offsets in the file, 0 where there is no record; until it is answered
        self.end = 0  # where the last record ends, at most
        self.seed = 0  # of the segment's checksums
        self.doubts: array[int] | None = None  # records that may match, ascending; None: not answered

    @property
    def bytes(self) -> int:
        """Bytes of the file from its first record to the end of its last."""
        return max(0, self.end - next((place for place in self.places if place), self.end))


class Part(NamedTuple):
    """Ordinals of a segment, ``first`` to ``last``, of which ``wanted`` are needed."""

    segment: Segment
    first: int
    last: int
    wanted: int

    def joined(self, other: Part) -> Part | None:
        """Return both as one, if they are in the same segment and near enough to each other."""
        first, last = min(self.first, other.first), max(self.last, other.last)
        records = last - first + 1
        wanted = min(records, self.wanted + other.wanted)
        if self.segment is not other.segment or records > STRETCH_RECORDS_MAX:
            return None
        return Part(self.segment, first, last, wanted) if (records - wanted) * GAPS_SHARE <= records else None


class Search:
    """The kept ranges. ``submit`` passes one to a process and calls :meth:`answer` later."""

    def __init__(
        self,
        segments: dict[int, Segment],
        open_file: Callable[[Segment], File],
        open_heads: Callable[[Segment], File | None],
    ) -> None:
        self.submit: Callable[[Stretch], None] | None = None
        self.prompt = False  # answers arrive so quickly that it is worth waiting for one
        self._segments = segments
        self._open_file = open_file
        self._open_heads = open_heads
        self._asked = 0
        self._stretches: dict[int, Stretch] = {}  # by number, so oldest first
        self._by_segment: dict[int, list[Stretch]] = {}
        self._pending: dict[int, int] = {}  # number -> bytes
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def active(self) -> bool:
        """There is a process that looks, or will be."""
        return self.submit is not None

    @property
    def has_room(self) -> bool:
        """Return whether another range may be submitted."""
        return self.active and len(self._pending) < PENDING_MAX and sum(self._pending.values()) < PENDING_BYTES_MAX

    @property
    def known(self) -> int:
        """Stretches that were asked for, answered or not, at most :data:`STRETCHES_MAX`."""
        return len(self._stretches)

    @property
    def pending(self) -> int:
        """Stretches that were not answered."""
        return len(self._pending)

    def ask(self, pages: Sequence[tuple[int, int]], needles: Needles) -> int:
        """Submit the records of each of these pages, from the lowest to the highest, unless they are too far apart.
        Pages next to each other in a segment are one range.

        Returns how many of the pages there was room for.
        """
        if sum([len(needle) for demanded in needles for needle in demanded]) > NEEDLES_BYTES_MAX:
            return len(pages)
        taken = 0
        open_part: Part | None = None
        for lowest, highest in pages:
            if not self.has_room:
                break
            taken += 1
            for part in self._parts(lowest, highest):
                joined = None if open_part is None else open_part.joined(part)
                if open_part is not None and joined is None:
                    self._ask(open_part, needles)
                open_part = joined or part
        if open_part is not None:
            self._ask(open_part, needles)
        return taken

    def _parts(self, lowest: int, highest: int) -> list[Part]:
        """Return where these records are; none if they are too far apart."""
        numbers = range(lowest >> ORDINAL_BITS, (highest >> ORDINAL_BITS) + 1)
        parts = [self._part(number, lowest, highest) for number in numbers if number in self._segments]
        if sum([part.wanted for part in parts]) > STRETCH_RECORDS_MAX:
            return []
        return [part for part in parts if part.wanted > 0]

    def _part(self, number: int, lowest: int, highest: int) -> Part:
        """Return which ordinals of a segment are within these records."""
        segment = self._segments[number]
        first = lowest & ORDINAL_MASK if number == lowest >> ORDINAL_BITS else 0
        last = highest & ORDINAL_MASK if number == highest >> ORDINAL_BITS else ORDINAL_MASK
        last = min(last, len(segment.offsets) - 1)
        return Part(segment, first, last, last - first + 1)

    def _ask(self, part: Part, needles: Needles) -> None:
        submit = self.submit
        if submit is None:  # it has ended with the stretch before
            return
        segment, first, last, _ = part
        base = segment.number << ORDINAL_BITS
        stretch = self._remembered(base | first, base | last, needles)
        stretch.places = segment.offsets[first : last + 1]
        stretch.end = segment.behind(last)
        stretch.seed = segment.seed
        self._pending[stretch.number] = stretch.bytes
        submit(stretch)

    def _remembered(self, first: int, last: int, needles: Needles) -> Stretch:
        """Return a new stretch of records of one segment; the oldest is forgotten for it."""
        self._asked += 1
        stretch = Stretch(self._asked, first, last, needles)
        while len(self._stretches) >= STRETCHES_MAX:
            self._drop(next(iter(self._stretches.values())))
        self._stretches[stretch.number] = stretch
        self._by_segment.setdefault(first >> ORDINAL_BITS, []).append(stretch)
        return stretch

    def files_of(self, stretch: Stretch) -> list[File]:
        """Return the file of a stretch and that of its segment's heads if there is one, until others are opened.

        None: no one waits for the answer.
        """
        if stretch.number not in self._pending:
            return []
        segment = self._segments[stretch.first >> ORDINAL_BITS]
        try:
            file = self._open_file(segment)
        except OSError:  # the event loop will read it, and report the damage
            self._drop(stretch)
            self.wake()
            return []
        heads = self._open_heads(segment)
        return [file] if heads is None else [file, heads]

    def answer(self, number: int, doubts: Sequence[int]) -> None:
        """Note which records of a range, counted from its first, are in doubt, ascending; wake the waiting walks."""
        if self._pending.pop(number, None) is not None:
            stretch = self._stretches[number]
            stretch.doubts = array("Q", [stretch.first + doubt for doubt in doubts])
            stretch.places = array("I")
            if len(doubts) > DOUBTS_MAX:
                self._keep_parts(stretch, stretch.doubts)
        self.wake()

    def _keep_parts(self, stretch: Stretch, doubts: array[int]) -> None:
        """Keep the parts of an answer with few enough in doubt, and drop the others."""
        self._drop(stretch)
        for first in range(stretch.first, stretch.last + 1, PART_RECORDS):
            last = min(stretch.last, first + PART_RECORDS - 1)
            some = doubts[bisect_left(doubts, first) : bisect_right(doubts, last)]
            if len(some) <= DOUBTS_MAX:
                self._remembered(first, last, stretch.needles).doubts = some

    def clear(self, first: int, count: int, needles: Needles) -> int:
        """Return how many records from ``first`` on, ``count`` at most, are known to lack the searched octets."""
        record, behind = first, first + count
        while record < behind:
            stretch = self._find(record, needles)
            if stretch is None or stretch.doubts is None:
                break
            place = bisect_left(stretch.doubts, record)
            if place < len(stretch.doubts):
                record = min(behind, stretch.doubts[place])
                break
            record = min(behind, stretch.last + 1)
        return record - first

    def doubtful(self, first: int, count: int, needles: Needles) -> int:
        """Return the place behind the last one in doubt among this many records from ``first`` on; 0 if the first is
        unknown or not in doubt."""
        stretch = self._find(first, needles)
        if stretch is None or not stretch.doubts:
            return 0
        start, end = bisect_left(stretch.doubts, first), bisect_right(stretch.doubts, first + count - 1)
        return stretch.doubts[end - 1] - first + 1 if start < end and stretch.doubts[start] == first else 0

    def is_awaited(self, record: int, needles: Needles) -> bool:
        """Return whether to wait for an answer about a record."""
        if not self.prompt:
            return False
        stretch = self._find(record, needles)
        return stretch is not None and stretch.doubts is None

    def wait(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` once, with the next answer or when waiting for it ends."""
        self._waiting[wake] = None

    def wake(self) -> None:
        """Wake all waiting walks."""
        waiting, self._waiting = self._waiting, {}
        for wake in waiting:
            wake()

    def forget_pending(self) -> None:
        """No submitted range will be answered."""
        self.prompt = False
        for number in list(self._pending):
            self._drop(self._stretches[number])
        self.wake()

    def release(self, segment: int) -> None:
        """Drop the ranges of a segment that is removed or replaced by another file."""
        for stretch in self._by_segment.pop(segment, []):
            self._stretches.pop(stretch.number, None)
            self._pending.pop(stretch.number, None)
        self.wake()

    def _find(self, record: int, needles: Needles) -> Stretch | None:
        """Return the stretch with a record in which nothing less was looked for; one that was answered if there is."""
        found = None
        for stretch in self._by_segment.get(record >> ORDINAL_BITS, ()):
            if stretch.first <= record <= stretch.last and needles <= stretch.needles:
                found = stretch
                if stretch.doubts is not None:
                    break
        return found

    def _drop(self, stretch: Stretch) -> None:
        del self._stretches[stretch.number]
        self._pending.pop(stretch.number, None)
        others = self._by_segment[stretch.first >> ORDINAL_BITS]
        others.remove(stretch)
        if not others:
            del self._by_segment[stretch.first >> ORDINAL_BITS]
