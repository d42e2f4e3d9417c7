"""Parked sequences whose messages have left are looked for in the middle as well, some at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from annulet.core.searching.parked_sweep import LOOKS_PER_STALE
from tests.core.deep_doubles import ALL
from tests.core.grouped_doubles import GroupedDeep, check_grouped
from tests.core.helpers import NOW, RecordingSession

OLD = 40


def stalled_mostly(number: int) -> str:
    return "stalled" if number <= OLD or number % 2 else "other"


def own_group_each_third(number: int) -> str:
    return "other" if number > OLD and number % 2 == 0 else f"stalled {number % 3}"


def expired_behind_old_ones(deep: GroupedDeep) -> list[int]:
    """Have stalled groups of which the oldest stay and all others expire as rows, in eight batches.

    Returns after each batch how many parked sequences there are more than messages behind the lanes.
    """
    owner, other = RecordingSession("owner"), RecordingSession("other")
    deep.publish(OLD)
    owner.consume(deep.queue, messages=3)
    other.consume(deep.queue)
    stale: list[int] = []
    for batch in range(1, 9):
        deep.publish(300, expires_at=NOW + 100 * batch)
        deep.page_out(ALL)
        deep.take_turns()
        while other.unacknowledged:
            other.acknowledge(max(other.unacknowledged), NOW, multiple=True)
            deep.take_turns()
        deep.queue.expire(NOW + 100 * batch)
        assert deep.lanes.stock is not None
        stale.append(deep.lanes.parked - deep.lanes.stock.count)
    return stale


@pytest.mark.parametrize("group_of", [stalled_mostly, own_group_each_third])
def test_what_expires_behind_old_ones_leaves_no_more_sequences_than_the_bound(group_of: Callable[[int], str]) -> None:
    deep = GroupedDeep(group_of)
    deep.lanes.sweep.stale_least = 10
    deep.lanes.sweep.looks_least = 200
    stale = expired_behind_old_ones(deep)
    assert deep.queue.order.count < OLD
    assert max(stale) <= OLD + 2 * 10
    check_grouped(deep.queue)


def test_below_the_bound_nothing_is_looked_for() -> None:
    deep = GroupedDeep(stalled_mostly)
    deep.lanes.sweep.stale_least = 2000
    assert expired_behind_old_ones(deep) == [150 * batch for batch in range(1, 9)]
    check_grouped(deep.queue)


def test_a_sweep_makes_so_many_looks_and_the_next_goes_on_there() -> None:
    deep = GroupedDeep(stalled_mostly)
    deep.lanes.sweep.stale_least = 2000
    gone = expired_behind_old_ones(deep)[-1]
    sweep = deep.lanes.sweep
    sweep.stale_least, sweep.looks_max = 10, 100
    sweep._due = sweep.looks_least + 100
    before = deep.lanes.parked
    deep.lanes.recount()
    assert 0 < before - deep.lanes.parked <= 100
    for _ in range(gone // 100 + 1):
        sweep._due = sweep.looks_least
        deep.lanes.recount()
    assert deep.lanes.parked - deep.queue.order.count <= 10 + OLD // 4
    check_grouped(deep.queue)


def test_so_many_looks_for_each_that_went_stale() -> None:
    deep = GroupedDeep(stalled_mostly)
    deep.lanes.sweep.stale_least = 2000
    expired_behind_old_ones(deep)
    sweep = deep.lanes.sweep
    sweep.stale_least = 10
    sweep._stale -= 5
    before = deep.lanes.parked
    deep.lanes.recount()
    assert sweep._due == 5 * LOOKS_PER_STALE
    assert deep.lanes.parked == before, "too few to begin"
