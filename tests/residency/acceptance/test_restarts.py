"""A9 to A12: stops and kills of a broker whose queue is mostly on disk, and what it settled."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from annulet.broker.recovery import recovery
from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from annulet.residency.bodies.budget import MIB
from annulet.residency.rows.page import PAGE_ITEMS_MAX
from annulet.store.log.log import MessageLog
from tests.residency.acceptance.deep import SIZE, Deep, deep_broker

COUNT = 2 * PAGE_ITEMS_MAX + 2 * KEEP_MESSAGES
"""Several pages, whichever of them are acknowledged."""

SEGMENT_BYTES = MIB // 2
ROUNDS = 10
"""Of upkeep, until what is dead is gone: two checkpoints have to know of it, and a third round compacts."""


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few thousand messages fill several segments."""

    class SmallLog(MessageLog):
        @classmethod
        def open(cls, *arguments: Any, **options: Any) -> MessageLog:
            return MessageLog.open(*arguments, **{"segment_bytes": SEGMENT_BYTES, **options})

    monkeypatch.setattr(recovery, "MessageLog", SmallLog)


def of_the_queue(deep: Deep) -> tuple[int, int, int, int]:
    figures = deep.queue().statistics()
    return figures.pending_count, figures.pending_bytes, figures.messages_added, sum(figures.removed.values())


async def killed(deep: Deep, tmp_path: Path) -> Path:
    """Return what a broker finds that is started after a kill now."""
    await deep.written()
    shutil.copytree(tmp_path / "data", tmp_path / "killed")
    return tmp_path / "killed"


async def test_a9_a_clean_restart_finds_everything_as_it_was(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q")
        await deep.publish(range(COUNT))
        consumer = await deep.consumer(prefetch=200)
        assert await consumer.numbers() == list(range(200))
        await consumer.acknowledge(range(1, 101))
        await consumer.leave()
        await deep.written()
        before = of_the_queue(deep)
    async with deep_broker(tmp_path / "data") as deep:
        assert of_the_queue(deep) == before == (COUNT - 100, (COUNT - 100) * SIZE, COUNT, 100)
        assert deep.queue().statistics().messages_paged >= COUNT - 100 - 2 * KEEP_MESSAGES
        deep.check()
        consumer = await deep.consumer(prefetch=COUNT)
        found = []
        while got := await consumer.take():
            found += got
        assert [number for number, _, _ in found] == list(range(100, COUNT))
        assert [number for number, _, redelivered in found if redelivered] == list(range(100, 300)), "what it had"
        await consumer.leave()


async def test_a10_a_kill_loses_nothing_confirmed_and_brings_nothing_settled_back(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q")
        await deep.publish(range(COUNT))
        consumer = await deep.consumer(prefetch=500)
        assert await consumer.all(500) == list(range(500))
        await consumer.acknowledge(range(1, 301))
        await deep.publish(range(COUNT, COUNT + 100))
        copy = await killed(deep, tmp_path)
    async with deep_broker(copy) as deep:
        assert of_the_queue(deep)[0] == COUNT - 200
        deep.check()
        assert await deep.drained() == list(range(300, COUNT + 100))


async def test_a11_every_other_message_acknowledged_stays_exact_over_a_kill(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q")
        await deep.publish(range(COUNT))
        consumer = await deep.consumer(prefetch=COUNT)
        found = []
        while got := await consumer.take():
            found += got
        await consumer.acknowledge([tag for number, tag, _ in found if number % 2])
        await deep.broker.commit.maintain(checkpoint=True)
        copy = await killed(deep, tmp_path)
        await consumer.leave()
    state = sum(path.stat().st_size for path in (copy / "messages").glob("checkpoint-*"))
    assert state <= 4096 + COUNT // 2, "some bits a message"
    async with deep_broker(copy) as deep:
        assert of_the_queue(deep)[:2] == (COUNT // 2, COUNT // 2 * SIZE)
        assert await deep.drained() == list(range(0, COUNT, 2))


async def test_a12_one_message_that_stays_holds_no_more_than_its_segment(tmp_path: Path) -> None:
    def on_disk() -> int:
        return sum(path.stat().st_size for path in (tmp_path / "data" / "messages").glob("*.segment"))

    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q")
        await deep.publish(range(COUNT))
        assert on_disk() > COUNT * SIZE
        consumer = await deep.consumer(prefetch=COUNT)
        assert await consumer.all(COUNT) == list(range(COUNT))
        await consumer.acknowledge(range(2, COUNT + 1))
        rounds = 0
        while on_disk() > 3 * SEGMENT_BYTES and rounds < ROUNDS:  # how many it takes depends on what the clock began
            await deep.publish([COUNT])
            await deep.broker.commit.maintain(checkpoint=True)
            rounds += 1
        await consumer.leave()
        assert on_disk() <= 3 * SEGMENT_BYTES
        assert await deep.drained() == [0, *[COUNT] * rounds]
