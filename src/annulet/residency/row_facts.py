"""What a page knows of its rows so that they can expire without being read: times, sizes, priorities.

Kept where these change from one row to the next, at the sequence from which they hold: 21 bytes each. A queue whose
messages have one size needs that once for all that came in the same millisecond.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right


class RowFacts:
    """When rows were accepted (milliseconds since 1970), their body bytes and priorities; times never decrease."""

    __slots__ = ("_accepted", "_priorities", "_sequences", "_sizes")

    def __init__(self) -> None:
        self._sequences: array[int] = array("Q")
        self._accepted: array[int] = array("Q")
        self._sizes: array[int] = array("Q")
        self._priorities: array[int] = array("B")

    def note(self, sequence: int, accepted_at: int, size: int, priority: int) -> None:
        """Take in the next row."""
        if (
            self._sequences
            and self._accepted[-1] == accepted_at
            and self._sizes[-1] == size
            and self._priorities[-1] == priority
        ):
            return
        self._sequences.append(sequence)
        self._accepted.append(accepted_at)
        self._sizes.append(size)
        self._priorities.append(priority)

    def of(self, sequence: int) -> tuple[int, int, int]:
        """Return time, size and priority of a row."""
        place = max(0, bisect_right(self._sequences, sequence) - 1)
        return self._accepted[place], self._sizes[place], self._priorities[place]

    def sequence_above(self, accepted_at: int) -> int:
        """Return the sequence of the first row that was accepted later, -1 when none was."""
        place = bisect_right(self._accepted, accepted_at)
        return self._sequences[place] if place < len(self._sequences) else -1

    def copy(self) -> RowFacts:
        """Return one like it."""
        made = RowFacts()
        made._sequences, made._accepted = self._sequences[:], self._accepted[:]
        made._sizes, made._priorities = self._sizes[:], self._priorities[:]
        return made
