"""Holds on entries of a queue from one turn of the loop to the next, for callers that will act on them.

An entry that became a row no longer belongs to the queue: a caller still holding it would show a message that has left,
or remove it a second time. So up to the highest held sequence nothing becomes a row, as long as the hold lasts and no
longer: it ends with its last reference, also when its holder is abandoned half way. Rejected: a mark on the order,
which was never removed; and to search again for the held entries, as readers of rows do: those that had become rows
would have to be read one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.core.model.queue_state import QueueState


class Pin:
    """A hold on the entries of a queue with sequences up to ``upto``, until the last reference to it is gone."""

    __slots__ = ("_queue", "_upto")

    def __init__(self, queue: QueueState, upto: int) -> None:
        self._queue = queue
        self._upto = upto
        queue.pins.append(upto)

    def __del__(self) -> None:
        self._queue.pins.remove(self._upto)
