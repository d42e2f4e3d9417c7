"""A5h: of what is on disk a selector on a hot property reads what may match; after a restart the first reads all."""

from __future__ import annotations

from pathlib import Path

from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from tests.residency.acceptance.deep import Consumer, Deep, deep_broker

COUNT = 2 * KEEP_MESSAGES
STEP = 128
MATCHING = list(range(STEP - 1, COUNT, STEP))
FEW = 4 * len(MATCHING)


async def scanned_for(deep: Deep, selector: str, expected: list[int]) -> tuple[int, Consumer]:
    """Return how many rows were read until a new consumer had what it is to get."""
    before = deep.paging.scanned
    consumer = await deep.consumer("hot", prefetch=COUNT, x_selector=selector)
    assert await consumer.all(len(expected)) == expected
    deep.check()
    return deep.paging.scanned - before, consumer


async def test_a5h_a_selector_on_a_hot_property_reads_what_may_match(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("hot", x_hot_properties="shard, weight")
        for number in range(0, COUNT, STEP):
            await deep.publish(range(number, number + STEP - 1), "hot", shard="other", weight=1)
            await deep.publish([number + STEP - 1], "hot", shard="match", weight=number)
        await deep.settled()
        scanned, consumer = await scanned_for(deep, "shard = 'match'", MATCHING)
        assert 0 < scanned <= FEW
        await consumer.leave()
        scanned, consumer = await scanned_for(deep, f"weight IN (7, {COUNT - STEP}.0) AND shard > ''", [])
        assert scanned <= FEW
        await consumer.leave()
        await deep.publish([COUNT], "hot", shard="match", weight=2)
        scanned, consumer = await scanned_for(deep, "weight = 2 AND shard = 'match'", [COUNT])
        assert scanned <= FEW
        await consumer.leave()
    async with deep_broker(tmp_path / "data") as deep:
        assert deep.queue("hot").settings.hot_properties == ("shard", "weight")
        scanned, consumer = await scanned_for(deep, "weight = 2", [COUNT])
        assert scanned > FEW, "what was there before is read once"
        scanned, other = await scanned_for(deep, "shard = 'match' AND weight <> 2", MATCHING)
        assert scanned <= FEW
        await consumer.leave()
        await other.leave()
        everything = await deep.drained("hot")
        assert sorted(everything) == list(range(COUNT + 1))
