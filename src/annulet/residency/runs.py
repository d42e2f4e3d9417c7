"""Runs of rows: the elements of a page.

Sequences and records of neighbouring rows mostly grow by one, so a run of them is four numbers: the sequence and record
of its first row, both as differences to those of the page, its length, and a mark shared by all its rows: the index of
their origin, whether they were returned, and their number of returned deliveries.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from annulet.core.entry import QueueEntry

NARROW_MAX: Final = 0xFFFFFFFF
"""Largest difference that fits a column of 32 bits."""

COUNT_SHIFT: Final = 16
"""Bits of a mark below the delivery count. Marks are 16 bits each until the first row of a page has a count."""

ORIGIN_MASK: Final = (1 << COUNT_SHIFT) - 1


class Runs:
    """Runs by ascending sequence. ``column`` is the type of array for differences to ``sequence`` and ``record``."""

    __slots__ = ("_base_record", "_base_sequence", "_lengths", "_marks", "_records", "_run", "_run_start", "_sequences")

    def __init__(self, sequence: int, record: int, column: str) -> None:
        self._base_sequence = sequence
        self._base_record = record
        self._sequences: array[int] = array(column)  # of a run's first row, as differences
        self._records: array[int] = array(column)
        self._lengths: array[int] = array("H")  # 0: one item that was kept
        self._marks: array[int] = array("H")  # by bits from the lowest: whether it was returned, its origin, its count
        self._run = 0  # the first that was not taken as a whole
        self._run_start = 0  # index of its first item that was not taken

    def _append(self, sequence: int, record: int, length: int, mark: int) -> None:
        self._sequences.append(sequence - self._base_sequence)
        self._records.append(record)
        self._lengths.append(length)
        self._widen_for(mark)
        self._marks.append(mark)

    def _widen_for(self, mark: int) -> None:
        """Have room for a mark, or for all up to this one."""
        if mark > ORIGIN_MASK and self._marks.typecode == "H":
            self._marks = array("I", self._marks)

    def _lengthen(self, longer: int) -> int:
        """Add this many rows to the last run; return 0."""
        if longer:
            self._lengths[-1] += longer
        return 0

    def _split(self, run: int, start: int) -> None:
        """Remove a row that is not the last from a run."""
        rest = self._lengths[run] - start - 1
        following = start + 1
        if start:
            self._sequences.insert(run + 1, self._sequences[run] + following)
            self._records.insert(run + 1, self._records[run] + following)
            self._lengths.insert(run + 1, rest)
            self._marks.insert(run + 1, self._marks[run])
            self._lengths[run] = start
        else:
            self._sequences[run] += 1
            self._records[run] += 1
            self._lengths[run] = rest

    def counted_ranges(self) -> list[tuple[int, int]]:
        """Return the first and last sequences of ranges of remaining rows with returned deliveries."""
        found: list[tuple[int, int]] = []
        if self._marks.typecode == "H":  # no row ever had a count
            return found
        start = self._run_start
        for run in range(self._run, len(self._lengths)):
            length = self._lengths[run]
            if length and self._marks[run] > ORIGIN_MASK:
                sequence = self._base_sequence + self._sequences[run]
                found.append((sequence + start, sequence + length - 1))
            start = 0
        return found

    def redelivered_ranges(self) -> list[tuple[int, int]]:
        """Return the first and last sequences of ranges of remaining returned rows. No two ranges are adjacent.

        O(runs), without a loop if all rows have the same mark and their sequences grow by one.
        """
        found: list[tuple[int, int]] = []
        if self._all_came_back():
            lowest = self._base_sequence + self._sequences[self._run] + self._run_start
            return [(lowest, self._base_sequence + self._sequences[-1] + self._lengths[-1] - 1)]
        base, sequences, lengths, marks = self._base_sequence, self._sequences, self._lengths, self._marks
        first: i64 = 0
        last: i64 = -1
        start: i64 = self._run_start
        for run in range(self._run, len(lengths)):
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
        """Return whether all remaining items are returned rows of one mark with consecutive sequences."""
        run, marks = self._run, self._marks
        if run >= len(marks) or not marks[run] & 1 or marks[run + 1 :] != marks[run:-1]:
            return False
        span = self._sequences[-1] + self._lengths[-1] - self._sequences[run]
        return sum(self._lengths[run:]) == span

    def record_ranges(self) -> list[tuple[int, int]]:
        """Return the first and last record of each stretch of rows left whose records follow one another."""
        found: list[tuple[int, int]] = []
        first, last = 0, -1
        start = self._run_start
        for run in range(self._run, len(self._lengths)):
            length = self._lengths[run] - start
            if length > 0:
                record = self._base_record + self._records[run] + start
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
        del self._sequences[run], self._records[run], self._lengths[run], self._marks[run]

    def _find(self, sequence: int) -> tuple[int, int]:
        """Return the last run that begins at or before ``sequence``, and the distance from its beginning."""
        difference = sequence - self._base_sequence
        run = bisect_right(self._sequences, difference, self._run) - 1
        return run, difference - self._sequences[run]


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
    """Return numbers as an array of a type: without a loop if all are equal, as marks and lengths may be."""
    if numbers and numbers.count(numbers[0]) == len(numbers):
        return array(kind, numbers[:1]) * len(numbers)
    return array(kind, numbers)


def total_of(sizes: Sequence[int]) -> int:
    """Return the sum of at least one size: at once where all are equal, as a column of them may well be."""
    return sizes[0] * len(sizes) if sizes[1:] == sizes[:-1] else sum(sizes)
