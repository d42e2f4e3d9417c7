"""How far the disk is asked ahead of what consumers come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from annulet.core.base.settings import BROWSE_SNAPSHOT
from annulet.core.model.entry import QueueEntry
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.residency.loading.figures import PagingFigures
from annulet.residency.loading.load_ahead import AHEAD_LOADS, PREFETCH_LOADS
from annulet.residency.pages.pages import LOAD_MESSAGES, StoredQueueArea
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from annulet.store.log.log import MessageLog
from tests.core.helpers import RecordingSession
from tests.residency.doubles import Disk, durable_queue, pages_of, plenty, stored_entries
from tests.store.log.test_log_tools import DIRECTORY, flush, message
from tests.store.simulated_files import SimulatedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TOGETHER = PREFETCH_LOADS * LOAD_MESSAGES


class Stretch:
    dropped = False

    def __init__(self) -> None:
        self.ended = False
        self.waiting: list[Callable[[], None]] = []

    def tell(self, then: Callable[[], None]) -> bool:
        self.waiting.append(then)
        return not self.ended

    def end(self) -> None:
        """The thread is done."""
        self.ended = True
        while self.waiting:
            self.waiting.pop()()


def late_loads(queues: int, size: int, count: int) -> tuple[int, int]:
    """Drain queues whose messages alternate in a log; return how many loads its reader read itself, and all."""
    files = SimulatedFiles()
    works: list[Callable[[], None]] = []
    log = MessageLog.open(DIRECTORY, files=files, segment_bytes=64 << 20)
    log.read_ahead_with(works.append)
    alternating = [durable_queue() for _ in range(queues)]
    for number, queue in enumerate(alternating):
        queue.queue_id = number + 1
    entries: list[list[QueueEntry]] = [[] for _ in alternating]
    for sequence in range(1, count + 1):
        for queue, found in zip(alternating, entries, strict=True):
            stored = message(bytes(size))
            stored.record = log.append(stored, [(queue.queue_id, sequence)])
            found.append(QueueEntry(queue, stored, sequence))
        if sequence % 100 == 0:
            flush(log)
    areas = [pages_of(queue, log, plenty, figures=PagingFigures()) for queue in alternating]
    for area, found in zip(areas, entries, strict=True):
        for start in range(0, count, PAGE_ITEMS_MAX):
            some = found[start : start + PAGE_ITEMS_MAX]
            area.add(some, bytearray(len(some)))
        area.look_ahead()
    late = loads = 0
    while any(area.items for area in areas):
        while works:
            works.pop(0)()
        for area in areas:
            before = files.operations
            if area.items:
                area.load(insist=False)
                loads += 1
                late += files.operations > before
    log.close()
    return late, loads


@pytest.mark.parametrize(
    ("queues", "size", "count", "most"), [(1, 8 << 10, 2000, 0), (1, 1 << 10, 8000, 0), (5, 1 << 10, 2000, 4)]
)
def test_loads_find_what_was_read_ahead(queues: int, size: int, count: int, most: int) -> None:
    late, loads = late_loads(queues, size, count)
    assert late <= most, f"of {loads}"


class ThreadedDisk(Disk):
    """A thread reads what it is asked for ahead."""

    def __init__(self) -> None:
        super().__init__()
        self.stretches: list[Stretch] = []
        self.load_rows = LOAD_MESSAGES  # of each load at most
        self.least = 1  # rows that are worth a thread's work

    def fitting(self, records: Sequence[int], size: int) -> int:
        return min(self.load_rows, super().fitting(records, size))

    def prefetch(self, records: Sequence[int]) -> Stretch | None:
        super().prefetch(records)
        if len(records) < self.least:
            return None
        self.stretches.append(Stretch())
        return self.stretches[-1]


def filled(count: int, wake: Callable[[], None] | None = None) -> tuple[StoredQueueArea, ThreadedDisk, list[int]]:
    """Return pages with so many rows, their disk and their records."""
    queue, disk = durable_queue(), ThreadedDisk()
    pages = StoredQueueArea(queue, disk, PagingFigures(), plenty, wake=wake)
    entries = stored_entries(queue, disk, count)
    pages.add(entries, bytearray(count))
    return pages, disk, [entry.message.record for entry in entries]


def test_the_disk_is_asked_for_more_the_longer_loads_go_on() -> None:
    pages, disk, records = filled(PAGE_ITEMS_MAX + 10)
    left = []
    while pages.items:
        pages.load(insist=False)
        left.append(1 + (LOAD_MESSAGES + len(disk.prefetched) - (len(records) - pages.rows)) // LOAD_MESSAGES)
    assert left[0] == 1 + PREFETCH_LOADS, "one part at first"
    assert min(left[4:8]) > AHEAD_LOADS, "then always so many loads ahead"
    assert len(disk.stretches) <= 2 + PAGE_ITEMS_MAX // TOGETHER, "many at a time"
    assert disk.prefetched == records[LOAD_MESSAGES:], "each once"


def test_who_comes_too_late_for_what_was_read_ahead_has_it_read_again_and_less() -> None:
    pages, disk, records = filled(PAGE_ITEMS_MAX)
    for _ in range(4):
        pages.load(insist=False)
    assert len(disk.stretches) == 3
    disk.prefetched.clear()
    disk.stretches[-1].dropped = True
    pages.load(insist=False)
    assert disk.prefetched == records[5 * LOAD_MESSAGES :][:LOAD_MESSAGES], "one load, which is what it may use"
    pages.load(insist=False)
    assert disk.prefetched == records[5 * LOAD_MESSAGES :][: LOAD_MESSAGES + TOGETHER], "and more again"


def test_one_load_of_small_messages_is_no_work_for_a_thread_and_the_next_ones_are() -> None:
    pages, disk, records = filled(PAGE_ITEMS_MAX)
    disk.least = LOAD_MESSAGES + 1
    for _ in range(4):
        pages.load(insist=False)
    disk.prefetched.clear()
    disk.stretches[-1].dropped = True
    read = len(disk.stretches)
    pages.load(insist=False)
    assert len(disk.stretches) == read, "the system reads it ahead"
    pages.load(insist=False)
    assert len(disk.stretches) == read + 1
    assert disk.prefetched == records[5 * LOAD_MESSAGES :][: LOAD_MESSAGES + TOGETHER]


def test_what_was_dropped_and_is_not_the_last_changes_nothing() -> None:
    pages, disk, records = filled(PAGE_ITEMS_MAX)
    for _ in range(4):
        pages.load(insist=False)
    disk.stretches[0].dropped = True
    pages.load(insist=False)
    assert disk.prefetched == records[LOAD_MESSAGES:][: len(disk.prefetched)], "each once"


@pytest.mark.parametrize("browse", ["", BROWSE_SNAPSHOT])
def test_the_disk_is_asked_when_a_consumer_comes_and_the_front_is_full(browse: str) -> None:
    queue, disk = durable_queue(), ThreadedDisk()
    order = paged_order_of(queue, pages_of(queue, disk))
    entries = stored_entries(queue, disk, 3000)
    for entry in entries:
        queue.insert(entry, arrival=True)
    order.page_out(1 << 40, 3000)
    assert order.pages.rows
    RecordingSession("one").consume(queue, messages=1, browse=browse)
    first = order.pages.first_sequence() - 1
    expected = [] if browse else [entry.message.record for entry in entries[first : first + TOGETHER]]
    assert disk.prefetched == expected
    RecordingSession("two").consume(queue, messages=1, browse=browse)
    assert disk.prefetched == expected, "once"


def leads(pages: StoredQueueArea, disk: ThreadedDisk, records: list[int]) -> list[float]:
    """Drain while enough is left; return how many loads the disk was asked for ahead, the one included, at each."""
    found = []
    while pages.rows > (AHEAD_LOADS + 2 * PREFETCH_LOADS) * LOAD_MESSAGES:
        pages.load(insist=False)
        found.append((records.index(disk.prefetched[-1]) + 1 - (len(records) - pages.rows)) / LOAD_MESSAGES + 1)
    first = records.index(disk.prefetched[0])
    assert disk.prefetched == records[first : first + len(disk.prefetched)], "each once"
    return found


def test_pages_that_are_not_full_are_asked_for_as_far_ahead() -> None:
    queue, disk = durable_queue(), ThreadedDisk()
    pages, entries = pages_of(queue, disk), stored_entries(queue, disk, 10 * 2100)
    for start in range(0, len(entries), 2100):
        pages.add(entries[start : start + 2100], bytearray(2100))
    found = leads(pages, disk, [entry.message.record for entry in entries])
    assert min(found[4:]) > AHEAD_LOADS


def test_loads_that_bring_less_than_was_thought_are_not_asked_for_further_and_further_ahead() -> None:
    pages, disk, records = filled(6 * PAGE_ITEMS_MAX)
    disk.load_rows = LOAD_MESSAGES - 100
    assert max(leads(pages, disk, records)) <= AHEAD_LOADS + PREFETCH_LOADS + 1


def test_what_was_asked_for_and_left_otherwise_is_not_waited_for() -> None:
    pages, disk, records = filled(6 * PAGE_ITEMS_MAX)
    for _ in range(3):
        pages.load(insist=False)
    assert pages.skip(2 * PAGE_ITEMS_MAX) == 2 * PAGE_ITEMS_MAX - 3 * LOAD_MESSAGES
    disk.prefetched.clear()
    pages.load(insist=False)
    assert disk.prefetched == records[2 * PAGE_ITEMS_MAX + LOAD_MESSAGES :][:TOGETHER]


def test_the_first_rows_are_asked_for_again_when_all_or_others_before_them_are_new() -> None:
    pages, disk, _ = filled(2 * PAGE_ITEMS_MAX)
    entries = stored_entries(durable_queue(), Disk(), 2 * TOGETHER)
    for add in (pages.add_before, pages.add):
        for _ in range(4):
            pages.load(insist=False)
        if add == pages.add:
            pages.clear()
        disk.prefetched.clear()
        add(entries, bytearray(len(entries)))
        pages.look_ahead()
        assert disk.prefetched == [entry.message.record for entry in entries[:TOGETHER]]


# ---------------------------------------------------------------------- who waits for the thread


def test_who_hands_out_is_told_when_the_thread_has_read_and_once() -> None:
    woken: list[str] = []
    pages, disk, _ = filled(PAGE_ITEMS_MAX, lambda: woken.append("!"))
    assert not pages.coming(), "nobody was asked for it: a load reads it"
    pages.load(insist=False)
    (stretch,) = disk.stretches
    assert [pages.coming() for _ in range(3)] == [True] * 3
    assert len(stretch.waiting) == 1
    assert woken == []
    stretch.end()
    assert woken == ["!"]
    assert not pages.coming()
    for number in range(PREFETCH_LOADS):
        assert not pages.coming(), number
        pages.load(insist=False)
    assert pages.coming(), "the next stretch is on its way"
    assert woken == ["!"]


def test_nobody_waits_where_nobody_would_be_woken() -> None:
    pages, disk, _ = filled(PAGE_ITEMS_MAX)
    pages.load(insist=False)
    assert disk.stretches
    assert not pages.coming()


def test_who_does_not_wait_goes_on_behind_what_was_awaited() -> None:
    pages, disk, _ = filled(PAGE_ITEMS_MAX, lambda: None)
    pages.load(insist=False)
    assert pages.coming()
    for _ in range(PREFETCH_LOADS):
        pages.load(insist=False)
    disk.stretches[0].end()
    assert pages.coming()
    disk.stretches[1].end()
    assert not pages.coming()


def test_nothing_is_coming_of_a_disk_that_refuses_and_of_pages_that_are_gone() -> None:
    pages, _, _ = filled(PAGE_ITEMS_MAX, lambda: None)
    pages.load(insist=False)
    assert pages.coming()
    pages.stalled = True
    assert not pages.coming()
    pages.retry()
    pages.clear()
    assert not pages.coming()


def test_only_a_question_has_somebody_told() -> None:
    pages, disk, _ = filled(PAGE_ITEMS_MAX, lambda: None)
    pages.load(insist=False)
    assert not pages.awaits_read()
    assert disk.stretches[0].waiting == []
    assert pages.coming()
    assert pages.awaits_read()
    disk.stretches[0].end()
    assert not pages.awaits_read()


def test_what_comes_before_what_is_awaited_does_not_wait_for_it() -> None:
    pages, _, _ = filled(PAGE_ITEMS_MAX, lambda: None)
    pages.load(insist=False)
    assert pages.coming()
    entries = stored_entries(durable_queue(), Disk(), 10)
    pages.add_before(entries, bytearray(len(entries)))
    assert not pages.awaits_read()
    assert not pages.coming()


def test_what_stands_before_what_is_read_does_not_wait() -> None:
    pages, disk, _ = filled(PAGE_ITEMS_MAX, lambda: None)
    for _ in range(3):
        pages.load(insist=False)
    entries = stored_entries(durable_queue(), Disk(), 10)
    pages.add_before(entries, bytearray(len(entries)))
    disk.least = 100  # so few are no work for a thread
    assert not pages.coming()


def test_pages_made_anew_wake_as_those_before() -> None:
    woken: list[str] = []
    pages, disk, _ = filled(10, lambda: woken.append("!"))
    new = pages.renewed()
    entries = stored_entries(durable_queue(), disk, PAGE_ITEMS_MAX)
    new.add(entries, bytearray(len(entries)))
    new.load(insist=False)
    assert new.coming()
    disk.stretches[-1].end()
    assert woken == ["!"]


def test_what_was_read_ahead_and_never_waited_for_is_forgotten() -> None:
    """By who pulls, say."""
    pages, disk, _ = filled(4 * PAGE_ITEMS_MAX, lambda: None)
    while pages.items:
        pages.load(insist=False)
        assert len(pages._ahead._stretches) <= 2 + AHEAD_LOADS // PREFETCH_LOADS
    assert len(disk.stretches) > 8
