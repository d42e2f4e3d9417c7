"""Pulls that wait for a walk: told once, when something was found or when there is nothing, and never otherwise."""

from __future__ import annotations

import pytest

from annulet.core.queue.pull_waits import PullWaiter
from annulet.core.queue.queue import Queue
from tests.core.deep_doubles import ALL
from tests.core.grouped_doubles import GroupedDeep, ten_groups
from tests.core.helpers import NOW, RecordingEffects, RecordingSession, SlicingEffects, make_queue

HALF = 600


class Waiting(PullWaiter):
    def __init__(self) -> None:
        self.told = 0

    def look_again(self) -> None:
        self.told += 1


def stalled(*, free: int = HALF) -> tuple[GroupedDeep, RecordingSession]:
    """Return a queue whose first half another consumer has, behind it so many that are ``free``."""
    deep = GroupedDeep(lambda number: "stalled" if number <= HALF else ten_groups(number))
    owner = RecordingSession("owner")
    deep.publish(HALF)
    owner.consume(deep.queue, messages=1)
    if free:
        deep.publish(free)
    deep.page_out(ALL)
    deep.lanes.pull_looks = 1
    return deep, owner


def await_pull(queue: Queue) -> Waiting | None:
    """Pull in vain, and wait if there is something to wait for."""
    waiter = Waiting()
    upto = queue.next_sequence
    assert queue.acquire(1, -1, NOW) == []
    return waiter if queue.await_pull(waiter, upto, NOW) else None


def test_it_is_told_when_a_message_was_found() -> None:
    deep, _ = stalled()
    waiter = await_pull(deep.queue)
    assert waiter is not None
    deep.queue.scan(NOW)
    assert waiter.told == 0
    deep.take_turns()
    assert waiter.told == 1
    assert [entry.sequence for entry in deep.queue.acquire(1, -1, NOW)] == [HALF + 1]
    assert not deep.queue.pull_waiters


def test_it_is_told_when_there_is_nothing_and_then_there_is_nothing_to_wait_for() -> None:
    deep, _ = stalled(free=0)
    waiter = await_pull(deep.queue)
    assert waiter is not None
    deep.take_turns()
    assert waiter.told == 1
    assert not deep.lanes.unpassed()
    assert await_pull(deep.queue) is None


def test_what_arrives_later_is_not_waited_for() -> None:
    deep, _ = stalled(free=0)
    waiter = Waiting()
    assert deep.queue.acquire(1, -1, NOW) == []
    assert deep.queue.await_pull(waiter, deep.lanes.passed + 1, NOW)
    deep.queue.scan(NOW)
    assert waiter.told == 1
    assert deep.lanes.unpassed()
    assert not deep.queue.await_pull(waiter, deep.lanes.passed, NOW)


@pytest.mark.parametrize("end", ["pause", "delete", "refuse", "give back"])
def test_it_is_told_when_something_else_ends_the_walk(end: str) -> None:
    deep, owner = stalled()
    waiter = await_pull(deep.queue)
    assert waiter is not None
    if end == "pause":
        deep.queue.pause(NOW)
    elif end == "delete":
        deep.queue.delete(NOW)
    elif end == "refuse":
        deep.disk.failing = True
    else:
        owner.close(NOW)
    deep.take_turns()
    assert waiter.told == 1


def test_who_stops_waiting_is_not_told() -> None:
    deep, _ = stalled()
    waiter = await_pull(deep.queue)
    assert waiter is not None
    deep.queue.stop_awaiting(waiter)
    deep.take_turns()
    assert waiter.told == 0


def test_where_nothing_was_on_disk_yet_the_wait_asks_for_turns() -> None:
    asking: list[Queue] = []

    class Turns(RecordingEffects):
        def turns_for(self, queue: Queue) -> bool:
            asking.append(queue)
            return True

    deep = GroupedDeep(lambda number: "stalled")
    deep.queue.effects = Turns()
    deep.publish(HALF)
    RecordingSession("owner").consume(deep.queue, messages=1)
    deep.lanes.pull_looks = 1
    waiter = await_pull(deep.queue)
    assert waiter is not None
    assert asking
    while deep.queue.scan(NOW):
        assert waiter.told == 0
    assert waiter.told == 1


def test_a_broker_without_turns_looks_in_slices() -> None:
    effects = SlicingEffects()
    deep = GroupedDeep(lambda number: "stalled")
    deep.queue.effects = effects
    deep.publish(HALF)
    RecordingSession("owner").consume(deep.queue, messages=1)
    deep.lanes.pull_looks = 1
    waiter = await_pull(deep.queue)
    assert waiter is not None
    assert effects.turns() > 1
    assert waiter.told == 1


def test_an_empty_queue_has_nothing_to_wait_for() -> None:
    queue = make_queue()
    assert not queue.await_pull(Waiting(), queue.next_sequence, NOW)
    assert not queue.pull_waiters
