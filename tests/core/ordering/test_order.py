"""First in, first out, with holes and returns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.model.entry import REMOVED, QueueEntry
from annulet.core.ordering.order import COMPACTION_MINIMUM, FifoOrder, RankedOrder
from tests.core.helpers import make_message, make_queue

QUEUE = make_queue()


@given(st.lists(st.tuples(st.sampled_from(["append", "take", "return", "return all", "discard"]), st.integers(0, 50))))
def test_order_is_that_of_a_sorted_list(commands):
    order, model, out = FifoOrder(), [], []
    for sequence, (command, choice) in enumerate(commands, 1):
        if command == "append":
            model.append(QueueEntry(QUEUE, make_message(), sequence))
            order.append(model[-1])
        elif command == "take" and model:
            out.append(model.pop(0))
            assert order.take_first() is out[-1]
        elif command == "return" and out:
            model.append(out.pop(choice % len(out)))
            order.reinsert(model[-1])
            model.sort()
        elif command == "return all":
            out.sort()
            order.reinsert_all(out)
            model = sorted(model + out)
            out = []
        elif command == "discard" and model:
            entry = model.pop(choice % len(model))
            entry.state = REMOVED
            order.discard(entry)
        assert list(order.entries()) == model
        assert order.count == len(model)
        assert sorted(entry for entry in order.snapshot() if entry.state != REMOVED) == model
        assert order.first() is (model[0] if model else None)
        later = [entry for entry in model if entry.sequence > choice]
        assert sorted(entry for entry in order.arrived_after(choice) if entry.state != REMOVED) == later


def test_holes_are_swept_out():
    order = FifoOrder()
    entries = [QueueEntry(QUEUE, make_message(), sequence) for sequence in range(1, 1001)]
    for entry in entries:
        order.append(entry)
    for entry in entries[1:]:
        entry.state = REMOVED
        order.discard(entry)
        assert len(order._front) <= 2 * order.count + COMPACTION_MINIMUM + 1
    assert list(order.entries()) == entries[:1]


def test_what_is_next_comes_from_arrivals_and_returns_alike():
    order = FifoOrder()
    entries = [QueueEntry(QUEUE, make_message(), sequence) for sequence in range(1, 9)]
    for entry in entries:
        order.append(entry)
    taken = [order.take_first() for _ in range(4)]
    for entry in taken[1:3]:
        order.reinsert(entry)
    entries[4].state = REMOVED
    order.discard(entries[4])
    assert [entry.sequence for entry in order.upcoming(4)] == [2, 3, 6, 7]
    assert order.count == 5


def test_those_that_came_back_are_counted_where_they_may_become_rows():
    order, heap = FifoOrder(), RankedOrder()
    for standing in (order, heap):
        standing.append(QueueEntry(QUEUE, make_message(), 2))
        standing.reinsert(QueueEntry(QUEUE, make_message(), 1))
    assert (order.came_back(), heap.came_back()) == (1, 0)


def test_what_is_taken_far_leaves_a_heap_and_counts_what_was_removed():
    order = RankedOrder()
    entries = [QueueEntry(QUEUE, make_message(), sequence) for sequence in (5, 3, 8, 1, 9, 2, 7)]
    for entry in entries:
        order.append(entry)
    for entry in entries[2:4]:
        entry.state = REMOVED
        order.discard(entry)
    far = order.take_far(4)
    assert order.count == 5 - len(far)
    for entry in far:
        order.reinsert(entry)
    assert [order.take_first().sequence for _ in range(5)] == [2, 3, 5, 7, 9]
    assert (order.take_first(), order.take_far(9), order.count) == (None, [], 0)


def test_an_order_that_takes_over_another_has_its_entries():
    former, order = FifoOrder(), FifoOrder()
    for sequence in (1, 2, 3):
        former.append(QueueEntry(QUEUE, make_message(), sequence))
    former.reinsert(former.take_first())
    order.take_over(former)
    assert (order.count, order.front_length, order.came_back()) == (3, 2, 1)
    assert [order.take_first().sequence for _ in range(3)] == [1, 2, 3]
