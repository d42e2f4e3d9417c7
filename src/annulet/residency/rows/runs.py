"""Runs of rows: what a page is made of.

Sequences and records of neighbouring rows mostly grow by one, so a run of them is four numbers: the sequence and record
of its first row, both as differences to those of the page, its length, and a mark that all its rows share: the index
of their origin, whether they came back, and how often deliveries of them did.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.core.model.entry import QueueEntry

NARROW_MAX: Final = 0xFFFFFFFF
"""Largest difference that fits a column of 32 bits."""

COUNT_SHIFT: Final = 16
"""Bits of a mark below the delivery count. Marks are 16 bits each until the first row of a page has a count."""

ORIGIN_MASK: Final = (1 << COUNT_SHIFT) - 1


class Runs:
    """Runs by ascending sequence. ``column`` is the type of array for differences to ``sequence`` and ``record``.

    The four columns are always of one length, the sequences in them ascend, and no row of a run goes on with the one
    before. The items before ``first`` and ``start`` were taken: a walk that began before may read them still. Columns
    are read as they are, because a call for each run would cost more than the read; only methods of this class change
    them.
    """

    __slots__ = ("base_record", "base_sequence", "first", "lengths", "marks", "records", "sequences", "start")

    def __init__(self, sequence: int, record: int, column: str) -> None:
        self.base_sequence = sequence
        self.base_record = record
        self.sequences: array[int] = array(column)  # of a run's first row, as differences
        self.records: array[int] = array(column)
        self.lengths: array[int] = array("H")  # 0: one item that was kept
        self.marks: array[int] = array("H")  # by bits from the lowest: whether it came back, its origin, its count
        self.first = 0  # the first that was not taken as a whole
        self.start = 0  # where in it the first item that was not taken stands

    def append(self, sequence: int, record: int, length: int, mark: int) -> None:
        """Add a run behind all others, or with the length 0 an item that was kept. ``record``: as a difference."""
        self.sequences.append(sequence - self.base_sequence)
        self.records.append(record)
        self.lengths.append(length)
        self._widen_for(mark)
        self.marks.append(mark)

    def _widen_for(self, mark: int) -> None:
        """Have room for a mark, or for all up to this one."""
        if mark > ORIGIN_MASK and self.marks.typecode == "H":
            self.marks = array("I", self.marks)

    def lengthen(self, longer: int) -> int:
        """Let the last run have so many rows more; return 0."""
        if longer:
            self.lengths[-1] += longer
        return 0

    def remove(self, run: int, start: int) -> None:
        """Take a row out of a run, or an item that was kept."""
        length = self.lengths[run]
        if start < length - 1:
            self._split(run, start)
        elif start:
            self.lengths[run] = start
        else:
            self._delete(run)

    def _split(self, run: int, start: int) -> None:
        """Take a row that is not the last out of a run."""
        rest = self.lengths[run] - start - 1
        following = start + 1
        if start:
            self.sequences.insert(run + 1, self.sequences[run] + following)
            self.records.insert(run + 1, self.records[run] + following)
            self.lengths.insert(run + 1, rest)
            self.marks.insert(run + 1, self.marks[run])
            self.lengths[run] = start
        else:
            self.sequences[run] += 1
            self.records[run] += 1
            self.lengths[run] = rest

    def counted_ranges(self) -> list[tuple[int, int]]:
        """Return the first and last sequences of stretches of rows left of which deliveries came back."""
        found: list[tuple[int, int]] = []
        if self.marks.typecode == "H":  # no row ever had a count
            return found
        start = self.start
        for run in range(self.first, len(self.lengths)):
            length = self.lengths[run]
            if length and self.marks[run] > ORIGIN_MASK:
                sequence = self.base_sequence + self.sequences[run]
                found.append((sequence + start, sequence + length - 1))
            start = 0
        return found

    def redelivered_ranges(self) -> list[tuple[int, int]]:
        """Return the first and last sequences of stretches of rows left that came back. None touches the next.

        O(runs), without a look at each where all rows came back alike and their sequences grow by one.
        """
        found: list[tuple[int, int]] = []
        if self._all_came_back():
            lowest = self.base_sequence + self.sequences[self.first] + self.start
            return [(lowest, self.base_sequence + self.sequences[-1] + self.lengths[-1] - 1)]
        base, sequences, lengths, marks = self.base_sequence, self.sequences, self.lengths, self.marks
        first: i64 = 0
        last: i64 = -1
        start: i64 = self.start
        for run in range(self.first, len(lengths)):
            if marks[run] & 1 and lengths[run]:
                sequence: i64 = base + sequences[run]
                if sequence + start != last + 1:
                    if last >= 0:
                        found.append((first, last))
                    first = sequence + start
                last = sequence + lengths[run] - 1
            start = 0
        if last >= 0:
            found.append((first, last))
        return found

    def _all_came_back(self) -> bool:
        """Return whether all items left are rows that came back, of one mark, none of whose sequences is missing."""
        run, marks = self.first, self.marks
        if run >= len(marks) or not marks[run] & 1 or marks[run + 1 :] != marks[run:-1]:
            return False
        span = self.sequences[-1] + self.lengths[-1] - self.sequences[run]
        return sum(self.lengths[run:]) == span

    def record_ranges(self) -> list[tuple[int, int]]:
        """Return the first and last record of each stretch of rows left whose records follow one another."""
        found: list[tuple[int, int]] = []
        first, last = 0, -1
        start = self.start
        for run in range(self.first, len(self.lengths)):
            length = self.lengths[run] - start
            if length > 0:
                record = self.base_record + self.records[run] + start
                if record == last + 1:
                    last += length
                else:
                    if last >= 0:
                        found.append((first, last))
                    first, last = record, record + length - 1
            start = 0
        if last >= 0:
            found.append((first, last))
        return found

    def _delete(self, run: int) -> None:
        del self.sequences[run], self.records[run], self.lengths[run], self.marks[run]

    def find(self, sequence: int) -> tuple[int, int]:
        """Return the last run that begins at or before ``sequence``, and how far behind its beginning that is."""
        difference = sequence - self.base_sequence
        run = bisect_right(self.sequences, difference, self.first) - 1
        return run, difference - self.sequences[run]

    def row_from(self, sequence: int) -> tuple[int, int]:
        """Return run and place of the first row left with this sequence or a higher one; its run may be behind all."""
        run, start = self.first, self.start
        if run < len(self.lengths) and sequence > self.base_sequence + self.sequences[run] + start:
            run, start = self.find(sequence)
            if start >= self.lengths[run]:
                run, start = run + 1, 0
        while run < len(self.lengths) and not self.lengths[run]:
            run, start = run + 1, 0
        return run, start

    def next_row(self, sequence: int) -> int:
        """Return the sequence of the first row left that has this one or a higher one; 0 for none."""
        run, start = self.row_from(sequence)
        return self.base_sequence + self.sequences[run] + start if run < len(self.lengths) else 0

    def rows_between(self, first: int, behind: int, limit: int) -> list[int]:
        """Return the sequences of up to ``limit`` rows left from ``first`` on, all below ``behind``."""
        found: list[int] = []
        run, start = self.row_from(first)
        while run < len(self.lengths) and len(found) < limit:
            sequence = self.base_sequence + self.sequences[run]
            end = min(behind, sequence + self.lengths[run], sequence + start + limit - len(found))
            if end <= sequence + start and self.lengths[run]:
                break
            found.extend(range(sequence + start, end))
            run, start = run + 1, 0
        return found

    def records_from(self, sequence: int, limit: int) -> tuple[Sequence[int], int]:
        """Return the records of up to ``limit`` rows left from ``sequence`` on, and the sequence behind the last."""
        found: list[int] = []
        run, start = self.row_from(sequence)
        if run < len(self.lengths) and self.lengths[run] - start >= limit > 0:
            record = self.base_record + self.records[run] + start
            return range(record, record + limit), self.base_sequence + self.sequences[run] + start + limit
        while len(found) < limit and run < len(self.lengths):
            count = min(self.lengths[run] - start, limit - len(found))
            record = self.base_record + self.records[run] + start
            found.extend(range(record, record + count))
            sequence = self.base_sequence + self.sequences[run] + start + count
            run, start = run + 1, 0
        return found, sequence

    def stretch_from(self, sequence: int, limit: int) -> tuple[int, range, int]:
        """Return the first sequence, the records and the mark of up to ``limit`` rows of one run from ``sequence`` on.

        No records and 0 where nothing is left.
        """
        run, start = self.row_from(sequence)
        if run == len(self.lengths):
            return 0, range(0), 0
        record = self.base_record + self.records[run] + start
        records = range(record, record + min(self.lengths[run] - start, limit))
        return self.base_sequence + self.sequences[run] + start, records, self.marks[run]

    def count_by_origin(self, origins: int, below: int) -> list[int]:
        """Return how many rows left with sequences below this one each of so many origins has, by its index."""
        counts = [0] * origins
        start = self.start
        for run in range(self.first, len(self.lengths)):
            length = self.lengths[run] - start
            if length > 0:
                first = self.base_sequence + self.sequences[run] + start
                if first >= below:
                    break
                counts[(self.marks[run] & ORIGIN_MASK) >> 1] += min(length, below - first)
            start = 0
        return counts

    def take(self, items: int) -> tuple[int, int]:
        """Let the next so many items be taken. Returns how many of them were rows, and how many had been kept."""
        rows = kept = 0
        left = items
        while left:
            length = self.lengths[self.first]
            if not length:
                kept += 1
                left -= 1
                self.first += 1
                continue
            count = min(length - self.start, left)
            rows += count
            left -= count
            self.start += count
            if self.start == length:
                self.first += 1
                self.start = 0
        return rows, kept

    def add_run(self, sequence: int, record: int, length: int, mark: int) -> None:
        """Add rows that grow by one behind all others, to the last run if they belong to it."""
        if self.following() == (sequence, record, mark):
            self.lengths[-1] += length
        else:
            self.append(sequence, record - self.base_record, length, mark)

    def following(self) -> tuple[int, int, int]:
        """Return sequence, record and mark of a row that would go on with the last run; -1 each when none can."""
        if not self.lengths or not self.lengths[-1]:
            return -1, -1, -1
        length = self.lengths[-1]
        sequence, record = self.base_sequence + self.sequences[-1], self.base_record + self.records[-1]
        return sequence + length, record + length, self.marks[-1]

    def add_runs(self, sequences: Sequence[int], records: Sequence[int], marks: list[int]) -> None:
        """Cut rows into runs, and add these behind all others."""
        numbers, places = list(sequences), list(records)
        starts = starts_of_runs(numbers, places, marks)
        ends = [*starts, len(marks)]
        self.add_run(numbers[0], places[0], ends[0], marks[0])
        self.sequences.extend([numbers[place] - self.base_sequence for place in starts])
        self.records.extend([places[place] - self.base_record for place in starts])
        self._widen_for(max(marks))
        self.marks.extend(column_of(self.marks.typecode, [marks[place] for place in starts]))
        self.lengths.extend(column_of("H", [ends[run + 1] - start for run, start in enumerate(starts)]))

    def takes(self, sequence: int, record: int) -> bool:
        """Return whether the columns have room for a row's numbers: none is below the base, or too far above it."""
        behind, above = sequence - self.base_sequence, record - self.base_record
        if min(behind, above) < 0:
            return False
        return self.records.typecode != "I" or column_for(max(behind, above)) == "I"

    def insert(self, sequence: int, record: int, mark: int) -> None:
        """Insert a row accepted by :meth:`takes` at its sequence; taken ones are forgotten before."""
        sequence -= self.base_sequence
        record -= self.base_record
        self._widen_for(mark)
        sequences, records, lengths, marks = self.sequences, self.records, self.lengths, self.marks
        place = bisect_right(sequences, sequence)
        goes_on = place > 0 and self._ends_before(place - 1, sequence, record, mark)
        following = (sequence + 1, record + 1, mark)
        if place < len(sequences) and (sequences[place], records[place], marks[place]) == following:
            if goes_on:
                lengths[place - 1] += 1 + lengths[place]
                self._delete(place)
            else:
                sequences[place], records[place] = sequence, record
                lengths[place] += 1
        elif goes_on:
            lengths[place - 1] += 1
        else:
            sequences.insert(place, sequence)
            records.insert(place, record)
            lengths.insert(place, 1)
            marks.insert(place, mark)

    def _ends_before(self, run: int, sequence: int, record: int, mark: int) -> bool:
        """Return whether a row, by its differences, goes on with a run."""
        length = self.lengths[run]
        return (
            self.sequences[run] + length == sequence
            and self.records[run] + length == record
            and self.marks[run] == mark
        )

    def forget_taken(self) -> None:
        """Let the first item that was not taken stand first."""
        run, start = self.first, self.start
        if run:
            del self.sequences[:run], self.records[:run], self.lengths[:run], self.marks[:run]
        if start:
            self.sequences[0] += start
            self.records[0] += start
            self.lengths[0] -= start
        self.first = self.start = 0

    def run_to_split_at(self, sequence: int) -> int:
        """Return the first run that begins at or behind ``sequence``, or with 0 the one in the middle.

        0 when all runs are on one side: what grows by one from row to row has no middle.
        """
        run = bisect_left(self.sequences, sequence - self.base_sequence) if sequence else len(self.sequences) // 2
        return run if run < len(self.sequences) else 0

    def keep(self, start: int, end: int) -> int:
        """Forget all runs but those from ``start`` to ``end``. Return how many rows these have; nothing was taken."""
        for column in (self.sequences, self.records, self.lengths, self.marks):
            del column[end:], column[:start]
        return sum(self.lengths)

    def copy(self) -> Runs:
        """Return runs of their own that are alike."""
        made = Runs(self.base_sequence, self.base_record, self.records.typecode)
        made.sequences, made.records = self.sequences[:], self.records[:]
        made.lengths, made.marks = self.lengths[:], self.marks[:]
        made.first, made.start = self.first, self.start
        return made


