from __future__ import annotations

import asyncio

from annulet.admin.requests.turns import TURN_SECONDS, Turns


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
