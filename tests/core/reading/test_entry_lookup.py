"""Whoever was shown a message finds the queue's own entry for it, wherever it is by then."""

from __future__ import annotations

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import DELIVERING, PENDING, SCHEDULED, QueueEntry
from annulet.core.queue.invariants import check_invariants
from annulet.core.reading.entry_lookup import EntryLookup
from annulet.core.searching.deep_lanes import DeepLanes
from annulet.residency.pages import pages as pages_module
from tests.core.helpers import NOW, RecordingSession
from tests.core.queue.test_deep_queue_scan import Site, deep_site


@pytest.fixture(autouse=True)
def small_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_module, "LOAD_MESSAGES", 3)


def shown(site: Site) -> dict[int, QueueEntry]:
    """Return an entry that is nobody's for each message of the queue."""
    walk = site.pages.snapshot([]).walk(0) if site.pages is not None else None
    assert walk is not None
    found = walk.following()
    assert found is not None
    return {entry.sequence: entry for entry in found}


def test_a_row_stays_one_until_it_is_claimed() -> None:
    site = deep_site()
    entries, reach, queue = shown(site), EntryLookup(site.queue), site.queue
    assert reach.own(entries[20]) is entries[20]
    assert queue.order.paged_count() == 38
    reach.claim(entries[20])
    assert (queue.order.paged_count(), queue.order.count) == (37, 40)
    assert reach.own(entries[20]) is entries[20], "it came back, as it were"
    reach.claim(entries[20])
    assert queue.remove(entries[20], RemovalReason.DELETED, NOW)
    assert reach.own(entries[20]) is None
    check_invariants(queue)
    assert [entry.sequence for entry in queue.order.entries()] == [number for number in range(1, 41) if number != 20]


def test_what_moved_meanwhile_is_found_where_it_is() -> None:
    site = deep_site()
    entries, reach, queue = shown(site), EntryLookup(site.queue), site.queue
    site.take(8)
    found = [reach.own(entries[number]) for number in range(3, 12)]
    held = {entry.sequence: entry for entry in queue.delivering}
    assert found == [held.get(number, entries[number]) for number in range(3, 12)]
    assert [entry.state for entry in found if entry is not None] == [DELIVERING] * 6 + [PENDING] * 3
    site.settle(7, back=False)
    site.settle(6, back=True)
    assert reach.own(entries[8]) is None
    back = reach.own(entries[7])
    assert back is not None
    assert (back.state, back.delivery_count) == (PENDING, 1)


def test_lanes_are_searched_too_and_get_what_is_claimed() -> None:
    site = deep_site()
    entries, queue = shown(site), site.queue
    site.choosy(3)
    reach = EntryLookup(queue)
    assert queue.order.lists() != [queue.order]
    came_back = reach.own(entries[4])
    assert came_back is not None
    assert came_back.redelivered
    assert reach.own(entries[30]) is entries[30]
    reach.claim(entries[30])
    assert entries[30].lane is not None
    check_invariants(queue)
    assert queue.order.count == 40


def test_nothing_is_left_of_a_queue_that_was_emptied_deleted_or_is_in_memory_now() -> None:
    site = deep_site()
    entries, reach = shown(site), EntryLookup(site.queue)
    loaded = {entry.sequence: entry for entry in site.queue.order.entries()}
    assert reach.own(entries[5]) is loaded[5]
    site.queue.purge(NOW)
    assert reach.own(entries[6]) is None
    site = deep_site()
    entries, reach = shown(site), EntryLookup(site.queue)
    site.host.delete_queue(site.queue, NOW)
    assert reach.own(entries[5]) is None
    reach.release()


def test_what_waits_for_its_redelivery_is_found() -> None:
    site = deep_site()
    entries, reach, queue = shown(site), EntryLookup(site.queue), site.queue
    site.take(4)
    entry = next(entry for entry in queue.delivering if entry.sequence == 3)
    queue.unmark_delivering(entry)
    entry.state = SCHEDULED
    queue.schedule.add(entry, NOW + 5, fresh=False)
    assert reach.own(entries[3]) is entry


def test_what_went_into_lanes_without_a_delivery_is_found() -> None:
    site = deep_site()
    entries, reach, queue = shown(site), EntryLookup(site.queue), site.queue
    site.take(3)
    while site.held:
        site.settle(0, back=False)
    assert reach.own(entries[3]) is None
    front = reach.own(entries[4])
    assert front is not None
    assert front is not entries[4]
    RecordingSession("choosy").consume(queue, selector="n = 1", messages=0)
    assert isinstance(queue.order, DeepLanes)
    assert reach.own(entries[4]) is front


def test_what_became_a_row_again_is_not_taken_for_the_entry_it_was() -> None:
    site = deep_site(12, keep=0)
    entries, reach, queue = shown(site), EntryLookup(site.queue), site.queue
    RecordingSession("choosy").consume(queue, selector="n = 1", messages=0)
    taken = queue.acquire(12, -1, NOW)
    for entry in [*taken[:4], *taken[8:]]:
        queue.acknowledge(entry)
    queue.return_entries(taken[4:8], NOW, counted=False)
    assert reach.own(entries[8]) is taken[7]
    site.send(12)
    site.page_out()
    assert reach.own(entries[8]) is entries[8], "it is a row"
    again = queue.acquire(4, -1, NOW)
    assert again[3] is not taken[7]
    assert reach.own(entries[8]) is again[3]
    queue.acknowledge(again[3])
    assert reach.own(entries[8]) is None
