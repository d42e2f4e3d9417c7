"""Which entries become rows, what they leave behind, and what is counted when rows are damaged."""

from __future__ import annotations

from collections import deque

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.deliveries.bodies import send_away
from annulet.core.model.entry import REMOVED, QueueEntry
from annulet.core.model.events import QueueEvents
from annulet.core.model.queue_area import QueueArea
from annulet.core.paging.row_moves import count_lost, leave_memory, let_rows_go, take_written
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, make_message
from tests.residency.doubles import Disk, appended, bodies_of, durable_queue, filled, stored_entries

ALL = 1 << 60


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
    leave_memory(entry)
    assert entry.message.near == 1, "both are forgotten together"
    assert queue.expiry is None


def test_a_message_of_two_queues_stays_with_the_other() -> None:
    queue, other = durable_queue(), durable_queue()
    entry = entry_of(queue)
    second = QueueEntry(other, entry.message, 1)
    leave_memory(entry)
    assert entry.message.near == 1
    bodies = bodies_of(other, Disk())
    send_away(second, bodies)
    assert (entry.message.absent, bodies.count) == (True, 1), "nobody else wants the body any more"


def test_the_body_of_the_last_who_wanted_it_leaves_where_another_queue_is_without() -> None:
    disk, queue, other = Disk(), durable_queue(), durable_queue()
    (entry,) = filled(queue, disk, 1)
    bodies = bodies_of(other, disk)
    send_away(QueueEntry(other, entry.message, 1), bodies)
    leave_memory(entry)
    bodies.store.drop_orphans()
    assert entry.message.absent


def test_what_was_away_is_not_counted_among_the_bodies_any_more() -> None:
    disk, queue = Disk(), durable_queue()
    (entry,) = filled(queue, disk, 1)
    bodies = bodies_of(queue, disk)
    send_away(entry, bodies)
    assert (bodies.count, bodies.bytes) == (1, 10)
    leave_memory(entry)
    assert (bodies.count, bodies.bytes, entry.message.away) == (0, 0, 0)
    assert entry.away, "whoever noted its body as one that may leave passes it over"


def test_a_row_is_not_in_the_expiry_index() -> None:
    queue = durable_queue()
    entry, stays = entry_of(queue, 5), entry_of(queue, 6)
    leave_memory(entry)
    assert not entry.indexed
    assert queue.expiry is not None
    assert queue.expiry.due(NOW + 6) == [stays]


def late_entries() -> tuple[list[QueueEntry], deque[QueueEntry]]:
    """Return eight entries with records, twice: the second was removed, the third is no row."""
    entries = stored_entries(durable_queue(), Disk(), 8)
    entries[1].state = REMOVED
    entries[2].message.durable = False
    return entries, deque(entries)


@pytest.mark.parametrize("limit", [5, ALL])
def test_what_is_written_is_taken_up_to_the_limit(limit: int) -> None:
    entries, late = late_entries()
    taken, kept = take_written(late, ALL, limit, ALL)
    assert taken == [entry for entry in entries if entry is not entries[1]][:limit]
    assert kept == bytearray([0, 1, 0, 0, 0, 0, 0][:limit])
    assert [*late] == entries[6:8] * (limit == 5)


def test_what_is_unwritten_or_hidden_ends_what_is_taken() -> None:
    for place in (3, 5):
        for hidden in (False, True):
            entries, late = late_entries()
            end = entries[place]
            found = take_written(late, ALL if hidden else end.message.record, 8, end.sequence if hidden else ALL)
            assert found == ([entries[0], *entries[2:place]], bytearray([0, 1, 0, 0][: place - 1]))
            assert [*late] == entries[place:], "it stands where it stood"


def test_what_was_removed_while_it_was_hidden_stays() -> None:
    entries, late = late_entries()
    assert take_written(late, ALL, 8, entries[1].sequence) == ([entries[0]], bytearray(1))
    assert [*late] == entries[1:]


def test_what_is_no_row_needs_no_record_that_is_written() -> None:
    entries, late = late_entries()
    late.popleft()
    assert take_written(late, entries[0].message.record, 8, ALL) == ([entries[2]], bytearray([1]))


def test_late_entries_are_enough_when_the_last_of_so_many_is_written() -> None:
    order, entries = appended(5, keep=1)
    assert order.page_out(ALL, 1) == 1
    assert order.paged_count() == 1
    last = entries[-1].message.record
    assert order.enough_written(3, last + 1)
    assert not order.enough_written(3, last)
    assert order.enough_written(2, last)
    assert not order.enough_written(4, ALL), "one is at the front, one a row"


def test_only_what_became_a_row_is_let_go_of() -> None:
    queue = durable_queue()
    entries = [entry_of(queue, 5) for _ in range(3)]
    let_rows_go(entries, bytearray([0, 1, 0]))
    assert [entry.away for entry in entries] == [True, False, True]
    assert [entry.indexed for entry in entries] == [False, True, False]
    let_rows_go(entries[1:2], bytearray(1))
    assert entries[1].away


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
