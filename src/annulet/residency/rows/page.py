"""A page: some thousand rows of a queue in a few arrays.

A row is the sequence of a message in its queue, its record in the log, its origin, whether it came back once and how
often deliveries of it did. Both
numbers mostly grow by one from row to row, so a page holds runs: 12 bytes for each, and one run for a queue that had
the log to itself. Entries of which the log does not know everything stay among the rows as the objects they are.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from annulet.core.base.expiry_times import NEVER
from annulet.core.message.message import Origin
from annulet.core.model.entry import REMOVED, QueueEntry
from annulet.core.paging.row_conditions import ROW_COUNT_MOST
from annulet.residency.rows.row_facts import RowFacts
from annulet.residency.rows.rows import Rows
from annulet.residency.rows.runs import (
    COUNT_SHIFT,
    NARROW_MAX,
    ORIGIN_MASK,
    Runs,
    column_for,
    records_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.residency.rows.row_columns import RowColumns

PAGE_ITEMS_MAX: Final = 4096
"""Items of one page: lengths of runs and marks fit 16 bits with room to spare."""

ORIGINS_MAX: Final = 64
"""Origins a page keeps whole. A message beyond them keeps publisher and connection; the log knows the rest."""


class Page:
    """Items by ascending sequence, at most ``PAGE_ITEMS_MAX``. ``bytes`` are those of the rows' bodies.

    ``runs`` has the numbers of all items, an entry that was kept stands there as a run without rows. ``items`` and
    ``rows`` count those of them that were not taken; ``origins`` are what the marks of the runs refer to.
    """

    __slots__ = (
        "_kept",
        "_next_kept",
        "_seen",
        "bytes",
        "due",
        "facts",
        "highest_record",
        "hot",
        "items",
        "origins",
        "redelivered_upto",
        "rows",
        "runs",
        "shared",
    )

    def __init__(self, sequence: int, record: int, column: str) -> None:
        """Make an empty page whose columns, of arrays' type ``column``, hold differences to these numbers."""
        self.runs = Runs(sequence, record, column)
        self.highest_record = 0
        self._kept: list[QueueEntry | None] = []
        self.origins: list[Origin] = []  # from ORIGINS_MAX on they lack exchange and routing key
        self._next_kept = 0
        self._seen = 0  # items there ever were
        self.items = 0
        self.rows = 0
        self.bytes = 0
        self.shared = False
        self.redelivered_upto = 0
        self.facts: RowFacts | None = None  # of rows that may expire
        self.due = NEVER  # no row expires before this time and sequence
        self.hot: RowColumns | None = None  # what its rows have in the queue's hot properties, or their groups

    @classmethod
    def of(cls, entries: list[QueueEntry], kept: bytearray, *, timed: bool = False) -> Page:
        """Return a page of these entries, those with a 1 in ``kept`` as the objects they are.

        ``timed``: it keeps what the expiry of its rows needs.
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
        """Return an empty page that takes these rows from ``start`` to ``end``, at most ``PAGE_ITEMS_MAX``."""
        span = max(sequences[end - 1] - sequences[start], records[end - 1] - records[start])
        return Page(sequences[start], records[start], column_for(span))

    def extend(self, entries: list[QueueEntry], kept: bytearray) -> bool:
        """Take in the next entries if there is room for all; say whether there was.

        A queue that pages a few at a time would else have a page, some hundred bytes, for each of them.
        """
        if self._seen + len(entries) > PAGE_ITEMS_MAX:
            return False
        lowest, highest = records_of(entries, kept)
        runs = self.runs
        if 0 < lowest < runs.base_record:
            return False
        span = max(entries[-1].sequence - runs.base_sequence, highest - runs.base_record)
        if runs.records.typecode == "I" and span > NARROW_MAX:
            return False
        self._fill(entries, kept, highest)
        return True

    def _fill(self, entries: list[QueueEntry], kept: bytearray, highest_record: int) -> None:
        self._seen += len(entries)
        self.items += len(entries)
        self.highest_record = max(self.highest_record, highest_record)
        marks = {origin: index << 1 for index, origin in enumerate(self.origins[:ORIGINS_MAX])}
        partial = {
            (origin.publisher, id(origin.view), id(origin.connection)): index
            for index, origin in enumerate(self.origins)
            if index >= ORIGINS_MAX
        }
        runs = self.runs
        following = runs.following()
        next_sequence: i64 = following[0]
        next_record: i64 = following[1]
        last_mark: i64 = following[2]
        origin_mark: i64 = -1
        last_origin: Origin | None = None
        longer: i64 = 0  # rows that the last run is to have more
        size: i64 = 0
        facts = self.facts
        some_stay = 1 in kept
        for place, entry in enumerate(entries):
            sequence: i64 = entry.sequence
            if some_stay and kept[place]:
                longer = runs.lengthen(longer)
                runs.append(sequence, 0, 0, 0)
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
            if entry.delivery_count:  # of what a browser notes it may be any
                mark |= min(entry.delivery_count, ROW_COUNT_MOST) << COUNT_SHIFT
            size += message.size
            if facts is not None:
                facts.note(sequence, message.accepted_at, message.size, message.priority, message.expires_at)
            if sequence == next_sequence and record == next_record and mark == last_mark:
                longer += 1
            else:
                longer = runs.lengthen(longer)
                runs.append(sequence, record - runs.base_record, 1, mark)
            next_sequence, next_record, last_mark = sequence + 1, record + 1, mark
        runs.lengthen(longer)
        self.rows += len(entries) - kept.count(1)
        self.bytes += size

    def room_for(self, sequences: Sequence[int], records: Sequence[int], start: int, end: int) -> int:
        """Return how many of the ascending rows from ``start`` to ``end`` the page takes; 0 when one does not fit."""
        runs = self.runs
        fits = runs.takes(sequences[end - 1], records[end - 1]) and records[start] >= runs.base_record
        return PAGE_ITEMS_MAX - self._seen if fits else 0

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

        ``counts``: how often deliveries of each came back; nothing where none did.
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
            self.runs.add_run(sequences[0], records[0], count, marks[0])
        else:
            self.runs.add_runs(sequences, records, marks if len(marks) == count else marks * count)
        self.highest_record = max(self.highest_record, records[-1])
        self._seen += count
        self.items += count
        self.rows += count
        self.bytes += size
        if redelivered:
            self.redelivered_upto = sequences[-1]

    def _mark_of_row(self, origin: Origin, partial: dict[tuple[str, int, int], int] | None = None) -> int:
        for index, known in enumerate(self.origins[:ORIGINS_MAX]):
            if known is origin:
                return index << 1
        return self._mark_of(origin, self.partial_origins() if partial is None else partial)

    def partial_origins(self) -> dict[tuple[str, int, int], int]:
        """Return the indexes of the origins that are not whole, by what they still have. O(origins)."""
        return {
            (known.publisher, id(known.view), id(known.connection)): index + ORIGINS_MAX
            for index, known in enumerate(self.origins[ORIGINS_MAX:])
        }

    def _mark_of(self, origin: Origin, partial: dict[tuple[str, int, int], int]) -> int:
        """Keep the origin, whole while there are few; return its index, shifted by one bit."""
        if len(self.origins) < ORIGINS_MAX:
            self.origins.append(origin)
            return (len(self.origins) - 1) << 1
        known = (origin.publisher, id(origin.view), id(origin.connection))
        index = partial.get(known, -1)
        if index < 0:
            index = partial[known] = len(self.origins)
            self.origins.append(Origin("", "", origin.publisher, origin.view, origin.connection))
        return index << 1

    @property
    def first_sequence(self) -> int:
        """The sequence of the first item that was not taken."""
        runs = self.runs
        return runs.base_sequence + runs.sequences[runs.first] + runs.start

    @property
    def last_sequence(self) -> int:
        """The sequence of the last item, taken or not."""
        runs = self.runs
        return runs.base_sequence + runs.sequences[-1] + max(0, runs.lengths[-1] - 1)

    @property
    def record_bounds(self) -> tuple[int, int]:
        """Numbers that no row's record is below or above."""
        return self.runs.base_record, self.highest_record

    def peek(self, limit: int) -> Rows:
        """Return the first ``limit`` items that were not taken."""
        return self._rows(self.runs.first, self.runs.start, self._next_kept, min(limit, self.items))

    def has_row(self, sequence: int) -> bool:
        """Return whether there is a row of this sequence that was not taken."""
        if not self.items or not self.first_sequence <= sequence <= self.last_sequence:
            return False
        run, start = self.runs.find(sequence)
        return start < self.runs.lengths[run]

    def read_from(self, sequence: int, limit: int) -> Rows:
        """Return up to ``limit`` items with this sequence or a higher one, those included that were taken since."""
        runs = self.runs
        run = max(0, bisect_right(runs.sequences, sequence - runs.base_sequence) - 1)
        start = max(0, sequence - runs.base_sequence - runs.sequences[run])
        if start >= max(1, runs.lengths[run]):
            run, start = run + 1, 0
        return self._rows(run, start, self._kept_before(run), limit)

    def share(self) -> None:
        """It has a reader from now on: its present rows stay; :meth:`take` and additions behind do no harm."""
        self.shared = True

    def copy(self) -> Page:
        """Return a copy of it without other readers."""
        made = Page(self.runs.base_sequence, self.runs.base_record, self.runs.records.typecode)
        made.runs = self.runs.copy()
        made._kept, made._next_kept, made.origins = list(self._kept), self._next_kept, list(self.origins)
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
        run, start = self.runs.find(sequence)
        if start >= max(1, self.runs.lengths[run]):
            run, start = run + 1, 0
        return self._rows(run, start, self._kept_before(run), limit)

    def _kept_before(self, run: int) -> int:
        """Return how many entries were kept in the runs before one."""
        return self.runs.lengths[:run].count(0) if self._kept else 0

    def remove(self, sequence: int) -> None:
        """Forget an item that was not taken; :attr:`bytes` is the caller's. O(runs), O(1) for the first."""
        if sequence == self.first_sequence:
            self.take(1)
            return
        runs = self.runs
        run, start = runs.find(sequence)
        self.items -= 1
        if runs.lengths[run]:
            self.rows -= 1
        else:
            del self._kept[self._kept_before(run)]
        runs.remove(run, start)

    def insert(self, entry: QueueEntry, partial: dict[tuple[str, int, int], int] | None = None) -> bool:
        """Make a row of an entry where its sequence stands; say whether the page takes it.

        Not when it is full, knows as many origins, or when sequence or record are below all that the page can have.
        ``partial``: :meth:`partial_origins` from before the first of several insertions, which are kept up to date.

        Pages of sorted queues have no entries among their rows, and know of all their rows when these expire. Those of
        other queues get delivered messages that are returned while their neighbours are rows.
        """
        message, runs = entry.message, self.runs
        if self.items >= PAGE_ITEMS_MAX or len(self.origins) >= PAGE_ITEMS_MAX:
            return False
        if not runs.takes(entry.sequence, message.record):
            return False
        self._forget_taken()
        mark = self._mark_of_row(message.origin, partial) | entry.redelivered | entry.delivery_count << COUNT_SHIFT
        runs.insert(entry.sequence, message.record, mark)
        self.items += 1
        self._seen += 1
        self.rows += 1
        self.bytes += message.size
        self.highest_record = max(self.highest_record, message.record)
        if entry.redelivered:
            self.redelivered_upto = max(self.redelivered_upto, entry.sequence)
        facts = self.facts
        if facts is not None:
            facts.insert(self, entry.sequence, message.accepted_at, message.size, message.priority, message.expires_at)
        return True

    def _forget_taken(self) -> None:
        """Let the first item that was not taken stand first, so that others may come before it."""
        del self._kept[: self._next_kept]
        self._next_kept = 0
        self.runs.forget_taken()
        self._seen = self.items  # what takes in more behind the last row counts it

    def split(self, sequence: int) -> Page | None:
        """Take the rows behind the middle out, or those from a sequence on if that is not 0; return a page of them.

        ``None`` when there are none on one side. Of a page without kept entries, which knows the facts of its rows.
        """
        self._forget_taken()
        run = self.runs.run_to_split_at(sequence)
        if not run:
            return None
        assert self.facts is not None
        right: Page = self.copy()
        self.items = self.rows = self._seen = self.runs.keep(0, run)
        right.items = right.rows = right._seen = right.runs.keep(run, len(right.runs.lengths))
        right.due = NEVER
        assert right.facts is not None
        self.facts.keep(self)
        right.facts.keep(right)
        right.facts.note_all()
        right.bytes = sum([right.facts.of(row)[1] for row in right.runs.rows_between(0, 1 << 62, right.rows)])
        self.bytes -= right.bytes
        return right

    def run_from(self, sequence: int, limit: int) -> tuple[int, range, Origin | None, int]:
        """Return the first sequence, the records, origin and mark of up to ``limit`` rows of one run from there on.

        No origin where that is not whole, nothing is left, or something was kept in the page.
        """
        first, records, mark = self.runs.stretch_from(sequence, limit)
        if not records or self.items > self.rows:
            return 0, range(0), None, 0
        origin = (mark & ORIGIN_MASK) >> 1
        return first, records, self.origins[origin] if origin < ORIGINS_MAX else None, mark

    def rows_of(self, sequences: list[int]) -> Rows:
        """Return rows that were not taken."""
        found, runs = Rows(), self.runs
        for sequence in sequences:
            run, start = runs.find(sequence)
            self._add_to(found, sequence, runs.base_record + runs.records[run] + start, 1, runs.marks[run])
        return found

    def _add_to(self, found: Rows, sequence: int, record: int, length: int, mark: int) -> None:
        """Add rows of a run to the results."""
        origin = (mark & ORIGIN_MASK) >> 1
        found.add_rows(
            sequence,
            record,
            length,
            self.origins[origin],
            partial=origin >= ORIGINS_MAX,
            redelivered=bool(mark & 1),
            count=mark >> COUNT_SHIFT,
        )

    def _rows(self, run: int, start: int, next_kept: int, limit: int) -> Rows:
        """Return up to ``limit`` items from a place on."""
        found = Rows()
        runs, wanted = self.runs, limit
        while wanted and run < len(runs.lengths):
            sequence = runs.base_sequence + runs.sequences[run] + start
            length = runs.lengths[run]
            if not length:
                found.add_kept(sequence, self._kept[next_kept])
                next_kept += 1
                run += 1
                wanted -= 1
                continue
            count = min(length - start, wanted)
            record = runs.base_record + runs.records[run] + start
            self._add_to(found, sequence, record, count, runs.marks[run])
            wanted -= count
            start += count
            if start == length:
                run += 1
                start = 0
        return found

    def take(self, items: int) -> None:
        """Forget the first so many items that were not taken; :attr:`bytes` is the caller's."""
        rows, kept = self.runs.take(items)
        self.items -= items
        self.rows -= rows
        for place in range(self._next_kept, self._next_kept + kept):
            self._kept[place] = None
        self._next_kept += kept

    def items_of(self, messages_max: int, bytes_max: int) -> int:
        """Return how many of its items are about so many body bytes, by its average; at least 1."""
        if not self.rows:
            return messages_max
        average = max(1, self.bytes // self.rows)
        return max(1, min(messages_max, bytes_max // average))

    def kept(self) -> list[QueueEntry]:
        """Return the entries that were kept and not taken or swept."""
        return [entry for entry in self._kept if entry is not None]

    def sweep(self) -> None:
        """Let go of removed entries; their places stay."""
        self._kept = [None if entry is None or entry.state == REMOVED else entry for entry in self._kept]
