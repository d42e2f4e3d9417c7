from __future__ import annotations

import asyncio

import pytest

from annulet.testing import BrokerClock, VirtualClock
from annulet.testing.clock import START
from annulet.testing.clocked_loop import ClockedLoop


def test_it_stands_still_until_told() -> None:
    clock = VirtualClock()
    assert clock() == clock() == START
    assert clock.advance(5) == START + 5
    assert clock() == START + 5
    assert clock.advance(0) == START + 5


def test_it_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="milliseconds=-1"):
        VirtualClock().advance(-1)


async def nothing() -> None:
    """No work to wait for."""


async def test_the_clock_of_a_broker_runs_and_can_be_moved() -> None:
    clock = BrokerClock()
    loop = ClockedLoop(asyncio.get_running_loop(), lambda timer: True)
    before = clock()
    clock.follow(loop)
    fired: list[int] = []
    loop.call_later(60, lambda: fired.append(clock()))
    loop.call_later(120, lambda: fired.append(clock()))
    ticks: list[int] = []
    now = await clock.advance("1h", nothing, lambda: ticks.append(clock()))
    assert now - before >= 3_600_000
    assert clock.date().year >= 2026
    assert len(ticks) == 1
    first, second = fired
    assert 60_000 <= first - before < 120_000 <= second - before < 3_600_000, "each at its own time, not at the end"


async def test_a_stopped_clock_stands_still() -> None:
    clock = BrokerClock()
    clock.follow(ClockedLoop(asyncio.get_running_loop(), lambda timer: True))
    clock.stop()
    before = clock()
    await asyncio.sleep(0.01)
    assert clock() == before
    assert clock.stopped
    assert await clock.advance(5, nothing, bool) == before + 5
    clock.run()
    assert not clock.stopped


async def test_work_that_is_due_again_without_end_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("annulet.testing.clock.STOPS_MAX", 10)
    clock = BrokerClock()
    loop = ClockedLoop(asyncio.get_running_loop(), lambda timer: True)
    clock.follow(loop)

    def again() -> None:
        loop.call_later(1, again)

    again()
    with pytest.raises(RuntimeError, match="stopped 10 times"):
        await clock.advance("1h", nothing, bool)
    assert await clock.advance("9s", nothing, bool) == clock()


def test_a_clock_without_a_broker_says_where_it_belongs() -> None:
    clock = BrokerClock()
    assert clock() == clock()
    with pytest.raises(RuntimeError, match="belongs to no running broker"):
        clock.stop()
