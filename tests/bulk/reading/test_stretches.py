"""Stretches of a queue: what is alive, by number, from memory and from disk, within limits."""

from __future__ import annotations

import asyncio

import pytest

from annulet.bulk.reading import stretches
from annulet.bulk.reading.stretches import Stretch, read_stretch
from annulet.core.management.selection import select
from annulet.residency.pages import pages, walk
from tests.core.helpers import NOW
from tests.core.paging.test_paged_priorities import ALL, Levels
from tests.core.reading.test_browse_order import deep_queue

EVERYTHING = select(everything=True)


def numbers(found: Stretch) -> list[int]:
    return [row.position for row in found.rows]


async def test_rows_on_disk_and_messages_in_memory_are_one_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOAD_MESSAGES", 3)
    monkeypatch.setattr(walk, "WALK_MESSAGES", 4)
    monkeypatch.setattr(stretches, "SLICE", 5)
    deep = deep_queue(keep=2)
    queue = deep.queue
    deep.publish(40)
    deep.page_out(30)
    taken = queue.acquire(3, -1, NOW)  # the first two from memory, the third brings rows in
    queue.acknowledge(taken[1])
    expected = [1, *range(3, 41)]

    assert numbers(await read_stretch(queue, 0, 100, EVERYTHING, NOW)) == expected
    assert numbers(await read_stretch(queue, 7, 20, EVERYTHING, NOW)) == list(range(8, 21))
    few = await read_stretch(queue, 2, 100, EVERYTHING, NOW, messages_max=9)
    assert (numbers(few), few.scanned, few.living_at_rows) == (list(range(3, 12)), 11, 9)
    assert [int(row.message.body) for row in few.rows] == numbers(few)
    assert queue.order.paged_count() > 20  # nothing was brought into memory

    deep.disk.failing = True
    stopped = await read_stretch(queue, 0, 100, EVERYTHING, NOW)
    assert numbers(stopped) == [number for number in expected if number <= stopped.scanned]
    assert stopped.scanned < 20
    assert (stopped.refused, few.refused) == (True, False)


async def test_rows_of_several_priorities_are_one_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "WALK_MESSAGES", 4)
    deep = Levels()
    deep.order.keep_messages, deep.order.fold_least = 2, 1
    deep.put(*[number % 7 % 3 for number in range(60)])
    while deep.order.page_out(ALL, 1000):
        pass
    rows = deep.rows()
    assert min(rows) > 10
    deep.put(0, 2)
    assert numbers(await read_stretch(deep.queue, 0, 100, EVERYTHING, NOW)) == list(range(1, 63))
    few = await read_stretch(deep.queue, 7, 50, EVERYTHING, NOW, messages_max=9)
    assert (numbers(few), few.scanned) == (list(range(8, 17)), 16)
    assert deep.rows() == rows

    deep.disk.failing = True
    stopped = await read_stretch(deep.queue, 0, 100, EVERYTHING, NOW)
    assert (numbers(stopped), stopped.scanned) == ([], 0)


async def test_what_changes_meanwhile_is_shown_if_it_is_alive_when_it_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stretches, "SLICE", 2)
    deep = deep_queue()
    queue = deep.queue
    deep.publish(6)
    reading = asyncio.create_task(read_stretch(queue, 0, 100, EVERYTHING, NOW))
    await asyncio.sleep(0)
    deep.publish(1)
    for entry in queue.acquire(4, -1, NOW)[2:]:
        queue.acknowledge(entry)
    found = await reading
    assert (numbers(found), found.scanned, found.living) == ([1, 2, 5, 6], 6, 4)
