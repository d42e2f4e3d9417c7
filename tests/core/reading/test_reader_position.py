"""Consumers of a deep non-destructive queue see everything once, in order, and bring nothing of it into memory."""

from __future__ import annotations

from typing import Any

import pytest

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_OFF, BROWSE_SNAPSHOT
from annulet.core.management.why_not import Obstacle, why_not
from annulet.core.model.consumer import Consumer
from annulet.core.model.entry import QueueEntry
from annulet.core.reading.browse_order import ARRIVALS_MAX
from annulet.core.reading.reader_position import UnseenRows
from annulet.residency.pages.walk import WALK_MESSAGES
from tests.core.deep_doubles import ALL, Deep, numbers
from tests.core.helpers import NOW, RecordingSession, make_message, removed
from tests.core.reading.test_browse_order import Storing, deep_queue
from tests.residency.doubles import bodies_of


def stream(count: int = 0, **options: Any) -> Deep:
    """A non-destructive queue with so many messages, all but two of them rows."""
    return deep_queue(count, non_destructive=True, **options)


def unseen_of(consumer: Consumer) -> UnseenRows:
    unseen = consumer.unseen
    assert isinstance(unseen, UnseenRows)
    return unseen


def give(deep: Deep, consumer: Consumer, credit: int) -> None:
    consumer.window.messages_max += credit
    deep.queue.wake(NOW)


def test_every_consumer_gets_all_rows_once_and_they_stay_rows() -> None:
    deep, one, two = stream(3000), RecordingSession("1"), RecordingSession("2")
    assert deep.in_memory() == 2
    one.consume(deep.queue)
    assert numbers(one) == list(range(1, 3001)), "read at once: dispatch does so too where messages are taken"
    two.consume(deep.queue, auto_acknowledge=True)
    deep.publish(3)
    assert numbers(one) == numbers(two) == list(range(1, 3004))
    one.acknowledge(0, NOW, multiple=True)
    assert (deep.in_memory(), deep.queue.order.count) == (5, 3003)
    assert deep.queue.statistics().delivering_count == 0


def test_it_reads_no_more_than_its_credit_asks_for() -> None:
    deep, session = stream(3000), RecordingSession()
    consumer = session.consume(deep.queue, messages=10)
    assert numbers(session) == list(range(1, 11))
    assert deep.disk.reads == [WALK_MESSAGES]
    session.acknowledge(0, NOW, multiple=True)
    assert numbers(session) == list(range(1, 21))
    assert deep.disk.reads == [WALK_MESSAGES]
    assert len(unseen_of(consumer).held()) <= WALK_MESSAGES


def test_who_attached_before_anything_was_on_disk_does_not_keep_the_queue_from_paging() -> None:
    deep, session = stream(), RecordingSession()
    consumer = session.consume(deep.queue, messages=5)
    deep.publish(2000)
    assert not isinstance(consumer.unseen, UnseenRows)
    assert deep.page_out(ALL) == 1998
    assert unseen_of(consumer).held() == set()
    give(deep, consumer, 5000)
    deep.publish(5)
    assert numbers(session) == list(range(1, 2006))


@pytest.mark.parametrize("kind", [BROWSE_OFF, BROWSE_FOLLOW])
def test_what_was_there_when_somebody_attached_may_page_later(kind: str) -> None:
    deep, session = stream(), RecordingSession()
    deep.publish(2000)
    consumer = session.consume(deep.queue, messages=5, browse=kind)
    assert deep.page_out(ALL) == deep.queue.order.paged_count() == 1998
    give(deep, consumer, 5000)
    deep.take_turns()
    assert numbers(session) == list(range(1, 2001))


@pytest.mark.parametrize("kind", [BROWSE_OFF, BROWSE_FOLLOW])
def test_who_chooses_does_not_keep_what_it_was_asked_about_from_paging(kind: str) -> None:
    deep, session = stream(), RecordingSession()
    consumer = session.consume(deep.queue, selector="seven <> 2", browse=kind)
    deep.publish(2000)
    assert deep.page_out(ALL) == deep.queue.order.paged_count() == 1998
    assert unseen_of(consumer).held() == set()
    deep.publish(5)
    assert numbers(session) == [number for number in range(1, 2006) if number % 7 != 2]


