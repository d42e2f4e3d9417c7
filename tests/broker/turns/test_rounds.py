from __future__ import annotations

import asyncio

from annulet.broker.turns.rounds import RoundTimer


async def test_rounds_follow_each_other_until_the_stop() -> None:
    begun = 0
    third = asyncio.Event()

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun == 3:
            third.set()

    timer = RoundTimer(asyncio.get_running_loop(), 0.0, work)
    timer.begin()
    await third.wait()
    await timer.stop()
    await asyncio.sleep(0.01)
    assert begun == 3


async def test_a_stop_cancels_the_round_under_way_and_begins_no_other() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        assert not begun.is_set()
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    timer = RoundTimer(asyncio.get_running_loop(), 0.0, work)
    timer.begin()
    await begun.wait()
    await timer.stop()
    assert cancelled.is_set()
    await asyncio.sleep(0.01)


async def test_a_stop_between_two_rounds_leaves_no_timer() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        assert not ended.is_set()
        ended.set()

    timer = RoundTimer(asyncio.get_running_loop(), 0.005, work)
    timer.begin()
    await ended.wait()
    await asyncio.sleep(0)  # the end of the round sets the timer
    await timer.stop()
    await asyncio.sleep(0.02)
