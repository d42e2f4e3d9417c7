"""R3 over clean stops: marked redelivered is what was delivered before, wherever in the queue, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import structlog

from annulet.core.paging import redelivered_ranges as module
from annulet.core.paging.paged_fifo import KEEP_MESSAGES
from tests.residency.acceptance.deep import Deep, deep_broker

COUNT = 2600
LAST = COUNT - 1
SELECTED = "chosen = 1"


async def seen_by_one(deep: Deep, chosen: Iterable[int], **arguments: Any) -> None:
    """Publish, let a consumer have the chosen ones only, which leaves without a word, and page out what may be."""
    await deep.declare("q", **arguments)
    wanted = set(chosen)
    start = 0
    for number in [*sorted(wanted), COUNT]:
        await publish(deep, start, number, chosen=0)
        await publish(deep, number, min(number + 1, COUNT), chosen=1)
        start = number + 1
    consumer = await deep.consumer(prefetch=COUNT, x_selector=SELECTED)
    assert sorted(await consumer.all(len(wanted))) == sorted(wanted)
    await consumer.leave()
    await deep.settled()


async def publish(deep: Deep, start: int, end: int, chosen: int) -> None:
    """Publish with a priority of three, each a third of the messages."""
    for level in range(3):
        part = range(max(start, level * COUNT // 3), min(end, (level + 1) * COUNT // 3))
        if part:
            await deep.publish(part, priority=level, chosen=chosen)


async def marked(deep: Deep) -> list[int]:
    """Take everything and leave without a word; return the numbers of those marked redelivered, ascending."""
    consumer = await deep.consumer(prefetch=2 * COUNT)
    found: list[tuple[int, int, bool]] = []
    while got := await consumer.take():
        found += got
    assert sorted(number for number, _, _ in found) == list(range(COUNT)), "none is missing"
    await consumer.leave()
    return sorted(number for number, _, redelivered in found if redelivered)


CHOSEN = {
    "the last": [LAST],
    "a hole": [*range(300), *range(1900, 2000)],
    "some everywhere": list(range(7, COUNT, 130)),
}


@pytest.mark.parametrize("levels", [False, True], ids=["first in, first out", "levels"])
@pytest.mark.parametrize("chosen", CHOSEN.values(), ids=CHOSEN)
async def test_only_what_was_delivered_is_marked_after_a_clean_stop(
    tmp_path: Path, chosen: list[int], levels: bool
) -> None:
    arguments = {"x_max_priority": 3} if levels else {}
    async with deep_broker(tmp_path / "data") as deep:
        await seen_by_one(deep, chosen, **arguments)
    for _ in range(2):  # nothing changes in a run in which nobody asks
        async with deep_broker(tmp_path / "data") as deep:
            assert deep.queue().order.paged_count() == COUNT - KEEP_MESSAGES
            await deep.settled()
    async with deep_broker(tmp_path / "data") as deep:
        assert await marked(deep) == chosen
    async with deep_broker(tmp_path / "data") as deep:
        assert await marked(deep) == list(range(COUNT)), "now all were delivered"


@pytest.mark.parametrize("arguments", [{"x_sort_key": "chosen"}, {"x_max_priority": 3}], ids=["sorted", "levels"])
async def test_what_is_not_the_oldest_of_its_queue_is_marked_alone(tmp_path: Path, arguments: dict[str, Any]) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await deep.declare("q", **arguments)
        await publish(deep, 0, COUNT // 2, chosen=2)
        await publish(deep, COUNT // 2, COUNT, chosen=1)
        consumer = await deep.consumer(prefetch=100)
        first = await consumer.numbers()
        assert len(first) == 100
        assert min(first) >= COUNT // 2, "they arrived late and sort before"
        await consumer.leave()
        await deep.settled()
    async with deep_broker(tmp_path / "data") as deep:
        await deep.settled()
        assert await marked(deep) == sorted(first)


async def test_beyond_the_bound_neighbours_are_marked_too_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RANGES_MAX", 5)
    chosen = [10, 500, 1000, 1500, 1503, 2000, 2002]
    with structlog.testing.capture_logs() as lines:
        async with deep_broker(tmp_path / "data") as deep:
            await seen_by_one(deep, chosen)
    (line,) = [line for line in lines if "neighbours" in line["event"]]
    assert (line["queue"], line["ranges"]) == ("q", 5)
    async with deep_broker(tmp_path / "data") as deep:
        found = await marked(deep)
    assert set(found) > set(chosen)
    assert len(set(found) - set(chosen)) == line["most"]
    assert 11 not in found
    assert LAST not in found


async def test_after_a_kill_all_are_marked_as_any_may_have_been_seen(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await seen_by_one(deep, [LAST])
    async with deep_broker(tmp_path / "data") as deep:
        await deep.written()
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    async with deep_broker(tmp_path / "killed") as deep:
        await deep.settled()
    async with deep_broker(tmp_path / "killed") as deep:
        assert await marked(deep) == list(range(COUNT)), "also when a clean stop came after it"
