"""A sorted queue that is mostly on disk, through a broker and its log: in order, across stops, and in little memory."""

from __future__ import annotations

from pathlib import Path

from tests.residency.acceptance.deep import SIZE, deep_broker

COUNT = 2400
TOGETHER = 48
"""Messages that follow each other have one key."""

RANKS = [number // TOGETHER * 37 % 53 for number in range(COUNT)]
IN_ORDER = sorted(range(COUNT), key=RANKS.__getitem__)


async def test_a_deep_sorted_queue_is_in_order_before_and_after_a_restart(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q", x_sort_key="rank")
        for start in range(0, COUNT, TOGETHER):
            await deep.publish(range(start, start + TOGETHER), rank=RANKS[start])
        assert deep.queue().statistics().messages_paged > COUNT // 3
        consumer = await deep.consumer(prefetch=300)
        assert await consumer.numbers() == IN_ORDER[:300]
        await consumer.acknowledge_all()
        await consumer.leave()
        await deep.settled()
        left = deep.queue().statistics()
    async with deep_broker(tmp_path / "data") as deep:
        await deep.settled()
        figures = deep.queue().statistics()
        assert (figures.pending_count, figures.pending_bytes) == (COUNT - 300, (COUNT - 300) * SIZE)
        assert figures.pending_count == left.pending_count
        assert figures.messages_paged > COUNT // 4
        assert await deep.drained() == IN_ORDER[300:]
        assert await deep.live_records() == 0
