"""A look at a queue: bounded, without touching anything."""

from __future__ import annotations

import asyncio

import pytest

from annulet.broker.operation.looking import LOOKS_MAX, SLICE, SLICE_BYTES, Sample, find_message
from annulet.core.base.errors import NotFound
from annulet.core.management import select
from annulet.core.management.conditions import conditions
from tests.admin.conftest import Site, site

__all__ = ["site"]


async def test_it_gives_up_after_so_many(site: Site) -> None:
    queue = site.queue("shop")
    site.fill(queue, 2)
    sample = Sample(queue, select(everything=True), None, 5)
    sample.looked = LOOKS_MAX - 1
    assert sample.step(site.clock())
    assert (len(sample.items), sample.complete) == (1, False)


async def test_positions_and_texts(site: Site) -> None:
    queue = site.queue("shop")
    for number in range(SLICE + 5):
        site.publish("shop", f"body {number}".encode())
    sample = Sample(queue, select(everything=True), None, 2, skip=SLICE)
    await sample.run(site.clock)
    assert [item["id"] for item in sample.items] == [SLICE + 1, SLICE + 2]
    chosen = select(everything=True, conditions=conditions(text=f"body {SLICE + 1}"))
    sample = Sample(queue, chosen, None, 5)
    await sample.run(site.clock)
    assert [item["id"] for item in sample.items] == [SLICE + 2]
    assert sample.complete


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"ring_size": 10},
        {"last_value_key": "item"},
        {"priorities": 9},
        {"sort_key": "rank"},
        {"fair_key": "item"},
    ],
)
async def test_one_message_of_any_kind_of_queue_is_found_and_stays(site: Site, arguments: dict[str, str | int]) -> None:
    queue = site.queue("shop", **arguments)
    for number in range(3):
        site.publish("shop", b"x", item=f"item {number}", rank=-number)
    site.publish("shop", b"later", delay=500, item="later", rank=1)
    queue.acquire(1, -1, site.clock())
    before = queue.statistics()
    for number in range(1, 5):
        entry = await find_message(queue, number, site.clock)
        assert (entry.sequence, entry.delivery_count) == (number, 0)
    assert queue.statistics() == before
    with pytest.raises(NotFound, match="no message 5 in queue 'shop'"):
        await find_message(queue, 5, site.clock)


async def test_a_look_that_is_cancelled_keeps_nothing(site: Site) -> None:
    queue = site.queue("shop")
    site.fill(queue, 8 * SLICE)
    sample = Sample(queue, select(selector="number < 0"), None, 5)
    look = asyncio.create_task(sample.run(site.clock))
    await asyncio.sleep(0)
    assert queue.pinned_upto == 8 * SLICE
    look.cancel()
    with pytest.raises(asyncio.CancelledError):
        await look
    assert queue.pinned_upto == 0


def test_described_bodies_end_a_turn(site: Site) -> None:
    queue = site.queue()
    site.fill(queue, 5, size=SLICE_BYTES // 2)
    sample = Sample(queue, select(everything=True), None, 10, 1)
    counts = []
    while not sample.step(site.clock()):
        counts.append(len(sample.items))
    assert counts == [2, 4]
