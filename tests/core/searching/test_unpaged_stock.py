"""Very many messages in memory and a selector that is new: looked at in turns, found in order, asked about once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from annulet.core.base.expiry_times import NEVER
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.paging.paged_fifo import LOOK_ENTRIES
from annulet.core.paging.paged_priorities import paged_order_of
from annulet.core.queue.queue import Queue
from annulet.core.searching.deep_lanes import DeepLanes
from annulet.core.searching.selector_walk import LOOK_MESSAGES
from annulet.core.searching.unpaged_stock import EmptyArea
from annulet.residency.bodies.budget import drift_of
from tests.core.helpers import NOW, RecordingSession, SlicingEffects, queue_of, removed
from tests.core.searching.test_selector_walk import ALL, Deep, numbers

MANY = 2 * AT_ONCE_MAX


class Turns(SlicingEffects):
    """Notes who asks for turns; ``given``: somebody gives them, so that nobody needs slices."""

    def __init__(self, *, given: bool) -> None:
        super().__init__()
        self.given = given
        self.asking = False

    def turns_for(self, queue: Queue) -> bool:
        self.asking = self.given
        return self.given


def many(count: int = MANY, *, given: bool = True) -> tuple[Deep, Turns]:
    """Return a queue that has never paged, with so many messages."""
    deep, effects = Deep(), Turns(given=given)
    deep.queue.effects = effects
    deep.publish(count)
    return deep, effects


def evaluations_of(queue: Queue) -> int:
    return queue.matchers.evaluations


def take_turns(deep: Deep, effects: Turns) -> int:
    """Scan until nobody asks any more; return the most messages that were asked about in one turn."""
    most = 0
    while effects.asking:
        effects.asking = False
        before = evaluations_of(deep.queue)
        effects.asking |= deep.queue.scan(NOW)
        most = max(most, evaluations_of(deep.queue) - before)
    return most


def test_the_first_selector_of_a_full_queue_asks_about_few_messages_a_turn() -> None:
    deep, effects = many()
    session = RecordingSession()
    session.consume(deep.queue, selector="seven = 2", messages=MANY)
    assert evaluations_of(deep.queue) <= LOOK_MESSAGES
    assert 0 < take_turns(deep, effects) <= 2 * LOOK_MESSAGES, "a look, and the one at what is nearly the end"
    assert numbers(session) == list(range(2, MANY + 1, 7))
    assert evaluations_of(deep.queue) == MANY, "each was asked about once"
    assert deep.queue.order.count == MANY - len(numbers(session))
    assert drift_of(deep.queue) == 0


def test_without_anybody_who_gives_turns_the_looks_are_sliced_work() -> None:
    deep, effects = many(given=False)
    session = RecordingSession()
    session.consume(deep.queue, selector="seven = 2", messages=100)
    assert numbers(session) == []
    assert len(effects.works) == 1
    deep.publish(1)
    assert len(effects.works) == 1, "it is under way"
    assert effects.turns() > 1
    assert numbers(session) == list(range(2, 700, 7))
    while session.unacknowledged:
        session.acknowledge(max(session.unacknowledged), NOW, multiple=True)
        effects.turns()
    assert numbers(session) == list(range(2, MANY + 2, 7))


def test_a_core_without_turns_does_it_at_once() -> None:
    deep, session = Deep(), RecordingSession()
    deep.publish(MANY)
    session.consume(deep.queue, selector="three = 1", messages=MANY)
    assert numbers(session) == list(range(1, MANY + 1, 3))


def test_what_arrives_while_lanes_hold_much_waits_for_its_turn_behind_them() -> None:
    deep, effects = many(10)
    choosy = RecordingSession("choosy")
    choosy.consume(deep.queue, selector="seven = 9", messages=5)
    deep.publish(MANY)
    lanes = deep.queue.lanes
    assert isinstance(lanes, DeepLanes)
    assert lanes.stock is not None
    assert lanes.count - lanes.stock.count == AT_ONCE_MAX
    late = RecordingSession("late")
    late.consume(deep.queue, selector="seven = 2", messages=MANY)
    take_turns(deep, effects)
    everybody = RecordingSession("everybody")
    everybody.consume(deep.queue)
    chosen = list(range(2, MANY + 11, 7))
    assert numbers(late) == chosen
    assert numbers(everybody) == [number for number in range(1, MANY + 11) if number % 7 != 2]
    assert numbers(choosy) == []
    assert evaluations_of(deep.queue) <= 2 * (MANY + 10)


def test_what_came_back_is_asked_about_in_turns_too() -> None:
    deep, effects = many()
    deep.queue.return_entries(deep.queue.acquire(AT_ONCE_MAX, -1, NOW), NOW)
    session = RecordingSession()
    session.consume(deep.queue, selector="seven = 2", messages=MANY)
    assert evaluations_of(deep.queue) <= LOOK_ENTRIES + LOOK_MESSAGES
    assert take_turns(deep, effects) <= LOOK_ENTRIES + LOOK_MESSAGES
    assert numbers(session) == list(range(2, MANY + 1, 7))


@pytest.mark.parametrize("selected", [False, True])
def test_it_pages_afterwards_as_any_queue(selected: bool) -> None:
    deep, effects = many()
    session = RecordingSession()
    session.consume(deep.queue, selector="seven = 2", messages=10)
    if selected:
        take_turns(deep, effects)
    assert paged_order_of(deep.queue, deep.pages) is not None
    assert deep.page_out(ALL) > MANY // 2
    (consumer,) = session.consumers.values()
    consumer.window.messages_max = MANY
    deep.queue.wake(NOW)
    while effects.asking or deep.asking:
        take_turns(deep, effects)
        deep.take_turns()
    assert numbers(session) == list(range(2, MANY + 1, 7))
    everybody = RecordingSession("everybody")
    everybody.consume(deep.queue)
    assert numbers(everybody) == [number for number in range(1, MANY + 1) if number % 7 != 2]


def test_purge_settles_counts_and_leaves_nothing_to_look_at() -> None:
    deep, effects = many()
    session = RecordingSession()
    session.consume(deep.queue, selector="seven = 2", messages=1)
    assert deep.queue.purge(NOW) == MANY
    take_turns(deep, effects)
    assert numbers(session) == []
    deep.publish(7)
    assert numbers(session) == [MANY + 1 + (1 - MANY) % 7]
    session.close(NOW)
    assert deep.queue.order.count == 7
    effects.turns()  # the purged messages are examined, and leave the account
    assert drift_of(deep.queue) == 0


def test_a_defect_that_meets_a_look_lets_the_next_dispatch_begin_anew() -> None:
    deep, effects = many(given=False)
    session = RecordingSession()
    session.consume(deep.queue, selector="seven = 2", messages=100)
    effects.works.pop().abandon(NOW)
    deep.queue.wake(NOW)
    effects.turns()
    assert numbers(session) == list(range(2, 700, 7))


def test_what_waits_behind_lanes_in_memory_expires_at_a_time_the_queue_gets_later() -> None:
    deep, effects = many()
    session = RecordingSession()
    session.consume(deep.queue, selector="seven = 2", messages=1)
    deep.queue.update(replace(deep.queue.settings, message_ttl=1000), NOW)
    deep.queue.tick(NOW + 2000)
    effects.turns(NOW + 2000)
    assert deep.queue.order.count == 0
    assert removed(deep.queue, RemovalReason.EXPIRED) == MANY - len(session.unacknowledged)


def test_no_area_holds_nothing() -> None:
    area = EmptyArea()
    area.sweep()
    area.clear()
    assert (area.rows, area.items, area.room(), area.redelivered_ranges()) == (0, 0, 0, [])
    area.retime()
    assert area.timed()
    assert area.first_expiry(NOW) == NEVER
    assert area.take_expired((NOW, 0), 10, read=True) == []
    assert (area.tally(str, 9), area.entries_kept(), area.has_row(1)) == ({}, [], False)
    assert isinstance(area.renewed(), EmptyArea)
    queue = queue_of()
    assert queue.order.pages_behind() is None
