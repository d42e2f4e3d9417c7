"""The checker itself: it passes what is right, and finds each way to be wrong."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.model.entry import DELIVERING, PENDING
from annulet.core.ordering.ranks import PriorityLevels, StrictRanker
from annulet.core.queue.invariants import check_invariants
from tests.core.helpers import NOW, RecordingSession, make_queue, send


@pytest.fixture
def queue():
    """Two pending, two in delivery, one acknowledged."""
    queue, session = make_queue(key="k"), RecordingSession()
    session.consume(queue, messages=2)
    send(queue, "a", "bb", "ccc", "dddd", "eeeee")
    session.acknowledge(1, NOW)
    return queue


def test_a_sound_queue_passes(queue):
    check_invariants(queue)
    queue.delete(NOW)
    check_invariants(queue)


def lose_a_message(queue):
    queue.counters.messages_added += 1


def count_one_twice(queue):
    queue.counters.removed[RemovalReason.EXPIRED] += 1


def miscount_pending_bytes(queue):
    queue.pending_bytes += 1


def miscount_delivering_bytes(queue):
    queue.delivering_bytes -= 1


def miscount_the_order(queue):
    queue.order.count += 1


def miscount_a_level(queue):
    levels = PriorityLevels(QueueSettings(priorities=2))
    order = StrictRanker(levels).new_order()
    order.count = 1
    queue.order = order


def miscount_what_is_behind_lanes(queue):
    queue.use_lanes(None, None)
    queue.deep_lanes.count += 1


def leave_a_pending_entry_delivering(queue):
    queue.order.first().state = DELIVERING


def leave_a_holder(queue):
    queue.order.first().consumer = next(iter(queue.consumers))


def leave_a_delivering_entry_pending(queue):
    min(queue.delivering).state = PENDING


def run_out_of_sequences(queue):
    queue.next_sequence = 5


def overstate_credit(queue):
    next(iter(queue.consumers)).window.messages -= 1


def overstate_byte_credit(queue):
    next(iter(queue.consumers)).window.bytes -= 1


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lose_a_message, "accounted for once"),
        (count_one_twice, "accounted for once"),
        (miscount_pending_bytes, "pending bytes"),
        (miscount_delivering_bytes, "delivering bytes"),
        (miscount_the_order, "the order counts"),
        (miscount_a_level, "levels count"),
        (miscount_what_is_behind_lanes, "lanes count"),
        (leave_a_pending_entry_delivering, "the order counts"),
        (leave_a_holder, "have no holder"),
        (leave_a_delivering_entry_pending, "say so"),
        (run_out_of_sequences, "sequences ascend"),
        (overstate_credit, "nothing deliverable waits"),
        (overstate_byte_credit, "a window counts bytes"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_damage_is_found(queue, damage, words):
    damage(queue)
    with pytest.raises(AssertionError, match=words):
        check_invariants(queue)
