"""Operations over a queue deeper than memory do what they do over the same queue in memory, message by message."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annulet.core.host.virtual_host import VirtualHost
from annulet.core.management import (
    Operation,
    change_priority,
    copy_messages,
    delete_messages,
    expire_messages,
    move_messages,
    purge,
    select,
)
from annulet.core.management.actions import DAMAGED, IN_DELIVERY
from annulet.core.management.operation import DISK_REFUSES, REFUSED_MILLISECONDS, STOPPED
from annulet.core.message.message import Message
from annulet.core.model.entry import QueueEntry
from annulet.core.ordering.order import COMPACTION_MINIMUM
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.paged_priorities import PagedLevels, paged_order_of
from annulet.core.queue.deep_queue_scan import DeepScan
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.live_changes import revise_delivering
from annulet.core.queue.queue import Queue
from annulet.residency.pages import pages as pages_module
from annulet.residency.pages import walk as walk_module
from annulet.residency.pages.pages import StoredQueueArea
from tests.core.helpers import NOW, RecordingSession, make_message
from tests.core.management.bench import AuditingEffects, run
from tests.residency.doubles import Disk, pages_of

ALL = select(everything=True)


class StoringEffects(AuditingEffects):
    """Has a disk that knows what was stored and settled."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        (entry,) = entries
        self.disk.store(entry.queue, message, entry.sequence)

    def settle(self, queue: Queue, entry: QueueEntry) -> None:
        super().settle(queue, entry)
        self.disk.settled.add(entry.message.record)


