"""Selectors on deep strict priorities: a walk on each level, the most important first, and nothing is overtaken."""

from __future__ import annotations

import pytest

from annulet.bulk.reading.taker import SelectorTaker
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.message.message import Message
from annulet.core.paging.paged_priorities import PagedLevels
from annulet.core.policies.matchers import RETIRED_MILLISECONDS
from annulet.core.queue.invariants import check_invariants
from annulet.core.searching.deep_lanes import DeepLanes
from annulet.core.searching.selector_walk import FOUND_BYTES, remaining
from annulet.residency.bodies.budget import drift_of
from tests.core.deep_doubles import ALL, Deep, numbers, priority_of
from tests.core.helpers import NOW, RecordingSession, make_message, removed

HIGH, MIDDLE, LOW = 7, 4, 2


def send(deep: Deep, priority: int) -> int:
    """Publish a message of a priority of its own; return its number."""
    number = deep.queue.next_sequence
    message: Message = make_message(b"%*d" % (deep.size, number), priority=priority)
    message.origin = deep.origin
    deep.disk.store(deep.queue, message, number)
    deep.queue.enqueue(message, NOW)
    return number


def due_one(deep: Deep, priority: int) -> int:
    """Publish a message that falls due before all others of its level; return its number."""
    number = deep.queue.next_sequence
    message: Message = make_message(b"%*d" % (deep.size, number), priority=priority, deliver_at=NOW + 10)
    message.origin = deep.origin
    deep.disk.store(deep.queue, message, number)
    deep.queue.enqueue(message, NOW)
    deep.queue.tick(NOW + 10)
    return number


def in_order_with(deep: Deep, numbers: list[int], due: int) -> list[int]:
    """Return numbers in order of dispatch with one that fell due: first on the lowest level."""
    others = deep.in_order(numbers)
    above = [number for number in others if priority_of(number) > LOW]
    return [*above, due, *others[len(above) :]]


def matching(deep: Deep, count: int) -> list[int]:
    return deep.in_order(range(2, count + 1, 7))


def test_matches_come_by_level_and_nothing_else_comes_into_memory() -> None:
    deep, session = Deep(2000, levels=True), RecordingSession()
    before = deep.in_memory()
    session.consume(deep.queue, selector="seven = 2", messages=5)
    assert remaining(deep.queue, deep.queue.deep_lanes) == 2000
    deep.take_turns()
    assert numbers(session) == matching(deep, 2000)[:5]
    assert deep.in_memory() <= before + 256
    for tag in range(1, 1 + len(matching(deep, 2000))):
        session.acknowledge(tag, NOW)
        deep.take_turns()
    assert numbers(session) == matching(deep, 2000)
    assert deep.queue.matchers.evaluations == 2000
    assert max(deep.view.asked.values()) == 1
    assert (remaining(deep.queue, deep.queue.deep_lanes), drift_of(deep.queue)) == (0, 0)
    assert deep.in_memory() <= before
    check_invariants(deep.queue)


def test_what_arrives_above_the_walk_is_looked_at_next_and_once() -> None:
    deep, session = Deep(2000, levels=True), RecordingSession()
    deep.queue.matchers.found_messages = 3
    session.consume(deep.queue, selector="seven = 2", messages=200)
    deep.take_turns()
    assert priority_of(numbers(session)[-1]) < HIGH
    less = [send(deep, MIDDLE) for _ in range(7)]
    urgent = [send(deep, HIGH) for _ in range(7)]
    deep.take_turns()
    for tag in range(1, 4):
        session.acknowledge(tag, NOW)
        deep.take_turns()
    following = [number for number in urgent if number % 7 == 2] + matching(deep, 2000)[200:202]
    assert numbers(session) == [*matching(deep, 2000)[:200], *following]
    assert not set(less) & set(numbers(session)), "what was found on the level below, and is older, comes first"
    assert max(deep.view.asked.values()) == 1


