"""Clocks of tests: one that stands still until its time is set, and the clock of a broker of the test kit."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from annulet.broker.settings.clock import system_clock
from annulet.testing.durations import milliseconds_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from annulet.testing.clocked_loop import ClockedLoop
    from annulet.testing.durations import Duration

START: Final = 1_000_000_000_000
"""Milliseconds since 1970: 2001-09-09T01:46:40Z. Fixed, so that two runs of a test see the same times."""

STOPS_MAX: Final = 100_000
"""Times at which one ``advance`` may stop because something is due: some ten seconds of work. More is a mistake, such
as a message that is returned and redelivered without end."""


class VirtualClock:
    """Replaces :func:`annulet.broker.settings.clock.system_clock`: call it for the milliseconds since 1970, UTC.

    Expiry and time to live follow it. Socket timers (heartbeats, the hand-shake limit) stay those of the event loop;
    they follow a :class:`BrokerClock`, which a broker of the test kit has if it is given no other.
    """

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        """Return its present time."""
        return self.now

    def advance(self, milliseconds: int) -> int:
        """Go on by ``milliseconds`` and return the new time. A clock does not go back: negative is a ValueError."""
        if milliseconds < 0:
            raise ValueError(f"a clock does not go back, milliseconds={milliseconds}; make a new VirtualClock instead")
        self.now += milliseconds
        return self.now


class BrokerClock:
    """The one clock of a broker: of messages (milliseconds since 1970) and of its timers.

    It runs as the system's clock does, until a test moves or stops it. Call it for the milliseconds.
    """

    def __init__(self) -> None:
        self._loop: ClockedLoop | None = None  # None: the broker has not started
        self._began_at = system_clock()  # milliseconds since 1970
        self._began = 0.0  # time of the loop then

    def __call__(self) -> int:
        """Return the milliseconds since 1970, UTC."""
        if self._loop is None:
            return self._began_at
        return self._began_at + round((self._loop.time() - self._began) * 1000)

    def follow(self, loop: ClockedLoop) -> None:
        """Follow the loop of the broker, which starts, from the time that it is: a crash does not turn it back."""
        self._began_at = self()
        self._loop = loop
        self._began = loop.time()

    @property
    def stopped(self) -> bool:
        """Whether time stands still."""
        return self._clocked().stopped

    def stop(self) -> None:
        """Let time stand still: nothing expires or times out before the clock is moved."""
        self._clocked().stop_time()

    def run(self) -> None:
        """Let time go on from where it stands."""
        self._clocked().run_time()

    def date(self) -> dt.datetime:
        """Return the time in UTC."""
        return dt.datetime.fromtimestamp(self() / 1000, dt.UTC)

    async def advance(self, duration: Duration, quiet: Callable[[], Awaitable[None]], tick: Callable[[], None]) -> int:
        """Move the clock, stop at each time at which something is due, and return the new time in milliseconds.

        Args:
            duration: see :mod:`annulet.testing.durations`.
            quiet: returns when the broker has done its work.
            tick: does all that is due in queues.
        """
        loop = self._clocked()
        end = loop.time() + milliseconds_of(duration) / 1000
        for _ in range(STOPS_MAX):
            stop = loop.next_stop()
            if stop is None or stop > end:
                break
            loop.move(max(0.0, stop - loop.time()))
            loop.fire_due()
            await quiet()
        else:
            raise RuntimeError(f"advance({duration!r}) stopped {STOPS_MAX} times; something falls due without end")
        loop.move(max(0.0, end - loop.time()))
        loop.fire_due()
        tick()
        await quiet()
        loop.arm_all()
        return self()

    def _clocked(self) -> ClockedLoop:
        if self._loop is None:
            raise RuntimeError("the clock belongs to no running broker; move it inside `with annulet.testing.broker()`")
        return self._loop
