"""What a browser refers to stays an object until it was seen: of a row that took its place nobody would tell it."""

from __future__ import annotations

import pytest

from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_SNAPSHOT
from annulet.core.queue.invariants import check_invariants
from annulet.core.queue.live_changes import revise_delivering
from tests.core.deep_doubles import ALL, Deep, numbers
from tests.core.helpers import NOW, RecordingSession
from tests.core.reading.test_browse_order import Storing, deep_queue


def storing(count: int, **settings: int) -> Deep:
    """A queue of so many, of which all but the first are rows."""
    deep = deep_queue(count, keep=1, **settings)
    deep.queue.effects = Storing(deep)
    return deep


def give_credit(deep: Deep, session: RecordingSession, now: int = NOW) -> list[int]:
    """Let a browser see all; return what it was shown."""
    (consumer,) = session.consumers.values()
    consumer.window.messages_max += 1000
    deep.queue.wake(now)
    deep.take_turns()
    return numbers(session)


def page_out(deep: Deep) -> None:
    """Make rows of all that can be, the front first and then what came back."""
    while deep.page_out(ALL):
        pass


def moved(deep: Deep) -> None:
    """The first message, which is in memory, goes to the end, and what can be becomes rows."""
    entry = deep.queue.order.in_memory()[0]
    assert deep.queue.reprioritise(entry, 5 if entry.message.priority != 5 else 6, NOW) is not None
    page_out(deep)


@pytest.mark.parametrize("kind", [BROWSE_SNAPSHOT, BROWSE_FOLLOW])
def test_what_was_moved_and_purged_is_not_shown(kind: str) -> None:
    deep, session = storing(20), RecordingSession()
    session.consume(deep.queue, browse=kind, messages=0)
    moved(deep)
    deep.queue.purge(NOW)
    assert give_credit(deep, session) == []
    check_invariants(deep.queue)


@pytest.mark.parametrize("kind", [BROWSE_SNAPSHOT, BROWSE_FOLLOW])
def test_what_was_moved_is_shown_once_at_the_end(kind: str) -> None:
    deep, session = storing(20), RecordingSession()
    session.consume(deep.queue, browse=kind, messages=0)
    moved(deep)
    assert give_credit(deep, session) == [*range(2, 21), 1]


def test_what_was_moved_expires_once() -> None:
    deep, session = deep_queue(keep=1), RecordingSession()
    deep.queue.effects = Storing(deep)
    deep.publish(1, expires_at=NOW + 30)
    deep.publish(20)
    page_out(deep)
    session.consume(deep.queue, browse=BROWSE_SNAPSHOT, messages=0)
    moved(deep)
    deep.queue.tick(NOW + 30)
    assert give_credit(deep, session, NOW + 30) == list(range(2, 22))
    assert deep.queue.order.count == 20
    check_invariants(deep.queue)


@pytest.mark.parametrize("kind", [BROWSE_SNAPSHOT, BROWSE_FOLLOW])
@pytest.mark.parametrize("stays", [True, False])
def test_what_waited_for_its_redelivery_and_came_back(kind: str, stays: bool) -> None:
    deep, session, taker = storing(100, redelivery_delay=15), RecordingSession(), RecordingSession("taker")
    session.consume(deep.queue, browse=kind, messages=0)
    for tag, entry in enumerate(deep.queue.acquire(80, -1, NOW), 1):
        taker.unacknowledged[tag] = entry
    for tag in range(1, 81):
        taker.reject(tag, NOW, requeue=True)
    (consumer,) = session.consumers.values()
    consumer.window.messages_max = 1  # it comes to those that wait, and is shown one behind them
    deep.queue.wake(NOW)
    deep.take_turns()
    assert len(session.received) == 1
    waited = {int(entry.message.body) for entry in deep.queue.schedule.entries()}
    assert waited
    deep.queue.tick(NOW + 15)
    page_out(deep)
    if not stays:
        for entry in deep.queue.acquire(100, -1, NOW + 15):
            deep.queue.acknowledge(entry)
    seen = give_credit(deep, session, NOW + 15)
    assert len(set(seen)) == len(seen)
    assert waited & set(seen) == (waited if stays else set())
    check_invariants(deep.queue)