def test_a_snapshot_of_what_was_in_memory_keeps_the_queue_from_paging() -> None:
    deep, session = stream(), RecordingSession()
    deep.publish(10)
    session.consume(deep.queue, messages=5, browse=BROWSE_SNAPSHOT)
    assert not deep.queue.pageable()


@pytest.mark.parametrize("count", [ARRIVALS_MAX // 2, 4 * ARRIVALS_MAX])
def test_who_is_behind_among_messages_in_memory_refers_to_few_of_them(count: int) -> None:
    deep, session = stream(100), RecordingSession()
    consumer = session.consume(deep.queue, messages=100)
    assert numbers(session) == list(range(1, 101))
    reads = len(deep.disk.reads)
    deep.publish(count)
    for seen in range(101, 101 + count, 10):
        give(deep, consumer, 10)
        assert numbers(session) == list(range(1, min(seen + 10, 101 + count)))
        assert len(unseen_of(consumer).held()) <= ARRIVALS_MAX
    assert len(deep.disk.reads) == reads, "what is in memory is not read"


def test_what_it_refers_to_in_memory_may_become_rows() -> None:
    deep, session = stream(100), RecordingSession()
    consumer = session.consume(deep.queue, messages=100)
    deep.publish(50)
    give(deep, consumer, 5)
    assert unseen_of(consumer).held()
    assert deep.page_out(ALL) == 50
    assert unseen_of(consumer).held() == set()
    deep.publish(7)
    give(deep, consumer, 1000)
    assert numbers(session) == list(range(1, 158))


def test_what_a_ring_drops_while_it_waits_for_credit_is_not_shown() -> None:
    deep, session = stream(1000, ring_size=1000), RecordingSession()
    consumer = session.consume(deep.queue, messages=10)
    deep.publish(600)
    assert removed(deep.queue, RemovalReason.REPLACED_RING) == 600
    give(deep, consumer, 5000)
    deep.take_turns()
    assert numbers(session) == [*range(1, 11), *range(601, 1601)], "nor what it had read"


def test_rows_that_are_gone_are_passed_over_in_turns() -> None:
    """Very many of them must not hold everybody else up."""
    deep, session = stream(20_000), RecordingSession()
    consumer = session.consume(deep.queue, messages=3)
    deep.disk.settled.update(list(deep.disk.stored)[:-1])
    give(deep, consumer, 1)
    assert numbers(session) == [1, 2, 3], "of which two stand in memory"
    assert deep.asking
    assert deep.take_turns() > 1
    assert numbers(session) == [1, 2, 3, 20_000]


def test_a_purge_leaves_nothing_to_see() -> None:
    deep, session = stream(3000), RecordingSession()
    consumer = session.consume(deep.queue, messages=10)
    assert deep.queue.purge(NOW) == 3000
    deep.publish(20)
    give(deep, consumer, 1000)
    deep.take_turns()
    assert numbers(session) == [*range(1, 11), *range(3001, 3021)]


def test_what_has_expired_is_not_shown() -> None:
    deep, session = stream(), RecordingSession()
    deep.publish(500, expires_at=NOW + 50)
    deep.publish(500)
    deep.page_out(ALL)
    consumer = session.consume(deep.queue, messages=10)
    consumer.window.messages_max = 1000
    deep.queue.tick(NOW + 50)
    deep.take_turns()
    assert numbers(session) == [*range(1, 11), *range(501, 1001)]
    assert deep.queue.order.count == 500


def test_what_a_selector_looks_for_is_found_in_turns() -> None:
    deep, session = stream(4000), RecordingSession()
    session.consume(deep.queue, selector="seven = 9 or three = 5")
    assert len(deep.disk.reads) == 1, "one read brought nothing, so the next waits for a turn"
    assert deep.take_turns() >= 4000 // WALK_MESSAGES - 1
    choosy = RecordingSession("choosy")
    choosy.consume(deep.queue, selector="seven = 2")
    deep.take_turns()
    assert numbers(choosy) == list(range(2, 4001, 7))
    assert deep.in_memory() == 2


def test_a_selector_that_takes_most_waits_for_no_turn() -> None:
    deep, session = stream(1000), RecordingSession()
    session.consume(deep.queue, selector="seven <> 2")
    assert numbers(session) == [number for number in range(1, 1001) if number % 7 != 2]


def test_who_replays_nothing_reads_nothing() -> None:
    deep, session = stream(2000), RecordingSession()
    session.consume(deep.queue, replay_period=0)
    assert not deep.asking
    deep.publish(5)
    assert numbers(session) == list(range(2001, 2006))
    assert deep.disk.reads == []


@pytest.mark.parametrize(("browse", "waits"), [(BROWSE_OFF, False), (BROWSE_FOLLOW, True)])
def test_only_a_browser_waits_for_a_turn_to_read_on(browse: str, waits: bool) -> None:
    deep, session = stream(3000), RecordingSession()
    consumer = session.consume(deep.queue, browse=browse, messages=2 + WALK_MESSAGES)
    deep.take_turns()
    assert numbers(session) == list(range(1, WALK_MESSAGES + 3)), "nothing of the first read is left"
    unseen = unseen_of(consumer)
    assert unseen.waits_for_turn() is waits
    deep.queue.turn_asked = True  # somebody else does
    give(deep, consumer, 10)
    assert len(session.received) == WALK_MESSAGES + (2 if waits else 12)
    deep.queue.scan(NOW)
    assert numbers(session) == list(range(1, WALK_MESSAGES + 13))


def test_a_browser_that_follows_reads_in_turns_and_keeps_little() -> None:
    deep, session = stream(1000), RecordingSession()
    consumer = session.consume(deep.queue, browse=BROWSE_FOLLOW)
    assert numbers(session) == [1, 2], "those in memory"
    deep.take_turns()
    deep.publish(3)
    assert numbers(session) == list(range(1, 1004))
    assert unseen_of(consumer).held() == set()


def test_a_queue_that_is_paused_shows_nothing_until_it_is_resumed() -> None:
    deep, session = stream(1000), RecordingSession()
    deep.queue.pause(NOW)
    session.consume(deep.queue)
    deep.asking = True
    deep.take_turns()
    assert session.received == []
    deep.queue.resume(NOW)
    assert numbers(session) == list(range(1, 1001))


def test_a_disk_that_refuses_makes_it_wait() -> None:
    deep, session = stream(1000), RecordingSession()
    deep.disk.failing = True
    session.consume(deep.queue)
    assert numbers(session) == [1, 2], "those in memory"
    assert deep.take_turns() < 10, "it does not ask again and again"
    deep.disk.failing = False
    deep.disk.damaged.add(400)
    deep.asking = True  # as the broker's tick does
    deep.take_turns()
    assert numbers(session) == [number for number in range(1, 1001) if number != 400]


def test_it_stops_before_what_is_hidden() -> None:
    deep, session = stream(500), RecordingSession()
    batch = deep.publish_hidden(400)
    deep.publish(5)
    session.consume(deep.queue)
    assert numbers(session) == list(range(1, 501))
    got = deep.queue.acquire(1, -1, NOW)
    assert [entry.sequence for entry in got] == [1]
    batch.show(NOW)
    deep.take_turns()
    assert numbers(session) == list(range(1, 906))


def test_a_get_brings_nothing_into_memory() -> None:
    deep = stream(3000)
    for _ in range(2):
        (entry,) = deep.queue.acquire(1, -1, NOW)
        assert entry.sequence == 1
    assert deep.in_memory() == 2


def test_what_stays_an_object_among_rows_is_shown_in_its_place() -> None:
    deep, session = stream(), RecordingSession()
    for _ in range(5):
        deep.publish(20)
        deep.queue.enqueue(make_message(b"%d" % deep.queue.next_sequence), NOW)  # transient
    deep.page_out(ALL)
    assert deep.in_memory() > 5
    session.consume(deep.queue)
    assert numbers(session) == list(range(1, 106))


def test_what_falls_due_comes_next() -> None:
    deep, session = stream(500), RecordingSession()
    deep.queue.enqueue(make_message(b"1000", deliver_at=NOW + 10), NOW)
    consumer = session.consume(deep.queue, messages=5)
    deep.queue.tick(NOW + 10)
    late = RecordingSession("late")
    late.consume(deep.queue)
    give(deep, consumer, 1000)
    assert numbers(session) == [*range(1, 6), 1000, *range(6, 501)]
    assert numbers(late) == [1000, *range(1, 501)]


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("behind", [True, False])
def test_what_an_operator_gives_another_priority_is_shown_once(seen: bool, behind: bool) -> None:
    deep, session = stream(500), RecordingSession()
    deep.queue.effects = Storing(deep)
    consumer = session.consume(deep.queue, messages=1 if seen else 0)
    if not behind:
        give(deep, consumer, 500)
        consumer.window.messages_max = len(session.received)
        deep.publish(2)
    else:
        deep.publish(300)
    entry = front_of(deep)[0 if seen or behind else 1]
    wanted = list(range(1, deep.queue.next_sequence))
    deep.queue.reprioritise(entry, 7, NOW)
    give(deep, consumer, 5000)
    deep.take_turns()
    assert sorted(numbers(session)) == wanted


def standing(deep: Deep, sequence: int) -> QueueEntry:
    (found,) = [entry for entry in deep.queue.order.in_memory() if entry.sequence == sequence]
    return found


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("rows", [0, 100])
def test_what_was_seen_and_moved_is_not_shown_again_when_it_becomes_a_row(rows: int, times: int) -> None:
    deep, session = stream(rows), RecordingSession()
    deep.queue.effects = Storing(deep)
    consumer = session.consume(deep.queue, messages=rows + 1)
    deep.publish(6)
    for turn in range(times):
        moved = deep.queue.reprioritise(standing(deep, rows + (1, 7)[turn]), turn, NOW)
        assert moved is not None
        assert moved.sequence == rows + 7 + turn
    assert deep.page_out(ALL) > 0
    give(deep, consumer, 5000)
    deep.take_turns()
    assert numbers(session) == list(range(1, rows + 7))
    assert unseen_of(consumer).noted_as_seen == 0, "nothing is remembered of what cannot come again"


def test_what_fell_due_and_was_seen_is_not_shown_again_when_it_was_moved() -> None:
    deep, session = stream(500), RecordingSession()
    deep.queue.effects = Storing(deep)
    deep.queue.enqueue(make_message(b"1000", deliver_at=NOW + 10), NOW)
    consumer = session.consume(deep.queue, messages=5)
    deep.queue.tick(NOW + 10)
    give(deep, consumer, 1)
    assert numbers(session) == [1, 2, 3, 4, 5, 1000]
    assert deep.queue.reprioritise(standing(deep, 501), 9, NOW) is not None
    give(deep, consumer, 1000)
    assert numbers(session) == [1, 2, 3, 4, 5, 1000, *range(6, 501)]


def front_of(deep: Deep) -> list[QueueEntry]:
    return sorted(deep.queue.order.in_memory(), key=lambda entry: entry.sequence)


def test_bodies_that_are_on_disk_only_are_shown_and_stay_there() -> None:
    deep, session = stream(500), RecordingSession()
    deep.publish(300)
    consumer = session.consume(deep.queue, messages=0)
    bodies = bodies_of(deep.queue, deep.disk)
    bodies.adopt(whole=True)
    bodies.let_all_go(ALL)
    away = bodies.count
    assert away >= 300
    give(deep, consumer, 5000)
    assert numbers(session) == list(range(1, 801))
    assert bodies.count == away


def test_deleting_the_queue_ends_it() -> None:
    deep, session = stream(1000), RecordingSession()
    session.consume(deep.queue, messages=10)
    assert deep.queue.delete(NOW) == 1000
    assert session.consumers == {}
    assert deep.take_turns() <= 1
    assert numbers(session) == list(range(1, 11))


def test_why_not_does_not_say_that_all_was_seen_while_rows_are_left() -> None:
    deep, session = stream(1000), RecordingSession()
    consumer = session.consume(deep.queue, messages=WALK_MESSAGES)
    assert [finding.obstacle for finding in why_not(deep.queue, consumer, NOW).findings] == [Obstacle.NO_CREDIT]
    give(deep, consumer, 1000)
    assert why_not(deep.queue, consumer, NOW).obstacle is Obstacle.EVERYTHING_SEEN
