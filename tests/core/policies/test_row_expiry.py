"""Rows expire at their time, with everything that counts, and are read only where they are sent on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import QueueSettings
from annulet.core.base.sliced_work import SLICE_MESSAGES
from annulet.core.model.entry import QueueEntry
from annulet.core.model.events import QueueEvents
from annulet.core.model.loss_ledger import LossLedger
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.policies.row_expiry import ENDED_PAGES, ENDED_RANGES, ORDERED_MAX, next_expiry, some_expire
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.restoring import finish_restore, restore_rows
from annulet.residency.bodies.budget import drift_of
from annulet.residency.pages import page_list as page_list_module
from annulet.residency.pages import pages as pages_module
from annulet.residency.rows.row_facts import RowFacts
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, make_message
from tests.core.model_suite.doubles import ModelForwarder
from tests.residency.doubles import Disk, durable_queue, pages_of

ALL = 1 << 60
LIFE = 1000
EXPIRED = RemovalReason.EXPIRED


class Aging:
    """A queue with a time to live, of which nothing but what ``keep`` says stays in memory."""

    def __init__(self, keep: int = 0, effects: SlicingEffects | None = None, **settings: Any) -> None:
        self.disk = Disk()
        self.queue = durable_queue(**{"message_ttl": LIFE, **settings})
        if effects is not None:
            self.queue.effects = effects
        pages = pages_of(self.queue, self.disk)
        order = paged_order_of(self.queue, pages)
        assert order is not None
        order.keep_messages = keep
        self.order = order

    def put(self, times: Sequence[int], *, size: int = 10, priority: int = 4, own: int = 0) -> list[QueueEntry]:
        """Have messages accepted at these times; ``own``: when their sender has them end, 0 for never."""
        entries = []
        for at in times:
            message = make_message(b"%0*d" % (size, self.queue.next_sequence), accepted_at=NOW + at, priority=priority)
            message.expires_at = own
            self.disk.store(self.queue, message, self.queue.next_sequence)
            entries.append(self.queue.enqueue(message, NOW))
        return entries

    def page(self) -> None:
        while self.order.page_out(ALL, 1000):
            pass

    def rest(self) -> list[int]:
        check_invariants(self.queue)
        return [entry.sequence for entry in self.order.entries()]


class Removals(QueueEvents):
    """Notes what is removed."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def removed(self, entry: QueueEntry, reason: RemovalReason, now: int) -> None:
        self.told.append(entry.sequence)


def test_rows_whose_time_has_passed_go_unread_with_counts_and_records():
    aging = Aging()
    aging.put([0] * 5, size=10)
    aging.put([1] * 5, size=20)
    aging.put([2] * 5, size=30)
    aging.page()
    assert aging.order.paged_count() == 15
    assert aging.queue.next_due_at() == NOW + LIFE
    assert aging.order.first_expiry(NOW + LIFE) == (NOW + LIFE, 1)
    assert aging.queue.tick(NOW + LIFE - 1) == 0
    assert aging.queue.tick(NOW + LIFE + 1) == 10
    assert aging.disk.reads == []
    assert (aging.order.count, aging.queue.pending_bytes, aging.order.paged_bytes()) == (5, 150, 150)
    assert drift_of(aging.queue) == 0
    records = list(aging.queue.ledger.query())
    assert [record.sequence for record in records] == list(range(1, 11))
    assert [record.size for record in records] == [10] * 5 + [20] * 5
    assert [record.accepted_at for record in records] == [NOW] * 5 + [NOW + 1] * 5
    assert {(record.reason, record.at, record.priority) for record in records} == {(EXPIRED, NOW + LIFE + 1, 4)}
    assert aging.queue.counters.removed[EXPIRED] == 10
    assert aging.queue.next_due_at() == NOW + LIFE + 2
    assert aging.rest() == list(range(11, 16))


def test_entries_and_rows_expire_about_in_the_order_of_their_times():
    aging = Aging(keep=3)
    aging.put(range(10))
    aging.page()
    aging.put([10, 11])
    assert aging.order.paged_count() == 7
    assert aging.queue.tick(NOW + LIFE + 5) == 6
    assert aging.queue.tick(NOW + LIFE + 11) == 6
    assert [record.sequence for record in aging.queue.ledger.query()] == list(range(1, 13))
    assert aging.order.count == aging.queue.next_due_at() == 0


