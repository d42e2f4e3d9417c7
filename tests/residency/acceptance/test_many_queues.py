"""V1 and V7 with so many queues that the budget has less for each than what is worth a measure with every window."""

from __future__ import annotations

from pathlib import Path

from annulet.residency.budget import FLOOR_BYTES, MIB, body_bytes
from annulet.residency.small_queues import FLOOR_LEAST
from tests.residency.acceptance.deep import Deep, deep_broker

QUEUES = 24
COUNT = 500
NAMES = [f"q{number}" for number in range(QUEUES)]


def in_memory(deep: Deep) -> int:
    """Bytes of bodies in memory, of all queues."""
    return sum(body_bytes(deep.queue(name)) for name in NAMES)


async def filled(deep: Deep) -> None:
    """Fill queues of which none is worth a look alone: half of them plain, the others with ten priorities."""
    for number, name in enumerate(NAMES):
        await deep.declare(name, **({"x_max_priority": 9} if number % 2 else {}))
    for name in NAMES:
        await deep.publish(range(COUNT), name)
    assert all(body_bytes(deep.queue(name)) < FLOOR_BYTES for name in NAMES)


async def test_v1_many_small_queues_keep_the_budget_together(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await filled(deep)
        assert in_memory(deep) > 8 * MIB
        for _ in range(3):
            await deep.settled()
        assert in_memory(deep) <= MIB
        for name in NAMES[:4]:
            assert await deep.drained(name) == list(range(COUNT))
        deep.check()


async def test_v7_each_of_them_keeps_its_next_messages(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await filled(deep)
        for _ in range(3):
            await deep.settled()
        for name in NAMES:
            entries = deep.queue(name).order.upcoming(5)
            assert [entry.away for entry in entries] == [False] * 5
        assert sum(body_bytes(deep.queue(name)) for name in NAMES) >= QUEUES * FLOOR_LEAST // 4


async def test_a_start_reads_no_more_of_them_than_the_budget(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        await filled(deep)
    async with deep_broker(tmp_path / "data") as deep:
        assert in_memory(deep) <= MIB
        for name in NAMES[:4]:
            assert await deep.drained(name) == list(range(COUNT))


async def test_the_floor_rises_when_there_is_room_again(tmp_path: Path) -> None:
    async with deep_broker(tmp_path / "data") as deep:
        assert deep.broker.pager is not None
        budget = deep.broker.pager.budget
        await filled(deep)
        deep.tick()
        assert budget.floor == max(FLOOR_LEAST, MIB // (2 * QUEUES))
        for _ in range(3):
            await deep.settled()
        assert (budget.floor, budget.below) == (FLOOR_BYTES, 0)
