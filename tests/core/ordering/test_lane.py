"""Shelves: heads of lanes, in order, without what has gone."""

from __future__ import annotations

from annulet.core.model.entry import QueueEntry
from annulet.core.ordering.lane import COMPACTION_MINIMUM, Lane, Shelf
from annulet.core.ordering.order import FifoOrder
from tests.core.helpers import make_message, queue_of


def make_lane(shelf, *sequences):
    queue = queue_of()
    lane = Lane(FifoOrder(), None, None, 0, 0)
    lane.shelf = shelf
    shelf.lanes += 1
    for sequence in sequences:
        entry = QueueEntry(queue, make_message(), sequence)
        lane.order.append(entry)
        if lane.order.first() is entry:
            shelf.note_head(entry, lane)
    return lane


def test_the_lane_with_the_earliest_head_is_first():
    shelf = Shelf(None, 0, 0, parked=False)
    late, early = make_lane(shelf, 5), make_lane(shelf, 3, 9)
    assert shelf.first() is early
    early.order.take_first()
    shelf.note_head(early.order.first(), early)
    assert shelf.first() is late


def test_lanes_that_moved_or_emptied_are_passed_over():
    shelf = Shelf(None, 0, 0, parked=False)
    moved, emptied = make_lane(shelf, 1), make_lane(shelf, 2)
    moved.shelf = None
    emptied.order.take_first()
    assert shelf.first() is None


def test_outdated_heads_are_swept_out():
    shelf = Shelf(None, 0, 0, parked=False)
    lane = make_lane(shelf, 1)
    head = lane.order.first()
    for _ in range(1000):
        shelf.note_head(head, lane)
    assert len(shelf._heads) <= COMPACTION_MINIMUM + 3
    assert shelf.first() is lane
