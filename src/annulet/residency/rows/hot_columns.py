"""The hot properties of a queue's rows: 4 bytes for each row and property, beside the page of the row.

Those of rows recovered at start are unknown: the first walk that needs them reads the rows, and records the values. The
same applies to rows from before a change of the hot properties.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from sys import byteorder
from typing import TYPE_CHECKING, Final

from annulet.core.message.hot_properties import CODE_BYTES, UNKNOWN, codes_of
from annulet.residency.rows.group_column import BY_GROUP, PASSED_TIMES, TEXTS_MAX, GroupColumn
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from annulet.residency.rows.row_columns import RowColumns
from annulet.residency.rows.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from annulet.core.message.hot_properties import Term
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.residency.rows.page import Page

SEARCHES_MAX: Final = 64
"""Searches for a code in a page that one look does, 20 µs each: about as long as reading the messages of a look."""

SINGLY_MAX: Final = 16
"""Codes of a column that are searched one by one; examining each code of the page takes as long as this many.

Each consumer may need another value, and the time of a scan must not grow with their number.
"""


KINDS_MAX: Final = 16
"""Different codes of a column that are recorded: at most about 1.5 KB a page, and states, types or regions have no more
values. A page without the required code is then skipped in a quarter of the time of a search."""


class HotColumns(RowColumns):
    """The codes of one page's rows, those included that have left it. ``names``: the properties."""

    __slots__ = ("_columns", "_kinds", "unknown")

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__(names)
        self.unknown = 0  # rows with unknown values
        self._columns = [bytearray() for _ in names]
        self._kinds: list[set[int] | None] = [set() for _ in names]  # but for UNKNOWN; None: too many

    @classmethod
    def unread(cls, names: tuple[str, ...], page: Page) -> HotColumns:
        """Return the sequences of a page's rows with unknown values."""
        made = cls(names)
        sequences = page.peek(PAGE_ITEMS_MAX).sequences
        made._add(sequences, [UNKNOWN * len(sequences)] * len(names))
        made.unknown = len(sequences)
        return made

    def append(self, entries: Sequence[QueueEntry]) -> None:
        """Take in the next rows."""
        codes = codes_of([entry.message for entry in entries], self.names)
        self._note_kinds(codes)
        self._add([entry.sequence for entry in entries], codes)

    def _add(self, sequences: list[int], codes: list[bytes]) -> None:
        self._add_places(sequences)
        for column, some in zip(self._columns, codes, strict=True):
            column.extend(some)

    def _note_kinds(self, codes: list[bytes]) -> None:
        for index, some in enumerate(codes):
            kinds = self._kinds[index]
            if kinds is not None:
                with memoryview(some) as octets, octets.cast("I") as view:
                    kinds.update(view)
                if len(kinds) > KINDS_MAX:
                    self._kinds[index] = None

    def _lacks(self, index: int, code: bytes) -> bool:
        """Return whether a column surely has a code nowhere."""
        kinds = self._kinds[index]
        return kinds is not None and int.from_bytes(code, byteorder) not in kinds

    def learn(self, entries: Sequence[QueueEntry]) -> None:
        """Record the values of rows that were read."""
        codes = codes_of([entry.message for entry in entries], self.names)
        self._note_kinds(codes)
        for number, entry in enumerate(entries):
            place = self.place_from(entry.sequence) * CODE_BYTES
            behind = place + CODE_BYTES
            self.unknown -= self._columns[0][place:behind] == UNKNOWN
            start = number * CODE_BYTES
            for column, some in zip(self._columns, codes, strict=True):
                column[place:behind] = some[start : start + CODE_BYTES]

    def find(self, alternatives: Sequence[list[Term]], sequence: int, most: int) -> tuple[list[int], int]:
        """Return the sequences of rows from ``sequence`` on that may have the values required by one of the
        alternatives.

        Also the sequence before which there are no others, 0 for none at all: at most ``limit`` are examined.
        """
        first = self.place_from(sequence)
        demanded: dict[int, dict[bytes, list[list[Term]]]] = {}  # the other terms of those whose first term has a code
        for terms in alternatives:
            index, codes = terms[0]
            of_column = demanded.setdefault(index, {})
            for code in codes:
                of_column.setdefault(code, []).append(terms[1:])
        places: set[int] = set()
        for index, of_column in demanded.items():
            if len(of_column) > SINGLY_MAX:
                places.update(_places_of_any(self._columns[index], set(of_column), first, most))
            else:
                for code in of_column:
                    if not self._lacks(index, code):
                        places.update(_places_of(self._columns[index], code, first, most))
        if self.unknown:
            places.update(_places_of(self._columns[0], UNKNOWN, first, most))
        looked_at = sorted(places)[:most]
        found = [self.sequence_at(place) for place in looked_at if self._may_match(place, demanded)]
        return found, self.sequence_at(looked_at[-1]) + 1 if len(looked_at) == most else 0

    def _may_match(self, place: int, demanded: dict[int, dict[bytes, list[list[Term]]]]) -> bool:
        for index, of_column in demanded.items():
            code = self._code(index, place)
            if code == UNKNOWN or any(
                all(self._may_have(place, term) for term in terms) for terms in of_column.get(code, ())
            ):
                return True
        return False

    def _code(self, index: int, place: int) -> bytes:
        start = place * CODE_BYTES
        return bytes(self._columns[index][start : start + CODE_BYTES])

    def _may_have(self, place: int, term: Term) -> bool:
        index, codes = term
        return self._code(index, place) in codes

    def copy(self) -> HotColumns:
        """Return one like it."""
        made = HotColumns(self.names)
        made.take_places(self)
        made.unknown = self.unknown
        made._columns = [column[:] for column in self._columns]
        made._kinds = [None if kinds is None else kinds.copy() for kinds in self._kinds]
        return made


