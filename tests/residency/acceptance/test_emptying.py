"""A17: everything goes at once, on purpose or because its time is over."""

from __future__ import annotations

import shutil
from pathlib import Path

from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from tests.broker.amqp091.peer import Peer, turns
from tests.residency.acceptance.deep import QUEUE, Deep, deep_broker

COUNT = 3 * PAGE_ITEMS_MAX + 212
"""Several pages, and whole windows of messages."""

SLICES = 200
"""Turns of the loop in which work that is done in slices must be through."""


async def test_a17_a_purge_leaves_what_is_in_delivery_and_nothing_else(deep: Deep) -> None:
    await deep.publish(range(COUNT))
    await deep.settled()
    assert deep.queue().statistics().messages_paged == COUNT - KEEP_MESSAGES
    holder = await deep.consumer(prefetch=100)
    assert await holder.numbers() == list(range(100))
    peer = await Peer(deep.broker).open(1)
    await peer.send(1, QUEUE.Purge(queue="q"))
    await deep.written()
    await turns(SLICES)
    assert (await peer.one(QUEUE.PurgeOk)).message_count == COUNT - 100
    await holder.acknowledge_all()
    await deep.publish(range(COUNT, COUNT + 10))
    assert await holder.numbers() == list(range(COUNT, COUNT + 10)), "what comes after it is delivered"
    await holder.acknowledge_all()
    await deep.written()
    figures = deep.queue().statistics()
    assert (figures.message_count, figures.pending_bytes, figures.messages_paged) == (0, 0, 0)
    assert figures.removed == {"purged": COUNT - 100, "acknowledged": 110}
    assert await deep.live_records() == 0
    await holder.leave()
    peer.connection.abort()
    await turns()


async def test_a17_what_expires_at_one_instant_goes_and_what_does_not_stays(deep: Deep) -> None:
    at = deep.clock() + 60_000
    for start in range(0, COUNT, 500):
        await deep.publish(range(start, start + 499), expires_at=at)
        await deep.publish([start + 499])
    deep.clock.advance(60_001)
    deep.broker.hosts["/"].tick(deep.clock())
    await deep.written()
    await turns(SLICES)
    figures = deep.queue().statistics()
    assert figures.removed == {"expired": COUNT - COUNT // 500}
    assert figures.pending_count == COUNT // 500
    assert await deep.drained() == list(range(499, COUNT, 500))


async def test_a17_what_expired_by_pages_stays_away_after_a_kill_and_nothing_else_does(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q")
        await deep.declare("other")
        deep.queue().ledger.records_max = 0
        at = deep.clock() + 60_000
        for start in range(0, COUNT, 500):
            await deep.publish(range(start, start + 500), expires_at=at)
            await deep.publish(range(start, start + 100), "other")
        holder = await deep.consumer(prefetch=100)
        assert await holder.numbers() == list(range(100))
        deep.clock.advance(60_001)
        deep.broker.hosts["/"].tick(deep.clock())
        await deep.written()
        await turns(SLICES)
        await deep.written()  # what the later slices settled, too
        figures = deep.queue().statistics()
        assert figures.removed == {"expired": COUNT - 100}
        assert deep.queue().ledger.total == COUNT - 100
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
        await holder.leave()
    async with deep_broker(tmp_path / "killed") as deep:
        deep.check()
        assert [queue.statistics().pending_count for queue in map(deep.queue, ("q", "other"))] == [100, COUNT // 5]
        numbers = [number for start in range(0, COUNT, 500) for number in range(start, start + 100)]
        assert await deep.drained("other") == numbers
