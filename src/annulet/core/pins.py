"""Who holds entries of a queue from one turn of the loop to the next, and means to act on them.

An entry that became a row is nobody's: who still held it would show what has left, or remove it a second time. So up to
the highest sequence that somebody holds nothing becomes a row, as long as the hold lasts and no longer: it ends when
it is forgotten, also by who is abandoned half way. Rejected: a mark on the order, which nobody ever took away; and to
look anew for what was held, as who looks at rows does: what had become a row would have to be read one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from annulet.core.holdings import Holdings


class Pin:
    """A hold on the entries of a queue with sequences up to ``upto``, until nobody refers to it any more."""

    __slots__ = ("__weakref__", "upto")

    def __init__(self, upto: int) -> None:
        self.upto = upto


def pin_entries(queue: Holdings, upto: int) -> Pin:
    """Hold all entries with sequences up to this one, wherever they are now and go meanwhile."""
    if queue.pins is None:
        queue.pins = WeakSet()
    pin = Pin(upto)
    queue.pins.add(pin)
    return pin


def pinned_upto(queue: Holdings) -> int:
    """Return the highest sequence that somebody holds, 0 when nobody does. O(those who do)."""
    return max([pin.upto for pin in queue.pins], default=0) if queue.pins else 0
