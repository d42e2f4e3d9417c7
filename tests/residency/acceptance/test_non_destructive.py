"""A8 for queues from which nobody takes: histories that are mostly on disk, and everybody reads all of them."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest

from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from tests.residency.acceptance.deep import PATIENCE, Consumer, Deep, deep_broker

COUNT = 3000
NAME = "history"


async def read(consumer: Consumer, upto: int) -> list[int]:
    """Read and acknowledge until a number came. What is slow gets ten seconds for what comes next."""
    found: list[int] = []
    deadline = time.monotonic() + PATIENCE
    while upto not in found[-300:] and time.monotonic() < deadline:
        got = await some(consumer)
        found += got
        if got:
            deadline = time.monotonic() + PATIENCE
        else:
            await asyncio.sleep(0.005)
    return found


async def some(consumer: Consumer) -> list[int]:
    """Take and acknowledge what came."""
    found = await consumer.numbers()
    if found:
        await consumer.acknowledge_all()
    return found


def on_disk(deep: Deep) -> int:
    return deep.queue(NAME).statistics().messages_paged


async def test_everybody_reads_all_that_is_on_disk_and_it_stays_there_over_a_restart(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare(NAME, x_non_destructive=True)
        early = await deep.consumer(NAME, 50)
        await deep.publish(range(COUNT), NAME)
        rows = on_disk(deep)
        assert rows >= COUNT - 2 * KEEP_MESSAGES, "who was there before them does not keep them in memory"
        late = await deep.consumer(NAME, 300)
        assert await read(early, COUNT - 1) == await read(late, COUNT - 1) == list(range(COUNT))
        await deep.publish(range(COUNT, COUNT + 10), NAME)
        assert await early.all(10) == await late.all(10) == list(range(COUNT, COUNT + 10))
        await deep.settled()
        assert on_disk(deep) >= rows, "nothing of it came into the queue's memory"
        for consumer in (early, late):
            await consumer.leave()
    async with deep_broker(tmp_path / "data") as deep:
        assert deep.queue(NAME).statistics().pending_count == COUNT + 10
        assert on_disk(deep) >= COUNT - 2 * KEEP_MESSAGES
        consumer = await deep.consumer(NAME, 100)
        assert await read(consumer, COUNT + 9) == list(range(COUNT + 10))
        deep.check()
        await consumer.leave()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("arguments", [{}, {"x_ring_size": 1500}, {"x_max_length": 1500, "x_overflow": "drop-head"}])
async def test_readers_of_any_pace_see_all_that_stays(deep: Deep, seed: int, arguments: dict[str, int | str]) -> None:
    """Messages come, some of them transient, and the oldest go; readers come, read at their pace and lag behind."""
    moments = random.Random(seed)
    await deep.declare(NAME, x_non_destructive=True, **arguments)
    readers: list[tuple[Consumer, list[int]]] = []
    published = 0
    for _ in range(10):
        count = moments.randint(100, 500)
        await deep.publish(range(published, published + count), NAME, durable=moments.random() < 0.8)
        published += count
        if len(readers) < 3:
            readers.append((await deep.consumer(NAME, moments.randint(40, 400)), []))
        for consumer, seen in readers:
            if moments.random() < 0.6:
                seen.extend(await some(consumer))
        deep.check()
    await deep.settled()
    there = list(range(max(0, published - 1500) if arguments else 0, published))
    assert deep.queue(NAME).statistics().pending_count == len(there)
    for consumer, seen in readers:
        seen.extend(await read(consumer, published - 1))
        assert seen == sorted(set(seen)), "each once, in order"
        assert set(there) <= set(seen)
        await consumer.leave()
    last = await deep.consumer(NAME, 200)
    assert await read(last, published - 1) == there
    await last.leave()
    deep.check()
