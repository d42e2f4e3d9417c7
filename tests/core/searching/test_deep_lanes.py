"""Lanes over a stock are one order: counts, places and looks are those of everything together."""

from __future__ import annotations

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.model.entry import PENDING
from annulet.core.model.entry_holds import Pin
from annulet.core.ordering.order import FifoOrder
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.core.paging.redelivered_ranges import redelivered_ranges
from annulet.core.queue.queue_scan import Scan
from annulet.core.searching.deep_lanes import DeepLanes
from annulet.residency.bodies.budget import drift_of
from tests.core.deep_doubles import ALL, Deep, numbers
from tests.core.helpers import NOW, RecordingSession, make_message, queue_of
from tests.residency.doubles import bodies_of


def with_selector(count: int, selector: str = "seven = 9") -> tuple[Deep, DeepLanes]:
    """Return a deep queue with a consumer that has looked at all of it."""
    deep = Deep(count)
    RecordingSession("choosy").consume(deep.queue, selector=selector, messages=3)
    deep.take_turns()
    assert isinstance(deep.queue.lanes, DeepLanes)
    return deep, deep.queue.lanes


def test_it_counts_and_names_what_is_in_lanes_and_stock() -> None:
    deep, lanes = with_selector(1000, "seven = 2")
    assert lanes.stock is not None
    assert lanes.count == 997
    assert (lanes.paged_count(), lanes.paged_bytes()) == (lanes.stock.paged_count(), 10 * lanes.stock.paged_count())
    assert lanes.paged_count() > 900
    assert len([entry for entry in lanes.in_memory() if entry.state == PENDING]) == 997 - lanes.paged_count()
    assert lanes.first_sequence() == 1
    assert lanes.oldest_accepted_at() == NOW
    assert redelivered_ranges(deep.queue).lengths() == [2, 1, 6, 1, 6, 1], "those that are out"
    assert lanes.pages_behind() is deep.pages
    assert [entry.sequence for entry in lanes.entries()] == [n for n in range(1, 1001) if n not in (2, 9, 16)]
    assert lanes.paged_count() == 0


def test_the_oldest_stands_in_a_lane_or_in_the_stock() -> None:
    deep, lanes = with_selector(1000, "seven = 2")
    assert lanes.stock is not None
    before = len(deep.disk.reads)
    (first,) = deep.queue.acquire(1, -1, NOW)
    first.message.accepted_at = NOW - 9
    deep.queue.return_entries([first], NOW)
    assert lanes.oldest_accepted_at() == NOW - 9
    deep.queue.acquire(1, -1, NOW)
    assert lanes.oldest_accepted_at() == NOW
    lanes.clear()
    assert lanes.oldest_accepted_at() == 0
    assert len(deep.disk.reads) <= before + 2


def test_what_a_class_admitted_is_weighed_unless_it_is_enough() -> None:
    deep, lanes = with_selector(1000, "seven = 2")
    (match_class,) = deep.queue.matchers.classes()
    count, size = lanes.matched(match_class, [0], 1000)
    assert 30 < count < 256
    assert size == 10 * count
    assert lanes.matched(match_class, [0], count) == (count, 0)
    match_class.frontiers.clear()
    assert lanes.matched(match_class, [0], 1000) == (0, 0), "they wait for the walk"


def test_a_look_at_the_first_messages_brings_in_no_more() -> None:
    deep, lanes = with_selector(1000)
    before = lanes.paged_count()
    scan = Scan(deep.queue, pending=True, scheduled=False, leading=2)
    assert not scan.whole
    assert before - lanes.paged_count() <= 256
    found = sorted(entry.sequence for entry in lanes.leading(2))
    assert found == list(range(1, len(found) + 1))


def test_removed_and_purged_messages_are_gone_from_both() -> None:
    deep, lanes = with_selector(600, "seven = 2")
    stocked = lanes.first()
    assert stocked is not None
    deep.queue.remove(stocked, RemovalReason.DELETED, NOW)
    assert lanes.count == 596
    assert deep.queue.purge(NOW) == 596
    assert (lanes.count, lanes.paged_count(), deep.queue.pending_bytes) == (0, 0, 0)


def test_pulls_and_rings_take_the_first_of_all() -> None:
    deep, lanes = with_selector(600, "seven = 2")
    taken = deep.queue.acquire(300, -1, NOW)
    assert [entry.sequence for entry in taken] == [n for n in range(1, 305) if n not in (2, 9, 16)][:300]
    assert lanes.count == 297
    deep.queue.return_entries(taken, NOW)
    everybody = RecordingSession("everybody")
    everybody.consume(deep.queue)
    deep.take_turns()
    assert numbers(everybody)[:5] == [1, 3, 4, 5, 6]


def test_what_was_handed_out_for_keeps_stays_what_it_is() -> None:
    deep, session = Deep(), RecordingSession()
    session.consume(deep.queue, selector="seven = 9")
    deep.publish(1)
    deep.page_out(ALL)
    deep.publish(99)
    scan = Scan(deep.queue, pending=True, scheduled=False)
    deep.publish(100)
    deep.page_out(ALL)
    while not scan.prepare(1000):
        pass
    assert deep.queue.order.paged_count() > 0
    removed = 0
    while (entry := scan.following()) is not None:
        removed += deep.queue.remove(entry, RemovalReason.DELETED, NOW)
    assert removed == 100
    assert [entry.sequence for entry in deep.queue.order.entries()] == list(range(101, 201))


