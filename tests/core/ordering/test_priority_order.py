"""First in, first out on each level, the most important level first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from annulet.core.model.entry import REMOVED, QueueEntry
from annulet.core.ordering.priority_order import LevelledOrder
from tests.core.helpers import NOW, make_message, make_queue

QUEUE = make_queue()
LEVELS = 4


def entry_of(sequence: int, level: int) -> QueueEntry:
    entry = QueueEntry(QUEUE, make_message(accepted_at=NOW + sequence), sequence)
    entry.rank = (-level,)
    return entry


@given(
    st.lists(st.tuples(st.sampled_from(["append", "take", "return", "discard"]), st.integers(0, 50), st.integers(0, 3)))
)
def test_order_is_that_of_a_sorted_list(commands):
    order, model, out = LevelledOrder(LEVELS), [], []
    for sequence, (command, choice, level) in enumerate(commands, 1):
        if command == "append":
            model.append(entry_of(sequence, level))
            order.append(model[-1])
        elif command == "take" and model:
            out.append(model.pop(0))
            assert order.take_first() is out[-1]
        elif command == "return" and out:
            model.append(out.pop(choice % len(out)))
            order.reinsert(model[-1])
        elif command == "discard" and model:
            entry = model.pop(choice % len(model))
            entry.state = REMOVED
            order.discard(entry)
        model.sort()
        assert order.entries() == model
        assert order.count == len(model)
        assert sorted(entry for entry in order.snapshot() if entry.state != REMOVED) == model
        assert order.held() >= set(model)
        assert order.first_sequence() == (model[0].sequence if model else 0)
        assert order.first() is (model[0] if model else None)
        assert order.oldest_accepted_at() == min([entry.message.accepted_at for entry in model], default=0)
    order.clear()
    assert (order.count, order.first(), order.take_first(), order.entries()) == (0, None, None, [])


def test_a_level_that_was_empty_is_served_at_once_when_something_comes():
    order = LevelledOrder(LEVELS)
    order.append(entry_of(1, 0))
    assert order.first().sequence == 1
    order.append(entry_of(2, 3))
    assert [order.take_first().sequence for _ in range(2)] == [2, 1]


def test_what_is_next_comes_level_by_level():
    order = LevelledOrder(LEVELS)
    for sequence, level in enumerate((0, 3, 1, 3, 0), 1):
        order.append(entry_of(sequence, level))
    assert [entry.sequence for entry in order.upcoming(4)] == [2, 4, 3, 1]
    assert len(order.upcoming(9)) == 5
