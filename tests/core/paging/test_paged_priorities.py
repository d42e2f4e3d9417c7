"""Strict priorities with the middle of each level on disk: the same order, one front for all levels."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.errors import PreconditionFailed
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.model.entry import QueueEntry
from annulet.core.paging.folding import FOLD_BYTES_LEAST, FOLD_MESSAGES_LEAST
from annulet.core.paging.paged_priorities import PagedLevels, paged_order_of
from annulet.core.paging.redelivered_ranges import redelivered_ranges
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.purging import Gone
from annulet.core.queue.queue import Queue
from annulet.residency.bodies.budget import drift_of
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message
from tests.residency.doubles import Disk, durable_queue, pages_of

ALL = 1 << 60


class Knowing(SlicingEffects):
    """The log takes all records at once."""

    def emptied(self, queue: Queue, gone: Gone) -> bool:
        return True


class Levels:
    """A queue with three levels; ``put`` stores messages and enqueues them."""

    def __init__(self, effects: SlicingEffects | None = None, room: int = ALL, **settings: Any) -> None:
        self.disk = Disk()
        self.queue = durable_queue(**{"max_priority": 2, **settings})
        if effects is not None:
            self.queue.effects = effects
        order = paged_order_of(self.queue, pages_of(self.queue, self.disk, lambda: room))
        assert isinstance(order, PagedLevels)
        self.order = order

    def put(self, *priorities: int, size: int = 10) -> list[QueueEntry]:
        entries = []
        for priority in priorities:
            message = make_message(b"%0*d" % (size, self.queue.next_sequence), priority=priority)
            self.disk.store(self.queue, message, self.queue.next_sequence)
            entries.append(self.queue.enqueue(message, NOW))
        return entries

    def rows(self) -> list[int]:
        return [level.paged_count() for level in self.order.levels]

    def taken(self) -> list[int]:
        found = []
        while (entry := self.order.first()) is not None:
            self.queue.take_first(entry)
            found.append(entry.sequence)
        return found


def test_the_oldest_of_all_levels_may_be_a_row():
    levels = Levels()
    levels.order.keep_messages = levels.order.fold_least = 1
    (first, *_) = levels.put(0, 0, 2, 1)
    levels.disk.stored[1] = levels.disk.stored[1]._replace(accepted_at=NOW - 50)
    first.message.accepted_at = NOW - 50
    assert levels.order.oldest_accepted_at() == NOW - 50
    assert levels.order.page_out(ALL, 10) == 3
    assert levels.rows() == [2, 1, 0]
    assert [levels.order.oldest_accepted_at() for _ in range(2)] == [NOW - 50] * 2
    assert levels.disk.reads == [1, 1], "the first row of each level, once"
    assert levels.rows() == [2, 1, 0]
    assert levels.taken() == [3, 4, 1, 2]
    assert levels.order.oldest_accepted_at() == 0


def test_the_least_important_pages_first_and_the_front_belongs_to_the_most_important():
    levels = Levels()
    levels.order.keep_messages = 100
    levels.put(*[2] * 80, *[1] * 80, *[0] * 80)
    assert levels.order.page_out(ALL, 50) == 50
    assert levels.rows() == [50, 0, 0]
    assert levels.order.page_out(ALL, 1000) == 30 + 60
    assert levels.rows() == [80, 60, 0]
    assert levels.order.page_out(ALL, 1000) == 0
    assert (levels.order.paged_count(), levels.order.paged_bytes()) == (140, 1400)
    assert drift_of(levels.queue) == 0
    check_invariants(levels.queue)
    assert levels.taken() == list(range(1, 241))
    assert levels.queue.pending_bytes == 0


def test_the_front_is_counted_in_bytes_too():
    levels = Levels()
    levels.order.keep_bytes = 2500
    levels.put(*[1] * 70, size=30)
    levels.put(*[2] * 70, size=30)
    levels.order.page_out(ALL, 1000)
    assert levels.rows() == [0, 70 - 14, 0], "14 and 70 are 2520 bytes"


def test_a_front_goes_to_more_important_messages_that_come_later():
    levels = Levels()
    levels.order.keep_messages = 100
    levels.order.fold_least = 8
    levels.put(*[0] * 300)
    levels.order.page_out(ALL, 1000)
    assert levels.rows() == [200, 0, 0]
    levels.put(*[1] * 90)
    assert levels.order.page_out(50, 1000) == 0, "of those that fold back some are not written"
    assert levels.order.page_out(ALL, 50) == 50
    assert levels.order.page_out(ALL, 1000) == 40
    assert levels.rows() == [290, 0, 0]
    assert drift_of(levels.queue) == 0
    assert levels.taken() == [*range(301, 391), *range(1, 301)]


def test_a_front_that_is_little_too_long_stays():
    levels = Levels()
    levels.order.keep_messages = 100
    levels.put(*[0] * 300)
    levels.order.page_out(ALL, 1000)
    levels.put(*[1] * (FOLD_MESSAGES_LEAST - 1))
    assert levels.order.page_out(ALL, 1000) == 0
    levels.put(1)
    assert levels.order.page_out(ALL, 1000) == FOLD_MESSAGES_LEAST


@pytest.mark.parametrize("level", [0, 1])
def test_a_level_with_little_in_it_has_no_rows(level: int):
    levels = Levels()
    levels.order.keep_messages = 0
    levels.put(*[level] * (FOLD_MESSAGES_LEAST - 1))
    assert levels.order.page_out(ALL, 1000) == 0
    levels.put(level, size=FOLD_BYTES_LEAST)
    assert levels.order.page_out(ALL, 1000) == FOLD_MESSAGES_LEAST


def test_few_large_messages_page_as_well():
    levels = Levels()
    levels.order.keep_messages = 0
    levels.put(0, 0, size=FOLD_BYTES_LEAST // 2)
    assert levels.order.page_out(ALL, 1000) == 2


def test_what_comes_is_served_before_rows_of_a_lower_level_and_behind_those_of_its_own():
    levels = Levels()
    levels.order.keep_messages = 0
    levels.put(*[0] * 64, *[1] * 64)
    levels.order.page_out(ALL, 1000)
    (urgent,), (late,) = levels.put(2), levels.put(1)
    assert levels.order.first() is urgent
    assert levels.taken() == [urgent.sequence, *range(65, 129), late.sequence, *range(1, 65)]


def test_an_entry_that_was_a_row_comes_back_to_its_level():
    levels, session = Levels(), RecordingSession()
    levels.order.keep_messages = 0
    levels.put(*[1] * 100)
    levels.order.page_out(ALL, 1000)
    first = levels.order.first()
    levels.put(2)
    session.consume(levels.queue, messages=3)
    entries = [entry for _, entry in session.deliveries]
    assert [entry.sequence for entry in entries] == [101, 1, 2]
    assert entries[1] is first
    levels.queue.return_entries([entries[1]], NOW)
    assert session.deliveries[-1][1] is first, "before all others of its level"
    check_invariants(levels.queue)


def test_what_the_disk_refuses_keeps_its_level_waiting_and_is_not_overtaken():
    levels = Levels()
    levels.order.keep_messages = 0
    levels.put(*[1] * 64, 0)
    levels.order.page_out(ALL, 1000)
    levels.disk.failing = True
    assert levels.order.first() is None
    assert levels.order.first_sequence() == 1
    assert levels.order.count == 65
    levels.disk.failing = False
    for pages in levels.order.page_parts():
        pages.retry()
    assert levels.order.first().sequence == 1


def test_damaged_rows_are_counted_out_of_their_level_and_of_the_whole():
    levels = Levels()
    levels.order.keep_messages = 0
    levels.put(*[1] * 64, *[0] * 64)
    levels.order.page_out(ALL, 1000)
    levels.disk.damaged |= {3, 70}
    assert len(levels.order.entries()) == levels.order.count == 126
    assert levels.queue.counters.removed[RemovalReason.UNREADABLE] == 2
    check_invariants(levels.queue)


def test_a_look_at_the_first_ends_where_a_row_stands():
    levels = Levels()
    levels.order.keep_messages = 10
    levels.put(*[2] * 5, *[1] * 400, *[0] * 400)
    levels.order.page_out(ALL, 1000)
    assert levels.rows() == [400, 395, 0]
    assert sorted(entry.sequence for entry in levels.order.leading(5)) == [1, 2, 3, 4, 5]
    assert sorted(entry.sequence for entry in levels.order.leading(6)) == list(range(1, 11))
    assert sorted(entry.sequence for entry in levels.order.leading(11)) == list(range(1, 11 + 256))
    assert levels.rows() == [400, 395 - 256, 0]
    assert sorted(entry.sequence for entry in levels.order.leading(410)) == list(range(1, 406 + 256))


@pytest.mark.parametrize("knows", [True, False])
def test_a_deep_purge_counts_and_records_the_rows_of_all_levels(knows: bool):
    effects = Knowing() if knows else SlicingEffects()
    levels = Levels(effects)
    levels.order.keep_messages = 100
    count = AT_ONCE_MAX + 100
    levels.put(*[number % 3 for number in range(count)])
    levels.order.page_out(ALL, ALL)
    assert levels.order.paged_count() == count - 100
    assert levels.queue.purge(NOW) == count
    assert (levels.order.count, levels.order.paged_count(), levels.queue.pending_bytes) == (0, 0, 0)
    effects.turns()
    records = {record.sequence: record for record in levels.queue.ledger.query()}
    assert set(records) == set(range(1, count + 1))
    assert all(record.priority == (sequence - 1) % 3 for sequence, record in records.items())
    assert (levels.queue.ledger.total, levels.queue.counters.removed[RemovalReason.PURGED]) == (count, count)
    check_invariants(levels.queue)


def test_few_rows_are_purged_one_by_one_also_where_the_disk_refuses():
    levels = Levels()
    levels.order.keep_messages = 0
    levels.put(*[0] * 64, *[1] * 64)
    levels.order.page_out(ALL, 1000)
    levels.disk.failing = True
    assert levels.queue.purge(NOW) == 128
    assert levels.queue.counters.removed[RemovalReason.PURGED] == 128
    check_invariants(levels.queue)


def test_who_has_to_look_at_all_is_refused_where_that_is_more_than_memory_has():
    levels = Levels(room=1000)
    levels.order.keep_messages = 0
    levels.put(*[0] * 64, *[1] * 64)
    levels.queue.require_in_memory("a snapshot")
    levels.order.page_out(ALL, 1000)
    with pytest.raises(PreconditionFailed, match="128 of its messages are on disk only"):
        levels.queue.require_in_memory("a snapshot")
    pages = levels.order.pages_behind()
    assert pages is not None
    assert pages.rows == 64


def test_a_selector_leaves_levels_on_disk():
    levels, session = Levels(), RecordingSession()
    levels.order.keep_messages = 0
    levels.put(*[0] * 64, *[1] * 64)
    levels.order.page_out(ALL, 1000)
    session.consume(levels.queue, messages=1000, selector="JMSPriority = 0")
    assert session.received == []
    while levels.queue.scan(NOW):
        pass
    assert [int(body) for body in session.received] == list(range(1, 65))
    assert levels.queue.order.paged_count() == 64
    check_invariants(levels.queue)


def test_what_came_back_is_told_of_rows_and_entries():
    levels = Levels()
    levels.order.keep_messages = 0
    entries = levels.put(*[0] * 64, 1)
    assert redelivered_ranges(levels.queue).count == 0
    entries[40].redelivered = True
    levels.order.page_out(ALL, 1000)
    assert redelivered_ranges(levels.queue).lengths() == [41, 1]
    entries[64].redelivered = True
    assert redelivered_ranges(levels.queue).lengths() == [41, 1, 23, 1]


def test_only_strict_priorities_have_levels_that_page():
    queue = durable_queue()
    assert not isinstance(paged_order_of(queue, pages_of(queue, Disk())), PagedLevels)
    levels = Levels()
    assert paged_order_of(levels.queue, pages_of(levels.queue, levels.disk)) is levels.order
    levels.queue.delete(NOW)
    assert paged_order_of(levels.queue, pages_of(levels.queue, levels.disk)) is None


def test_levels_tell_which_of_them_gained_since() -> None:
    levels = Levels()
    entries = levels.put(0, 2, 0, 1, 1)
    assert levels.order.newest == 5
    assert [levels.order.gained_from(sequence) for sequence in range(7)] == [7, 7, 7, 3, 2, 2, 0]
    for entry in entries[3:]:
        levels.queue.remove_pending(entry, RemovalReason.PURGED, NOW, 0)
    assert [levels.order.gained_from(sequence) for sequence in (1, 3, 4)] == [5, 1, 0], "nothing is left on level 1"
    levels.order.recount()
    assert [levels.order.gained_from(sequence) for sequence in (1, 3, 4)] == [5, 1, 0]
    assert levels.order.newest == 5, "whoever saw all up to it need not look again"


def test_what_levels_gained_before_they_could_page_is_known() -> None:
    queue = durable_queue(max_priority=2)
    for priority in (2, 0, 0, 2):
        queue.enqueue(make_message("x", priority=priority), NOW)
    order = paged_order_of(queue, pages_of(queue, Disk()))
    assert isinstance(order, PagedLevels)
    assert order.newest == 4
    assert [order.gained_from(sequence) for sequence in (0, 3, 4, 5)] == [5, 5, 4, 0]


def test_the_first_area_is_the_most_important_level_with_something() -> None:
    levels = Levels()
    levels.order.keep_messages = 2
    first, *_ = levels.put(2, *[0] * 100)
    levels.order.page_out(ALL, 1000)
    assert levels.order.first_area() is levels.order.areas()[0] is levels.order.levels[2]
    levels.queue.remove_pending(first, RemovalReason.PURGED, NOW, 0)
    assert levels.order.first_area() is levels.order.areas()[0] is levels.order.levels[0]
    levels.put(1)
    assert levels.order.first_area() is levels.order.levels[1]


def test_a_level_that_somebody_took_from_is_counted_alone() -> None:
    levels = Levels()
    levels.order.keep_messages = 2
    levels.put(*[0] * 100, *[1] * 100)
    levels.order.page_out(ALL, 1000)
    levels.disk.damaged |= {120, 130}
    area = levels.order.first_area()
    former = area.count
    found = area.look(110, [], 50)
    assert found is not None
    area.take_out(found[:5])
    levels.order.area_changed(area, former)
    assert levels.order.count == sum(level.count for level in levels.order.levels) < 195


def test_what_came_back_becomes_rows_of_its_level_again() -> None:
    levels = Levels()
    order, count = levels.order, FOLD_MESSAGES_LEAST + 20
    order.keep_messages = 10
    levels.put(*[2] * count, *[0] * count)
    held = levels.queue.acquire(2 * count, -1, NOW)
    levels.queue.return_entries(held, NOW)
    assert order.came_back() == 2 * count
    assert order.fold(ALL, count) == count, "the least important first"
    assert levels.rows() == [count, 0, 0]
    assert order.fold(ALL, count) == count - 10
    assert order.fold(ALL, count) == 0
    assert levels.rows() == [count, 0, count - 10]
    assert (order.count, order.came_back()) == (2 * count, 10)
    again = levels.queue.acquire(2 * count, -1, NOW)
    assert [entry.sequence for entry in again] == list(range(1, 2 * count + 1))
    assert {(entry.delivery_count, entry.redelivered) for entry in again} == {(1, True)}
    assert drift_of(levels.queue) == 0


def test_the_disk_is_asked_for_the_most_important_rows_when_a_consumer_comes() -> None:
    levels = Levels()
    levels.order.keep_messages = levels.order.fold_least = 1
    entries = levels.put(0, 0, 1, 1, 1)
    assert levels.order.page_out(ALL, 10) == 4
    assert levels.rows() == [2, 2, 0]
    RecordingSession("one").consume(levels.queue, messages=1)
    assert levels.disk.prefetched == [entry.message.record for entry in entries[3:]]
