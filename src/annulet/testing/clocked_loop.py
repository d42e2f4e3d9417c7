"""The event loop as a broker of the test kit sees it: its timers follow a clock that a test moves.

All timers of a broker go through ``Broker.loop``: wake-ups of queues, heart-beats, time-outs of hand-shakes, ticks.
This loop passes everything on to asyncio's, and adds to its time the seconds that the test has moved the clock by. It
also counts the work that the broker has deferred, so that a test can wait until there is none.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from annulet.broker.turns.wake import WakeTimer

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

PAUSE_SECONDS: Final = 1.0
"""Timers below this are pauses in the work of the broker, its ticks for example, and not deadlines: a clock that is
moved does not stop at each of them. Heart-beats and time-outs have whole seconds."""


class ClockedTimer:
    """One timer: what ``call_later`` returns."""

    def __init__(self, loop: ClockedLoop, when: float, callback: Callable[[], object], owner: object) -> None:
        self.owner: object | None = owner  # the object whose method is called
        self._when = when  # time of the clocked loop
        self._loop = loop
        self._callback: Callable[[], object] | None = callback
        self._cancelled = False
        self._real: asyncio.TimerHandle | None = None

    def when(self) -> float:
        """Return the time of the loop at which it is due."""
        return self._when

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._cancelled

    def cancel(self) -> None:
        """Do nothing when it is due. As with asyncio's timers, nothing refers to the owner then: no reference cycle."""
        self._cancelled = True
        self._loop.forget(self)
        self.disarm()
        self._callback = self.owner = None

    def arm(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """Fire after so many seconds of real time."""
        self.disarm()
        self._real = loop.call_later(max(0.0, seconds), self.fire)

    def disarm(self) -> None:
        """Do not fire by real time."""
        if self._real is not None:
            self._real.cancel()
            self._real = None

    def fire(self) -> None:
        """Make the call."""
        self.disarm()
        self._loop.forget(self)
        callback, self._callback, self.owner = self._callback, None, None
        self._cancelled = True
        if callback is not None:
            callback()


class ClockedLoop:
    """Wraps asyncio's loop. ``stops_at`` decides which timers a moved clock stops at, beside those of queues."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stops_at: Callable[[ClockedTimer], bool]) -> None:
        self._loop = loop
        self._stops_at = stops_at
        self._ahead = 0.0  # seconds by which the clock was moved
        self._stopped_at: float | None = None  # the real time at which the clock was stopped; None: it runs
        self._timers: dict[ClockedTimer, bool] = {}  # and whether it is a deadline
        self._job_delays: dict[object, float] = {}  # seconds by which jobs of an object begin later
        self._deferred = 0  # calls, jobs and tasks that are under way

    def __getattr__(self, name: str) -> Any:
        """Everything else is asyncio's."""
        return getattr(self._loop, name)

    # ------------------------------------------------------------------ time

    def time(self) -> float:
        """Return the time of the loop: real seconds, and those that the clock was moved by."""
        return (self._loop.time() if self._stopped_at is None else self._stopped_at) + self._ahead

    @property
    def stopped(self) -> bool:
        """Whether the clock only moves when it is moved."""
        return self._stopped_at is not None

    def stop_time(self) -> None:
        """Let time stand still; deadlines wait until the clock is moved."""
        if self._stopped_at is None:
            self._stopped_at = self._loop.time()
            self.arm_all()

    def run_time(self) -> None:
        """Let time go on from where it stands."""
        if self._stopped_at is not None:
            self._ahead -= self._loop.time() - self._stopped_at
            self._stopped_at = None
            self.arm_all()

    def move(self, seconds: float) -> None:
        """Move the clock. Timers that are due by then fire with :meth:`fire_due`."""
        self._ahead += seconds

    def next_stop(self) -> float | None:
        """Return when the next timer is due that a moved clock stops at; ``None`` without one."""
        return min(
            (timer.when() for timer, deadline in self._timers.items() if self._holds(timer, deadline)), default=None
        )

    def _holds(self, timer: ClockedTimer, deadline: bool) -> bool:
        return isinstance(timer.owner, WakeTimer) or (deadline and self._stops_at(timer))

    def fire_due(self) -> None:
        """Fire the timers that are due, in the order of their times."""
        now = self.time()
        for timer in sorted((timer for timer in self._timers if timer.when() <= now), key=ClockedTimer.when):
            timer.fire()  # one that an earlier one has cancelled does nothing

    def arm_all(self) -> None:
        """Let real time fire the timers again, as the clock stands."""
        for timer, deadline in self._timers.items():
            self._arm(timer, deadline)

    def _arm(self, timer: ClockedTimer, deadline: bool) -> None:
        if deadline and self.stopped:
            timer.disarm()
        else:
            timer.arm(self._loop, timer.when() - self.time())

    def forget(self, timer: ClockedTimer) -> None:
        """A timer has fired or was cancelled."""
        self._timers.pop(timer, None)

    # ------------------------------------------------------------------ what a broker calls

    def call_later(self, delay: float, callback: Callable[..., object], *arguments: Any) -> ClockedTimer:
        """As asyncio's, by the clock."""
        return self._add(delay, callback, arguments)

    def call_at(self, when: float, callback: Callable[..., object], *arguments: Any) -> ClockedTimer:
        """As asyncio's, by the clock."""
        return self._add(when - self.time(), callback, arguments)

    def _add(self, delay: float, callback: Callable[..., object], arguments: tuple[Any, ...]) -> ClockedTimer:
        owner = getattr(callback, "__self__", None)
        timer = ClockedTimer(self, self.time() + delay, partial(callback, *arguments), owner)
        self._timers[timer] = delay >= PAUSE_SECONDS
        self._arm(timer, delay >= PAUSE_SECONDS)
        return timer

    @property
    def idle(self) -> bool:
        """Whether no work is deferred to a later turn, a thread or a task."""
        return not self._deferred

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> DeferredCall:
        """As asyncio's; the call counts as work until it was made."""
        call = DeferredCall(self, partial(callback, *arguments))
        self.count(1)
        self._loop.call_soon(call.make)
        return call

    def call_soon_threadsafe(self, callback: Callable[..., object], *arguments: Any) -> asyncio.Handle:
        """As asyncio's. It is not counted: only the loop's thread may count."""
        return self._loop.call_soon_threadsafe(callback, *arguments)

    def run_in_executor(
        self, executor: Executor | None, job: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        """As asyncio's; the job counts as work until it is done."""
        seconds = self._job_delays.get(getattr(job, "__self__", None), 0.0)
        if not seconds:
            return self._counted(self._loop.run_in_executor(executor, job, *arguments))
        return self._counted(self._loop.create_task(self._run_later(seconds, executor, partial(job, *arguments))))

    def delay_jobs_of(self, owner: object, seconds: float) -> None:
        """Begin jobs that are methods of ``owner`` after so many seconds of the clock, at once with 0."""
        self._job_delays[owner] = seconds

    async def _run_later(self, seconds: float, executor: Executor | None, job: Callable[[], Any]) -> Any:
        due = asyncio.Event()
        self.call_later(seconds, due.set)
        self.count(-1)  # settle does not wait for a disk that waits for the clock
        try:
            await due.wait()
        finally:
            self.count(1)
        return await self._loop.run_in_executor(executor, job)

    def create_task(self, work: Any, **options: Any) -> asyncio.Task[Any]:
        """As asyncio's; the task counts as work until it is done."""
        task: asyncio.Task[Any] = self._loop.create_task(work, **options)
        self._counted(task)
        return task

    def _counted(self, future: asyncio.Future[Any]) -> asyncio.Future[Any]:
        self.count(1)
        future.add_done_callback(self._done)
        return future

    def _done(self, future: asyncio.Future[Any]) -> None:
        del future
        self.count(-1)

    def count(self, change: int) -> None:
        """Work was deferred, or is done."""
        self._deferred += change


class DeferredCall:
    """A call in the next turn: what ``call_soon`` returns."""

    def __init__(self, loop: ClockedLoop, call: Callable[[], object]) -> None:
        self._loop = loop
        self._call: Callable[[], object] | None = call  # None: it was made or cancelled

    def make(self) -> None:
        """Make the call, unless it was cancelled."""
        call = self._take()
        if call is not None:
            call()

    def cancel(self) -> None:
        """Do not make it."""
        self._take()

    def _take(self) -> Callable[[], object] | None:
        call, self._call = self._call, None
        if call is not None:
            self._loop.count(-1)
        return call
