from __future__ import annotations

import asyncio

import pytest

from annulet.broker.turns import list_turns as module
from annulet.broker.turns.list_turns import TURN_SECONDS, Turns, in_order


async def test_other_tasks_have_turns_after_a_time() -> None:
    now = 0.0
    turns = Turns(lambda: now)
    steps: list[str] = []

    async def other() -> None:
        steps.append("other")
        await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(other())
    await turns.look()
    assert steps == []
    now += TURN_SECONDS
    await turns.look()
    assert steps == ["other"]
    assert turns.given == 1
    await task


async def test_names_are_sorted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SORTED_AT_ONCE", 3)
    names = [f"n{(number * 7) % 20}" for number in range(20)]
    assert await in_order(names) == sorted(names)


async def test_turns_are_given_after_a_bounded_time() -> None:
    now = 0.0
    turns = Turns(lambda: now, seconds=0.004)
    await turns.look()
    assert turns.given == 0
    now = 0.004
    await turns.look()
    await turns.look()
    assert turns.given == 1