class Site:
    """A durable queue with another beside it. ``deep``: nearly all of it is on disk only; ``levels``: of three."""

    def __init__(self, *, deep: bool, keep: int = 2, levels: bool = False) -> None:
        self.levels = levels
        self.effects = StoringEffects()
        self.disk = self.effects.disk
        self.host = VirtualHost("/", self.effects)
        self.queue = self._declare("q", 7)
        self.other = self._declare("other", 8)
        self.pages: StoredQueueArea | None = pages_of(self.queue, self.disk) if deep else None
        self.keep = keep
        self.session = RecordingSession()
        self.held: list[QueueEntry] = []

    def _declare(self, name: str, queue_id: int) -> Queue:
        arguments = {"x-priorities": 10} if self.levels else {}
        return self.host.declare_queue(name, durable=True, now=NOW, queue_id=queue_id, arguments=arguments)

    def send(self, count: int, *, durable: bool = True, **options: Any) -> None:
        for _ in range(count):
            number = self.queue.next_sequence
            priority = (4, 7, 2)[number // 2 % 3]
            message = make_message(b"%03d" % number, durable=durable, priority=priority, n=number % 3, **options)
            self.host.publisher.publish(message, self.host.route("", "q"), NOW)

    def page_out(self) -> None:
        if self.pages is not None:
            order = paged_order_of(self.queue, self.pages)
            assert order is not None
            order.keep_messages = self.keep
            if isinstance(order, PagedLevels):
                order.fold_least = 1
            order.page_out(1 << 60, 1 << 20)

    def take(self, count: int) -> None:
        self.held += self.queue.acquire(count, -1, NOW)

    def settle(self, which: int, *, back: bool) -> None:
        if self.held:
            entry = self.held.pop(which % len(self.held))
            if back:
                self.queue.return_entries([entry], NOW)
            else:
                self.queue.acknowledge(entry)
                self.queue.wake(NOW)

    def choosy(self, count: int) -> None:
        """Let somebody with a selector come, take a few and go."""
        session = RecordingSession("choosy")
        session.consume(self.queue, selector="n = 1", messages=count)
        while self.queue.scan(NOW):
            pass
        session.close(NOW)

    def facts(self) -> dict[str, Any]:
        """Everything that must not depend on the depth."""
        for queue in (self.queue, self.other):
            check_invariants(queue)
        return {
            name: (
                [
                    (
                        entry.sequence,
                        entry.message.body,
                        entry.message.priority,
                        entry.redelivered,
                        entry.delivery_count,
                    )
                    for entry in queue.order.entries()
                ],
                sorted(entry.sequence for entry in queue.delivering),
                queue.counters.as_dict(),
                [(record.sequence, record.reason, record.size) for record in queue.ledger.query()],
            )
            for name, queue in self.host.queues.items()
        } | {
            "live": sorted(self.disk.stored.keys() - self.disk.settled),
            "audit": [(entry.operation, entry.count, entry.outcome, entry.arguments) for entry in self.effects.audit],
        }


def began(site: Site, kind: str, selection: Any) -> Operation:
    given = {"user": "anna", "now": NOW}
    if kind == "delete":
        return delete_messages(site.host, site.queue, selection, **given)
    if kind == "expire":
        return expire_messages(site.host, site.queue, selection, **given)
    if kind == "change-priority":
        return change_priority(site.host, site.queue, selection, 9, **given)
    transfer = move_messages if kind == "move" else copy_messages
    return transfer(site.host, site.queue, selection, "other", **given)


SELECTIONS = st.one_of(
    st.just({"everything": True}),
    st.just({"selector": "n = 1"}),
    st.just({"selector": "n <> 1", "limit": 5}),
    st.just({"selector": "JMSRedelivered = TRUE OR n = 2"}),
    st.builds(lambda ids: {"ids": sorted(ids)}, st.sets(st.integers(1, 34), min_size=1, max_size=12)),
)
EVENTS = st.one_of(
    st.tuples(st.just("step"), st.integers(1, 9)),
    st.tuples(st.just("take"), st.integers(1, 5)),
    st.tuples(st.just("requeue"), st.integers(0, 9)),
    st.tuples(st.just("acknowledge"), st.integers(0, 9)),
    st.tuples(st.just("send"), st.integers(1, 3)),
    st.tuples(st.just("page"), st.just(0)),
    st.tuples(st.just("choosy"), st.integers(1, 3)),
    st.tuples(st.just("revise"), st.integers(0, 9)),
)


def happen(site: Site, operation: Operation | None, event: str, number: int) -> None:
    if event == "step":
        until = 0 if operation is None else operation.seen + number
        while operation is not None and operation.seen < until and not operation.step(NOW, 1):
            pass
    elif event == "take":
        site.take(number)
    elif event in ("requeue", "acknowledge"):
        site.settle(number, back=event == "requeue")
    elif event == "send":
        site.send(number)
    elif event == "revise" and site.held:
        revise_delivering(site.held[number % len(site.held)], {"revised": True})
    elif event == "page":
        site.page_out()
    elif event == "choosy":
        site.choosy(number)


@given(
    st.sampled_from(["delete", "expire", "change-priority", "move", "copy"]),
    SELECTIONS,
    st.lists(EVENTS, max_size=12),
    st.lists(EVENTS, max_size=12),
    st.booleans(),
)
def test_depth_changes_nothing(
    kind: str, selected: dict[str, Any], before: list[tuple[str, int]], events: list[tuple[str, int]], levels: bool
) -> None:
    sites = [Site(deep=False, levels=levels), Site(deep=True, levels=levels)]
    outcomes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages_module, "LOAD_MESSAGES", 3)
        patch.setattr(walk_module, "WALK_MESSAGES", 1)  # so that both look at the same messages at the same time
        for site in sites:
            site.send(12)
            site.send(1, expires_at=NOW + 10_000)
            site.send(12)
            site.page_out()
            for event, number in before:
                happen(site, None, event, number)
            site.send(2, durable=False)
            site.page_out()
            operation = began(site, kind, select(**selected))
            for event, number in () if "ids" in selected else events:  # with ids only those are met, so paces differ
                happen(site, operation, event, number)
            run(operation)
            progress = operation.progress
            shown = (progress.state, progress.matched, progress.done, progress.skipped, progress.total)
            outcomes.append((shown, list(operation.ids), list(operation.new_ids), site.facts()))
    assert outcomes[0] == outcomes[1]


def deep_site(count: int = 40, **options: Any) -> Site:
    site = Site(deep=True, **options)
    site.send(count)
    site.page_out()
    assert site.queue.order.paged_count() == count - site.keep
    return site


@pytest.mark.parametrize("kind", ["copy", "delete"])
def test_what_is_not_changed_stays_on_disk(kind: str) -> None:
    site = deep_site()
    operation = began(site, kind, select(selector="n = 1"))
    run(operation, budget=7)
    assert (operation.progress.done, operation.progress.seen) == (14, 40)
    left = 40 if kind == "copy" else 26
    assert (site.queue.order.count, site.queue.order.paged_count()) == (left, left - 1 - (kind == "copy"))
    assert [int(entry.message.body) for entry in site.other.order.entries()] == (
        list(range(1, 41, 3)) if kind == "copy" else []
    )