def test_what_comes_back_from_disk_expires_as_an_entry():
    aging = Aging()
    aging.put([0, 1, 2])
    aging.page()
    assert aging.order.first().sequence == 1
    assert aging.order.paged_count() == 0
    assert aging.queue.next_due_at() == NOW + LIFE
    assert aging.queue.tick(NOW + LIFE + 1) == 2
    assert aging.rest() == [3]


def test_an_entry_that_became_a_row_is_in_the_index_no_more():
    aging = Aging()
    entries = aging.put([0] * 500)
    aging.page()
    assert aging.queue.expiry is not None
    assert len(aging.queue.expiry) < 100
    assert not any(entry.indexed for entry in entries)
    assert aging.queue.expiry.due(NOW + LIFE) == []


def test_rows_that_came_with_a_clock_set_back_or_have_a_time_of_their_own_expire_when_it_has_come():
    aging = Aging()
    aging.put([5, 6, 2, 7])  # the clock was set back
    aging.put([8], own=NOW + 3)
    aging.put([9], own=NOW + 5 * LIFE)
    aging.page()
    assert aging.order.paged_count() == 6
    assert aging.queue.next_due_at() <= NOW + 3
    assert aging.queue.tick(NOW + 2) == 0
    assert aging.queue.tick(NOW + 3) == 1
    assert aging.queue.tick(NOW + LIFE + 2) == 1
    assert [record.sequence for record in aging.queue.ledger.query()] == [5, 3]
    assert aging.queue.tick(NOW + LIFE + 6) == 2
    assert aging.disk.reads == []
    assert aging.rest() == [4, 6]
    assert aging.queue.tick(NOW + LIFE + 9) == 2, "the queue's own time is the shorter one"


def test_rows_of_a_queue_without_a_time_expire_by_that_of_their_senders():
    aging = Aging(message_ttl=-1)
    aging.put([0] * 3)
    aging.put([0] * 4, own=NOW + 20, size=20)
    aging.put([1] * 2, own=NOW + 10)
    aging.page()
    aging.put([2], own=NOW + 15)
    assert aging.order.paged_count() == 9
    assert aging.queue.next_due_at() == NOW + 10
    assert aging.queue.tick(NOW + 30) == 7
    records = list(aging.queue.ledger.query())
    assert {record.sequence: record.size for record in records} == {4: 20, 5: 20, 6: 20, 7: 20, 8: 10, 9: 10, 10: 10}
    assert {(record.reason, record.at, record.priority) for record in records} == {(EXPIRED, NOW + 30, 4)}
    assert (aging.disk.reads, aging.queue.next_due_at(), drift_of(aging.queue)) == ([], 0, 0)
    assert aging.rest() == [1, 2, 3]


def test_a_row_read_back_expires_as_the_entry_it_is():
    aging = Aging(message_ttl=-1)
    aging.put([0] * 3)
    aging.put([0], own=NOW + 20)
    aging.page()
    assert [entry.message.expires_at for entry in aging.order.entries()] == [0, 0, 0, NOW + 20]
    assert (aging.order.paged_count(), aging.queue.next_due_at()) == (0, NOW + 20)
    assert aging.queue.tick(NOW + 20) == 1
    assert aging.rest() == [1, 2, 3]


def test_rows_in_the_middle_are_sent_on_and_nothing_else_is_read():
    aging = Aging(message_ttl=-1)
    aging.queue.forwarder = forwarder = ModelForwarder({"expired": "elsewhere"})
    sent: list[bytes] = []
    forwarder.flush = lambda now: sent.extend(entry.message.body for _, entry, _ in forwarder.added)
    aging.put([0] * 5)
    aging.put([0] * 3, own=NOW + 20)
    aging.put([0] * 5)
    aging.page()
    assert aging.queue.tick(NOW + 20) == 3
    assert sent == [b"%010d" % number for number in (6, 7, 8)]
    assert (sum(aging.disk.reads), aging.order.paged_count()) == (3, 10)
    check_invariants(aging.queue)


def test_purged_rows_do_not_expire():
    aging = Aging(message_ttl=-1)
    aging.put([0] * 30, own=NOW + 20)
    aging.page()
    assert aging.queue.purge(NOW + 1) == 30
    assert (aging.queue.tick(NOW + 50), aging.queue.next_due_at()) == (0, 0)
    aging.put([5], own=NOW + 60)
    aging.page()
    assert (aging.order.paged_count(), aging.queue.tick(NOW + 60)) == (1, 1)
    assert aging.queue.counters.removed[EXPIRED] == 1


