"""All messages of a queue that is deeper than memory go at once."""

from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.virtual_host import VirtualHost
from annulet.core.management import delete_messages, purge, select
from annulet.core.management.whole_queue import WholeRemoval
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.queue.queue import Queue
from tests.core.helpers import NOW, RecordingEffects, make_message
from tests.residency.doubles import Disk, pages_of


def deep_queue() -> tuple[VirtualHost, Queue, Disk]:
    host = VirtualHost("/", RecordingEffects())
    queue = host.declare_queue("q", durable=True, auto_delete=False, owner=None, now=NOW, queue_id=7)
    disk = Disk()
    order = paged_order_of(queue, pages_of(queue, disk))
    assert isinstance(order, PagedFifo)
    order.keep_messages = 5
    for number in range(1, 31):
        message = make_message(b"%02d" % number)
        disk.store(queue, message, number)
        queue.enqueue(message, NOW)
    order.page_out(1 << 60, 100)
    disk.free = 0
    queue.enqueue(make_message(b"31", deliver_at=NOW + 9), NOW)
    return host, queue, disk


def test_a_purge_reads_nothing_before_it_removes():
    host, queue, disk = deep_queue()
    operation = purge(host, queue, user="anna", now=NOW)
    assert isinstance(operation, WholeRemoval)
    preview = operation.preview(sample_max=3, keeps=lambda _: True)
    while not preview.step(NOW):
        pass
    assert (preview.result.count, preview.result.bytes, preview.result.kept) == (31, 62, 0)
    assert [facts.id for facts in preview.result.sample] == [1, 2, 3]
    assert disk.reads == []
    assert operation.total == 31
    assert operation.step(NOW + 1)
    progress = operation.progress
    assert (progress.state, progress.total, progress.seen, progress.matched, progress.done) == ("finished", *[31] * 4)
    assert (queue.order.count, queue.schedule.count, list(operation.ids)) == (0, 0, [])
    assert queue.counters.removed[RemovalReason.PURGED] == 31
    assert queue.ledger.total == 31
    assert operation.step(NOW + 2)


def test_deleting_everything_is_the_same_under_its_own_reason():
    host, queue, _ = deep_queue()
    operation = delete_messages(host, queue, select(everything=True, scheduled=True), user="anna", now=NOW)
    operation.step(NOW)
    assert queue.counters.removed[RemovalReason.DELETED] == 31


def test_a_purge_that_is_cancelled_first_removes_nothing():
    host, queue, _ = deep_queue()
    operation = purge(host, queue, user="anna", now=NOW)
    operation.cancel(NOW)
    assert (operation.progress.state, queue.order.count) == ("cancelled", 30)