def test_levels_are_met_in_order_of_dispatch_and_what_is_not_changed_stays_on_disk() -> None:
    site = deep_site(levels=True)
    operation = began(site, "move", select(selector="n = 1", limit=5))
    run(operation, budget=7)
    by_rank = sorted(range(1, 41, 3), key=lambda number: (-(4, 7, 2)[number // 2 % 3], number))
    assert list(operation.ids) == by_rank[:5]
    assert (site.queue.order.count, site.queue.order.paged_count()) == (35, 35 - site.keep)


def test_only_the_rows_of_the_ids_that_were_named_are_read() -> None:
    site = deep_site()
    operation = began(site, "move", select(ids=[2, 17, 33, 99]))
    run(operation, budget=7)
    assert list(operation.ids) == [2, 17, 33]
    assert sum(site.disk.reads) == 3, "the front too, as it may have become rows by then"


def test_a_preview_counts_everything_and_moves_nothing() -> None:
    site = deep_site()
    preview = began(site, "delete", select(selector="n = 0")).preview(sample_max=2)
    run(preview, budget=7)
    assert (preview.result.count, preview.result.bytes) == (13, 39)
    assert [facts.id for facts in preview.result.sample] == [3, 6]
    assert site.queue.order.paged_count() == 38


def test_a_damaged_record_is_passed_over_and_said() -> None:
    site = deep_site()
    site.disk.damaged.update([20, 30])
    operation = began(site, "move", select(ids=[20, 21]))
    run(operation)
    assert (operation.progress.matched, operation.progress.skipped) == (2, {DAMAGED: 1})
    operation = began(site, "move", ALL)
    run(operation)
    assert (operation.progress.done, operation.progress.skipped) == (37, {DAMAGED: 2})
    assert site.queue.order.count == 2


def test_an_operation_waits_for_the_disk_and_stops_when_it_has_waited_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_module, "WALK_MESSAGES", 10)
    site = deep_site()
    operation = began(site, "delete", ALL)
    operation.step(NOW, 10)
    assert operation.done == 0, "it has read, and others are served first"
    site.disk.failing = True
    for elapsed in range(0, REFUSED_MILLISECONDS, 1000):
        assert not operation.step(NOW + elapsed, 10)
    assert (operation.waiting, operation.done) == (True, 10)
    site.disk.failing = False
    for _ in range(2):
        operation.step(NOW + REFUSED_MILLISECONDS, 10)
    assert (operation.waiting, operation.done) == (False, 20)
    site.disk.failing = True
    preview = operation.preview()
    later = NOW + REFUSED_MILLISECONDS
    assert (operation.step(later), preview.step(later), preview.waiting) == (False, False, True)
    assert operation.step(later + REFUSED_MILLISECONDS)
    assert preview.step(later + REFUSED_MILLISECONDS)
    assert (operation.progress.state, operation.progress.reason, operation.done) == (STOPPED, DISK_REFUSES, 20)
    assert preview.result.refusal == DISK_REFUSES


def test_a_purge_meanwhile_leaves_nothing_to_do() -> None:
    site = deep_site()
    operation = began(site, "copy", ALL)
    for _ in range(2):
        operation.step(NOW, 5)
    run(purge(site.host, site.queue, user="anna", now=NOW))
    copied = site.other.order.count
    assert copied == 5
    run(operation)
    assert (site.other.order.count, operation.progress.done) == (copied, copied)


def test_what_consumers_hold_when_it_is_met_is_passed_over() -> None:
    site = deep_site()
    operation = began(site, "delete", ALL)
    site.take(10)
    run(operation)
    assert (operation.progress.done, operation.progress.skipped) == (30, {IN_DELIVERY: 10})


def test_a_released_scan_holds_nothing() -> None:
    site = deep_site()
    operation = began(site, "delete", select(everything=True, limit=1))
    scan = operation._scan
    assert isinstance(scan, DeepScan)
    run(operation)
    assert (scan.used_up, scan.following(), scan.size) == (False, None, 40)
    assert isinstance(site.queue.order, PagedFifo)


def test_what_was_changed_in_delivery_is_met_under_its_new_record() -> None:
    site = deep_site()
    operation = began(site, "move", ALL)
    site.take(3)
    for entry in site.held:
        revise_delivering(entry, {"revised": True})
    site.settle(1, back=True)
    run(operation)
    assert (operation.progress.done, operation.progress.skipped) == (38, {IN_DELIVERY: 2})
    assert site.disk.settled >= {1, 2, 3}


def test_what_was_removed_from_among_rows_does_not_stay_in_memory_because_there_are_many() -> None:
    site = deep_site(600)
    operation = began(site, "move", select(selector="n = 1"))
    most = 0
    while not operation.step(NOW):
        most = max(most, len(site.queue.order.in_memory()))
    assert operation.done == 200
    assert most <= site.keep + COMPACTION_MINIMUM


def test_what_has_left_counts_as_seen_also_when_the_disk_refuses_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_module, "WALK_MESSAGES", 10)
    site = deep_site()
    operation = began(site, "copy", ALL)
    site.take(12)
    while site.held:
        site.settle(0, back=False)
    site.disk.failing = True
    assert not operation.step(NOW)
    assert operation.waiting
    site.disk.failing = False
    run(operation)
    assert (operation.progress.seen, operation.done) == (40, 28)
