"""A FIFO order whose middle is on disk is a FIFO order, whatever pages out and comes back when."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.deliveries.bodies import send_away
from annulet.core.message.message import Origin
from annulet.core.model.entry import DELIVERING, PENDING, REMOVED, QueueEntry
from annulet.core.model.entry_holds import Pin
from annulet.core.model.queue_area import QueueArea
from annulet.core.ordering.order import FifoOrder
from annulet.core.paging import paged_fifo
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.paging.redelivered_ranges import RedeliveredRanges, redelivered_ranges
from annulet.core.queue.restoring import restore_rows
from annulet.residency.bodies.budget import drift_of
from annulet.residency.loading.row_reading import ATTEMPTS_MAX
from annulet.residency.pages import pages as pages_module
from tests.core.helpers import NOW, make_message
from tests.hypothesis_profiles import state_machine_settings
from tests.residency.doubles import Disk, appended, bodies_of, durable_queue, pages_of, stored_entries

ALL = 1 << 60


def date(disk: Disk, entries: list[QueueEntry]) -> None:
    """Have each accepted a millisecond after the one before it."""
    for entry in entries:
        entry.message.accepted_at = NOW + entry.sequence
        record = entry.message.record
        disk.stored[record] = disk.stored[record]._replace(accepted_at=NOW + entry.sequence)


def columns(entries: list[QueueEntry]) -> tuple[list[int], list[int], list[int], list[Origin]]:
    """Return sequences, records, sizes and origins: what a start knows of entries."""
    messages = [entry.message for entry in entries]
    return (
        [entry.sequence for entry in entries],
        [message.record for message in messages],
        [len(message.body) for message in messages],
        [message.origin for message in messages],
    )


class Paging(RuleBasedStateMachine):
    """Sequences are compared with a sorted list; an entry that is held by somebody is never replaced by another."""

    @initialize()
    def start(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(pages_module, "LOAD_MESSAGES", 3)
        self.disk = Disk()
        self.queue = durable_queue()
        order = paged_order_of(self.queue, pages_of(self.queue, self.disk))
        assert order is not None
        order.keep_messages = 2
        self.order = order
        self.model: list[int] = []
        self.out: list[QueueEntry] = []
        self.held: dict[int, QueueEntry] = {}  # by somebody who has a pin
        self.pins: list[Pin] = []

    def came_back(self) -> RedeliveredRanges:
        found = RedeliveredRanges()
        found.add([(entry.sequence, entry.sequence) for entry in self.order.in_memory() if entry.redelivered])
        found.add(self.order.pages.redelivered_ranges())
        return found

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    @rule(kind=st.sampled_from(["stored", "stored", "stored", "transient", "expiring", "came back once"]))
    def append(self, kind: str) -> None:
        (entry,) = stored_entries(self.queue, self.disk, 1)
        date(self.disk, [entry])
        if kind == "transient":
            entry.message.record = 0
        elif kind == "expiring":
            entry.message.expires_at = NOW + 1
        elif kind == "came back once":
            entry.redelivered = True
        self.order.append(entry)
        self.model.append(entry.sequence)

    @rule(limit=st.integers(1, 6), durable=st.integers(0, 40))
    def page_out(self, limit: int, durable: int) -> None:
        before = self.order.paged_count()
        assert 0 <= self.order.page_out(durable if durable < 35 else ALL, limit) <= limit
        assert self.order.paged_count() >= before

    @rule(count=st.integers(1, 6), redelivered=st.booleans())
    def restore_rows(self, count: int, redelivered: bool) -> None:
        entries = stored_entries(self.queue, self.disk, count)
        date(self.disk, entries)
        self.order.restore_rows(*columns(entries), redelivered=redelivered)
        self.model += [entry.sequence for entry in entries]
        assert (entries[-1].sequence in self.came_back()) is redelivered

    @rule(count=st.integers(1, 4))
    def take(self, count: int) -> None:
        for _ in range(min(count, len(self.model))):
            entry = self.order.take_first()
            assert entry is not None
            assert entry.sequence == self.model.pop(0)
            assert self.held.get(entry.sequence, entry) is entry
            assert int(entry.message.body) == entry.sequence
            entry.state = DELIVERING
            self.out.append(entry)

    @precondition(lambda self: self.out)
    @rule(choice=st.integers(0, 100))
    def come_back(self, choice: int) -> None:
        entry = self.out.pop(choice % len(self.out))
        entry.state = PENDING
        entry.redelivered = True
        self.order.reinsert(entry)
        self.model = sorted([*self.model, entry.sequence])

    @precondition(lambda self: self.order.in_memory())
    @rule(choice=st.integers(0, 100))
    def discard(self, choice: int) -> None:
        there = [entry for entry in self.order.in_memory() if entry.state == PENDING]
        if there:
            entry = there[choice % len(there)]
            entry.state = REMOVED
            self.order.discard(entry)
            self.model.remove(entry.sequence)

    @rule(how=st.sampled_from(["entries", "snapshot", "held"]))
    def look_at_all(self, how: str) -> None:
        entries = [entry for entry in getattr(self.order, how)() if entry.state == PENDING]
        assert sorted(entry.sequence for entry in entries) == self.model
        assert self.order.paged_count() == 0
        self.pins.append(Pin(self.queue, max(self.model, default=0)))
        for entry in entries:
            assert self.held.setdefault(entry.sequence, entry) is entry

    @rule()
    def let_go(self) -> None:
        self.held.clear()
        self.pins.clear()

    @rule()
    def compact(self) -> None:
        self.order._compact()

    @rule()
    def clear(self) -> None:
        self.order.clear()
        self.model.clear()
        assert self.order.first() is None

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "order"):
            return
        order = self.order
        assert order.count == len(self.model)
        there = [entry for entry in order.in_memory() if entry.state == PENDING]
        assert len(there) + order.paged_count() == order.count
        assert order.paged_bytes() == 10 * order.paged_count()
        if order.first_sequence() not in self.model:  # a removed entry at the front of the pages
            assert not self.model or order.first_sequence() < self.model[0]
        rows = order.paged_count()
        assert order.oldest_accepted_at() == (NOW + self.model[0] if self.model else 0)
        assert order.paged_count() == rows, "they stay where they are"
        came_back = self.came_back()
        assert [entry for entry in there if entry.redelivered] == [
            entry for entry in there if entry.sequence in came_back
        ]


TestPaging = Paging.TestCase
TestPaging.settings = state_machine_settings(examples=60, steps=40)


def paged(count: int, *, keep: int = 2) -> tuple[PagedFifo, Disk]:
    """Return an order of ``count`` stored messages with all but ``keep`` on disk."""
    queue, disk = durable_queue(), Disk()
    for entry in stored_entries(queue, disk, count):
        queue.counters.messages_added += 1
        queue.counters.bytes_added += 10
        queue.insert(entry, arrival=True)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = keep
    assert queue.order is order
    assert order.page_out(ALL, 1 << 20) == count - keep
    return order, disk


def taken(order: PagedFifo) -> list[int]:
    sequences = []
    while (entry := order.take_first()) is not None:
        sequences.append(entry.sequence)
    return sequences


def test_the_time_of_a_row_that_is_next_is_read_once():
    order, disk = paged(6)
    for entry in order.in_memory():
        date(disk, [entry])
    for record in (3, 4):  # of the rows 3 and 4
        disk.stored[record] = disk.stored[record]._replace(accepted_at=NOW + record)
    assert order.oldest_accepted_at() == NOW + 1
    order.take_first(), order.take_first()
    assert disk.reads == []
    disk.failing = True
    assert order.oldest_accepted_at() == 0, "the disk does not tell now"
    disk.failing = False
    assert [order.oldest_accepted_at() for _ in range(3)] == [NOW + 3] * 3
    assert disk.reads == [1]
    assert (order.count, order.paged_count()) == (4, 4)
    disk.damaged.add(3)
    disk.stored[3] = disk.stored[3]._replace(accepted_at=1)
    assert order.oldest_accepted_at() == NOW + 3, "what is known is not read again"


def test_a_damaged_row_that_is_next_has_no_time():
    order, disk = paged(4)
    order.take_first(), order.take_first()
    disk.damaged.add(3)
    assert [order.oldest_accepted_at() for _ in range(2)] == [0, 0]
    assert disk.reads == [1]
    assert order.first().sequence == 4
    assert order.oldest_accepted_at() == NOW


def test_figures_and_the_first_sequence_load_nothing():
    order, disk = paged(100)
    queue = disk.queue
    for _ in range(2):
        order.take_first()
        queue.pending_bytes -= 10
    assert order.first_sequence() == 3
    figures = queue.statistics()
    assert (figures.pending_count, figures.messages_paged, figures.first_sequence) == (98, 98, 3)
    assert redelivered_ranges(queue).count == 0
    assert disk.reads == []


def test_what_the_log_has_not_written_stays():
    queue, disk = durable_queue(), Disk()
    for entry in stored_entries(queue, disk, 10):
        queue.insert(entry, arrival=True)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 2
    assert order.page_out(6, 100) == 3  # behind the two that are kept, records 3, 4 and 5
    assert order.page_out(6, 100) == 0
    assert order.paged_count() == 3
    assert taken(order) == list(range(1, 11))


def test_the_front_keeps_a_mebibyte_when_messages_are_large():
    queue, disk = durable_queue(), Disk()
    for entry in stored_entries(queue, disk, 10, size=paged_fifo.KEEP_BYTES // 4):
        queue.insert(entry, arrival=True)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    assert order.page_out(ALL, 100) == 6
    assert taken(order) == list(range(1, 11))


def test_a_returned_message_goes_before_rows_without_loading_them():
    order, disk = paged(100)
    first, second = order.take_first(), order.take_first()
    order.reinsert(second)
    order.reinsert(first)
    assert order.first() is first
    assert disk.reads == []
    assert taken(order) == list(range(1, 101))


def test_a_damaged_record_is_passed_over_and_accounted_for():
    _order, disk = paged(100)
    queue = disk.queue
    disk.damaged = {5, 50, 100}
    assert len(queue.order.entries()) == 97
    assert queue.order.count == 97
    assert queue.pending_bytes == 970
    figures = queue.statistics()
    assert figures.messages_unreadable == 3
    assert figures.messages_added == figures.message_count + sum(figures.removed.values())


def test_a_record_of_another_queue_is_no_message_of_this_one():
    order, disk = paged(10)
    disk.stored[5].targets[0] = (8, 5)
    assert taken(order) == [1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_a_disk_that_refuses_holds_the_queue_up_and_loses_nothing():
    order, disk = paged(10)
    disk.failing = True
    assert taken(order) == [1, 2]
    assert (order.count, order.first()) == (8, None)
    disk.failing = False
    assert order.first() is None, "until somebody asks to try again"
    order.pages.retry()
    assert taken(order) == list(range(3, 11))


def test_what_the_disk_never_gives_is_given_up():
    order, disk = paged(10)
    disk.failing = True
    taken(order)
    for _ in range(ATTEMPTS_MAX):
        order.pages.retry()
        order.first()
    assert order.count == 0
    assert disk.queue.statistics().messages_unreadable == 8


def test_entries_that_somebody_may_hold_never_become_rows():
    queue, disk = durable_queue(), Disk()
    for entry in stored_entries(queue, disk, 10):
        queue.insert(entry, arrival=True)
    held, pin = queue.order.snapshot(), Pin(queue, 10)  # before the queue ever paged
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 2
    assert order.page_out(ALL, 100) == 0
    for entry in stored_entries(queue, disk, 10):
        queue.insert(entry, arrival=True)
    assert order.page_out(ALL, 100) == 10
    first = [order.take_first() for _ in held[:5]]
    assert first == held[:5]
    del pin
    assert order.page_out(ALL, 100) == 3, "the end of a front that is long only because somebody held it"
    assert (order.page_out(ALL, 100), order.front_length) == (0, 2)
    assert taken(order) == list(range(6, 21))


@pytest.mark.parametrize("how", ["entries", "snapshot", "held", "leading"])
def test_what_was_looked_at_as_a_whole_becomes_rows_again(how):
    order, disk = paged(2000)
    assert len(order.leading(2000) if how == "leading" else getattr(order, how)()) == 2000
    assert order.paged_count() == 0
    pin = Pin(disk.queue, 2000)
    assert order.page_out(ALL, 10_000) == 0
    del pin
    assert order.page_out(ALL, 10_000) == 1998
    assert taken(order) == list(range(1, 2001))


def test_a_purge_brings_rows_in_part_by_part():
    order, disk = paged(2000)
    queue = disk.queue
    assert queue.purge(NOW) == 2000
    assert max(disk.reads) <= pages_module.LOAD_MESSAGES
    assert (order.count, order.paged_count(), queue.pending_bytes) == (0, 0, 0)
    assert queue.ledger.total == 2000


def test_a_purge_on_a_disk_that_refuses_lets_go_of_all_records():
    order, disk = paged(100)
    disk.failing = True
    queue = disk.queue
    assert queue.purge(NOW) == 100
    assert len(queue.effects.settled) == 100, "none of them comes back with the next start"
    figures = queue.statistics()
    assert (figures.message_count, figures.messages_unreadable, figures.pending_bytes) == (0, 0, 0)
    assert queue.counters.bytes_removed == 1000
    assert (order.pages.items, order.paged_bytes()) == (0, 0)


@pytest.mark.parametrize("arguments", [{"last_value_key": "k"}, {"non_destructive": True, "priorities": 3}])
def test_queues_whose_entries_others_know_do_not_page(arguments):
    queue = durable_queue(**arguments)
    assert paged_order_of(queue, QueueArea()) is None
    assert type(queue.order) is not PagedFifo


def test_a_queue_in_memory_does_not_page():
    queue = durable_queue()
    queue.queue_id = 0
    assert paged_order_of(queue, QueueArea()) is None
    assert type(queue.order) is FifoOrder


def test_a_look_at_the_first_messages_loads_no_more_than_these():
    order, disk = paged(2000)
    returned = order.take_first()
    assert order.take_first().sequence == 2
    order.reinsert(returned)
    first = order.leading(300)
    assert sorted(entry.sequence for entry in first)[:3] == [1, 3, 4]
    assert len(first) == 2 * pages_module.LOAD_MESSAGES + 1
    assert order.paged_count() > 1000
    pin = Pin(disk.queue, max(entry.sequence for entry in first))
    assert order.page_out(ALL, 10_000) == 0
    del pin
    assert order.page_out(ALL, 10_000) == len(first) - 2
    assert taken(order) == [1, *range(3, 2001)]


def test_a_look_at_the_first_messages_brings_in_so_many_bytes():
    order, _disk = paged(2000)
    order.leading_bytes = 3000
    assert len(order.leading(2000)) == 2 + 2 * pages_module.LOAD_MESSAGES  # 2,560 and again 2,560 bytes
    assert len(order.leading(2000)) == 2 + 2 * pages_module.LOAD_MESSAGES
    assert taken(order) == list(range(1, 2001))


def test_what_came_back_from_far_behind_is_not_among_the_first():
    order, _ = paged(2000)
    out = [order.take_first() for _ in range(1900)]
    for entry in (out[0], out[-1]):
        order.reinsert(entry)
    order.page_out(ALL, 10_000)
    assert sorted(entry.sequence for entry in order.leading(1))[:2] == [1, 1900]
    assert len(order.leading(10_000)) == 102


def test_the_order_is_made_once():
    order, disk = paged(10)
    assert paged_order_of(disk.queue, QueueArea()) is order


def test_arrivals_stay_objects_behind_the_rows():
    order, disk = paged(10)
    queue = disk.queue
    entry = queue.enqueue(make_message(b"0000000011"), NOW)
    assert entry in order.in_memory()
    assert order.paged_count() == 8
    assert taken(order) == list(range(1, 12))


def test_a_queue_whose_late_messages_were_all_removed_has_nothing_behind_its_front():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 3)
    for entry in entries:
        queue.insert(entry, arrival=True)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 2
    entries[2].message.record = 0
    assert order.page_out(ALL, 100) == 0  # what is not in the log is late
    queue.remove_pending(entries[2], RemovalReason.EXPIRED, NOW, 0)
    assert order.page_out(ALL, 100) == 0
    assert sorted(entry.sequence for entry in order.leading(1)) == [1, 2]
    assert [order.take_first(), order.take_first()] == entries[:2]
    order.reinsert(entries[0])
    assert order.first_sequence() == 1
    assert taken(order) == [1]


def test_late_messages_become_rows_before_those_found_at_start():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 40)
    for entry in entries[:20]:
        queue.insert(entry, arrival=True)
    entries[15].message.deliver_at = NOW + 1
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 5
    order.restore_rows(*columns(entries[20:]), redelivered=False)
    assert (order.count, order.paged_count()) == (40, 34), "the one that waited stays in memory"
    assert taken(order) == list(range(1, 41))


def test_late_messages_that_become_rows_at_start_hold_no_bodies():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 40)
    for entry in entries[:20]:
        queue.insert(entry, arrival=True)
    bodies = bodies_of(queue, disk)
    send_away(entries[9], bodies)
    entries[10].message.near += 1  # another queue has it
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 5
    restore_rows(queue, order, columns(entries[20:]), redelivered=False)
    assert (bodies.count, bodies.bytes, drift_of(queue)) == (0, 0, 0)
    assert entries[10].message.near == 1


def test_cutting_the_front_moves_what_stays_and_not_the_rest():
    """The rest was copied, which held the event loop for 10 ms where the body budget was full."""
    order, entries = appended(20, keep=3)
    everything = order._front
    assert order.page_out(0, 5) == 0, "none is written"
    assert order._late is everything
    assert (list(order._front), list(everything)) == (entries[:3], entries[3:])
    assert order.page_out(ALL, 5) == 5
    assert (order.paged_count(), list(order._late)) == (5, entries[8:])
    assert [entry.sequence for entry in order.entries()] == [entry.sequence for entry in entries]
