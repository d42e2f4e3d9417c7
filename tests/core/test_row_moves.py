"""What an entry leaves behind that became a row, and what is counted when rows are damaged."""

from __future__ import annotations

import pytest

from annulet.core.bodies import send_away
from annulet.core.entry import QueueEntry
from annulet.core.events import QueueEvents
from annulet.core.paging import QueueArea
from annulet.core.queue import Queue
from annulet.core.reasons import RemovalReason
from annulet.core.row_moves import count_lost, leave_memory
from tests.core.helpers import NOW, make_message
from tests.residency.doubles import Disk, bodies_of, durable_queue, filled


class Emptied(QueueEvents):
    """Keeps how many left at once, and why."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, RemovalReason]] = []

    def emptied(self, count: int, reason: RemovalReason, now: int) -> None:
        assert not now
        self.heard.append((count, reason))


def entry_of(queue: Queue, message_ttl: int = 0) -> QueueEntry:
    """Return an entry of a message that, with a time to live, is in the expiry index."""
    message = make_message("body", expires_at=NOW + message_ttl if message_ttl else 0)
    entry = QueueEntry(queue, message, queue.next_sequence)
    queue.next_sequence += 1
    queue.insert(entry, arrival=True)
    queue.index_expiry(entry)
    return entry


def test_an_entry_that_alone_holds_its_message_takes_it_along() -> None:
    queue = durable_queue()
    entry = entry_of(queue)
    assert not entry.indexed
    leave_memory(queue, entry)
    assert entry.message.near == 1, "both are forgotten together"
    assert queue.expiry is None


def test_a_message_of_two_queues_stays_with_the_other() -> None:
    queue, other = durable_queue(), durable_queue()
    entry = entry_of(queue)
    second = QueueEntry(other, entry.message, 1)
    leave_memory(queue, entry)
    assert entry.message.near == 1
    bodies = bodies_of(other, Disk())
    send_away(second, bodies)
    assert (entry.message.absent, bodies.count) == (True, 1), "nobody else wants the body any more"


def test_the_body_of_the_last_who_wanted_it_leaves_where_another_queue_is_without() -> None:
    disk, queue, other = Disk(), durable_queue(), durable_queue()
    (entry,) = filled(queue, disk, 1)
    bodies = bodies_of(other, disk)
    send_away(QueueEntry(other, entry.message, 1), bodies)
    leave_memory(queue, entry)
    bodies.store.drop_orphans()
    assert entry.message.absent


def test_what_was_away_is_not_counted_among_the_bodies_any_more() -> None:
    disk, queue = Disk(), durable_queue()
    (entry,) = filled(queue, disk, 1)
    bodies = bodies_of(queue, disk)
    send_away(entry, bodies)
    assert (bodies.count, bodies.bytes) == (1, 10)
    leave_memory(queue, entry)
    assert (bodies.count, bodies.bytes, entry.message.away) == (0, 0, 0)
    assert entry.away, "whoever noted its body as one that may leave passes it over"


def test_a_row_is_not_in_the_expiry_index() -> None:
    queue = durable_queue()
    entry, stays = entry_of(queue, 5), entry_of(queue, 6)
    leave_memory(queue, entry)
    assert not entry.indexed
    assert queue.expiry is not None
    assert queue.expiry.due(NOW + 6) == [stays]


@pytest.mark.parametrize("heard", [False, True])
def test_damaged_rows_are_counted_once(heard: bool) -> None:
    queue, pages, listener = durable_queue(), QueueArea(), Emptied()
    queue.events = listener if heard else None
    queue.pending_bytes = 100
    pages.lost, pages.lost_bytes = 3, 30
    assert [count_lost(queue, pages), count_lost(queue, pages)] == [3, 0]
    assert (pages.lost, pages.lost_bytes) == (0, 0)
    assert queue.counters.removed[RemovalReason.UNREADABLE] == 3
    assert (queue.counters.bytes_removed, queue.pending_bytes) == (30, 70)
    assert listener.heard == [(3, RemovalReason.UNREADABLE)] * heard


def test_bytes_of_rows_that_were_counted_before_are_no_event() -> None:
    queue, pages, listener = durable_queue(), QueueArea(), Emptied()
    queue.events, queue.pending_bytes = listener, 100
    pages.lost_bytes = 10
    assert count_lost(queue, pages) == 0
    assert (pages.lost_bytes, queue.pending_bytes, listener.heard) == (0, 90, [])
    assert queue.counters.removed[RemovalReason.UNREADABLE] == 0