def test_very_many_rows_expire_in_slices_and_nothing_is_dispatched_meanwhile():
    effects = SlicingEffects()
    aging = Aging(effects=effects)
    aging.put([0] * (3 * SLICE_MESSAGES))
    aging.put([1])
    aging.page()
    assert aging.queue.tick(NOW + LIFE) == SLICE_MESSAGES
    session = RecordingSession()
    session.consume(aging.queue, now=NOW + LIFE)
    assert session.received == []
    effects.turn(NOW + LIFE)
    assert session.received == []
    effects.turn(NOW + LIFE)
    assert [int(body) for body in session.received] == [3 * SLICE_MESSAGES + 1]
    assert aging.queue.ledger.total == 3 * SLICE_MESSAGES
    check_invariants(aging.queue)


@pytest.mark.parametrize("levels", [False, True])
def test_rows_of_which_the_ledger_keeps_nothing_go_together_and_count(
    levels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 100)
    effects = SlicingEffects()
    aging = Aging(effects=effects, **{"max_priority": 9} if levels else {})
    queue = aging.queue
    queue.ledger = LossLedger(250)
    gone = aging.put([0] * (SLICE_MESSAGES + 1500))
    aging.put([1] * 3)
    aging.order.page_out(ALL, ALL)  # in pages of 100
    assert queue.tick(NOW + LIFE) == SLICE_MESSAGES
    assert effects.turns(NOW + LIFE) == 2, "12 pages, as three behind them hold what the ledger keeps, then their rows"
    assert (queue.counters.removed[EXPIRED], queue.ledger.total) == (len(gone), len(gone))
    assert queue.counters.bytes_removed == 10 * len(gone)
    assert [record.sequence for record in queue.ledger.query()] == [entry.sequence for entry in gone[-250:]]
    assert sorted(record for _, record in effects.settled) == sorted(entry.message.record for entry in gone)
    assert (aging.disk.reads, queue.pending_bytes, drift_of(queue)) == ([], 30, 0)
    assert len(aging.rest()) == 3


def aging_in_pages(monkeypatch: pytest.MonkeyPatch, effects: SlicingEffects) -> Aging:
    """Return one with pages of 100, whose ledger keeps nothing."""
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 100)
    aging = Aging(effects=effects)
    aging.queue.ledger = LossLedger(0)
    return aging