def test_what_was_handed_out_before_there_were_lanes_stays_what_it_is_too() -> None:
    deep = Deep()
    deep.publish(100)
    handed_out, pin = deep.queue.order.snapshot(), Pin(deep.queue, 100)
    RecordingSession().consume(deep.queue, selector="seven = 9")
    deep.publish(100)
    deep.page_out(ALL)
    deep.page_out(ALL)
    assert deep.queue.order.paged_count() > 0
    assert all(deep.queue.remove(entry, RemovalReason.DELETED, NOW) for entry in handed_out)
    del pin
    assert [entry.sequence for entry in deep.queue.order.entries()] == list(range(101, 201))


def test_what_stays_in_lanes_while_somebody_holds_it_goes_to_the_stock_afterwards() -> None:
    deep, session = Deep(), RecordingSession()
    session.consume(deep.queue, selector="seven = 9")
    deep.publish(100)
    scan = Scan(deep.queue, pending=True, scheduled=False)
    assert (deep.page_out(ALL), deep.page_out(ALL)) == (0, 0)
    scan.release()
    assert deep.page_out(ALL) > 0


def test_a_changed_priority_does_not_bring_back_what_was_refused() -> None:
    deep, session = Deep(100), RecordingSession()
    consumer = session.consume(deep.queue, messages=1)
    deep.queue.return_entries(session.take(1, multiple=False), NOW, exclude=consumer)
    refused = deep.queue.lanes.first_in_lanes() if deep.queue.lanes is not None else None
    assert refused is not None
    deep.queue.reprioritise(refused, 9, NOW)
    session.set_window(-1, -1, NOW)
    while session.unacknowledged:
        session.acknowledge(max(session.unacknowledged), NOW, multiple=True)
    assert numbers(session) == list(range(1, 101))
    assert deep.queue.order.count == 1


def test_lanes_of_a_queue_that_never_paged_have_no_stock() -> None:
    queue, session = queue_of(), RecordingSession()
    session.consume(queue, selector="a = 1")
    queue.enqueue(make_message("x", a=2), NOW)
    lanes = queue.lanes
    assert isinstance(lanes, DeepLanes)
    assert (lanes.stock, lanes.paged_count(), lanes.paged_bytes(), lanes.pages_behind()) == (None, 0, 0, None)
    assert lanes.reading_refusal() == ""
    assert lanes.release_all() is None


def test_the_stock_takes_over_when_nobody_selects_any_more() -> None:
    _, lanes = with_selector(500, "seven = 2")
    order = lanes.release_all()
    assert isinstance(order, PagedFifo)
    assert isinstance(order, FifoOrder)
    assert order.count == 497
    assert lanes.count == 0
    assert [entry.sequence for entry in order.entries()] == [n for n in range(1, 501) if n not in (2, 9, 16)]


def test_bodies_that_left_come_back_for_who_takes_from_lanes_and_stock() -> None:
    deep = Deep(1000, keep=50)
    choosy, everybody = RecordingSession("choosy"), RecordingSession("everybody")
    choosy.consume(deep.queue, selector="seven = 2", messages=20)
    deep.take_turns()
    held = numbers(choosy)
    assert held == list(range(2, 140, 7))
    bodies = bodies_of(deep.queue, deep.disk)
    bodies.let_all_go(ALL)
    assert bodies.count > 80
    deep.disk.failing = True
    everybody.consume(deep.queue)
    assert numbers(everybody) == [], "nobody overtakes what the disk does not give"
    deep.disk.failing = False
    deep.pages.retry()
    bodies.retry()
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(everybody) == [number for number in range(1, 1001) if number not in held]
    assert drift_of(deep.queue) == 0
    choosy.close(NOW)
    assert sorted(numbers(everybody)) == list(range(1, 1001))
    assert (bodies.count, drift_of(deep.queue)) == (0, 0)


def test_a_damaged_body_at_the_front_of_the_stock_is_passed_over() -> None:
    deep, lanes = with_selector(600)
    bodies = bodies_of(deep.queue, deep.disk)
    bodies.let_all_go(ALL)
    first = lanes.first()
    assert first is not None
    deep.disk.damaged.add(first.message.record)
    everybody = RecordingSession("everybody")
    everybody.consume(deep.queue)
    assert numbers(everybody) == list(range(2, 601))
    assert (lanes.count, drift_of(deep.queue)) == (0, 0)


def test_turns_beside_lanes_are_those_of_other_queues_where_a_large_message_finds_no_room() -> None:
    deep = Deep()
    for deep.size in (5, 1, 1, 4, 1, 1):
        deep.publish()
    deep.size = 10
    deep.publish(20)
    deep.page_out(ALL)
    RecordingSession("choosy").consume(deep.queue, selector="seven = 9")
    deep.take_turns()
    session = RecordingSession()
    session.writable = False
    session.consume(deep.queue, "small", octets=6, messages=2)
    for tag in ("b", "c"):
        session.consume(deep.queue, tag, messages=2)
    assert isinstance(deep.queue.lanes, DeepLanes)
    session.writable = True
    session.wake(NOW)
    taken = {tag: [int(body) for body in bodies] for tag, bodies in session.by_consumer.items()}
    assert taken == {"small": [1, 6], "b": [2, 4], "c": [3, 5]}
