"""A page: some thousand rows of a queue in a few arrays.

A row is the sequence of a message in its queue, its record in the log, its origin, whether it was returned, and its
number of returned deliveries. Both numbers mostly grow by one from row to row, so a page holds runs: 12 bytes for each,
and one run for a queue that had the log to itself. Entries with state that is not in the log stay among the rows as
objects.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from annulet.core.entry import REMOVED, QueueEntry
from annulet.core.expiry_times import NEVER
from annulet.core.message import Origin
from annulet.core.paging import ROW_COUNT_MOST
from annulet.residency.row_facts import RowFacts
from annulet.residency.rows import Rows
from annulet.residency.runs import (
    COUNT_SHIFT,
    NARROW_MAX,
    ORIGIN_MASK,
    Runs,
    column_for,
    column_of,
    records_of,
    starts_of_runs,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.residency.row_columns import RowColumns

PAGE_ITEMS_MAX: Final = 4096
"""Items of one page: lengths of runs and marks fit 16 bits with room to spare."""

ORIGINS_MAX: Final = 64
"""Origins a page keeps whole. A message beyond them keeps publisher and connection; the log has the rest."""


class Page(Runs):
    """Items by ascending sequence, at most ``PAGE_ITEMS_MAX``. ``bytes`` are those of the rows' bodies."""

    __slots__ = (
        "_kept",
        "_next_kept",
        "_origins",
        "_seen",
        "bytes",
        "due",
        "facts",
        "highest_record",
        "hot",
        "items",
        "redelivered_upto",
        "rows",
        "shared",
    )

    def __init__(self, sequence: int, record: int, column: str) -> None:
        """Make an empty page whose columns, arrays of type ``column``, contain differences to these numbers."""
        super().__init__(sequence, record, column)
        self.highest_record = 0
        self._kept: list[QueueEntry | None] = []
        self._origins: list[Origin] = []  # from ORIGINS_MAX on they lack exchange and routing key
        self._next_kept = 0
        self._seen = 0  # items there ever were
        self.items = 0
        self.rows = 0
        self.bytes = 0
        self.shared = False
        self.redelivered_upto = 0
        self.facts: RowFacts | None = None  # of rows that may expire
        self.due = NEVER  # no row expires before this time and sequence
        self.hot: RowColumns | None = None  # the hot properties or groups of its rows

    @classmethod
    def of(cls, entries: list[QueueEntry], kept: bytearray, *, timed: bool = False) -> Page:
        """Return a page of these entries, those with a 1 in ``kept`` as the objects they are.

        ``timed``: it keeps the facts for the expiry of its rows.
        """
        assert 0 < len(entries) <= PAGE_ITEMS_MAX
        lowest, highest = records_of(entries, kept)
        span = max(highest - lowest, entries[-1].sequence - entries[0].sequence)
        page = Page(entries[0].sequence, lowest, column_for(span))
        if timed:
            page.facts = RowFacts()
        page._fill(entries, kept, highest)
        return page

    @classmethod
    def for_rows(cls, sequences: Sequence[int], records: Sequence[int], start: int, end: int) -> Page:
        """Return an empty page for these rows from ``start`` to ``end``, at most ``PAGE_ITEMS_MAX``."""
        span = max(sequences[end - 1] - sequences[start], records[end - 1] - records[start])
        return Page(sequences[start], records[start], column_for(span))

    def extend(self, entries: list[QueueEntry], kept: bytearray) -> bool:
        """Take in the next entries if there is room for all; say whether there was.

        A queue that pages a few at a time would else have a page, some hundred bytes, for each of them.
        """
        if self._seen + len(entries) > PAGE_ITEMS_MAX:
            return False
        lowest, highest = records_of(entries, kept)
        if 0 < lowest < self._base_record:
            return False
        span = max(entries[-1].sequence - self._base_sequence, highest - self._base_record)
        if self._records.typecode == "I" and span > NARROW_MAX:
            return False
        self._fill(entries, kept, highest)
        return True

    def _fill(self, entries: list[QueueEntry], kept: bytearray, highest_record: int) -> None:
        self._seen += len(entries)
        self.items += len(entries)
        self.highest_record = max(self.highest_record, highest_record)
        marks = {origin: index << 1 for index, origin in enumerate(self._origins[:ORIGINS_MAX])}
        partial = {
            (origin.publisher, id(origin.view), id(origin.connection)): index
            for index, origin in enumerate(self._origins)
            if index >= ORIGINS_MAX
        }
        next_sequence: i64 = -1
        next_record: i64 = -1
        last_mark: i64 = -1
        origin_mark: i64 = -1
        if self._lengths and self._lengths[-1]:
            next_sequence = self._base_sequence + self._sequences[-1] + self._lengths[-1]
            next_record = self._base_record + self._records[-1] + self._lengths[-1]
            last_mark = self._marks[-1]
        last_origin: Origin | None = None
        longer: i64 = 0  # rows to be added to the last run
        size: i64 = 0
        facts = self.facts
        some_stay = 1 in kept
        for place, entry in enumerate(entries):
            sequence: i64 = entry.sequence
            if some_stay and kept[place]:
                longer = self._lengthen(longer)
                self._append(sequence, 0, 0, 0)
                self._kept.append(entry)
                next_sequence = -1
                continue
            message = entry.message
            record: i64 = message.record
            if message.origin is not last_origin:
                last_origin = message.origin
                origin_mark = marks.get(last_origin, -1)
                if origin_mark < 0:
                    origin_mark = marks[last_origin] = self._mark_of(last_origin, partial)
            mark: i64 = origin_mark
            if entry.redelivered:
                mark |= 1
                self.redelivered_upto = sequence
            if entry.delivery_count:  # for rows noted by a browser it may be any
                mark |= min(entry.delivery_count, ROW_COUNT_MOST) << COUNT_SHIFT
            size += message.size
            if facts is not None:
                facts.note(sequence, message.accepted_at, message.size, message.priority, message.expires_at)
            if sequence == next_sequence and record == next_record and mark == last_mark:
                longer += 1
            else:
                longer = self._lengthen(longer)
                self._append(sequence, record - self._base_record, 1, mark)
            next_sequence, next_record, last_mark = sequence + 1, record + 1, mark
        self._lengthen(longer)
        self.rows += len(entries) - kept.count(1)
        self.bytes += size

    def room_for(self, sequences: Sequence[int], records: Sequence[int], start: int, end: int) -> int:
        """Return how many of the ascending rows from ``start`` to ``end`` the page accepts; 0 if one does not fit."""
        fits = self._records.typecode == "Q" or (
            sequences[end - 1] - self._base_sequence <= NARROW_MAX
            and records[end - 1] - self._base_record <= NARROW_MAX
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
        counts: Sequence[int] = (),
    ) -> None:
        """Take in the next rows, not more than there is :meth:`room_for`; ``size``: bytes of all their bodies.

        ``counts``: number of returned deliveries of each; empty for none.
        """
        count = len(sequences)
        if origins.count(origins[0]) == count:
            marks = [self._mark_of_row(origins[0]) | redelivered]
        else:
            known = {origin: self._mark_of_row(origin) | redelivered for origin in dict.fromkeys(origins)}
            marks = [known[origin] for origin in origins]
        if counts:
            marks = marks if len(marks) == count else marks * count
            marks = [mark | times << COUNT_SHIFT for mark, times in zip(marks, counts, strict=True)]
            marks = marks[:1] if marks.count(marks[0]) == count else marks
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
        numbers, places = list(sequences), list(records)
        starts = starts_of_runs(numbers, places, marks)
        ends = [*starts, len(marks)]
        self._add_run(numbers[0], places[0], ends[0], marks[0])
        self._sequences.extend([numbers[place] - self._base_sequence for place in starts])
        self._records.extend([places[place] - self._base_record for place in starts])
        self._widen_for(max(marks))
        self._marks.extend(column_of(self._marks.typecode, [marks[place] for place in starts]))
        self._lengths.extend(column_of("H", [ends[run + 1] - start for run, start in enumerate(starts)]))

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

    def _mark_of_row(self, origin: Origin, partial: dict[tuple[str, int, int], int] | None = None) -> int:
        for index, known in enumerate(self._origins[:ORIGINS_MAX]):
            if known is origin:
                return index << 1
        return self._mark_of(origin, self.partial_origins() if partial is None else partial)

    def partial_origins(self) -> dict[tuple[str, int, int], int]:
        """Return the indexes of incomplete origins by their remaining fields. O(origins)."""
        return {
            (known.publisher, id(known.view), id(known.connection)): index + ORIGINS_MAX
            for index, known in enumerate(self._origins[ORIGINS_MAX:])
        }

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
    def last_sequence(self) -> int:
        """The sequence of the last item, taken or not."""
        return self._base_sequence + self._sequences[-1] + max(0, self._lengths[-1] - 1)

    @property
    def record_bounds(self) -> tuple[int, int]:
        """Numbers that no row's record is below or above."""
        return self._base_record, self.highest_record

    def peek(self, limit: int) -> Rows:
        """Return the first ``limit`` items that were not taken."""
        return self._rows(self._run, self._run_start, self._next_kept, min(limit, self.items))

    def records_from(self, sequence: int, limit: int) -> tuple[Sequence[int], int]:
        """Return the records of up to ``limit`` rows left from ``sequence`` on, and the sequence behind the last."""
        found: list[int] = []
        run, start = self._row_from(sequence)
        if run < len(self._lengths) and self._lengths[run] - start >= limit > 0:
            record = self._base_record + self._records[run] + start
            return range(record, record + limit), self._base_sequence + self._sequences[run] + start + limit
        while len(found) < limit and run < len(self._lengths):
            count = min(self._lengths[run] - start, limit - len(found))
            record = self._base_record + self._records[run] + start
            found.extend(range(record, record + count))
            sequence = self._base_sequence + self._sequences[run] + start + count
            run, start = run + 1, 0
        return found, sequence

    def has_row(self, sequence: int) -> bool:
        """Say whether there is a row of this sequence that was not taken."""
        if not self.items or not self.first_sequence <= sequence <= self.last_sequence:
            return False
        run, start = self._find(sequence)
        return start < self._lengths[run]

    def read_from(self, sequence: int, limit: int) -> Rows:
        """Return up to ``limit`` items with this sequence or a higher one, those included that were taken since."""
        run = max(0, bisect_right(self._sequences, sequence - self._base_sequence) - 1)
        start = max(0, sequence - self._base_sequence - self._sequences[run])
        if start >= max(1, self._lengths[run]):
            run, start = run + 1, 0
        return self._rows(run, start, self._kept_before(run), limit)

    def share(self) -> None:
        """Mark it as shared with a reader: its contents stay; :meth:`take` and appending are allowed."""
        self.shared = True

    def copy(self) -> Page:
        """Return an unshared copy."""
        made = Page(self._base_sequence, self._base_record, self._records.typecode)
        made._sequences, made._records = self._sequences[:], self._records[:]
        made._lengths, made._marks = self._lengths[:], self._marks[:]
        made._kept, made._origins = list(self._kept), list(self._origins)
        made._run, made._run_start, made._next_kept = self._run, self._run_start, self._next_kept
        made.facts = None if self.facts is None else self.facts.copy()
        made.due = self.due
        made.hot = None if self.hot is None else self.hot.copy()
        made._seen, made.items, made.rows, made.bytes = self._seen, self.items, self.rows, self.bytes
        made.highest_record, made.redelivered_upto = self.highest_record, self.redelivered_upto
        return made

    def peek_from(self, sequence: int, limit: int) -> Rows:
        """Return the first ``limit`` items that were not taken and have this sequence or a higher one."""
        if sequence <= self.first_sequence:
            return self.peek(limit)
        run, start = self._find(sequence)
        if start >= max(1, self._lengths[run]):
            run, start = run + 1, 0
        return self._rows(run, start, self._kept_before(run), limit)

    def _kept_before(self, run: int) -> int:
        """Return how many entries were kept in the runs before one."""
        return self._lengths[:run].count(0) if self._kept else 0

    def remove(self, sequence: int) -> None:
        """Forget an item that was not taken; :attr:`bytes` is the caller's. O(runs), O(1) for the first."""
        if sequence == self.first_sequence:
            self.take(1)
            return
        run, start = self._find(sequence)
        self.items -= 1
        length = self._lengths[run]
        if not length:
            del self._kept[self._kept_before(run)]
            self._delete(run)
            return
        self.rows -= 1
        if start < length - 1:
            self._split(run, start)
        elif start:
            self._lengths[run] = start
        else:
            self._delete(run)

    def _row_from(self, sequence: int) -> tuple[int, int]:
        """Return run and place of the first row left with this sequence or a higher one; its run may be behind all."""
        run, start = self._run, self._run_start
        if run < len(self._lengths) and sequence > self.first_sequence:
            run, start = self._find(sequence)
            if start >= self._lengths[run]:
                run, start = run + 1, 0
        while run < len(self._lengths) and not self._lengths[run]:
            run, start = run + 1, 0
        return run, start

    def next_row(self, sequence: int) -> int:
        """Return the sequence of the first row left that has this one or a higher one; 0 for none."""
        run, start = self._row_from(sequence)
        return self._base_sequence + self._sequences[run] + start if run < len(self._lengths) else 0

    def rows_between(self, first: int, behind: int, limit: int) -> list[int]:
        """Return the sequences of up to ``limit`` rows left from ``first`` on, all below ``behind``."""
        found: list[int] = []
        run, start = self._row_from(first)
        while run < len(self._lengths) and len(found) < limit:
            sequence = self._base_sequence + self._sequences[run]
            end = min(behind, sequence + self._lengths[run], sequence + start + limit - len(found))
            if end <= sequence + start and self._lengths[run]:
                break
            found.extend(range(sequence + start, end))
            run, start = run + 1, 0
        return found

    def rows_of(self, sequences: list[int]) -> Rows:
        """Return rows that were not taken."""
        found = Rows()
        for sequence in sequences:
            run, start = self._find(sequence)
            self._add_to(found, sequence, self._base_record + self._records[run] + start, 1, self._marks[run])
        return found

    def _add_to(self, found: Rows, sequence: int, record: int, length: int, mark: int) -> None:
        """Add rows of a run to the result."""
        origin = (mark & ORIGIN_MASK) >> 1
        found.add_rows(
            sequence,
            record,
            length,
            self._origins[origin],
            partial=origin >= ORIGINS_MAX,
            redelivered=bool(mark & 1),
            count=mark >> COUNT_SHIFT,
        )

    def _rows(self, run: int, start: int, next_kept: int, limit: int) -> Rows:
        """Return up to ``limit`` items from a place on."""
        found = Rows()
        wanted = limit
        while wanted and run < len(self._lengths):
            sequence = self._base_sequence + self._sequences[run] + start
            length = self._lengths[run]
            if not length:
                found.add_kept(sequence, self._kept[next_kept])
                next_kept += 1
                run += 1
                wanted -= 1
                continue
            count = min(length - start, wanted)
            record = self._base_record + self._records[run] + start
            self._add_to(found, sequence, record, count, self._marks[run])
            wanted -= count
            start += count
            if start == length:
                run += 1
                start = 0
        return found

    def take(self, items: int) -> None:
        """Drop the first items that were not taken; the caller updates :attr:`bytes`."""
        left = items
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

    def items_of(self, messages_max: int, bytes_max: int) -> int:
        """Return how many of its items have about this many body bytes, by its average; at least 1."""
        if not self.rows:
            return messages_max
        average = max(1, self.bytes // self.rows)
        return max(1, min(messages_max, bytes_max // average))

    def kept(self) -> list[QueueEntry]:
        """Return the entries that were kept and not taken or swept."""
        return [entry for entry in self._kept if entry is not None]

    def sweep(self) -> None:
        """Release removed entries; their places stay."""
        self._kept = [None if entry is None or entry.state == REMOVED else entry for entry in self._kept]
