"""A5 to A8, A13 to A15: many kinds of consumers on queues that are mostly on disk."""

from __future__ import annotations

import asyncio
import random

import pytest

from annulet.core.base.sliced_work import AT_ONCE_MAX
from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from annulet.residency.bodies.budget import FLOOR_BYTES, MIB
from annulet.residency.bodies.memory_figures import residence_of
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from tests.broker.amqp091.peer import turns
from tests.residency.acceptance.deep import Consumer, Deep

COUNT = 1800
DEPTH = 2 * PAGE_ITEMS_MAX + 2 * KEEP_MESSAGES
"""Where it matters that there are several pages: nothing may be different at the end of one."""


async def test_a5_a_sparse_selector_gets_all_its_matches_in_order_and_the_rest_stays(deep: Deep) -> None:
    step = 200
    for number in range(0, COUNT, step):
        await deep.publish(range(number, number + step - 1), shard="other", weight=1)
        await deep.publish([number + step - 1], shard="match", weight=7)
    matching = list(range(step - 1, COUNT, step))
    for selector in ("shard = 'match'", "shard LIKE 'mat%' AND weight * 2 > 5"):
        consumer = await deep.consumer(prefetch=1000, x_selector=selector)
        assert await consumer.all(len(matching)) == matching
        deep.check()
        await consumer.leave()
    consumer = await deep.consumer(prefetch=1000, x_selector="shard = 'match'")
    assert await consumer.all(len(matching)) == matching
    await consumer.acknowledge_all()
    await consumer.leave()
    assert await deep.drained() == [number for number in range(COUNT) if number not in set(matching)]


@pytest.mark.parametrize("seed", range(3))
async def test_a6_whoever_has_credit_gets_every_message_it_matches_once(deep: Deep, seed: int) -> None:
    """Random contents, selectors, credits and returns; the model is who holds what and what is gone."""
    moments = random.Random(seed)
    count = 1200
    kinds = [moments.randrange(4) for _ in range(count)]
    for start in range(0, count, 200):
        by_kind: dict[int, list[int]] = {}
        for number in range(start, start + 200):
            by_kind.setdefault(kinds[number], []).append(number)
        for kind, numbers in by_kind.items():
            await deep.publish(numbers, kind=kind)
    gone: set[int] = set()
    for _ in range(3):
        wanted = sorted(moments.sample(range(4), moments.randint(1, 3)))
        consumers = {kind: await deep.consumer(prefetch=moments.randint(5, 400), x_selector=f"kind = {kind}")
                     for kind in wanted}  # fmt: skip
        for _ in range(4):
            for kind, consumer in consumers.items():
                await some_come_and_some_go(consumer, kind, kinds, gone, moments)
                deep.check()
        for consumer in consumers.values():
            await consumer.leave()
    for kind in range(4):
        consumer = await deep.consumer(prefetch=count, x_selector=f"kind = {kind}")
        there = [number for number in range(count) if kinds[number] == kind and number not in gone]
        assert sorted(await consumer.all(len(there))) == there, f"seed {seed}"
        await consumer.leave()
    assert sorted(await deep.drained()) == [number for number in range(count) if number not in gone]


async def some_come_and_some_go(
    consumer: Consumer, kind: int, kinds: list[int], gone: set[int], moments: random.Random
) -> None:
    """Look at what came, acknowledge some, give some back, keep the rest."""
    found = await consumer.take()
    numbers = [number for number, _, _ in found]
    assert all(kinds[number] == kind for number in numbers)
    assert not gone & set(numbers)
    assert len(set(numbers)) == len(numbers)
    back = []
    for number, tag, _ in found:
        fate = moments.random()
        if fate < 0.6:
            await consumer.acknowledge([tag])
            gone.add(number)
        elif fate < 0.7:
            back.append(tag)
    await consumer.refuse(back)


async def test_a5_a8_selectors_and_browsers_find_all_on_levels_that_are_on_disk(deep: Deep) -> None:
    """Most important first, and nothing but what matches comes into memory."""
    await deep.declare("levels", x_max_priority=9)
    order = []
    for priority in (5, 1, 8):
        numbers = range(len(order), len(order) + 700)
        await deep.publish(numbers[:-3], "levels", priority=priority, shard="other")
        await deep.publish(numbers[-3:], "levels", priority=priority, shard="match")
        order += [(-priority, number) for number in numbers]
    expected = [number for _, number in sorted(order)]
    matching = [number for number in expected if number % 700 >= 697]
    paged = deep.queue("levels").order.paged_count()
    assert paged > 1000
    browser = await deep.consumer("levels", 3000, x_browse="snapshot")
    assert await browser.all(2100) == expected
    await browser.leave()
    consumer = await deep.consumer("levels", 3000, x_selector="shard = 'match'")
    assert await consumer.all(9) == matching
    assert deep.queue("levels").order.paged_count() >= paged - 9
    await deep.publish([2100], "levels", priority=9, shard="match")
    assert await consumer.all(1) == [2100]
    await deep.settled()
    await consumer.acknowledge_all()
    await consumer.leave()
    assert await deep.drained("levels") == [number for number in expected if number not in set(matching)]


