"""The figures follow a message to the disk and back."""

from __future__ import annotations

from annulet.residency.loading.figures import PagingFigures
from annulet.residency.pages.pages import StoredQueueArea
from tests.residency.doubles import Disk, durable_queue, plenty, stored_entries


def test_figures_of_all_queues_add_up():
    figures, disk = PagingFigures(), Disk()
    for _ in range(2):
        queue = durable_queue()
        pages = StoredQueueArea(queue, disk, figures, plenty)
        entries = stored_entries(queue, disk, 3)
        pages.add(entries, bytearray([0, 0, 1]))
        disk.damaged.add(entries[0].message.record)
        disk.failing = True
        pages.load(insist=False)
        disk.failing = False
        pages.retry()
        pages.load(insist=False)
    assert (figures.paged_out, figures.loads, figures.loaded) == (4, 2, 2)
    assert (figures.unreadable, figures.postponed) == (2, 2)


def test_looks_count_beside_loads():
    figures, disk, queue = PagingFigures(), Disk(), durable_queue()
    pages = StoredQueueArea(queue, disk, figures, plenty)
    entries = stored_entries(queue, disk, 10)
    pages.add(entries, bytearray(10))
    disk.damaged.add(entries[3].message.record)
    looked = pages.look(entries[2].sequence, [], 256)
    assert looked is not None
    assert [entry.sequence for entry in looked] == [entry.sequence for entry in entries[2:3] + entries[4:]]
    assert (pages.lost, pages.rows) == (1, 9)
    pages.take_out(looked[1:3])
    assert (pages.rows, pages.items, pages.bytes) == (7, 7, 80)
    assert (figures.scans, figures.scanned, figures.selected, figures.unreadable) == (1, 8, 2, 1)