def test_a_match_waits_for_a_level_above_that_the_disk_refuses() -> None:
    deep, session = Deep(600, levels=True), RecordingSession()
    session.consume(deep.queue, selector="seven = 2", messages=1)
    deep.take_turns()
    first = matching(deep, 600)[0]
    assert numbers(session) == [first]
    deep.disk.failing = True
    number = send(deep, LOW)
    while number % 7 != 2:
        number = send(deep, LOW)
    (consumer,) = session.consumers.values()
    consumer.window.messages_max = 1000
    deep.queue.wake(NOW)
    deep.take_turns()
    assert number not in numbers(session)
    deep.disk.failing = False
    deep.retry()
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(session) == [*matching(deep, 600), number]


def test_who_takes_everything_gets_the_queue_in_its_order_beside_a_walk() -> None:
    deep, choosy, everybody = Deep(600, levels=True), RecordingSession("choosy"), RecordingSession("everybody")
    choosy.consume(deep.queue, selector="seven = 2", messages=3)
    deep.take_turns()
    everybody.consume(deep.queue)
    deep.take_turns()
    taken = matching(deep, 600)[:3]
    assert numbers(everybody) == [number for number in deep.in_order(range(1, 601)) if number not in taken]
    assert deep.queue.order.count == 0


def test_what_a_consumer_refused_for_itself_reads_nothing_in() -> None:
    deep, session, other = Deep(600, levels=True), RecordingSession(), RecordingSession("other")
    consumer = session.consume(deep.queue, messages=1)
    first = deep.in_order(range(1, 601))[0]
    paged = deep.queue.order.paged_count()
    deep.queue.return_entries(session.take(1, multiple=False), NOW, exclude=consumer)
    assert deep.queue.order.paged_count() >= paged - 256, "one load of rows takes the place of the front"
    assert first not in numbers(session)[1:]
    other.consume(deep.queue, messages=1)
    assert numbers(other) == [first]


def test_a_changed_priority_is_asked_about_anew_on_its_level() -> None:
    deep, session = Deep(300, levels=True), RecordingSession()
    session.consume(deep.queue, selector="JMSPriority = 9")
    deep.take_turns()
    assert session.received == []
    entry = next(entry for entry in deep.queue.order.entries() if entry.message.priority == LOW)
    number = entry.message.body
    deep.queue.reprioritise(entry, 9, NOW)
    deep.take_turns()
    deep.queue.wake(NOW)
    assert [body.encode() for body in session.received] == [number]
    assert deep.queue.matchers.evaluations == 301


def test_levels_are_the_order_again_when_the_last_selector_has_gone() -> None:
    deep, session = Deep(600, levels=True), RecordingSession()
    session.consume(deep.queue, selector="seven = 2", messages=10)
    deep.take_turns()
    assert isinstance(deep.queue.order, DeepLanes)
    session.close(NOW)
    deep.queue.tick(NOW + RETIRED_MILLISECONDS)
    assert isinstance(deep.queue.order, PagedLevels)
    assert deep.queue.order.paged_count() > 400
    check_invariants(deep.queue)
    everybody = RecordingSession("everybody")
    everybody.consume(deep.queue)
    assert numbers(everybody) == deep.in_order(range(1, 601))


def test_levels_page_behind_a_selector_that_was_there_first() -> None:
    deep, session = Deep(levels=True), RecordingSession()
    session.consume(deep.queue, selector="seven = 9")
    deep.publish(1)
    deep.page_out(ALL)  # not enough yet
    deep.publish(1999)
    assert deep.page_out(ALL) > 0
    assert deep.in_memory() <= 6
    assert deep.queue.matchers.evaluations == 2000
    assert deep.queue.purge(NOW) == 2000
    assert (deep.queue.order.count, removed(deep.queue, RemovalReason.PURGED)) == (0, 2000)


def test_a_lease_ends_where_newer_matches_that_it_leaves_fill_the_memory_of_the_walk() -> None:
    deep = Deep(levels=True)
    deep.queue.matchers.found_messages = 4
    old = [send(deep, LOW) for _ in range(200)]
    newer = [send(deep, HIGH) for _ in range(200)]
    deep.page_out(ALL)
    taker = SelectorTaker(deep.queue, "lease", "seven IS NOT NULL", NOW)
    rounds = 0
    while taker.looking(old[-1]) and rounds < 100:
        rounds += 1
        assert all(entry.sequence <= old[-1] for entry in taker.take(10, -1, old[-1], NOW))
        taker.open(10, -1)
        deep.take_turns()
        taker.withdraw(NOW)
    assert rounds < 100
    assert not taker.looking(old[-1])
    assert taker.looking(newer[-1])
    taker.close(NOW)


