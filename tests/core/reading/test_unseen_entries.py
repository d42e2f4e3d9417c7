"""Lists of entries that readers have not seen."""

from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.reading.unseen_entries import PRUNE_MINIMUM, UnseenEntries
from tests.core.helpers import NOW, RecordingSession, pending, queue_of, send


def test_a_slow_reader_does_not_keep_what_has_gone():
    queue, browser, session = queue_of(), RecordingSession("browser"), RecordingSession()
    consumer = browser.consume(queue, browse="follow", messages=0)
    session.consume(queue, auto_acknowledge=True)
    send(queue, *["x"] * 500)
    assert len(consumer.unseen.snapshot()) <= PRUNE_MINIMUM + 1


def test_entries_are_taken_in_the_order_of_the_queue():
    queue = queue_of()
    send(queue, "a", "b", "c")
    there = queue.order.entries()
    unseen = UnseenEntries(queue, there[1:])
    unseen.reinsert(there[0])
    assert unseen.entries() == there == sorted(unseen.held())
    assert unseen.upcoming(1) == there[:1]
    assert [unseen.take_first() for _ in range(3)] == there
    assert unseen.exhausted()


def test_a_revised_entry_is_added_only_while_the_former_one_is_unseen():
    queue = queue_of()
    send(queue, "a", "b", "c")
    first, second, third = queue.order.entries()
    unseen = UnseenEntries(queue, [first])
    unseen.revised(second, third)
    assert unseen.entries() == [first]
    unseen.revised(first, third)
    assert unseen.entries() == [first, third]


def test_removed_entries_are_passed_over():
    queue = queue_of()
    send(queue, "a", "b")
    first, second = queue.order.entries()
    unseen = UnseenEntries(queue, [first, second])
    queue.remove(first, RemovalReason.DELETED, NOW)
    assert pending(queue) == ["b"]
    assert second in unseen.snapshot()