def test_what_changed_in_delivery_and_came_back_is_shown_once_and_not_when_it_has_gone() -> None:
    for stays in (True, False):
        deep, session, taker = storing(100), RecordingSession(), RecordingSession("taker")
        session.consume(deep.queue, browse=BROWSE_FOLLOW, messages=0)
        taker.consume(deep.queue, messages=90)
        deep.take_turns()
        for entry in list(taker.unacknowledged.values()):
            revise_delivering(entry, {"a": 1})
        taker.close(NOW)
        deep.publish(5)
        page_out(deep)
        if not stays:
            for entry in deep.queue.acquire(90, -1, NOW):
                deep.queue.acknowledge(entry)
        assert give_credit(deep, session) == list(range(1 if stays else 91, 106))


def test_a_changed_message_is_shown_once_behind_a_purge() -> None:
    deep, session, taker = storing(20), RecordingSession(), RecordingSession("taker")
    session.consume(deep.queue, browse=BROWSE_SNAPSHOT, messages=0)
    taker.consume(deep.queue, messages=2)
    revise_delivering(taker.deliveries[0][1], {"a": 1})
    deep.queue.purge(NOW)
    assert give_credit(deep, session) == [1, 2]


def test_it_may_become_a_row_when_nobody_refers_to_it_any_more() -> None:
    deep = storing(20)
    sessions = [RecordingSession(str(number)) for number in range(3)]
    for session in sessions:
        session.consume(deep.queue, browse=BROWSE_SNAPSHOT, messages=0)
    entry = deep.queue.order.in_memory()[0]
    replacement = deep.queue.reprioritise(entry, 5 if entry.message.priority != 5 else 6, NOW)
    copies = deep.queue.copies
    assert replacement is not None
    assert copies is not None
    assert copies.pinned == {replacement: 3}
    sessions[0].close(NOW)
    assert copies.pinned == {replacement: 2}
    assert give_credit(deep, sessions[1])[-1] == 1
    assert copies.pinned == {replacement: 1}
    deep.queue.purge(NOW)
    assert give_credit(deep, sessions[2]) == []
    assert copies.pinned == {}, "what was removed is let go of when the list comes to it"


def test_one_who_follows_is_shown_what_waited_when_it_came_to_it_and_its_level_became_rows() -> None:
    deep, session, taker = (
        deep_queue(keep=1, levels=True, redelivery_delay=15),
        RecordingSession(),
        RecordingSession("t"),
    )
    deep.queue.effects = Storing(deep)
    deep.publish(30)
    page_out(deep)
    consumer = session.consume(deep.queue, browse=BROWSE_FOLLOW, messages=30)
    deep.take_turns()
    for entry in deep.queue.acquire(30, -1, NOW):
        deep.queue.acknowledge(entry)
    deep.publish(12)
    (taker.unacknowledged[1],) = deep.queue.acquire(1, -1, NOW)
    waits = int(taker.unacknowledged[1].message.body)
    taker.reject(1, NOW, requeue=True)
    consumer.window.messages_max = 31
    deep.queue.wake(NOW)
    deep.take_turns()
    assert len(session.received) == 31
    assert waits not in numbers(session)
    page_out(deep)
    deep.queue.tick(NOW + 15)
    seen = give_credit(deep, session, NOW + 15)
    assert sorted(seen) == list(range(1, 43))


def test_what_is_nearer_becomes_rows_whatever_browsers_refer_to_behind_it() -> None:
    deep, session, taker = storing(600, redelivery_delay=15), RecordingSession(), RecordingSession("taker")
    for tag, entry in enumerate(deep.queue.acquire(500, -1, NOW), 1):
        taker.unacknowledged[tag] = entry
    for tag in range(1, 201):
        taker.reject(tag, NOW, requeue=True)
    deep.queue.tick(NOW + 15)
    consumer = session.consume(deep.queue, browse=BROWSE_SNAPSHOT, messages=0)
    for tag in range(201, 501):
        taker.reject(tag, NOW + 15, requeue=True)
    consumer.window.messages_max = 201
    deep.queue.wake(NOW + 15)
    deep.take_turns()
    deep.queue.tick(NOW + 30)
    copies = deep.queue.copies
    assert copies is not None
    assert len(copies.pinned) == 300
    while deep.page_out(100):
        pass
    assert deep.in_memory() <= 300 + 64
    assert sorted(give_credit(deep, session, NOW + 30)) == list(range(1, 601))
