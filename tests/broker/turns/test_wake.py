from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from annulet.broker.turns.wake import LEAST_SECONDS, SHARE_DIVISOR, WakeTimer
from annulet.testing.clock import VirtualClock


class RecordingLoop:
    """Stands in for the event loop: remembers the timers that are set."""

    def __init__(self) -> None:
        self.timers: list[RecordedTimer] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> RecordedTimer:
        self.timers.append(RecordedTimer(seconds, callback))
        return self.timers[-1]

    @property
    def waiting(self) -> list[float]:
        return [timer.seconds for timer in self.timers if not timer.cancelled]


class RecordedTimer:
    def __init__(self, seconds: float, callback: Callable[[], None]) -> None:
        self.seconds = seconds
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def timer_of(clock: VirtualClock, tick: Callable[[int], int | None]) -> tuple[WakeTimer, RecordingLoop]:
    loop = RecordingLoop()
    return WakeTimer(loop, clock, tick), loop  # type: ignore[arg-type]


def test_the_earliest_wish_counts() -> None:
    clock = VirtualClock(10_000)
    timer, loop = timer_of(clock, lambda now: 0)
    timer.wake_at(0)  # nothing is due
    assert loop.waiting == []
    timer.wake_at(10_500)
    timer.wake_at(10_900)
    assert loop.waiting == [0.5]
    timer.wake_at(10_200)
    assert loop.waiting == [0.2]


def test_a_tick_says_when_the_next_one_is() -> None:
    clock = VirtualClock(10_000)
    ticks: list[int] = []

    def tick(now: int) -> int:
        ticks.append(now)
        return 10_700 if len(ticks) == 1 else 0

    timer, loop = timer_of(clock, tick)
    timer.wake_at(10_100)
    clock.advance(100)
    loop.timers[0].callback()
    assert ticks == [10_100]
    assert loop.timers[1].seconds == pytest.approx(0.6)
    timer.tick()  # the broker's regular tick: the wish is served with it
    assert ticks == [10_100, 10_100]
    assert loop.waiting[1:] == []


def test_a_timer_that_fires_early_is_set_again() -> None:
    clock = VirtualClock(10_000)
    timer, loop = timer_of(clock, lambda now: 10_001)
    timer.wake_at(10_001)
    loop.timers[0].callback()
    assert loop.timers[1].seconds >= LEAST_SECONDS


def test_what_is_overdue_waits_until_the_loop_had_its_share() -> None:
    clock = VirtualClock(10_000)
    worked = 0.01

    def tick(now: int) -> int:
        time.sleep(worked)
        return now - 5

    timer, loop = timer_of(clock, tick)
    timer.tick()
    assert loop.timers[-1].seconds > worked * SHARE_DIVISOR / 2


def test_a_stopped_timer_hears_no_wishes() -> None:
    timer, loop = timer_of(VirtualClock(10_000), lambda now: 0)
    timer.wake_at(10_100)
    timer.stop()
    timer.wake_at(10_050)
    assert loop.waiting == []


async def test_with_a_real_loop_it_wakes_within_milliseconds() -> None:
    due: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def clock() -> int:
        return time.time_ns() // 1_000_000

    def tick(now: int) -> int:
        if now < at:
            return at
        due.set_result(now)
        return 0

    timer = WakeTimer(asyncio.get_running_loop(), clock, tick)
    at = clock() + 30
    timer.wake_at(at)
    assert 0 <= await asyncio.wait_for(due, 5) - at < 1000  # a busy machine may be late, but it is never early


def test_what_has_many_to_look_at_goes_on_soon_and_wishes_wait_for_its_end() -> None:
    clock = VirtualClock(10_000)
    answers: list[int | None] = [None, None, 10_900, 0]
    ticks: list[int] = []

    def tick(now: int) -> int | None:
        ticks.append(now)
        if len(ticks) == 1:
            timer.wake_at(10_500)
        return answers[len(ticks) - 1]

    timer, loop = timer_of(clock, tick)
    timer.tick()
    assert loop.waiting == [LEAST_SECONDS], "for the rest"
    timer.wake_at(10_300)
    timer.wake_at(10_700)
    timer.wake_at(0)
    assert len(loop.waiting) == 1
    loop.timers[-1].callback()
    assert len(ticks) == 2
    timer.tick()  # the broker's own tick does not wait for it
    assert len(ticks) == 3
    assert loop.waiting[-1] == pytest.approx(0.3), "the earliest that was asked for"
    assert not loop.timers[-1].cancelled
    clock.advance(300)
    loop.timers[-1].callback()
    assert len(ticks) == 4


def test_nothing_goes_on_after_the_end() -> None:
    clock = VirtualClock(10_000)
    timer, loop = timer_of(clock, lambda now: None)
    timer.stop()
    timer.tick()
    assert loop.waiting == []
