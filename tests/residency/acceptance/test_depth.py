"""A1, A3, A16, A18, A19, A21: what is in memory while a backlog comes and goes, and how it comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from annulet.broker.paging.pager import CHUNK
from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from annulet.core.paging.row_conditions import ENTRY_BYTES
from annulet.residency.bodies.budget import MIB
from annulet.residency.bodies.memory_figures import residence_of
from annulet.residency.pages.pages import LOAD_MESSAGES
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from tests.residency.acceptance.deep import SIZE, WINDOW, Deep, deep_broker, number_of

COUNT = 3 * PAGE_ITEMS_MAX + 212
"""Several pages, and whole windows."""

COST = SIZE + ENTRY_BYTES


async def test_a1_memory_stays_within_the_budget_while_a_backlog_comes_and_goes(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data", budget=3 * MIB) as deep:
        await deep.declare("q")
        for start in range(0, COUNT, WINDOW):
            await deep.publish(range(start, start + WINDOW))
            if deep.queue().statistics().messages_paged:
                assert deep.cost() <= 3 * MIB
        consumer = await deep.consumer(prefetch=WINDOW)
        found = []
        while got := await consumer.numbers():
            found += got
            await consumer.acknowledge_all()
            assert deep.cost() <= 3 * MIB + LOAD_MESSAGES * COST
            deep.check()
        assert found == list(range(COUNT))
        deep.tick()
        assert deep.broker.pager is not None
        assert deep.broker.pager.budget.used == 0


async def test_a3_a_drain_reads_each_row_once_and_many_at_a_time(deep: Deep) -> None:
    await deep.publish(range(COUNT))
    await deep.settled()
    rows = deep.queue().statistics().messages_paged
    assert rows == COUNT - KEEP_MESSAGES
    assert await deep.drained() == list(range(COUNT))
    assert deep.paging.loaded == rows
    assert deep.paging.loads <= rows // LOAD_MESSAGES + rows // WINDOW + rows // PAGE_ITEMS_MAX + 2


@pytest.mark.parametrize("depth", [1, 2000])
async def test_a16_an_urgent_message_is_the_next_at_any_depth(deep: Deep, depth: int) -> None:
    await deep.declare("ranked", x_max_priority=10)
    await deep.publish(range(depth), "ranked", priority=4)
    consumer = await deep.consumer("ranked", 1)
    assert await consumer.numbers() == [0]
    await deep.publish([depth], "ranked", priority=9)
    await deep.publish([depth + 1], "ranked", priority=5)
    await consumer.acknowledge_all()
    assert await consumer.numbers() == [depth]
    await consumer.leave()
    assert await deep.drained("ranked") == [depth, depth + 1, *range(1, depth)]


async def test_a18_the_first_messages_stay_in_memory_and_are_served_without_a_read(deep: Deep) -> None:
    await deep.publish(range(COUNT))
    await deep.settled()
    order = deep.queue().order
    assert [number_of(entry.message.body) for entry in order.in_memory()] == list(range(KEEP_MESSAGES))
    consumer = await deep.consumer(prefetch=KEEP_MESSAGES - 1)
    assert await consumer.all(KEEP_MESSAGES - 1) == list(range(KEEP_MESSAGES - 1))
    assert deep.paging.loads == 0
    await consumer.leave()


async def test_a19_rows_begin_when_the_budget_is_used_up_and_not_before(tmp_path: Path) -> None:
    """The spec's linked caches are one stretch here, the late messages: it grows up to the budget and then pages."""
    budget = 2 * MIB
    async with deep_broker(tmp_path / "data", budget=budget) as deep:
        queue = await deep.declare("q")
        fitting = budget // COST
        for number in range(0, fitting + 200, 50):
            await deep.publish(range(number, number + 50))
            arrived = number + 50
            rows = queue.statistics().messages_paged
            assert bool(rows) is (arrived * COST > budget), arrived
            assert rows <= CHUNK
        assert await deep.drained() == list(range(arrived))


async def test_a21_messages_larger_than_the_budget_are_delivered_one_at_a_time(deep: Deep) -> None:
    size = 3 * MIB
    for number in range(5):
        await deep.publish([number], size=size)
    await deep.settled()
    assert deep.queue().statistics().messages_paged == 4, "the next one stays"
    consumer = await deep.consumer(prefetch=1)
    for number in range(5):
        assert await consumer.numbers() == [number]
        assert deep.cost() <= size + ENTRY_BYTES
        await consumer.acknowledge_all()
    assert deep.paging.loaded == deep.paging.loads == 4
    await consumer.leave()


LARGE = 3 * MIB


@pytest.mark.parametrize("consumers", [1, 3])
async def test_a21_three_of_them_at_once_stay_in_memory_no_longer_than_they_are_on_their_way(
    deep: Deep, consumers: int
) -> None:
    for number in range(7):
        await deep.publish([number], size=LARGE)
    await deep.settled()
    takers = [await deep.consumer(prefetch=3 // consumers) for _ in range(consumers)]
    for start in (0, 3):
        numbers = [number for taker in takers for number in await taker.all(3 // consumers)]
        assert sorted(numbers) == list(range(start, start + 3)), "each whole, and to one of them"
        await deep.written()  # V1: what was handed out has left memory, and V6: the next one is there
        residence = residence_of(deep.queue())
        assert (residence.total, residence.in_delivery) == (LARGE, 0)
        for taker in takers:
            await taker.acknowledge_all()
    assert sorted([number for taker in takers for number in await taker.numbers()]) == [6]
    assert deep.paging.loaded == 6, "each is read once"
    for taker in takers:
        await taker.leave()
    assert await deep.drained() == [6]
    deep.tick()
    assert deep.broker.pager is not None
    assert (deep.broker.pager.budget.used, deep.broker.pager.bodies_away) == (0, (0, 0))


async def test_v1_what_was_looked_at_before_it_was_written_pages_when_it_is(deep: Deep) -> None:
    await deep.publish(range(2500))
    pager, queue = deep.broker.pager, deep.queue()
    assert pager is not None
    paged = queue.statistics().messages_paged
    asyncio.get_running_loop().call_soon(pager.run)  # another queue's bodies have been written, say
    await deep.publish(range(2500, 2700))
    assert queue.statistics().messages_paged == paged + 200


async def test_v1_a_prefetch_far_beyond_the_budget_leaves_memory_before_the_next_tick(tmp_path: Path) -> None:
    """What is on its way to a client counts; it is looked at when a load's worth of it is, also after a restart."""
    held = 4000
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q")
        await deep.publish(range(held))
    for _ in range(2):
        async with deep_broker(tmp_path / "data") as deep:
            consumer = await deep.consumer(prefetch=held)
            assert await consumer.all(held) == list(range(held))
            await deep.written()  # asks
            await consumer.leave()


async def test_a_disk_that_refused_rows_that_are_gone_is_asked_for_the_next(deep: Deep) -> None:
    await deep.publish(range(2500))
    deep.queue().purge(deep.broker.clock())
    (pages,) = deep.queue().order.page_parts()
    pages.stalled = True
    deep.tick()
    assert not pages.stalled
