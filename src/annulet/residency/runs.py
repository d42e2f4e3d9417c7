"""Runs of rows: what a page is made of.

Sequences and records of neighbouring rows mostly grow by one, so a run of them is four numbers: the sequence and record
of its first row, both as differences to those of the page, its length, and a mark that all its rows share.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

NARROW_MAX: Final = 0xFFFFFFFF
"""Largest difference that fits a column of 32 bits."""


class Runs:
    """Runs by ascending sequence. ``column`` is the type of array for differences to ``sequence`` and ``record``."""

    __slots__ = ("_base_record", "_base_sequence", "_lengths", "_marks", "_records", "_run", "_sequences")

    def __init__(self, sequence: int, record: int, column: str) -> None:
        self._base_sequence = sequence
        self._base_record = record
        self._sequences: array[int] = array(column)  # of a run's first row, as differences
        self._records: array[int] = array(column)
        self._lengths: array[int] = array("H")  # 0: one item that was kept
        self._marks: array[int] = array("H")  # index of the origin, and in the lowest bit whether it came back
        self._run = 0  # the first that was not taken as a whole

    def _append(self, sequence: int, record: int, length: int, mark: int) -> None:
        self._sequences.append(sequence - self._base_sequence)
        self._records.append(record)
        self._lengths.append(length)
        self._marks.append(mark)

    def _lengthen(self, longer: int) -> int:
        """Let the last run have so many rows more; return 0."""
        if longer:
            self._lengths[-1] += longer
        return 0

    def _split(self, run: int, start: int) -> None:
        """Take a row that is not the last out of a run."""
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

    def _delete(self, run: int) -> None:
        del self._sequences[run], self._records[run], self._lengths[run], self._marks[run]

    def _find(self, sequence: int) -> tuple[int, int]:
        """Return the last run that begins at or before ``sequence``, and how far behind its beginning that is."""
        difference = sequence - self._base_sequence
        run = bisect_right(self._sequences, difference, self._run) - 1
        return run, difference - self._sequences[run]


def column_for(span: int) -> str:
    """Return the type of array whose numbers go up to ``span``."""
    return "Q" if span > NARROW_MAX else "I"
