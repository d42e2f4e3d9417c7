"""A page: some thousand rows of a queue in a few arrays.

A row is the sequence of a message in its queue, its record in the log, its origin and whether it came back once. Both
numbers mostly grow by one from row to row, so a page holds runs: 12 bytes for each, and one run for a queue that had
the log to itself. Entries of which the log does not know everything stay among the rows as the objects they are.
"""

from __future__ import annotations

from array import array
from operator import sub
from typing import TYPE_CHECKING, Final

from annulet.core.entry import REMOVED, QueueEntry
from annulet.core.message import Origin

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE_ITEMS_MAX: Final = 4096
"""Items of one page: lengths of runs and marks fit 16 bits with room to spare."""

ORIGINS_MAX: Final = 64
"""Origins a page keeps whole. A message beyond them keeps publisher and connection; the log knows the rest."""

_NARROW_MAX: Final = 0xFFFFFFFF
"""Largest difference that fits a column of 32 bits."""


class Rows:
    """A stretch of a page, one element per item: an entry that was kept, or a row to be read (record > 0)."""

    __slots__ = ("came_back", "kept", "origins", "partial", "plain", "records", "redelivered", "sequences")

    def __init__(self) -> None:
        self.sequences: list[int] = []
        self.records: list[int] = []  # 0 = kept, or swept
        self.kept: list[QueueEntry | None] = []
        self.origins: list[Origin | None] = []  # None for what was kept
        self.partial: list[bool] = []  # the origin lacks exchange and routing key
        self.redelivered: list[bool] = []
        self.plain = True  # nothing was kept, and every origin is whole
        self.came_back = False  # some did

    def __len__(self) -> int:
        return len(self.sequences)


