"""A5 and A8 on queues deeper than the memory that is left: nobody is refused, and what is looked at stays on disk."""

from __future__ import annotations

import pytest

from annulet.core.paging.paged_fifo import KEEP_MESSAGES, PagedFifo
from tests.broker.amqp091.peer import turns
from tests.residency.acceptance.deep import Deep

COUNT = 3000


@pytest.fixture
async def full(deep: Deep) -> Deep:
    """No memory is left for anything that is on disk."""
    for number in range(0, COUNT, 200):
        await deep.publish(range(number, number + 199), shard="other")
        await deep.publish([number + 199], shard="match")
    order = deep.queue().order
    assert isinstance(order, PagedFifo)
    order.pages._room = lambda: 0  # type: ignore[attr-defined]
    return deep


async def test_a5_a_selector_brings_in_its_matches_and_nothing_else(full: Deep) -> None:
    matching = list(range(199, COUNT, 200))
    consumer = await full.consumer(prefetch=1000, x_selector="shard = 'match'")
    assert await consumer.all(len(matching)) == matching
    assert full.queue().statistics().messages_paged >= COUNT - KEEP_MESSAGES - len(matching)
    full.check()
    await consumer.leave()
    assert await full.drained() == list(range(COUNT))


async def test_a8_a_browser_admits_nothing_to_memory(full: Deep) -> None:
    browser = await full.consumer(prefetch=COUNT, x_browse="snapshot")
    assert await browser.all(COUNT) == list(range(COUNT))
    assert full.queue().statistics().messages_paged == COUNT - KEEP_MESSAGES
    full.check()
    await browser.leave()
    assert await full.drained() == list(range(COUNT))


async def test_a5_a_rare_selector_is_served_beside_arrivals_and_its_word_spares_decoding(deep: Deep) -> None:
    await deep.publish(range(COUNT))
    await deep.publish([COUNT, COUNT + 1], urgent=True, region="north")
    await deep.publish(range(COUNT + 2, COUNT + 1000))
    queue = deep.queue()
    consumer = await deep.consumer(x_selector="urgent AND region = 'north'")
    found = await consumer.all(2)
    while queue.statistics().scan_remaining:
        await turns()
        found += await consumer.numbers()
    assert found == [COUNT, COUNT + 1]
    assert queue.statistics().messages_paged > 2000
    assert 2 <= queue.matchers.evaluations < COUNT, "most headers on disk do not have the word"
    assert await deep.drained() == [number for number in range(COUNT + 1000) if number not in found]
    await consumer.leave()


async def test_a8_a_browser_reads_what_is_on_disk_while_a_consumer_drains(deep: Deep) -> None:
    await deep.publish(range(COUNT))
    queue = deep.queue()
    assert queue.statistics().messages_paged > 0
    browser = await deep.consumer(prefetch=COUNT, x_browse="snapshot", x_auto_close=True)
    drain = deep.broker.loop.create_task(deep.drained())
    seen: list[int] = []
    while queue.copies is not None and queue.consumers.readers():
        await turns()
        seen += await browser.numbers()
    assert await drain == list(range(COUNT))
    assert seen == sorted(set(seen))
    assert set(seen) <= set(range(COUNT))
    await browser.leave()
    assert queue.copies is None
