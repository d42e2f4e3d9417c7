"""V1 and V7 with so many queues that the budget has less for each than what is worth a measure with every window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from annulet.core.paging.front_limits import FrontBounds
from annulet.core.paging.paged_fifo import PagedFifo
from annulet.residency.bodies.arrival_notes import FLOOR_BYTES
from annulet.residency.bodies.budget import MIB, body_bytes, cost_of
from annulet.residency.bodies.small_queues import FLOOR_LEAST
from tests.broker.amqp091.peer import turns
from tests.residency.acceptance.deep import Deep, deep_broker

QUEUES = 24
COUNT = 500
NAMES = [f"q{number}" for number in range(QUEUES)]


def in_memory(deep: Deep) -> int:
    """Bytes of bodies in memory, of all queues."""
    return sum(body_bytes(deep.queue(name)) for name in NAMES)


async def filled(deep: Deep) -> None:
    """Fill queues of which none is worth a look alone: half of them plain, the others with ten priorities."""
    for number, name in enumerate(NAMES):
        await deep.declare(name, **({"x_max_priority": 9} if number % 2 else {}))
    for name in NAMES:
        await deep.publish(range(COUNT), name)
    assert all(body_bytes(deep.queue(name)) < FLOOR_BYTES for name in NAMES)


async def test_v1_many_small_queues_keep_the_budget_together(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await filled(deep)
        assert in_memory(deep) <= MIB, "it did not take a tick"
        for name in NAMES:
            assert deep.queue(name).order.count == COUNT
        for name in NAMES[:4]:
            assert await deep.drained(name) == list(range(COUNT))
        deep.check()


async def test_what_small_queues_had_for_a_moment_makes_nobody_page(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data", budget=4 * MIB) as deep:
        await deep.declare("deep")
        await deep.publish(range(1600), "deep", size=1024)
        assert FLOOR_BYTES < cost_of(deep.queue("deep")) < 3 * MIB
        for name in NAMES[:5]:
            await deep.declare(name)
            await deep.publish(range(520), name, size=1024)
            assert FLOOR_BYTES // 2 < cost_of(deep.queue(name)) < FLOOR_BYTES
            assert await deep.drained(name) == list(range(520))
        await deep.settled()
        assert deep.queue("deep").order.paged_count() == 0
        assert deep.paging.loaded == 0


async def test_a_queue_that_is_deleted_is_in_no_account(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        assert deep.broker.pager is not None
        budget = deep.broker.pager.budget
        for count, name in ((520, "small"), (1600, "large")):
            queue = await deep.declare(name)
            await deep.publish(range(count), name, size=1024)
            assert budget.cost_of(queue) == cost_of(queue) > 0
            deep.broker.hosts["/"].delete_queue(queue, deep.broker.clock())
            assert (budget.used, budget.below) == (0, 0)


async def test_v7_each_of_them_keeps_its_next_messages(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await filled(deep)
        for _ in range(3):
            await deep.settled()
        for name in NAMES:
            entries = deep.queue(name).order.upcoming(5)
            assert [entry.away for entry in entries] == [False] * 5
        assert sum(body_bytes(deep.queue(name)) for name in NAMES) >= MIB // 3


async def test_a_start_reads_no_more_of_them_than_the_budget(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await filled(deep)
    async with deep_broker(tmp_path / "data") as deep:
        assert in_memory(deep) <= MIB
        for name in NAMES[:4]:
            assert await deep.drained(name) == list(range(COUNT))


async def test_the_floor_rises_when_less_waits_and_not_because_it_paged(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        assert deep.broker.pager is not None
        budget = deep.broker.pager.budget
        await filled(deep)
        deep.tick()
        lowered = budget.floor
        assert QUEUES * lowered < MIB < QUEUES * (lowered + FLOOR_LEAST)
        for _ in range(3):
            await deep.settled()
        assert budget.floor == lowered
        for name in NAMES[1:]:
            assert len(await deep.drained(name)) == COUNT
        await deep.settled()
        assert budget.floor == FLOOR_BYTES
        order = deep.queue(NAMES[0]).order
        assert isinstance(order, PagedFifo)
        assert (order.keep_messages, order.keep_bytes) == FrontBounds()
        assert await deep.drained(NAMES[0]) == list(range(COUNT))


async def test_what_consumers_have_read_for_them_sinks_with_it(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await filled(deep)
        for _ in range(3):
            await deep.settled()
        for name in NAMES:
            consumer = await deep.consumer(name, prefetch=20)
            assert await consumer.all(20) == list(range(20))
        await deep.settled()
        assert in_memory(deep) <= MIB
        assert all(deep.queue(name).order.upcoming(1) for name in NAMES)


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 9}, {"x_sort_key": "rank"}])
async def test_what_was_read_before_it_sank_goes_as_well(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("first", **arguments)
        await deep.publish(range(3000), "first", rank=1)
        consumer = await deep.consumer("first", prefetch=1050)
        assert len(await consumer.all(1050)) == 1050
        await consumer.leave()
        await deep.settled()
        before = body_bytes(deep.queue("first"))
        await filled(deep)
        for _ in range(3):
            await deep.settled()
        assert before > 8 * FLOOR_LEAST
        assert body_bytes(deep.queue("first")) <= 2 * FLOOR_LEAST
        assert in_memory(deep) + body_bytes(deep.queue("first")) <= MIB


DRAINED: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({}, ""),
    "levels": ({"x_max_priority": 9}, ""),
    "sorted": ({"x_sort_key": "place"}, ""),
    "selected": ({}, "odd = 0"),
    "grouped": ({"x_group_mode": "shared"}, ""),
}


@pytest.mark.parametrize("credit", [8, 12, 17])
@pytest.mark.parametrize("kind", DRAINED)
async def test_v1_queues_that_are_drained_together_have_one_load_together(deep: Deep, kind: str, credit: int) -> None:
    arguments, selector = DRAINED[kind]
    names = [f"drained{number}" for number in range(6)]
    for name in names:
        await deep.declare(name, **arguments)
        for number in range(60):
            await deep.publish([number], name, size=60_000, place=number, odd=number % 2, group_id="one")
    await deep.settled()
    wanted = {"x_selector": selector} if selector else {}
    consumers = [await deep.consumer(name, credit, **wanted) for name in names]
    for consumer in consumers:
        assert await consumer.all(credit) == list(range(0, 60, 2 if selector else 1))[:credit]
    await turns(20)
    assert deep.broker.pager is not None
    budget = deep.broker.pager.budget
    large = [queue for queue in map(deep.queue, names) if cost_of(queue) >= budget.floor]
    assert sum(max(0, cost_of(queue) - budget.cost_of(queue)) for queue in large) <= MIB
    if not selector:  # what matches and is next stays in memory for whoever selects, beside the front
        await deep.written()  # which checks the budget
    deep.check()
