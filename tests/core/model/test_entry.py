"""Entries: their place, their identity and what they say of themselves."""

from __future__ import annotations

import pytest

from annulet.core.model.entry import DELIVERING, PENDING, REMOVED, QueueEntry
from tests.core.helpers import NOW, RecordingSession, make_message, make_queue, send


def test_entries_sort_by_place():
    queue = make_queue()
    entries = [QueueEntry(queue, make_message(), sequence) for sequence in (3, 1, 2)]
    assert [entry.sequence for entry in sorted(entries)] == [1, 2, 3]


def test_two_queues_may_use_one_number():
    first, second = (QueueEntry(make_queue(name=name), make_message(), 1) for name in "ab")
    assert first != second
    assert len({first, second}) == 2


def test_an_entry_passes_through_its_states():
    queue, session = make_queue(), RecordingSession()
    (entry,) = send(queue, "A")
    assert (entry.state, entry.consumer, entry.redelivered, entry.delivery_count) == (PENDING, None, False, 0)
    consumer = session.consume(queue, messages=1)
    assert (entry.state, entry.consumer) == (DELIVERING, consumer)
    session.close(NOW)
    assert (entry.state, entry.consumer, entry.redelivered, entry.delivery_count) == (PENDING, None, True, 1)
    queue.purge(NOW)
    assert entry.state == REMOVED


@pytest.mark.parametrize(("state", "name"), [(PENDING, "pending"), (DELIVERING, "delivering"), (REMOVED, "removed")])
def test_it_names_queue_place_and_state(state, name):
    entry = QueueEntry(make_queue(name="orders"), make_message(), 7)
    entry.state = state
    assert repr(entry) == f"<QueueEntry orders#7 {name}>"
