"""Ends connections at the end of the token that they logged in with.

A timer for each connection whose login ends; others cost nothing. A connection that goes on with another token
(AMQP 0-9-1 connection.update-secret) gets another timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from annulet.broker.connections.transport import AnyConnection
    from annulet.broker.settings.clock import Clock

TIMER_SECONDS_MAX: Final = 86_400
"""Of one timer; a login that ends later gets another one: clocks are set, and event loops bound their timers."""


class LoginEnds:
    """The timers of one broker's connections. Belongs to the event loop.

    ``on_end`` is called with a connection whose token has ended; ``on_renewed`` with one that got another token.
    """

    def __init__(self, clock: Clock) -> None:
        self.on_end: Callable[[AnyConnection], None] = _nothing
        self.on_renewed: Callable[[AnyConnection], None] = _nothing
        self._clock = clock
        self._timers: dict[AnyConnection, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def watch(self, connection: AnyConnection) -> None:
        """Wait for the end of a connection's login, if it has one."""
        self.forget(connection)
        user = connection.user
        if user is None or not user.expires_at:
            return
        seconds = min(max(0, user.expires_at - self._clock()) / 1000, TIMER_SECONDS_MAX)
        self._timers[connection] = connection.broker.loop.call_later(seconds, self._due, connection)

    def forget(self, connection: AnyConnection) -> None:
        """The connection is gone."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _due(self, connection: AnyConnection) -> None:
        user = connection.user
        if user is not None and user.expires_at > self._clock():  # the timer had its bound, or the clock was set
            self.watch(connection)
            return
        self.forget(connection)
        self.on_end(connection)


def _nothing(_connection: AnyConnection) -> None:
    """Do nothing: the broker has not started."""
