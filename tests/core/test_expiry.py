"""The expiry index."""

from __future__ import annotations

from annulet.core.entry import REMOVED, QueueEntry
from annulet.core.expiry import COMPACTION_MINIMUM, ExpiryIndex
from tests.core.helpers import make_message, make_queue


def indexed(*times):
    index, queue = ExpiryIndex(), make_queue()
    entries = [QueueEntry(queue, make_message(), sequence) for sequence in range(1, len(times) + 1)]
    for at, entry in zip(times, entries, strict=True):
        index.add(at, entry)
    return index, entries


def test_due_entries_come_earliest_first_and_leave_the_index():
    index, entries = indexed(30, 10, 20)
    assert index.next_at() == 10
    assert index.due(9) == []
    assert index.due(20) == [entries[1], entries[2]]
    assert [entry.indexed for entry in entries] == [True, False, False]
    assert index.next_at() == 30


def test_removed_entries_are_not_due_and_do_not_pile_up():
    index, entries = indexed(*range(1, 1001))
    for entry in entries[:-1]:
        entry.state = REMOVED
        index.note_removed()
    assert len(index._heap) <= COMPACTION_MINIMUM + 2
    assert index.due(2000) == [entries[-1]]
    assert index.next_at() == 0
