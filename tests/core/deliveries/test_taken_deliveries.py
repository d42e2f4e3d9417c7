"""Deliveries out of a session's table and back, in whole blocks."""

from __future__ import annotations

from annulet.core.deliveries.delivery_table import BLOCK_TAGS, DeliveryTable
from annulet.core.deliveries.taken_deliveries import TakenDeliveries
from annulet.core.model.entry import REMOVED, QueueEntry
from tests.core.helpers import make_message, make_queue

QUEUE = make_queue()
HELD = [tag for tag in range(1, 5 * BLOCK_TAGS) if tag % 7]


def holding() -> DeliveryTable:
    table = DeliveryTable()
    for tag in HELD:
        table[tag] = QueueEntry(QUEUE, make_message(), tag)
    return table


def taken_up_to(table: DeliveryTable, tag: int) -> TakenDeliveries:
    taken, before = TakenDeliveries(), len(table)
    taken.add_runs(table.take_runs(1, tag), before - len(table))
    return taken


def test_what_was_taken_comes_back_to_its_tags():
    for last in (1, BLOCK_TAGS - 1, BLOCK_TAGS, 3 * BLOCK_TAGS + 5, 5 * BLOCK_TAGS):
        table = holding()
        entries = table.values()
        taken = taken_up_to(table, last)
        assert [slot.sequence for slot in taken.slots()] == [tag for tag in HELD if tag <= last]
        assert (len(taken), list(table)) == (len(list(taken.slots())), [tag for tag in HELD if tag > last])
        table.put_back(taken)
        assert (list(table), table.values(), len(table)) == (HELD, entries, len(HELD))


def test_later_deliveries_follow_what_came_back():
    table = holding()
    taken = taken_up_to(table, HELD[-1])
    table[HELD[-1] + 1] = QueueEntry(QUEUE, make_message(), HELD[-1] + 1)
    table.put_back(taken)
    table[HELD[-1] + 2] = QueueEntry(QUEUE, make_message(), HELD[-1] + 2)
    assert list(table) == [*HELD, HELD[-1] + 1, HELD[-1] + 2]


def test_single_ones_keep_the_order_in_which_they_were_taken():
    table = holding()
    taken = TakenDeliveries()
    for tag in (9, 10, 3, 4, 11):
        taken.add(tag, table.take(tag))
    taken.add_runs(table.take_runs(1, 2), 2)
    assert [slot.sequence for slot in taken.slots()] == [9, 10, 3, 4, 11, 1, 2]
    assert (len(taken), len(taken.runs)) == (7, 4)
    table.put_back(taken)
    assert list(table) == HELD


def test_messages_that_left_their_queue_are_left_out():
    table = holding()
    for tag in (1, *range(BLOCK_TAGS, 2 * BLOCK_TAGS)):
        if tag in table:
            table[tag].state = REMOVED
    kept = taken_up_to(table, 3 * BLOCK_TAGS - 1).without_removed()
    wanted = [tag for tag in HELD if 1 < tag < BLOCK_TAGS or 2 * BLOCK_TAGS <= tag < 3 * BLOCK_TAGS]
    assert [slot.sequence for slot in kept.slots()] == wanted
    assert (len(kept), len(kept.runs)) == (len(wanted), 2)
