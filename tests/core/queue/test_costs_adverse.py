"""Costs where most of what waits may not be had: keys at their cap, selectors that refuse, readers that pull.

Counted are Python lines executed inside the core, so that loops show which call nothing. No clock.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from annulet import _build
from annulet.core.model.entry import QueueEntry
from tests.core.deep_doubles import ALL, Deep
from tests.core.grouped_doubles import GroupedDeep
from tests.core.helpers import NOW, RecordingSession, TableView, make_message, queue_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.queue.queue import Queue

pytestmark = pytest.mark.skipif(
    _build.compiled(), reason="compiled code executes no Python lines that could be counted"
)

FEW, MANY = 250, 2000
GROWTH_MAX = 1.6
"""Eight times the messages: log n grows by 1.4, n by 8."""


def lines_of(run: Callable[[], object]) -> int:
    """Count the lines of the core that ``run`` executes."""
    count = 0

    def trace(frame: Any, event: str, _argument: object) -> Any:
        nonlocal count
        if event == "line":
            count += 1
        return trace

    def enter(frame: Any, _event: str, _argument: object) -> Any:
        return trace if "/annulet/core/" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        run()
    finally:
        sys.settrace(before)
    assert count > 0, "nothing was measured"
    return count


def capped(depth: int) -> tuple[Queue, RecordingSession]:
    """Two messages of each key, one of them in delivery and the key at its cap."""
    queue, session = queue_of(fair_key="key", in_flight_per_key=1), RecordingSession()
    session.consume(queue)
    for number in range(depth):
        for _ in range(2):
            queue.enqueue(make_message("x", key=number), NOW)
    assert (len(queue.delivering), queue.order.count) == (depth, depth)
    return queue, session


def unwanted(depth: int) -> tuple[Queue, RecordingSession]:
    """A key per message, and a consumer with credit that may have none of them."""
    queue, session = queue_of(fair_key="key"), RecordingSession()
    session.consume(queue, selector="color = 'blue'")
    for number in range(depth):
        queue.enqueue(make_message("x", key=number, color="red"), NOW)
    assert queue.order.count == depth
    return queue, session


def readable(depth: int) -> tuple[Queue, RecordingSession]:
    """A non-destructive queue that somebody pulls from."""
    queue, session = queue_of(non_destructive=True), RecordingSession()
    for _ in range(depth):
        queue.enqueue(make_message("x"), NOW)
    return queue, session


CASES: dict[
    str, tuple[Callable[[int], tuple[Queue, RecordingSession]], Callable[[Queue, RecordingSession], object]]
] = {
    "capped keys, a message arrives": (capped, lambda queue, _: queue.enqueue(make_message("y", key=3), NOW)),
    "capped keys, one is acknowledged": (capped, lambda _, session: session.acknowledge(7, NOW)),
    "capped keys, one comes back": (capped, lambda _, session: session.reject(7, NOW, requeue=True)),
    "unwanted keys, a message arrives": (
        unwanted,
        lambda queue, _: queue.enqueue(make_message("y", key="new", color="red"), NOW),
    ),
    "unwanted keys, credit comes": (unwanted, lambda queue, _: queue.wake(NOW)),
    "non-destructive, one is pulled": (readable, lambda queue, session: session.get(queue, NOW, auto_acknowledge=True)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_nobody_may_have_is_not_looked_at(case: str) -> None:
    prepare, operate = CASES[case]
    costs = []
    for depth in (FEW, MANY):
        queue, session = prepare(depth)
        operate(queue, session)  # what is made once is made
        queue, session = prepare(depth)
        costs.append(lines_of(lambda queue=queue, session=session: operate(queue, session)))
    assert costs[1] / costs[0] < GROWTH_MAX, costs


def levelled(levels: int) -> Queue:
    """Something on each level behind the lanes, and a consumer with credit that wants none of it."""
    queue = queue_of(priorities=levels)
    queue.matchers.lanes_max = 0
    RecordingSession().consume(queue, selector="color = 'blue'")
    for number in range(2 * levels):
        queue.enqueue(make_message("x", priority=number % levels), NOW)
    assert queue.lanes is not None
    assert queue.matchers.evaluations == queue.order.count == 2 * levels
    return queue


@pytest.mark.parametrize("lowest", [True, False])
def test_an_arrival_behind_lanes_does_not_look_at_each_level(lowest: bool) -> None:
    costs = []
    for levels in (16, 128):
        queue = levelled(levels)
        message = make_message("y", priority=0 if lowest else levels - 1)
        costs.append(lines_of(lambda queue=queue, message=message: queue.enqueue(message, NOW)))
        assert queue.matchers.evaluations == queue.order.count == 2 * levels + 1, "it was looked at"
    assert costs[1] / costs[0] < GROWTH_MAX, costs


def parked(groups: int) -> GroupedDeep:
    """A consumer that holds one message of each group, of which another one is parked."""
    deep, session = GroupedDeep(lambda number: str(number % groups), enough=8), RecordingSession()
    deep.publish(2 * groups)
    deep.page_out(ALL)
    session.consume(deep.queue, messages=groups)
    deep.take_turns()
    RecordingSession("other").consume(deep.queue)
    deep.take_turns()
    (holding,) = [holding for holding in deep.lanes.holdings() if holding.backlog]
    assert len(holding.backlog) > groups - 20
    return deep


def test_bringing_what_is_parked_does_not_look_at_each_group() -> None:
    costs = []
    for groups in (FEW, MANY):
        deep = parked(groups)
        (holding,) = [holding for holding in deep.lanes.holdings() if holding.backlog]
        before = deep.lanes.parked
        costs.append(lines_of(lambda deep=deep, holding=holding: deep.lanes.refill(holding)))
        assert deep.lanes.parked == before - 8
    assert costs[1] / costs[0] < GROWTH_MAX, costs


class CountingView(TableView):
    """Counts how often a property is read."""

    reads = 0

    def application_property(self, message: Any, name: str) -> Any:
        CountingView.reads += 1
        return super().application_property(message, name)


def counted_message(number: int) -> Any:
    message = make_message(str(number))
    message.origin.view = CountingView({"n": number})
    return message


def test_a_selector_is_evaluated_once_per_message_however_often_consumers_come_and_go() -> None:
    queue, count = queue_of(), 200
    for number in range(count):
        queue.enqueue(counted_message(number), NOW)
    CountingView.reads = 0
    for _ in range(5):
        sessions = [RecordingSession(str(index)) for index in range(3)]
        for session in sessions:
            session.consume(queue, selector="n >= 100", messages=40)
        for session in sessions:
            session.close(NOW)
    everything = RecordingSession("everything")
    everything.consume(queue, selector="n  >=  100")
    assert len(everything.received) == count - 100
    assert queue.matchers.evaluations == count
    assert CountingView.reads == count
    everything.close(NOW)
    other = RecordingSession("other")
    other.consume(queue, selector="n < 0")
    assert other.received == []
    assert queue.matchers.evaluations == 2 * count
    assert CountingView.reads == 2 * count


def test_entries_that_came_back_keep_their_answers() -> None:
    queue, session = queue_of(), RecordingSession()
    entry = queue.enqueue(counted_message(1), NOW)
    assert isinstance(entry, QueueEntry)
    session.consume(queue, selector="n = 1", messages=1)
    for tag in range(1, 20):
        session.reject(tag, NOW, requeue=True)
    assert queue.matchers.evaluations == 1


def lines_of_a_drain(selectors: list[str], *, stay: bool, priorities: bool) -> int:
    """Count what acknowledging message after message of a deep queue takes, of which selectors saw all before."""
    deep = Deep(3000, levels=priorities)
    for number, selector in enumerate(selectors):
        choosy = RecordingSession(f"choosy {number}")
        choosy.consume(deep.queue, selector=selector)
        deep.take_turns()
        if not stay:
            choosy.close(NOW)
    everybody = RecordingSession("everybody")
    everybody.consume(deep.queue, messages=10)
    drained = 500

    def drain() -> None:
        for tag in range(1, drained + 1):
            everybody.acknowledge(tag, NOW)

    cost = lines_of(drain)
    assert [tag for tag, _ in everybody.deliveries] == list(range(1, drained + 11))
    return cost


@pytest.mark.parametrize("priorities", [False, True])
@pytest.mark.parametrize(("stay", "most"), [(False, 1.55), (True, 1.95)])
def test_who_takes_everything_hardly_pays_for_selectors_that_saw_all(
    *, stay: bool, most: float, priorities: bool
) -> None:
    """What selectors may have was worked out for each message, 1.6 and 2.1 times the lines, more of the time."""
    alone = lines_of_a_drain([], stay=stay, priorities=priorities)
    beside = lines_of_a_drain(["seven = 9", "seven = 8"], stay=stay, priorities=priorities)
    assert beside / alone < most