class Page:
    """Items by ascending sequence, at most ``PAGE_ITEMS_MAX``. ``bytes`` are those of the rows' bodies."""

    __slots__ = (
        "_base_record",
        "_base_sequence",
        "_kept",
        "_lengths",
        "_marks",
        "_next_kept",
        "_origins",
        "_records",
        "_run",
        "_run_start",
        "_seen",
        "_sequences",
        "bytes",
        "highest_record",
        "items",
        "redelivered_upto",
        "rows",
    )

    def __init__(self, sequence: int, record: int, column: str) -> None:
        """Make an empty page whose columns, of arrays' type ``column``, hold differences to these numbers."""
        self._base_sequence = sequence
        self._base_record = record
        self.highest_record = 0
        self._sequences: array[int] = array(column)  # of a run's first row, as differences
        self._records: array[int] = array(column)
        self._lengths: array[int] = array("H")  # 0: one item that was kept
        self._marks: array[int] = array("H")  # index of the origin, and in the lowest bit whether it came back
        self._kept: list[QueueEntry | None] = []
        self._origins: list[Origin] = []  # from ORIGINS_MAX on they lack exchange and routing key
        self._run = 0  # where the first item that was not taken stands
        self._run_start = 0
        self._next_kept = 0
        self._seen = 0  # items there ever were
        self.items = 0
        self.rows = 0
        self.bytes = 0
        self.redelivered_upto = 0

    @classmethod
    def of(cls, entries: list[QueueEntry], kept: bytearray) -> Page:
        """Return a page of these entries, those with a 1 in ``kept`` as the objects they are."""
        assert 0 < len(entries) <= PAGE_ITEMS_MAX
        records = [0 if keep else entry.message.record for entry, keep in zip(entries, kept, strict=True)]
        lowest = min([record for record in records if record], default=0)
        span = max(max(records) - lowest, entries[-1].sequence - entries[0].sequence)
        page = Page(entries[0].sequence, lowest, column_for(span))
        page._fill(entries, records)
        return page

    @classmethod
    def for_rows(cls, sequences: Sequence[int], records: Sequence[int], start: int, end: int) -> Page:
        """Return an empty page that takes these rows from ``start`` to ``end``, at most ``PAGE_ITEMS_MAX``."""
        span = max(sequences[end - 1] - sequences[start], records[end - 1] - records[start])
        return Page(sequences[start], records[start], column_for(span))

    def extend(self, entries: list[QueueEntry], kept: bytearray) -> bool:
        """Take in the next entries if there is room for all; say whether there was.

        A queue that pages a few at a time would else have a page, some hundred bytes, for each of them.
        """
        if self._seen + len(entries) > PAGE_ITEMS_MAX:
            return False
        records = [0 if keep else entry.message.record for entry, keep in zip(entries, kept, strict=True)]
        differences = [record - self._base_record for record in records if record]
        differences.append(entries[-1].sequence - self._base_sequence)
        if min(differences) < 0 or (self._records.typecode == "I" and max(differences) > _NARROW_MAX):
            return False
        self._fill(entries, records)
        return True

    def _fill(self, entries: list[QueueEntry], records: list[int]) -> None:
        self._seen += len(entries)
        self.items += len(entries)
        self.highest_record = max(self.highest_record, *records)
        marks = {origin: index << 1 for index, origin in enumerate(self._origins[:ORIGINS_MAX])}
        partial = {
            (origin.publisher, id(origin.view), id(origin.connection)): index
            for index, origin in enumerate(self._origins)
            if index >= ORIGINS_MAX
        }
        next_sequence = next_record = last_mark = -1
        if self._lengths and self._lengths[-1]:
            next_sequence = self._base_sequence + self._sequences[-1] + self._lengths[-1]
            next_record = self._base_record + self._records[-1] + self._lengths[-1]
            last_mark = self._marks[-1]
        for entry, record in zip(entries, records, strict=True):
            sequence = entry.sequence
            if not record:
                self._append(sequence, 0, 0, 0)
                self._kept.append(entry)
                next_sequence = -1
                continue
            message = entry.message
            mark = marks.get(message.origin, -1)
            if mark < 0:
                mark = marks[message.origin] = self._mark_of(message.origin, partial)
            if entry.redelivered:
                mark |= 1
                self.redelivered_upto = sequence
            self.rows += 1
            self.bytes += message.size
            if sequence == next_sequence and record == next_record and mark == last_mark:
                self._lengths[-1] += 1
            else:
                self._append(sequence, record - self._base_record, 1, mark)
            next_sequence, next_record, last_mark = sequence + 1, record + 1, mark

    def room_for(self, sequences: Sequence[int], records: Sequence[int], start: int, end: int) -> int:
        """Return how many of the ascending rows from ``start`` to ``end`` the page takes; 0 when one does not fit."""
        fits = self._records.typecode == "Q" or (
            sequences[end - 1] - self._base_sequence <= _NARROW_MAX
            and records[end - 1] - self._base_record <= _NARROW_MAX
        )
        return PAGE_ITEMS_MAX - self._seen if fits and records[start] >= self._base_record else 0

    def add_rows(
        self,
        sequences: Sequence[int],
        records: Sequence[int],
        size: int,
        origins: Sequence[Origin],
        *,
        redelivered: bool,
    ) -> None:
        """Take in the next rows, not more than there is :meth:`room_for`; ``size``: bytes of all their bodies."""
        count = len(sequences)
        if origins.count(origins[0]) == count:
            marks = [self._mark_of_row(origins[0]) | redelivered]
        else:
            known = {origin: self._mark_of_row(origin) | redelivered for origin in dict.fromkeys(origins)}
            marks = [known[origin] for origin in origins]
        if len(marks) == 1 and sequences[-1] - sequences[0] == records[-1] - records[0] == count - 1:
            self._add_run(sequences[0], records[0], count, marks[0])
        else:
            self._add_runs(sequences, records, marks if len(marks) == count else marks * count)
        self.highest_record = max(self.highest_record, records[-1])
        self._seen += count
        self.items += count
        self.rows += count
        self.bytes += size
        if redelivered:
            self.redelivered_upto = sequences[-1]

    def _add_runs(self, sequences: Sequence[int], records: Sequence[int], marks: list[int]) -> None:
        """Cut rows into runs."""
        starts = [
            place
            for place in range(1, len(marks))
            if sequences[place] - sequences[place - 1] != 1
            or records[place] - records[place - 1] != 1
            or marks[place] != marks[place - 1]
        ]
        lengths = array("H", map(sub, [*starts, len(marks)], [0, *starts]))
        self._add_run(sequences[0], records[0], lengths[0], marks[0])
        self._sequences.extend([sequences[place] - self._base_sequence for place in starts])
        self._records.extend([records[place] - self._base_record for place in starts])
        self._marks.extend([marks[place] for place in starts])
        self._lengths.extend(lengths[1:])

    def _add_run(self, sequence: int, record: int, length: int, mark: int) -> None:
        """Add rows that grow by one, to the last run if they belong to it."""
        if self._goes_on(sequence, record, mark):
            self._lengths[-1] += length
        else:
            self._append(sequence, record - self._base_record, length, mark)

    def _goes_on(self, sequence: int, record: int, mark: int) -> bool:
        """Say whether a row belongs to the last run."""
        if not self._lengths or not self._lengths[-1] or self._marks[-1] != mark:
            return False
        length = self._lengths[-1]
        return (
            self._base_sequence + self._sequences[-1] + length == sequence
            and self._base_record + self._records[-1] + length == record
        )

    def _mark_of_row(self, origin: Origin) -> int:
        for index, known in enumerate(self._origins[:ORIGINS_MAX]):
            if known is origin:
                return index << 1
        partial = {
            (known.publisher, id(known.view), id(known.connection)): index + ORIGINS_MAX
            for index, known in enumerate(self._origins[ORIGINS_MAX:])
        }
        return self._mark_of(origin, partial)

    def _append(self, sequence: int, record: int, length: int, mark: int) -> None:
        self._sequences.append(sequence - self._base_sequence)
        self._records.append(record)
        self._lengths.append(length)
        self._marks.append(mark)

    def _mark_of(self, origin: Origin, partial: dict[tuple[str, int, int], int]) -> int:
        """Keep the origin, whole while there are few; return its index, shifted by one bit."""
        if len(self._origins) < ORIGINS_MAX:
            self._origins.append(origin)
            return (len(self._origins) - 1) << 1
        known = (origin.publisher, id(origin.view), id(origin.connection))
        index = partial.get(known, -1)
        if index < 0:
            index = partial[known] = len(self._origins)
            self._origins.append(Origin("", "", origin.publisher, origin.view, origin.connection))
        return index << 1

    @property
    def first_sequence(self) -> int:
        """The sequence of the first item that was not taken."""
        return self._base_sequence + self._sequences[self._run] + self._run_start

    @property
    def record_bounds(self) -> tuple[int, int]:
        """Numbers that no row's record is below or above."""
        return self._base_record, self.highest_record

    def peek(self, limit: int) -> Rows:
        """Return the first ``limit`` items that were not taken."""
        found = Rows()
        run, start, next_kept = self._run, self._run_start, self._next_kept
        wanted = min(limit, self.items)
        while wanted:
            sequence = self._base_sequence + self._sequences[run] + start
            length = self._lengths[run]
            if not length:
                found.sequences.append(sequence)
                found.records.append(0)
                found.kept.append(self._kept[next_kept])
                found.origins.append(None)
                found.partial.append(False)
                found.redelivered.append(False)
                found.plain = False
                next_kept += 1
                run += 1
                wanted -= 1
                continue
            count = min(length - start, wanted)
            record = self._base_record + self._records[run] + start
            mark = self._marks[run]
            found.sequences.extend(range(sequence, sequence + count))
            found.records.extend(range(record, record + count))
            found.kept.extend([None] * count)
            found.origins.extend([self._origins[mark >> 1]] * count)
            found.partial.extend([mark >> 1 >= ORIGINS_MAX] * count)
            found.redelivered.extend([bool(mark & 1)] * count)
            found.plain = found.plain and mark >> 1 < ORIGINS_MAX
            found.came_back = found.came_back or bool(mark & 1)
            wanted -= count
            start += count
            if start == length:
                run += 1
                start = 0
        return found

    def take(self, rows: Rows) -> None:
        """Forget the items that :meth:`peek` returned last; :attr:`bytes` is the caller's."""
        left = len(rows)
        self.items -= left
        while left:
            length = self._lengths[self._run]
            if not length:
                self._kept[self._next_kept] = None
                self._next_kept += 1
                self._run += 1
                left -= 1
                continue
            count = min(length - self._run_start, left)
            self.rows -= count
            left -= count
            self._run_start += count
            if self._run_start == length:
                self._run += 1
                self._run_start = 0

    def kept(self) -> list[QueueEntry]:
        """Return the entries that were kept and not taken or swept."""
        return [entry for entry in self._kept if entry is not None]

    def sweep(self) -> None:
        """Let go of removed entries; their places stay."""
        self._kept = [None if entry is None or entry.state == REMOVED else entry for entry in self._kept]


def column_for(span: int) -> str:
    """Return the type of array whose numbers go up to ``span``."""
    return "Q" if span > _NARROW_MAX else "I"