@pytest.mark.parametrize("held", [AT_ONCE_MAX - 500, DEPTH // 2], ids=["at once", "in slices"])
async def test_a7_what_a_killed_consumer_held_comes_again_in_order_and_marked(deep: Deep, held: int) -> None:
    await deep.publish(range(DEPTH))
    consumer = await deep.consumer(prefetch=held)
    assert await consumer.all(held) == list(range(held))
    await deep.settled()
    queue, loads = deep.queue(), deep.paging.loads
    consumer.peer.connection.abort()
    await turns(1)
    assert bool(queue.returns) is (held > AT_ONCE_MAX)
    while queue.returns:
        await turns(1)
    figures = queue.statistics()
    assert (figures.pending_count, figures.delivering_count) == (DEPTH, 0)
    assert deep.paging.loads == loads, "a return reads nothing"
    deep.check()
    following = await deep.consumer(prefetch=DEPTH)
    found: list[tuple[int, bool]] = []
    while got := await following.take():
        found += [(number, redelivered) for number, _, redelivered in got]
    assert found == [(number, number < held) for number in range(DEPTH)]
    await following.leave()


async def test_a8_a_browser_sees_all_there_was_but_what_went_before_its_turn(deep: Deep) -> None:
    await deep.publish(range(DEPTH))
    holder = await deep.consumer(prefetch=200)
    assert await holder.numbers() == list(range(200))
    taker = await deep.consumer(prefetch=100)
    browser = await deep.consumer(prefetch=300, x_browse="snapshot")
    (reader,) = deep.queue().consumers.readers()
    seen, taken, later = [], [], False
    while (got := await browser.numbers()) or not reader.unseen.exhausted():
        if not got:
            await asyncio.sleep(0.001)  # it waits for its turn
            continue
        taken += await taker.numbers()
        await taker.acknowledge_all()
        seen += got
        await browser.acknowledge_all()
        if len(seen) >= 300 and not later:
            later = True
            await deep.publish(range(DEPTH, DEPTH + 100))
    assert seen == sorted(seen)
    assert set(seen) <= set(range(DEPTH)), "nothing that came later"
    assert set(range(DEPTH)) - set(seen) <= set(taken)
    assert set(range(200)) <= set(seen), "what others hold is there"
    for consumer in (holder, taker, browser):
        await consumer.leave()
    left = [number for number in range(DEPTH + 100) if number not in set(taken)]
    assert [number for number in await deep.drained() if number not in set(taken)] == left


async def test_a13_a_queue_that_nobody_takes_from_costs_others_nothing(deep: Deep) -> None:
    for name in ("slow", "fast"):
        await deep.declare(name)
    await deep.publish(range(COUNT))
    await deep.settled()
    paged_out, rows_before = deep.paging.paged_out, deep.queue().order.paged_count()
    slow, fast = await deep.consumer("slow", 1), await deep.consumer("fast", 50)
    found = []
    for start in range(0, 1000, 50):
        await deep.publish([start], "slow")
        await deep.publish(range(start, start + 50), "fast")
        found += await fast.numbers()
        await fast.acknowledge_all()
    assert found == list(range(1000))
    assert await slow.numbers() == [0]
    assert deep.paging.loads == 0
    rows = (
        deep.queue().order.paged_count()
    )  # the idle queue keeps less of its front where all have more than the budget
    assert deep.paging.paged_out - paged_out == rows - rows_before, "they never went to disk"
    await fast.leave()
    await slow.leave()
    assert await deep.drained("slow") == list(range(0, 1000, 50))
    assert await deep.drained() == list(range(COUNT))


async def test_v7_each_queue_with_a_consumer_keeps_its_floor_while_an_idle_one_fills_the_budget(deep: Deep) -> None:
    names, credit = ("a", "b"), 200
    floor = min(FLOOR_BYTES, MIB // (2 * len([*names, "the idle one"])))
    await deep.publish(range(COUNT))
    for name in names:
        await deep.declare(name)
        await deep.publish(range(1500), name)
    consumers = {name: await deep.consumer(name, credit) for name in names}
    await deep.publish(range(COUNT, COUNT + 500))
    for name in names:
        residence = residence_of(deep.queue(name))
        assert residence.direct + residence.in_delivery >= floor
        assert residence.direct > 0
    taken = {name: await consumers[name].all(credit) for name in names}
    for end in range(2 * credit, 1500, credit):
        for name in names:
            await consumers[name].acknowledge_all()
            taken[name] += await consumers[name].all(credit)
            assert taken[name] == list(range(end)), "its credit is used at once, whatever the idle queue holds"
        await deep.publish([0], "q")
    assert deep.paging.postponed == 0
    for consumer in consumers.values():
        await consumer.leave()


async def test_a14_credit_that_one_consumer_has_used_up_is_no_limit_for_another(deep: Deep) -> None:
    await deep.publish(range(COUNT))
    held = 1500
    holder = await deep.consumer(prefetch=held)
    assert await holder.all(held) == list(range(held))
    assert await deep.drained() == list(range(held, COUNT))
    assert await holder.numbers() == []
    await holder.leave()
    assert await deep.drained() == list(range(held))


@pytest.mark.parametrize("mode", ["sticky", "shared"])
async def test_a15_groups_behind_one_whose_owner_stalls_go_on(deep: Deep, mode: str) -> None:
    await deep.declare("groups", x_group_mode=mode)
    half, groups = DEPTH // 2, 20
    await deep.publish(range(half), "groups", group_id="stalled")
    owner = await deep.consumer("groups", 1)
    assert await owner.numbers() == [0]
    for group in range(groups):
        await deep.publish(range(half + group, 2 * half, groups), "groups", group_id=f"g{group}")
    other = await deep.consumer("groups", 100)
    found = []
    while got := await other.numbers():
        found += got
        await other.acknowledge_all()
        deep.check()
    assert sorted(found) == list(range(half, 2 * half))
    for group in range(groups):
        of_group = [number for number in found if number % groups == (half + group) % groups]
        assert of_group == sorted(of_group)
    await owner.leave()
    await other.leave()
    assert await deep.drained("groups") == list(range(half))