def _places_of(column: bytearray, code: bytes, first: int, most: int) -> list[int]:
    """Return up to ``most`` places of a code from ``first`` on."""
    found: list[int] = []
    offset = column.find(code, first * CODE_BYTES)
    while offset >= 0 and len(found) < most:
        beside = offset % CODE_BYTES  # the end of one code and the beginning of the next may look like a third
        if not beside:
            found.append(offset // CODE_BYTES)
        offset = column.find(code, offset + (1 if beside else CODE_BYTES))
    return found


def _places_of_any(column: bytearray, codes: set[bytes], first: int, most: int) -> list[int]:
    """Return up to ``most`` places of any of these codes from ``first`` on."""
    numbers = {int.from_bytes(code, byteorder) for code in codes}
    with memoryview(column) as octets, octets.cast("I") as view:
        return [place for place, number in enumerate(view[first:].tolist(), first) if number in numbers][:most]


class HotRows:
    """The hot columns of all pages of a queue."""

    def __init__(self, queue: Queue, load_bytes: int) -> None:
        """``load_bytes``: largest body bytes of one scan, by the average of the page."""
        self._queue = queue
        self._load_bytes = load_bytes
        self._texts: dict[str, str] = {}  # names of groups, which pages share

    def _names(self) -> tuple[str, ...]:
        """Return the properties to record for new rows: none if they are not used.

        Rows of a sorted queue are inserted and removed in the middle of their pages, which columns do not support.
        """
        queue = self._queue
        if queue.lanes is not None and queue.lanes.groups is not None:
            return BY_GROUP if queue.grouped_lanes is not None else ()
        return () if queue.ranker.sorts else queue.settings.hot_properties

    def fits(self, page: Page) -> bool:
        """Return whether the page has the columns that new rows need."""
        return (() if page.hot is None else page.hot.names) == self._names()

    def note(self, page: Page, entries: Sequence[QueueEntry]) -> None:
        """Add the new last items of a page, which is new or :meth:`fits`."""
        names = self._names()
        if not names:
            return
        column = page.hot
        if names is BY_GROUP:
            lanes = self._queue.grouped_lanes
            assert lanes is not None
            if not isinstance(column, GroupColumn):
                column = page.hot = GroupColumn()
            if len(self._texts) > TEXTS_MAX:
                self._texts.clear()
            column.append(entries, lanes.table, self._texts)
            return
        if not isinstance(column, HotColumns):
            column = page.hot = HotColumns(names)
        column.append(entries)

    def find(
        self, pages: Sequence[Page], index: int, sequence: int, messages: int, alternatives: Sequence[list[Term]]
    ) -> tuple[int, Rows, int]:
        """Search from a page on for items from ``sequence`` on that may have the values required by one of the
        alternatives.

        Returns the page with the next of them, or the page reached, up to ``messages`` of its items, and the sequence
        before which there are no others.
        """
        columns: dict[int, int] = {}
        for terms in alternatives:
            number, codes = terms[0]
            columns[number] = min(SINGLY_MAX, columns.get(number, 0) + len(codes))
        searches = sum(columns.values())
        last = min(len(pages), index + max(1, SEARCHES_MAX // searches)) - 1
        while True:
            page = pages[index]
            most = page.items_of(messages, self._load_bytes)
            columns_there = page.hot
            if not isinstance(columns_there, HotColumns) or not self.fits(page):
                rows = page.peek_from(sequence, most)
                return index, rows, rows.sequences[-1] + 1
            found, upto = columns_there.find(alternatives, max(sequence, page.first_sequence), most)
            rows = _rows_with(page, found)
            if len(rows) or upto or index == last:
                return index, rows, upto or page.last_sequence + 1
            index += 1

    def with_room(
        self, page: Page, sequence: int, messages: int, most: int, full: Callable[[str], bool]
    ) -> tuple[Rows, int, dict[str, list[int]]]:
        """Search the items of a page from ``sequence`` on for those that may be of a group that is not ``full``.

        Returns up to ``most`` of them, the sequence before which there are no others, and by their groups the
        sequences of those that were passed.
        """
        column = page.hot
        if isinstance(column, GroupColumn):
            found = column.with_room(page.peek_from(sequence, messages), most, full)
            if len(found[0]) == most:  # as without stalled groups: later rows need not be examined
                return found
            return column.with_room(page.peek_from(sequence, PASSED_TIMES * messages), most, full)
        rows = page.peek_from(sequence, most)
        return rows, rows.sequences[-1] + 1, {}

    def knows(self, page: Page) -> bool:
        """Return whether the values of all rows of a page are known."""
        return isinstance(page.hot, HotColumns) and self.fits(page) and not page.hot.unknown

    def learn(self, page: Page, entries: Sequence[QueueEntry]) -> None:
        """Record the values of a page's rows that were read."""
        column = page.hot
        if not isinstance(column, HotColumns) or not self.fits(page):
            column = page.hot = HotColumns.unread(self._names(), page)
        if column.unknown:
            column.learn(entries)


def _rows_with(page: Page, sequences: list[int]) -> Rows:
    """Return the items of a page that were not taken and have one of these sequences, which ascend."""
    found = Rows()
    if not sequences:
        return found
    jumps = [place for place, (one, other) in enumerate(pairwise(sequences), 1) if other != one + 1]
    for start, end in pairwise([0, *jumps, len(sequences)]):
        stretch = page.peek_from(sequences[start], end - start)
        found.extend(stretch, bisect_left(stretch.sequences, sequences[end - 1] + 1))
    return found