@pytest.mark.parametrize(("queues", "pages"), [(1, ENDED_PAGES), (2, -(-ENDED_RANGES // 100))])
def test_a_slice_takes_some_pages_and_fewer_where_records_do_not_follow_one_another(
    queues: int, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``pages``: of one slice."""
    effects = SlicingEffects()
    aging = aging_in_pages(monkeypatch, effects)
    queue = aging.queue
    gone = aging.put([0] * (SLICE_MESSAGES + 100 * 2 * ENDED_PAGES))
    for entry in gone:
        entry.message.record *= queues
    aging.order.page_out(ALL, ALL)
    queue.tick(NOW + LIFE)
    assert effects.turns(NOW + LIFE) == -(-2 * ENDED_PAGES // pages) + 1, "the last finds that nothing is left"
    assert sorted(record for _, record in effects.settled) == [entry.message.record for entry in gone]


@pytest.mark.parametrize("sent_on", [False, True])
def test_rows_of_each_of_which_somebody_wants_to_know_go_one_by_one(
    sent_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = SlicingEffects()
    aging = aging_in_pages(monkeypatch, effects)
    queue = aging.queue
    forwarder = ModelForwarder({"expired": "elsewhere"} if sent_on else {})
    events = None if sent_on else Removals()
    queue.forwarder, queue.events = forwarder, events
    forwarder.flush = lambda now: None
    aging.put([0] * (SLICE_MESSAGES + 300))
    aging.order.page_out(ALL, ALL)  # in pages of 100
    queue.tick(NOW + LIFE)
    effects.turns(NOW + LIFE)
    told = [entry.sequence for _, entry, _ in forwarder.added] if events is None else events.told
    assert told == list(range(1, SLICE_MESSAGES + 301))


def test_a_slice_ends_when_it_had_to_put_very_many_rows_in_order(monkeypatch: pytest.MonkeyPatch):
    """Rows of all pages are due at about the same time, and putting those of one in order fills a slice."""
    find_turns = RowFacts.find_turns
    monkeypatch.setattr(RowFacts, "find_turns", lambda *given: ORDERED_MAX * bool(find_turns(*given)))
    monkeypatch.setattr(page_list_module, "PAGE_ITEMS_MAX", 4)
    effects = SlicingEffects()
    aging = Aging(effects=effects, message_ttl=-1)
    lives = [40 + (7 * number) % 160 for number in range(160)]
    for life in lives:
        aging.put([0], own=NOW + life)
    aging.page()
    assert aging.order.paged_count() == 160
    assert 0 < aging.queue.tick(NOW + 200) < 160
    turns = 0
    while aging.queue.expiring is not None:
        effects.turn(NOW + 200)
        turns += 1
    assert turns > 1
    assert [record.sequence for record in aging.queue.ledger.query()] == sorted(
        range(1, 161), key=lambda sequence: (lives[sequence - 1], sequence)
    )
    assert aging.rest() == []


def test_what_expired_among_rows_is_not_indexed_again_when_they_come_back():
    aging = Aging(message_ttl=-1)
    aging.put([0] * 3)
    aging.queue.enqueue(make_message(b"transient", expires_at=NOW + 5), NOW)
    aging.put([0] * 3)
    aging.page()
    assert (aging.order.paged_count(), aging.queue.tick(NOW + 5)) == (6, 1)
    assert aging.rest() == [1, 2, 3, 5, 6, 7]
    assert aging.queue.next_due_at() == 0


def test_rows_of_all_levels_expire_the_oldest_first():
    aging = Aging(priorities=10)
    aging.order.fold_least = 1
    for number in range(30):
        aging.put([number], priority=number % 10)
    aging.page()
    assert aging.order.paged_count() == 30
    assert aging.queue.tick(NOW + LIFE + 14) == 15
    assert [record.sequence for record in aging.queue.ledger.query()] == list(range(1, 16))
    assert [record.priority for record in aging.queue.ledger.query()][:11] == [*range(10), 0]
    assert aging.disk.reads == []
    assert sorted(aging.rest()) == list(range(16, 31))


def test_rows_of_a_queue_with_selectors_expire():
    aging = Aging()
    aging.put([0] * 20)
    aging.put([1])
    aging.page()
    session = RecordingSession()
    session.consume(aging.queue, messages=0, selector="a = 1")
    assert aging.queue.order.paged_count() == 21
    assert aging.queue.tick(NOW + LIFE) == 20
    assert aging.queue.order.count == 1
    check_invariants(aging.queue)


def test_what_is_sent_on_is_read():
    aging = Aging()
    forwarder = ModelForwarder({"expired": "elsewhere"})
    aging.queue.forwarder = forwarder
    entries = aging.put([0] * 10)
    bodies = [entry.message.body for entry in entries]
    sent: list[bytes] = []
    forwarder.flush = lambda now: sent.extend(entry.message.body for _, entry, _ in forwarder.added)
    aging.page()
    assert aging.queue.tick(NOW + LIFE) == 10
    assert sum(aging.disk.reads) == 10
    assert sent == bodies
    assert aging.order.count == 0


def test_what_is_to_be_sent_on_waits_for_a_disk_that_refuses():
    aging = Aging()
    aging.queue.forwarder = forwarder = ModelForwarder({"expired": "elsewhere"})
    forwarder.flush = lambda now: None
    aging.put([0] * 10)
    aging.page()
    aging.disk.failing = True
    assert aging.queue.tick(NOW + LIFE) == 0
    assert (aging.order.count, next_expiry(aging.order, aging.queue.expiry, NOW + LIFE)) == (10, 0), (
        "nobody asks again and again"
    )
    aging.disk.failing = False
    for pages in aging.order.page_parts():
        pages.retry()
    assert aging.queue.next_due_at() == NOW + LIFE
    assert aging.queue.tick(NOW + LIFE) == 10
    assert aging.order.count == 0


def test_what_is_sent_nowhere_expires_while_the_disk_refuses():
    aging = Aging()
    aging.put([0] * 600)
    aging.page()
    aging.disk.failing = True
    assert aging.queue.acquire(1, -1, NOW) == []
    assert [pages.stalled for pages in aging.order.page_parts()] == [True]
    assert (aging.queue.tick(NOW + LIFE), aging.order.count) == (600, 0)


def test_a_changed_time_to_live_holds_for_rows_and_reads_nothing():
    aging = Aging()
    aging.put(range(10))
    aging.page()
    aging.queue.update(QueueSettings(message_ttl=2), NOW + 5)
    assert aging.queue.counters.removed[EXPIRED] == 4
    aging.queue.update(QueueSettings(), NOW + 50)
    assert (aging.order.count, aging.queue.next_due_at(), aging.disk.reads) == (6, 0, [])
    aging.queue.update(QueueSettings(max_ttl=100), NOW + 50)
    assert 0 < aging.queue.next_due_at() <= NOW + 104
    assert (aging.queue.tick(NOW + 103), aging.queue.tick(NOW + 104)) == (0, 1)
    assert aging.disk.reads == []


def test_a_first_time_to_live_reads_rows_that_were_made_without_one():
    aging = Aging(message_ttl=-1)
    aging.put(range(10))
    aging.page()
    aging.queue.update(QueueSettings(message_ttl=LIFE), NOW + 5)
    assert aging.order.paged_count() == 0
    assert aging.queue.tick(NOW + LIFE + 2) == 3


def test_bytes_of_a_row_found_to_be_damaged_leave_with_its_page(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages_module, "LOAD_MESSAGES", 2)
    aging = Aging()
    aging.put(range(4))
    aging.page()
    aging.disk.damaged.add(1)
    assert aging.order.first().sequence == 2
    assert aging.queue.tick(NOW + LIFE + 5) == 3
    assert (aging.order.count, aging.queue.pending_bytes, aging.order.paged_bytes()) == (0, 0, 0)
    assert aging.queue.counters.removed[RemovalReason.UNREADABLE] == 1
    check_invariants(aging.queue)


def test_rows_found_at_start_whose_time_has_passed_go_unread():
    aging = Aging(message_ttl=-1)
    message = make_message(b"1234567890", accepted_at=NOW)
    for own in (NOW + 5, 0, NOW + 7):
        sequence = aging.queue.next_sequence
        message.expires_at = own
        aging.disk.store(aging.queue, message, sequence)
        columns = [sequence], [message.record], [10], [message.origin]
        times = [(NOW, 4, own)] if own else []
        restore_rows(aging.queue, aging.order, columns, redelivered=False, times=times)
    finish_restore(aging.queue, 0, 0, 0)
    assert (aging.order.paged_count(), aging.queue.tick(NOW + 100), aging.disk.reads) == (3, 2, [])
    assert [record.sequence for record in aging.queue.ledger.query()] == [1, 3]
    assert aging.rest() == [2]


@pytest.mark.parametrize("taken", [1, 3])
def test_a_damaged_row_expires_with_the_others(taken: int):
    aging = Aging()
    aging.put(range(4))
    aging.page()
    aging.disk.damaged.add(2)
    assert aging.queue.tick(NOW + LIFE + taken) == taken + 1
    assert aging.queue.counters.removed[RemovalReason.UNREADABLE] == 0
    assert aging.order.count == 3 - taken


def test_rows_found_at_start_expire_with_what_a_clock_that_was_set_back_left():
    aging = Aging()
    aging.put([0] * 10)
    aging.page()
    aging.put([0, 500, 0])
    for at in (100, 200):
        sequence, message = aging.queue.next_sequence, make_message(b"1234567890", accepted_at=NOW + at)
        aging.disk.store(aging.queue, message, sequence)
        restore_rows(
            aging.queue,
            aging.order,
            ([sequence], [message.record], [10], [message.origin]),
            redelivered=False,
            times=[(NOW + at, 4, 0)],
        )
    finish_restore(aging.queue, 0, 0, 0)
    assert aging.order.paged_count() == 15
    aging.queue.tick(NOW + 100 + LIFE)
    assert aging.order.paged_count() == 2
    assert [record.sequence for record in aging.queue.ledger.query()] == [*range(1, 12), 13, 14]
    aging.queue.tick(NOW + 200 + LIFE)
    assert aging.order.paged_count() == 1
    aging.queue.tick(NOW + 500 + LIFE)
    assert (aging.rest(), aging.queue.counters.removed[EXPIRED]) == ([], 15)


def test_only_what_becomes_a_row_expires_as_one() -> None:
    entries = Aging().put([0, 1])
    assert not some_expire(entries, bytearray(2))
    entries[1].message.expires_at = NOW + 5
    assert some_expire(entries, bytearray([0, 0]))
    assert not some_expire(entries, bytearray([0, 1]))
