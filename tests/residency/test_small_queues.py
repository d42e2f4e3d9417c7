"""From how many bytes on a queue counts when very many hold some each."""

from __future__ import annotations

from annulet.core.paged_order import KEEP_BYTES, KEEP_MESSAGES
from annulet.core.paging import ENTRY_BYTES
from annulet.core.queue import Queue
from annulet.residency.budget import MIB, BodyBudget, cost_of
from annulet.residency.noting import FLOOR_BYTES, FLOOR_MESSAGES, ArrivalNotes
from annulet.residency.small_queues import FLOOR_LEAST, LOOKED_AT, SmallQueues
from tests.residency.doubles import Disk, durable_queue, stored_entries

COST = 100 * (1024 + ENTRY_BYTES)


def holding(count: int) -> Queue:
    """Return a queue with so many messages of 1 KiB."""
    queue = durable_queue()
    for entry in stored_entries(queue, Disk(), count, size=1024):
        queue.insert(entry, arrival=True)
    return queue


def looking(queues: list[Queue], limit: int = MIB) -> tuple[SmallQueues, BodyBudget, ArrivalNotes]:
    budget, notes = BodyBudget(limit), ArrivalNotes()
    return SmallQueues(budget, notes, lambda: list(queues)), budget, notes


def test_below_the_budget_nothing_changes() -> None:
    queues = [holding(100) for _ in range(6)]
    small, budget, notes = looking(queues)
    assert 6 * COST < MIB
    small.look()
    assert (budget.floor, budget.below, notes.floor, notes.floor_messages) == (
        FLOOR_BYTES,
        0,
        FLOOR_BYTES,
        FLOOR_MESSAGES,
    )
    assert budget.kept == (KEEP_MESSAGES, KEEP_BYTES)
    assert notes.queues == set()


def test_above_it_the_floor_is_half_of_an_equal_part_of_the_budget() -> None:
    queues = [holding(100) for _ in range(8)] + [holding(0), holding(0)]
    small, budget, notes = looking(queues)
    assert 8 * COST > MIB
    small.look()
    assert budget.floor == notes.floor == MIB // 16, "who holds nothing has no part"
    assert notes.floor_messages == FLOOR_MESSAGES // 16
    messages, size = budget.kept
    assert messages * ENTRY_BYTES + size <= budget.floor
    assert messages > 1
    small.look()
    assert notes.queues == set(queues[:8])
    assert budget.used == sum(map(cost_of, queues))
    assert budget.to_page()
    assert budget.share == MIB // 8


def test_no_floor_is_less_than_what_is_worth_a_page() -> None:
    queues = [holding(20) for _ in range(40)]
    small, budget, _ = looking(queues, MIB)
    small.look()
    assert budget.floor == FLOOR_LEAST > MIB // 80


def test_a_few_large_queues_are_asked_as_ever() -> None:
    queues = [holding(3000)]
    small, budget, _ = looking(queues)
    small.look()
    assert budget.floor == FLOOR_BYTES


def test_what_stays_below_the_floor_is_taken_from_what_the_others_share() -> None:
    queues = [holding(100) for _ in range(8)] + [holding(10) for _ in range(4)]
    small, budget, _ = looking(queues)
    small.look()
    small.look()
    small.look()
    assert budget.below == sum(map(cost_of, queues[8:]))
    assert budget.share == (MIB - budget.below) // 8


def test_it_rises_when_an_eighth_of_the_budget_is_free() -> None:
    queues = [holding(100) for _ in range(8)]
    small, budget, notes = looking(queues)
    small.look()
    del queues[6:]
    assert MIB - MIB // 8 < 6 * COST < MIB
    small.look()
    assert budget.floor < FLOOR_BYTES
    del queues[5:]
    small.look()
    assert budget.floor == notes.floor == FLOOR_BYTES


def test_a_round_over_very_many_takes_several_looks() -> None:
    queues = [holding(0) for _ in range(2 * LOOKED_AT)] + [holding(100) for _ in range(8)]
    small, budget, _ = looking(queues)
    for _ in range(2):
        small.look()
        assert budget.floor == FLOOR_BYTES
    small.look()
    assert budget.floor == MIB // 16


def test_before_a_start_all_queues_may_be_deep() -> None:
    small, budget, _ = looking([holding(0) for _ in range(4)])
    small.expect()
    assert budget.floor == MIB // 8
    few, budget, _ = looking([holding(0)])
    few.expect()
    assert budget.floor == FLOOR_BYTES
