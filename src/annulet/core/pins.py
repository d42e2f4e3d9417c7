"""Who holds entries of a queue from one turn of the loop to the next, and means to act on them.

An entry that became a row is nobody's: who still held it would show what has left, or remove it a second time. So up to
the highest sequence that somebody holds nothing becomes a row, as long as the hold lasts and no longer: it ends when
it is forgotten, also by who is abandoned half way. Rejected: a mark on the order, which nobody ever took away; and to
look anew for what was held, as who looks at rows does: what had become a row would have to be read one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.core.holdings import Holdings


class Pin:
    """A hold on the entries of a queue with sequences up to ``upto``, until nobody refers to it any more."""

    __slots__ = ("_queue", "_upto")

    def __init__(self, queue: Holdings, upto: int) -> None:
        self._queue = queue
        self._upto = upto
        queue.pins.append(upto)

    def __del__(self) -> None:
        self._queue.pins.remove(self._upto)


def pinned_upto(queue: Holdings) -> int:
    """Return the highest sequence that somebody holds, 0 when nobody does. O(those who do)."""
    return max(queue.pins) if queue.pins else 0
