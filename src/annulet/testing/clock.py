"""A clock that advances only when its time is set."""

from __future__ import annotations

from typing import Final

START: Final = 1_000_000_000_000
"""Milliseconds since 1970: 2001-09-09T01:46:40Z. Fixed, so that two runs of a test see the same times."""


class VirtualClock:
    """Replaces :func:`annulet.broker.settings.clock.system_clock`: call it for the milliseconds since 1970, UTC.

    Expiry and time to live follow it. Socket timers (heartbeats, the hand-shake limit) stay those of the event loop.
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