def test_a_look_at_the_first_may_leave_no_row_behind_the_lanes() -> None:
    deep, session = Deep(40, levels=True), RecordingSession()
    session.consume(deep.queue, selector="seven = 2", messages=1)
    deep.take_turns()
    session.close(NOW)
    assert deep.queue.order.paged_count() > 0
    found = deep.queue.order.leading(1000)
    assert sorted(entry.sequence for entry in found) == list(range(1, 41))
    assert deep.queue.order.paged_count() == 0


def test_what_is_in_memory_on_an_important_level_does_not_go_to_lanes_when_a_selector_comes() -> None:
    deep, session = Deep(levels=True), RecordingSession()
    for _ in range(300):
        send(deep, HIGH)
    for _ in range(300):
        send(deep, LOW)
    deep.keep = 300
    deep.page_out(ALL)
    assert deep.queue.order.paged_count() == 300
    session.consume(deep.queue, selector="seven = 9")
    lanes = deep.queue.order
    assert isinstance(lanes, DeepLanes)
    assert lanes.first_in_lanes() is None
    deep.take_turns()
    assert deep.queue.matchers.evaluations == 600
    deep.keep = 2
    deep.page_out(ALL)
    deep.page_out(ALL)
    assert deep.in_memory() == 2


def test_what_falls_due_on_a_low_level_does_not_overtake_the_levels_above_it() -> None:
    deep, session = Deep(600, levels=True), RecordingSession()
    deep.queue.matchers.found_messages = 3
    consumer = session.consume(deep.queue, selector="seven = 2", messages=1)
    deep.take_turns()
    number = due_one(deep, LOW)
    while number % 7 != 2:
        number = due_one(deep, LOW)
    consumer.window.messages_max = 1000
    deep.queue.wake(NOW + 10)
    deep.take_turns()
    assert numbers(session) == in_order_with(deep, matching(deep, 600), number)


def test_what_falls_due_on_a_low_level_comes_in_its_turn_to_who_takes_everything() -> None:
    deep, choosy, everybody = Deep(600, levels=True), RecordingSession("choosy"), RecordingSession("everybody")
    choosy.consume(deep.queue, selector="seven = 2", messages=1)
    deep.take_turns()
    number = due_one(deep, LOW)
    everybody.consume(deep.queue)
    taken = numbers(choosy)
    assert numbers(everybody) == in_order_with(deep, [other for other in range(1, 601) if other not in taken], number)


def test_a_lease_ends_where_newer_matches_fill_the_memory_of_the_walk_by_their_bytes() -> None:
    deep = Deep(levels=True, size=FOUND_BYTES // 2)
    old = [send(deep, LOW) for _ in range(8)]
    newer = [send(deep, HIGH) for _ in range(8)]
    deep.page_out(ALL)
    taker = SelectorTaker(deep.queue, "lease", "seven IS NOT NULL", NOW)
    rounds = 0
    while taker.looking(old[-1]) and rounds < 20:
        rounds += 1
        assert taker.take(10, -1, old[-1], NOW) == []
        taker.open(10, -1)
        deep.take_turns()
        taker.withdraw(NOW)
    assert rounds < 20
    assert taker.looking(newer[-1])
    taker.close(NOW)


@pytest.mark.parametrize("levels", [False, True])
def test_who_takes_everything_gets_what_is_in_lanes_when_all_behind_them_is_damaged(levels: bool) -> None:
    deep, choosy, everybody = Deep(40, levels=levels), RecordingSession("choosy"), RecordingSession("everybody")
    choosy.consume(deep.queue, selector="seven = 2", messages=2)
    deep.take_turns()
    in_lanes = [number for number in deep.in_order(range(2, 41, 7)) if number not in numbers(choosy)]
    deep.disk.damaged.update(deep.disk.stored)
    everybody.consume(deep.queue)
    assert [number for number in numbers(everybody) if number % 7 == 2] == in_lanes
    assert deep.queue.order.count == 0