def column_for(span: int) -> str:
    """Return the type of array whose numbers go up to ``span``."""
    return "Q" if span > NARROW_MAX else "I"


def starts_of_runs(sequences: list[int], records: list[int], marks: list[int]) -> list[int]:
    """Return the places, but the first, of rows that do not go on with the one before. Makes no object of a number."""
    starts: list[int] = []
    next_sequence: i64 = sequences[0]
    next_record: i64 = records[0]
    last_mark: i64 = marks[0]
    for place in range(len(marks)):
        sequence: i64 = sequences[place]
        record: i64 = records[place]
        mark: i64 = marks[place]
        if sequence != next_sequence or record != next_record or mark != last_mark:
            starts.append(place)
        next_sequence = sequence + 1
        next_record = record + 1
        last_mark = mark
    return starts


def records_of(entries: list[QueueEntry], kept: bytearray) -> tuple[int, int]:
    """Return the lowest and the highest record of those that become rows, which have a 0 in ``kept``; 0 for none."""
    lowest: i64 = 0
    highest: i64 = 0
    some_stay = 1 in kept
    for place, entry in enumerate(entries):
        if some_stay and kept[place]:
            continue
        record: i64 = entry.message.record
        if record < lowest or not lowest:
            lowest = record
        highest = max(highest, record)
    return lowest, highest


def column_of(kind: str, numbers: list[int]) -> array[int]:
    """Return numbers as an array of a type: without a look at each where all are equal, as marks and lengths may be."""
    if numbers and numbers.count(numbers[0]) == len(numbers):
        return array(kind, numbers[:1]) * len(numbers)
    return array(kind, numbers)


def total_of(sizes: Sequence[int]) -> int:
    """Return the sum of at least one size: at once where all are equal, as a column of them may well be."""
    return sizes[0] * len(sizes) if sizes[1:] == sizes[:-1] else sum(sizes)
