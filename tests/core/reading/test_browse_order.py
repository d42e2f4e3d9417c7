"""Browsers of a deep queue see what was and is there, in order, and bring nothing of it into memory (A8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_SNAPSHOT
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.message.message import Message
from annulet.core.model.entry import QueueEntry
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.policies.matchers import RETIRED_MILLISECONDS
from annulet.core.queue.live_changes import revise_delivering
from annulet.core.reading.browse_order import ARRIVALS_MAX, NOTED_PER_TURN, BrowseOrder
from tests.core.deep_doubles import ALL, Deep, numbers
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, make_message, removed
from tests.core.queue.test_purging import LogEffects
from tests.core.searching.test_level_walks import due_one, in_order_with, send
from tests.residency.doubles import bodies_of


class Settling(RecordingEffects):
    """Tells the disk what was settled."""

    def __init__(self, deep: Deep) -> None:
        super().__init__()
        self.deep = deep

    def settle(self, queue: object, entry: object) -> None:
        self.deep.disk.settled.add(entry.message.record)  # type: ignore[attr-defined]


class Storing(Settling):
    """Has the disk store what changed."""

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        self.deep.disk.store(self.deep.queue, message, entries[0].sequence)


def deep_queue(count: int = 0, **options: Any) -> Deep:
    deep = Deep(count, **options)
    deep.queue.effects = Settling(deep)
    return deep


def test_a_browser_of_a_deep_queue_brings_nothing_into_memory() -> None:
    deep, session = deep_queue(3000), RecordingSession()
    before = deep.in_memory()
    consumer = session.consume(deep.queue, browse=BROWSE_SNAPSHOT, auto_acknowledge=True, auto_close=True)
    assert isinstance(consumer.unseen, BrowseOrder)
    assert session.received == []
    turns = deep.take_turns()
    assert numbers(session) == list(range(1, 3001))
    assert turns >= 3000 // 256
    assert deep.in_memory() == before
    assert consumer.cancelled, "it was closed when it had seen everything"
    assert deep.queue.copies is None


def test_a_browser_that_waits_for_its_turn_asks_for_it_once_whatever_others_do() -> None:
    deep, session, other = deep_queue(3000), RecordingSession(), RecordingSession()
    session.consume(deep.queue, browse=BROWSE_SNAPSHOT, auto_acknowledge=True)
    other.consume(deep.queue, messages=10)
    for _ in range(20):
        other.acknowledge(other.last_tag, NOW, multiple=True)
    assert (deep.asks, session.received) == (1, [])
    assert len(other.received) == 210
    deep.take_turns()
    assert numbers(session)[:10] == list(range(201, 211)), "what left before its turn it does not see"
    assert deep.asks > 1


ROWS = 1500


def in_memory_and_on_disk(count: int) -> Deep:
    """A few rows and very many messages in memory, waiting and in delivery."""
    deep = deep_queue(ROWS)
    deep.publish(count)
    return deep


@pytest.mark.parametrize("kind", [BROWSE_SNAPSHOT, BROWSE_FOLLOW])
def test_attaching_looks_at_few_messages_in_memory_a_turn(kind: str) -> None:
    deep, session = in_memory_and_on_disk(5 * AT_ONCE_MAX), RecordingSession()
    held = deep.queue.acquire(600, -1, NOW)
    consumer = session.consume(deep.queue, browse=kind)
    unseen = consumer.unseen
    assert isinstance(unseen, BrowseOrder)
    there = deep.in_memory() + len(held)
    assert unseen.to_note == there, "none was looked at when it attached"
    turns = 0
    while unseen.to_note:
        before = unseen.to_note
        deep.queue.scan(NOW)
        turns += 1
        assert 0 < before - unseen.to_note <= NOTED_PER_TURN
        assert session.received == [], "an older one may come yet"
    assert turns >= there // NOTED_PER_TURN
    deep.take_turns()
    assert numbers(session) == list(range(1, ROWS + 1 + 5 * AT_ONCE_MAX))


def test_a_browser_waits_for_its_turn_only_while_it_has_nothing_to_show() -> None:
    deep, session = in_memory_and_on_disk(2 * AT_ONCE_MAX), RecordingSession()
    consumer = session.consume(deep.queue, browse=BROWSE_FOLLOW, messages=1)
    unseen = consumer.unseen
    assert isinstance(unseen, BrowseOrder)
    while unseen.to_note:
        assert unseen.waits_for_turn(), "it is finding out what there is"
        deep.queue.scan(NOW)
    assert unseen.waits_for_turn(), "it has to read the first rows"
    deep.take_turns()
    assert numbers(session) == [1]
    assert not unseen.waits_for_turn(), "some that it has read are left"
    consumer.window.messages_max = 10_000
    deep.queue.wake(NOW)
    deep.take_turns()
    last = ROWS + 2 * AT_ONCE_MAX
    assert numbers(session) == list(range(1, last + 1))
    assert not unseen.waits_for_turn(), "it has seen everything"
    deep.publish()
    assert session.received[-1].strip() == str(last + 1)


def test_what_happens_while_a_browser_finds_out_what_is_there() -> None:
    deep = in_memory_and_on_disk(3 * AT_ONCE_MAX)
    queue, last = deep.queue, ROWS + 3 * AT_ONCE_MAX
    held = queue.acquire(600, -1, NOW)
    readers = [RecordingSession(kind) for kind in (BROWSE_SNAPSHOT, BROWSE_FOLLOW)]
    for reader in readers:
        reader.consume(queue, browse=reader.name, messages=0)
    queue.scan(NOW)
    for entry in held[:100]:
        queue.acknowledge(entry)
    queue.return_entries(held[100:300], NOW)
    assert deep.page_out(AT_ONCE_MAX) == AT_ONCE_MAX
    queue.scan(NOW)
    queue.remove(next(entry for entry in queue.order.in_memory() if entry.sequence == last), RemovalReason.DELETED, NOW)
    deep.publish(10)
    deep.take_turns()
    for reader in readers:
        (consumer,) = reader.consumers.values()
        assert isinstance(consumer.unseen, BrowseOrder)
        assert consumer.unseen.to_note == 0, "also without credit, as it refers to messages until then"
        consumer.window.messages_max = 10_000
    queue.wake(NOW)
    deep.take_turns()
    there = [number for number in range(1, last) if not held[0].sequence <= number <= held[99].sequence]
    assert numbers(readers[0]) == there
    assert numbers(readers[1]) == [*there, *range(last + 1, last + 11)]


@pytest.mark.parametrize("turns", [0, 2])
def test_a_purge_while_a_browser_finds_out_what_is_there_leaves_what_is_in_delivery(turns: int) -> None:
    deep, session = in_memory_and_on_disk(3 * AT_ONCE_MAX), RecordingSession()
    queue = deep.queue
    queue.effects = LogEffects(knows=True)
    held = queue.acquire(600, -1, NOW)
    consumer = session.consume(queue, browse=BROWSE_SNAPSHOT)
    for _ in range(turns):
        queue.scan(NOW)
    assert isinstance(consumer.unseen, BrowseOrder)
    assert consumer.unseen.to_note > 0
    queue.purge(NOW)
    deep.asking = True
    deep.take_turns()
    assert numbers(session) == [entry.sequence for entry in held]


def test_who_goes_while_it_finds_out_what_is_there_leaves_nothing_behind() -> None:
    deep, session = in_memory_and_on_disk(3 * AT_ONCE_MAX), RecordingSession()
    session.consume(deep.queue, browse=BROWSE_SNAPSHOT)
    deep.queue.scan(NOW)
    session.close(NOW)
    assert deep.take_turns() <= 1
    assert deep.queue.copies is None
    assert session.received == []


def test_what_was_settled_before_its_turn_is_not_shown() -> None:
    deep, session = deep_queue(1000), RecordingSession()
    session.consume(deep.queue, browse=BROWSE_SNAPSHOT, messages=10)
    deep.take_turns()
    for entry in deep.queue.acquire(500, -1, NOW):
        deep.queue.acknowledge(entry)
    (consumer,) = session.consumers.values()
    consumer.window.messages_max = 1000
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(session) == [*range(1, 11), *range(501, 1001)], "nor what it had read and had no credit for"


def test_one_who_follows_goes_on_behind_what_was_settled_since_he_read_it() -> None:
    deep, session = deep_queue(100), RecordingSession()
    session.consume(deep.queue, browse=BROWSE_FOLLOW, messages=10)
    deep.take_turns()
    for entry in deep.queue.acquire(100, -1, NOW):
        deep.queue.acknowledge(entry)
    deep.publish(5)
    (consumer,) = session.consumers.values()
    consumer.window.messages_max = 1000
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(session) == [*range(1, 11), *range(101, 106)]


def test_what_was_changed_in_delivery_after_a_browser_read_it_is_shown_once() -> None:
    deep, session, taker = deep_queue(100), RecordingSession(), RecordingSession("taker")
    consumer = session.consume(deep.queue, browse=BROWSE_SNAPSHOT, messages=1)
    deep.take_turns()
    taker.consume(deep.queue, messages=3)
    deep.queue.effects = Storing(deep)
    revise_delivering(taker.deliveries[1][1], {"a": 1})
    assert deep.disk.settled == {2}
    consumer.window.messages_max = 1000
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(session) == list(range(1, 101))


def test_a_browser_of_deep_levels_sees_the_most_important_first_and_brings_nothing_into_memory() -> None:
    deep, session = deep_queue(3000, levels=True), RecordingSession()
    before = deep.in_memory()
    consumer = session.consume(deep.queue, browse=BROWSE_SNAPSHOT, auto_acknowledge=True, auto_close=True)
    assert session.received == []
    deep.take_turns()
    assert numbers(session) == deep.in_order(range(1, 3001))
    assert (deep.in_memory(), consumer.cancelled) == (before, True)


def test_one_who_follows_sees_what_arrived_on_any_level_behind_what_was_there() -> None:
    deep, session = deep_queue(300, levels=True), RecordingSession()
    consumer = session.consume(deep.queue, browse=BROWSE_FOLLOW, messages=100)
    deep.take_turns()
    deep.publish(20)
    consumer.window.messages_max = 1000
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(session) == [*deep.in_order(range(1, 301)), *deep.in_order(range(301, 321))]


def test_one_who_follows_sees_no_important_arrival_twice_when_the_less_important_ones_become_too_many() -> None:
    deep, session = deep_queue(300, levels=True), RecordingSession()
    consumer = session.consume(deep.queue, browse=BROWSE_FOLLOW)
    deep.take_turns()
    consumer.window.messages_max = 300
    deep.publish(ARRIVALS_MAX)
    for count in range(301, 321):
        consumer.window.messages_max = count
        deep.queue.wake(NOW)
        deep.take_turns()
    deep.publish(ARRIVALS_MAX)
    consumer.window.messages_max = 2000
    deep.queue.wake(NOW)
    deep.take_turns()
    assert sorted(numbers(session)) == list(range(1, 301 + 2 * ARRIVALS_MAX))


def test_one_who_follows_notes_few_of_the_arrivals_it_was_shown_before_a_less_important_one() -> None:
    deep, session = deep_queue(30, levels=True), RecordingSession()
    consumer = session.consume(deep.queue, browse=BROWSE_FOLLOW)
    deep.take_turns()
    consumer.window.messages_max = 30
    send(deep, 2)
    unseen = consumer.unseen
    assert isinstance(unseen, BrowseOrder)
    for _ in range(ARRIVALS_MAX + 20):
        consumer.window.messages_max += 1
        send(deep, 7)
        deep.take_turns()
        assert unseen.noted_as_seen <= ARRIVALS_MAX + 1
    consumer.window.messages_max += 1000
    deep.queue.wake(NOW)
    deep.take_turns()
    assert sorted(numbers(session)) == list(range(1, deep.queue.next_sequence))
    assert unseen.noted_as_seen == 0


def test_what_fell_due_on_a_low_level_is_shown_behind_the_levels_above_it() -> None:
    deep, session = deep_queue(300, levels=True), RecordingSession()
    number = due_one(deep, 2)
    session.consume(deep.queue, browse=BROWSE_SNAPSHOT)
    deep.take_turns()
    assert numbers(session) == in_order_with(deep, list(range(1, 301)), number)


def test_a_selector_of_a_browser_looks_in_slices() -> None:
    deep, session = deep_queue(2000), RecordingSession()
    session.consume(deep.queue, browse=BROWSE_SNAPSHOT, selector="seven = 9 or three = 5", auto_close=True)
    assert deep.take_turns() >= 2000 // 256
    assert session.received == []
    assert session.consumers == {}


def test_a_disk_that_refuses_makes_a_browser_wait_and_not_end() -> None:
    deep, session = deep_queue(600), RecordingSession()
    deep.disk.failing = True
    consumer = session.consume(deep.queue, browse=BROWSE_SNAPSHOT, auto_close=True)
    assert deep.take_turns() < 10, "it does not ask again and again"
    assert not consumer.cancelled
    deep.disk.failing = False
    deep.disk.unwritten_from = 300
    deep.asking = True
    deep.take_turns()
    assert not consumer.cancelled
    deep.disk.unwritten_from = ALL
    deep.disk.damaged.add(400)
    deep.asking = True
    deep.take_turns()
    assert numbers(session) == [number for number in range(1, 601) if number != 400]
    assert consumer.cancelled


def test_one_who_follows_and_has_no_credit_keeps_few_arrivals() -> None:
    deep, session = deep_queue(500), RecordingSession()
    consumer = session.consume(deep.queue, browse=BROWSE_FOLLOW)
    deep.take_turns()
    assert numbers(session) == list(range(1, 501))
    consumer.window.messages_max = 500
    deep.publish(3 * ARRIVALS_MAX)
    assert consumer.unseen is not None
    assert len(consumer.unseen.held()) <= ARRIVALS_MAX
    deep.page_out(ALL)
    consumer.window.messages_max = 5000
    deep.queue.wake(NOW)
    deep.take_turns()
    deep.publish(3)
    assert numbers(session) == list(range(1, 501 + 3 * ARRIVALS_MAX + 3))


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.parametrize("first", [0, 300])
def test_one_who_follows_is_not_shown_again_what_an_operator_moved(levels: bool, first: int) -> None:
    """``first``: arrivals before; with so many of them it looks for arrivals in the queue."""
    deep, session = deep_queue(100, levels=levels), RecordingSession()
    deep.queue.effects = Storing(deep)
    consumer = session.consume(deep.queue, browse=BROWSE_FOLLOW, messages=106)
    deep.take_turns()
    deep.publish(6)
    assert sorted(numbers(session)) == list(range(1, 107))
    deep.publish(first)
    for sequence in (103, 106):
        (entry,) = [entry for entry in deep.queue.order.in_memory() if entry.sequence == sequence]
        assert deep.queue.reprioritise(entry, 9, NOW) is not None
        deep.publish(1)
    assert deep.page_out(ALL) > 0
    consumer.window.messages_max = 1000
    deep.queue.wake(NOW)
    deep.take_turns()
    deep.publish(1)
    assert len(numbers(session)) == len(set(numbers(session))) == deep.queue.order.count
    assert isinstance(consumer.unseen, BrowseOrder)
    assert consumer.unseen.noted_as_seen == 0


@pytest.mark.parametrize("count", [3500, 2500], ids=["at-once", "one-by-one"])
def test_what_was_purged_is_not_shown_although_the_log_still_has_it(count: int) -> None:
    deep, session, follower = deep_queue(count), RecordingSession(), RecordingSession("follower")
    queue = deep.queue
    queue.effects = LogEffects(knows=True)
    holder = queue.acquire(1000, -1, NOW)
    session.consume(queue, browse=BROWSE_SNAPSHOT, messages=500)
    follower.consume(queue, browse=BROWSE_FOLLOW, messages=500)
    deep.take_turns()
    assert queue.purge(NOW) == count - 1000
    deep.publish(700)
    assert deep.page_out(ALL) > 600
    for reader in (session, follower):
        (consumer,) = reader.consumers.values()
        consumer.window.messages_max = 5000
    queue.wake(NOW)
    deep.take_turns()
    assert numbers(session) == list(range(1, 1001)), "what others hold is there"
    assert numbers(follower) == [*range(1, 1001), *range(count + 1, count + 701)]
    queue.return_entries(holder, NOW)
    deep.take_turns()
    assert numbers(session) == list(range(1, 1001))


def test_what_a_browser_has_read_expires_where_it_stands_and_once() -> None:
    deep, session = deep_queue(3000), RecordingSession()
    queue = deep.queue
    consumer = session.consume(queue, browse=BROWSE_SNAPSHOT, messages=100)
    deep.take_turns()
    queue.update(replace(queue.settings, message_ttl=1000), NOW)
    consumer.window.messages_max = 5000
    queue.wake(NOW + 1000)
    deep.take_turns()
    queue.tick(NOW + 1000)
    assert removed(queue, RemovalReason.EXPIRED) == 3000
    assert (queue.order.count, queue.pending_bytes) == (0, 0)
    assert numbers(session) == list(range(1, 101))


def test_bodies_that_are_on_disk_only_are_shown_and_stay_there() -> None:
    deep, session = deep_queue(500), RecordingSession()
    deep.publish(300, expires_at=NOW + 5000)
    consumer = session.consume(deep.queue, browse=BROWSE_SNAPSHOT, messages=0)
    bodies = bodies_of(deep.queue, deep.disk)
    bodies.let_all_go(ALL)
    away = bodies.count
    assert away >= 300
    consumer.window.messages_max = 5000
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(session) == list(range(1, 801))
    assert bodies.count == away


def test_what_a_browser_with_a_selector_saw_can_become_a_row() -> None:
    deep, session = deep_queue(300), RecordingSession()
    session.consume(deep.queue, selector="seven = 2", browse=BROWSE_FOLLOW)
    deep.take_turns()
    evaluations = deep.queue.matchers.evaluations
    deep.publish(100)
    assert deep.queue.matchers.evaluations == evaluations + 100
    deep.page_out(ALL)
    assert deep.in_memory() == 2
    assert numbers(session) == list(range(2, 401, 7))


def test_one_browser_reads_at_a_time_and_all_come_to_the_end() -> None:
    deep, session = deep_queue(1000), RecordingSession()
    for number in range(5):
        session.consume(deep.queue, str(number), browse=BROWSE_SNAPSHOT)
    reads = len(deep.disk.reads)
    deep.queue.scan(NOW)
    assert len(deep.disk.reads) == reads + 1
    deep.disk.failing = True
    deep.take_turns()
    deep.disk.failing = False
    deep.asking = True  # as the broker's tick does
    deep.take_turns()
    assert [len(seen) for seen in session.by_consumer.values()] == [1000] * 5


def test_a_browser_sees_what_was_changed_in_delivery_before_it_came_to_it() -> None:
    deep, session, taker = deep_queue(600), RecordingSession(), RecordingSession("taker")
    taker.consume(deep.queue, messages=3)
    consumer = session.consume(deep.queue, browse=BROWSE_SNAPSHOT, messages=0)
    deep.queue.effects = Storing(deep)
    _, entry = taker.deliveries[1]
    revise_delivering(entry, {"a": 1})
    revise_delivering(entry, {"a": 2})
    assert deep.disk.settled == {2, 601}
    consumer.window.messages_max = 1000
    deep.queue.wake(NOW)
    deep.take_turns()
    assert numbers(session) == list(range(1, 601))


def test_answers_to_a_browser_are_forgotten_behind_the_lanes_too() -> None:
    deep, session, choosy = deep_queue(), RecordingSession(), RecordingSession("choosy")
    consumer = choosy.consume(deep.queue, selector="seven = 9")
    deep.publish(10)
    deep.page_out(ALL)  # not enough yet
    deep.publish(90)
    paged_order_of(deep.queue, deep.pages)  # stands behind the lanes, and is in memory
    session.consume(deep.queue, selector="three = 9", browse=BROWSE_SNAPSHOT)
    assert max(entry.blocked for entry in deep.queue.order.in_memory()) > 1
    session.close(NOW)
    choosy.close_consumer(consumer.tag, NOW)
    deep.page_out(ALL)
    deep.publish(5)
    deep.page_out(ALL)
    deep.queue.tick(NOW + RETIRED_MILLISECONDS)
    assert {entry.blocked for entry in deep.queue.order.in_memory()} == {0}


@pytest.mark.parametrize("kind", [BROWSE_SNAPSHOT, BROWSE_FOLLOW])
def test_what_stands_behind_a_message_that_has_expired_is_shown(kind: str) -> None:
    """A turn may come before the tick that removes it."""
    deep, session = deep_queue(10), RecordingSession()
    for expires_at in (NOW + 50, 0, 0):
        body = b"%10d" % deep.queue.next_sequence
        deep.queue.enqueue(make_message(body, expires_at=expires_at), NOW)
    session.consume(deep.queue, browse=kind)
    while deep.asking:
        deep.asking = False
        deep.queue.scan(NOW + 100)
    assert numbers(session) == [*range(1, 11), 12, 13]
    assert deep.queue.counters.removed[RemovalReason.EXPIRED] == 1


def test_what_a_browser_with_a_selector_was_asked_about_may_page_when_it_has_gone() -> None:
    deep, session = deep_queue(), RecordingSession()
    session.consume(deep.queue, selector="seven <> 2", browse=BROWSE_FOLLOW)
    deep.publish(1000)
    session.close(NOW)
    assert deep.page_out(ALL) == deep.queue.order.paged_count() == 998
