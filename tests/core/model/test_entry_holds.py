"""What somebody holds from turn to turn: how long, and who held up to where."""

from __future__ import annotations

from annulet.core.model.entry_holds import Pin
from tests.core.helpers import queue_of


def test_the_highest_of_all_holds_counts_as_long_as_somebody_has_it() -> None:
    queue = queue_of()
    assert queue.pinned_upto == 0
    pins = [Pin(queue, upto) for upto in (5, 9, 7, 9)]
    assert queue.pinned_upto == 9
    pins.pop()
    assert queue.pinned_upto == 9, "two had held so much"
    del pins[1]
    assert queue.pinned_upto == 7
    pins.clear()
    assert queue.pinned_upto == 0
