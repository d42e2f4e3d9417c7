"""Positions of a page's rows in the columns beside it, which have one value per row."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from collections.abc import Sequence


@mypyc_attr(allow_interpreted_subclasses=True)
class RowColumns:
    """Columns of one page.

    They only grow: rows that have left the page keep their places. ``names``: the names of the columns.
    """

    __slots__ = ("_count", "_places", "_sequences", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._count = 0
        self._sequences: array[int] = array("Q")  # where these do not go on by one ...
        self._places: array[int] = array("H")  # ... and the places in the columns

    def _add_places(self, sequences: Sequence[int]) -> None:
        """Take in the sequences of the next rows, ascending."""
        place = self._count
        behind = -1 if not place else self.sequence_at(place - 1) + 1
        for sequence in sequences:
            if sequence != behind:
                self._sequences.append(sequence)
                self._places.append(place)
            behind = sequence + 1
            place += 1
        self._count = place

    def take_places(self, other: RowColumns) -> None:
        """Have the places that another one has; there are none yet."""
        self._count = other._count
        self._sequences, self._places = other._sequences[:], other._places[:]

    def place_from(self, sequence: int) -> int:
        """Return the place of the first row with this sequence or a higher one; behind all when there is none."""
        stretch = bisect_right(self._sequences, sequence) - 1
        if stretch < 0:
            return 0
        behind = self._places[stretch + 1] if stretch + 1 < len(self._places) else self._count
        return min(self._places[stretch] + sequence - self._sequences[stretch], behind)

    def sequence_at(self, place: int) -> int:
        """Return the sequence of the row at a place."""
        stretch = bisect_right(self._places, place) - 1
        return self._sequences[stretch] + place - self._places[stretch]

    def copy(self) -> RowColumns:
        """Return one like it."""
        raise NotImplementedError
