from __future__ import annotations

import asyncio

from annulet.testing.clocked_loop import PAUSE_SECONDS, ClockedLoop, ClockedTimer


def clocked(stops: bool = True) -> ClockedLoop:
    return ClockedLoop(asyncio.get_running_loop(), lambda timer: stops)


async def test_a_moved_clock_fires_timers_in_the_order_of_their_times() -> None:
    loop = clocked()
    fired: list[str] = []
    loop.call_later(20, fired.append, "second")
    loop.call_later(10, fired.append, "first")
    loop.call_later(30, fired.append, "third")
    loop.call_later(15, fired.append, "cancelled").cancel()
    loop.move(20)
    loop.fire_due()
    assert fired == ["first", "second"]


async def test_a_timer_may_cancel_a_later_one_that_is_due_too() -> None:
    loop = clocked()
    fired: list[str] = []
    later = loop.call_later(20, fired.append, "later")
    loop.call_later(10, later.cancel)
    loop.move(60)
    loop.fire_due()
    assert fired == []
    assert later.cancelled()


async def test_a_clock_stops_at_deadlines_and_not_at_pauses() -> None:
    loop = clocked()
    loop.call_later(PAUSE_SECONDS / 2, print)
    assert loop.next_stop() is None
    timer = loop.call_later(PAUSE_SECONDS, print)
    assert loop.next_stop() == timer.when()
    assert clocked(stops=False).next_stop() is None


async def test_deadlines_of_a_stopped_clock_wait_for_it_and_pauses_do_not() -> None:
    loop = clocked()
    loop.stop_time()
    before = loop.time()
    paused = asyncio.Event()
    deadline = asyncio.Event()
    loop.call_later(0.01, paused.set)
    loop.call_later(PAUSE_SECONDS, deadline.set)
    await paused.wait()
    assert loop.time() == before
    assert loop.stopped
    loop.run_time()
    assert not loop.stopped
    assert loop.time() - before < PAUSE_SECONDS or deadline.is_set()
    await deadline.wait()


async def test_real_time_fires_timers_earlier_once_the_clock_was_moved() -> None:
    loop = clocked()
    done = asyncio.Event()
    loop.call_at(loop.time() + 3600, done.set)
    loop.move(3600)
    loop.arm_all()
    await done.wait()


async def test_deferred_work_is_counted_until_it_is_done() -> None:
    loop = clocked()
    done: list[int] = []
    loop.call_soon(done.append, 1)
    cancelled = loop.call_soon(done.append, 2)
    cancelled.cancel()
    cancelled.cancel()
    job = loop.run_in_executor(None, int)
    task = loop.create_task(asyncio.sleep(0))
    assert not loop.idle
    await asyncio.gather(job, task)
    await asyncio.sleep(0)
    assert loop.idle
    assert done == [1]


async def test_a_timer_knows_the_object_whose_method_it_calls() -> None:
    loop = clocked()
    seen: list[object] = []
    watching = ClockedLoop(asyncio.get_running_loop(), lambda timer: bool(seen.append(timer.owner)))
    event = asyncio.Event()
    timer = watching.call_later(10, event.set)
    assert isinstance(timer, ClockedTimer)
    assert watching.next_stop() is None
    assert seen == [event]
    timer.cancel()
    del loop
