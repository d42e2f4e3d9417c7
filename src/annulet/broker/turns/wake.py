"""Wakes a virtual host exactly when something in it falls due, between the broker's regular ticks.

Scheduled messages, redelivery delays and gates shall fire within milliseconds; looking every millisecond would cost
more than it is worth. So the core names the next time, and after a tick that took long the next one waits longer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from annulet.broker.settings.clock import Clock

LEAST_SECONDS: Final = 0.001
"""The clock counts in milliseconds; a timer may fire a little before it."""

SHARE_DIVISOR: Final = 10
"""At most one tenth of the loop's time goes into ticks that were asked for."""


class WakeTimer:
    """Calls ``tick(now)``, which returns when more is due (0: nothing), at the earliest time asked for.

    When it returns ``None`` it is called again soon, for the rest of its work.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, tick: Callable[[int], int | None]) -> None:
        self._loop = loop
        self._clock = clock
        self._tick = tick
        self._at = 0  # the time of the timer, milliseconds since 1970; 0: not set
        self._handle: asyncio.TimerHandle | None = None
        self._goes_on = False  # it was called for a part
        self._wish = 0  # the earliest time asked for meanwhile
        self._took = 0.0  # seconds, all its parts so far
        self._rest = 0.0  # seconds until which the next tick has to wait, for its share of the loop
        self._ended = False

    @property
    def goes_on(self) -> bool:
        """Whether a tick was called for a part of its work, and the rest follows."""
        return self._goes_on

    def wake_at(self, at: int) -> None:
        """Tick at ``at`` (milliseconds since 1970) or as soon after as the share allows. The earliest wish counts."""
        if self._goes_on:
            self._wish = min(self._wish or at, at) if at > 0 else self._wish
            return
        if self._ended or at <= 0 or (self._at and self._at <= at):
            return
        if self._handle is not None:
            self._handle.cancel()
        self._at = at
        seconds = max((at - self._clock()) / 1000, LEAST_SECONDS, self._rest - time.monotonic())
        self._handle = self._loop.call_later(seconds, self._fire)

    def tick(self) -> None:
        """Tick now, or go on with a begun tick, and set the timer to the next due time."""
        self._unset()
        began = time.monotonic()
        following = self._tick(self._clock())
        now = time.monotonic()
        self._took += now - began
        self._goes_on = following is None
        if following is not None:
            self._rest = now + self._took * SHARE_DIVISOR
            self._took = 0.0
            wish, self._wish = self._wish, 0
            self.wake_at(following)
            self.wake_at(wish)
        elif not self._ended:
            asked = self._unset()  # by the state it saw
            self._wish = min(self._wish or asked, asked or self._wish)
            self._handle = self._loop.call_later(LEAST_SECONDS, self._fire)  # others get a turn

    def _unset(self) -> int:
        """Set no timer; return its earlier time, 0 without one."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        at, self._at = self._at, 0
        return at

    def stop(self) -> None:
        """End; later wishes are not heard."""
        self._ended = True
        if self._handle is not None:
            self._handle.cancel()

    def _fire(self) -> None:
        self._handle = None
        self.tick()
