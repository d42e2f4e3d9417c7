"""The walk over a queue: in order of dispatch, in slices, over what was there at the start."""

from __future__ import annotations

import gc

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import PENDING, SCHEDULED
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.queue.deep_queue_scan import scan_of
from annulet.core.queue.queue_scan import SORTED_PER_LOOK, Scan
from tests.core.helpers import NOW, RecordingSession, make_message, queue_of
from tests.residency.doubles import Disk, durable_queue, pages_of, stored_entries

ALL = 1 << 60


def walk(scan, looks=1):
    slices = 1
    while not scan.prepare(looks):
        slices += 1
    found = []
    while (entry := scan.following()) is not None:
        found.append(entry)
    return found, slices


@pytest.mark.parametrize(
    "settings",
    [{}, {"priorities": 10}, {"sort_key": "n"}, {"group_mode": "sticky", "group_key": "n"}, {"fair_key": "n"}],
)
@pytest.mark.parametrize("looks", [1, 1000])
def test_it_goes_in_order_of_dispatch_then_by_time(settings, looks):
    queue, session = queue_of(**settings), RecordingSession()
    for number in range(50):
        queue.enqueue(make_message("m", n=number * 7 % 50, priority=number % 10), NOW)
    late, soon = (queue.enqueue(make_message("m", n=1, deliver_at=NOW + delay), NOW) for delay in (20, 10))
    session.consume(queue, messages=5)
    session.close(NOW)
    scan = Scan(queue, pending=True, scheduled=True)
    found, slices = walk(scan, looks)
    assert found == [*queue.order.entries(), soon, late]
    assert scan.size == 52
    assert slices == (-(-52 // SORTED_PER_LOOK) if looks == 1 else 1)


def test_it_holds_what_was_asked_for_and_nothing_newer():
    queue = queue_of()
    first = queue.enqueue(make_message("a"), NOW)
    scheduled = queue.enqueue(make_message("b", deliver_at=NOW + 5), NOW)
    scans = [Scan(queue, pending=True, scheduled=False), Scan(queue, pending=False, scheduled=True)]
    nothing = Scan(queue, pending=False, scheduled=False)
    queue.enqueue(make_message("c"), NOW)
    queue.tick(NOW + 5)
    assert [walk(scan)[0] for scan in scans] == [[first], [scheduled]]
    assert walk(nothing)[0] == []
    assert (first.state, scheduled.state) == (PENDING, PENDING)


def test_what_left_meanwhile_is_met_all_the_same():
    queue = queue_of()
    entries = [queue.enqueue(make_message("m", deliver_at=NOW + 5), NOW) for _ in range(2)]
    scan = Scan(queue, pending=True, scheduled=True)
    queue.remove(entries[0], RemovalReason.DELETED, NOW)
    assert walk(scan)[0] == entries
    assert entries[1].state == SCHEDULED


def test_a_released_scan_holds_no_message_and_keeps_its_size():
    queue = queue_of()
    for body in ("a", "b"):
        queue.enqueue(make_message(body), NOW)
    scan = Scan(queue, pending=True, scheduled=True)
    assert scan.prepare(10)
    scan.release()
    assert (scan.size, scan.prepare(10), scan.following()) == (2, True, None)


def test_a_look_at_the_first_is_not_whole_while_others_wait_behind_rows():
    queue, disk = durable_queue(), Disk()
    for entry in stored_entries(queue, disk, 6):
        queue.insert(entry, arrival=True)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 2
    assert order.page_out(1, 100) == 0  # nothing is written yet: no rows, and four messages behind the front
    scan = Scan(queue, pending=True, scheduled=False, leading=2)
    assert (len(walk(scan)[0]), scan.whole) == (2, False)
    assert Scan(queue, pending=True, scheduled=False, leading=6).whole
    assert Scan(queue, pending=False, scheduled=True, leading=2).whole


def test_what_a_scan_met_or_is_to_meet_is_no_row_until_it_is_released():
    queue, disk = durable_queue(), Disk()
    entries = stored_entries(queue, disk, 20)
    for entry in entries:
        queue.insert(entry, arrival=True)
    order = paged_order_of(queue, pages_of(queue, disk))
    assert order is not None
    order.keep_messages = 2
    scan = scan_of(queue, pending=True, scheduled=False, chosen=None, reader="a test")
    assert scan.prepare(1000)
    met = [scan.following() for _ in range(5)]
    assert order.page_out(ALL, 100) == 0
    assert [scan.own(entry) for entry in met] == met == entries[:5]
    scan.release()
    assert order.page_out(ALL, 100) == 18
    assert queue.purge(NOW) == 20


@pytest.mark.parametrize("looks", [0, 1, 1000])
def test_a_scan_that_is_forgotten_half_way_holds_nothing_at_once(looks):
    queue = queue_of()
    for _ in range(50):
        queue.enqueue(make_message("m"), NOW)
    queue.enqueue(make_message("m", deliver_at=NOW + 5), NOW)
    gc.disable()
    try:
        scan, other = Scan(queue, pending=True, scheduled=True), Scan(queue, pending=True, scheduled=False, leading=5)
        if looks and scan.prepare(looks):
            assert scan.following() is not None
        assert queue.pinned_upto == 51
        del scan
        assert queue.pinned_upto == 50
        del other
        assert queue.pinned_upto == 0
    finally:
        gc.enable()


def test_of_what_is_scheduled_only_what_came_back_has_to_be_held():
    queue, session = queue_of(redelivery_delay=10), RecordingSession()
    queue.enqueue(make_message("a", deliver_at=NOW + 5), NOW)
    scan = Scan(queue, pending=False, scheduled=True)
    assert (queue.schedule.came_back, queue.pinned_upto) == (0, 0)
    queue.enqueue(make_message("b"), NOW)
    session.consume(queue, messages=1)
    session.close(NOW)
    queue.return_entries(queue.acquire(-1, -1, NOW), NOW)
    assert (queue.schedule.count, queue.schedule.came_back) == (2, 1)
    scan = Scan(queue, pending=False, scheduled=True)
    assert (queue.pinned_upto, scan.size) == (2, 2)
    queue.tick(NOW + 10)
    assert queue.schedule.came_back == 0
    scan.release()
    assert queue.pinned_upto == 0
