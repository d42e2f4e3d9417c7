"""What a process of its own finds out about headers of stored messages, so that the event loop need not read them.

A stretch of a segment is handed to ``submit`` with what is looked for; the answer names the records in doubt, which may
have it. Of all others it is certain that they lack it: a record never changes, and an answer that comes when the file
was replaced or is gone is dropped. Without ``submit`` nothing is ever known. All of it belongs to the event loop.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from annulet.store.records import ORDINAL_BITS, ORDINAL_MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from annulet.store.files import File
    from annulet.store.segment import Segment

Needles = frozenset[tuple[bytes, ...]]
"""What is looked for: a header may match that has all octets of one of these."""

STRETCH_RECORDS_MAX: Final = 16_384
"""Records of one stretch: four times those of a page, and a segment of messages of 1 KiB. What stands wider apart is
looked at by the event loop: the process would read mostly what nobody asked for. Its offsets are 64 KiB, which one
packet takes."""

GAPS_SHARE: Final = 8
"""The part of a stretch, one of so many, that may be between the pages it is for. A stretch and its answer take 0.2 ms
of the event loop, however long it is, and the look at a record 0.15 µs of the process."""

PENDING_MAX: Final = 128
"""Stretches that were not answered: 100 ms and more of the process, so that it has work between two turns."""

PENDING_BYTES_MAX: Final = 512 << 20
"""Bytes of the file they cover, together: of large messages a few stretches are as much work."""

STRETCHES_MAX: Final = 1024
"""Stretches remembered, answered or not; the oldest go first. What was asked for and not used is looked at again: the
consumer has left, or has no credit. They take 0.5 MB, up to 2 MB for the records in doubt, and 8 for the offsets of
those that were not answered."""

DOUBTS_MAX: Final = 256
"""Records in doubt of an answer that is kept: with more, each look at some hundred rows would read nearly all. Without
a bound answers about what most messages have would take 135 MB."""

PART_RECORDS: Final = 4096
"""Records, a page, for which an answer with more in doubt is kept or not: what matches may stand close together."""

NEEDLES_BYTES_MAX: Final = 4096
"""Bytes of what is looked for, together: it goes along with each stretch."""


class Stretch:
    """Records ``first`` to ``last`` of a segment and what is looked for in them."""

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
    """Ordinals of a segment, ``first`` to ``last``, of which so many are ``wanted``."""

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
    """The stretches there are. ``submit`` has a process look at one and calls :meth:`answer`, later."""

    def __init__(
        self,
        segments: dict[int, Segment],
        open_file: Callable[[Segment], File],
        open_heads: Callable[[Segment], File | None],
    ) -> None:
        self.submit: Callable[[Stretch], None] | None = None
        self.prompt = False  # answers come in so short a time that who needs one waits for it
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
        """Another stretch may be asked for."""
        return self.active and len(self._pending) < PENDING_MAX and sum(self._pending.values()) < PENDING_BYTES_MAX

    @property
    def pending(self) -> int:
        """Stretches that were not answered."""
        return len(self._pending)

    def ask(self, pages: Sequence[tuple[int, int]], needles: Needles) -> int:
        """Have records looked at, of each of these pages from the lowest to the highest, unless they are too far apart.
        Pages next to each other in a segment are one stretch.

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

        None: nobody waits for the answer.
        """
        if stretch.number not in self._pending:
            return []
        segment = self._segments[stretch.first >> ORDINAL_BITS]
        try:
            file = self._open_file(segment)
        except OSError:  # the event loop comes to it, and says what is wrong
            self._drop(stretch)
            self.wake()
            return []
        heads = self._open_heads(segment)
        return [file] if heads is None else [file, heads]

    def answer(self, number: int, doubts: Sequence[int]) -> None:
        """Note which records of a stretch, counted from its first, are in doubt, ascending; wake who waits."""
        if self._pending.pop(number, None) is not None:
            stretch = self._stretches[number]
            stretch.doubts = array("Q", [stretch.first + doubt for doubt in doubts])
            stretch.places = array("I")
            if len(doubts) > DOUBTS_MAX:
                self._keep_parts(stretch, stretch.doubts)
        self.wake()

    def _keep_parts(self, stretch: Stretch, doubts: array[int]) -> None:
        """Keep of an answer what it says of each part with not too many in doubt, and nothing of the others."""
        self._drop(stretch)
        for first in range(stretch.first, stretch.last + 1, PART_RECORDS):
            last = min(stretch.last, first + PART_RECORDS - 1)
            some = doubts[bisect_left(doubts, first) : bisect_right(doubts, last)]
            if len(some) <= DOUBTS_MAX:
                self._remembered(first, last, stretch.needles).doubts = some

    def clear(self, first: int, count: int, needles: Needles) -> int:
        """Return how many records from ``first`` on, ``count`` at most, are known to lack what is looked for."""
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
        """Return up to which of so many records from ``first`` on the last one in doubt stands; 0 if nothing is known
        of the first, or it is not in doubt."""
        stretch = self._find(first, needles)
        if stretch is None or not stretch.doubts:
            return 0
        start, end = bisect_left(stretch.doubts, first), bisect_right(stretch.doubts, first + count - 1)
        return stretch.doubts[end - 1] - first + 1 if start < end and stretch.doubts[start] == first else 0

    def is_awaited(self, record: int, needles: Needles) -> bool:
        """Say whether an answer about a record is to be waited for."""
        if not self.prompt:
            return False
        stretch = self._find(record, needles)
        return stretch is not None and stretch.doubts is None

    def wait(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` once, with the next answer or when it is to be waited for no more."""
        self._waiting[wake] = None

    def wake(self) -> None:
        """Call all who wait."""
        waiting, self._waiting = self._waiting, {}
        for wake in waiting:
            wake()

    def forget_pending(self) -> None:
        """Nothing that was asked for will be answered."""
        self.prompt = False
        for number in list(self._pending):
            self._drop(self._stretches[number])
        self.wake()

    def release(self, segment: int) -> None:
        """Drop what there is of a segment: it goes, or another file takes its place."""
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
