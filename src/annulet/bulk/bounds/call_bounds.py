"""Bounds over all connections of bulk transfer together: calls under way, and connections served before their login.

Each call has a thread of Flight's server from its first octets to its answer, so calls that are begun and not continued
cost a thread each. The bounds of one connection leave a thousand of them room for hundreds of thousands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio

SERVED_STRANGERS_MAX: Final = 128
"""Connections that are served before their login at once; the input of others waits. A login takes some milliseconds of
the server, and each connection may have four calls: 512 threads."""

STRANGER_SECONDS: Final = 0.5
"""How long a served stranger may keep the server waiting while others wait. So a thousand connections, all there may
be, have had their turns after four seconds, within the default of ``handshake_timeout``."""

CALLS_MAX: Final = 2048
"""Calls of all connections under way: two of each connection there may be, as tasks of Spark make."""

LIMIT_SERVED_STRANGERS: Final = "bulk_strangers_max"
LIMIT_CALLS: Final = "bulk_calls_max"


class Stranger(Protocol):
    """A connection before its login."""

    running: int  # calls that the server works on

    def serve(self) -> None:
        """Pass the input on."""

    def give_way(self) -> None:
        """End: others wait, and this one keeps the server waiting."""


class StrangersServed:
    """Which strangers are served. Belongs to the door's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._served: dict[Stranger, float] = {}  # since when, the longest first
        self._waiting: dict[Stranger, None] = {}  # the longest first
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._served)

    def enter(self, stranger: Stranger) -> None:
        """Serve a stranger whose first input came, at once or when there is room."""
        self._waiting[stranger] = None
        self._look()

    def leave(self, stranger: Stranger) -> None:
        """A stranger has logged in or ended."""
        self._waiting.pop(stranger, None)
        self._served.pop(stranger, None)
        self._look()

    def _look(self) -> None:
        """Serve waiting strangers, as far as there is room or can be made."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            if len(self._served) >= SERVED_STRANGERS_MAX:
                self._make_room()
                return
            stranger = next(iter(self._waiting))
            del self._waiting[stranger]
            self._served[stranger] = self._loop.time()
            stranger.serve()

    def _make_room(self) -> None:
        """End the stranger who kept the server waiting longest, or look again when that will be long enough."""
        idle = next((one for one in self._served if not one.running), None)
        now = self._loop.time()
        late = now if idle is None else self._served[idle]  # all have calls that the server works on
        if idle is not None and now - late >= STRANGER_SECONDS:
            idle.give_way()  # it leaves, and that looks again
        else:
            self._timer = self._loop.call_at(late + STRANGER_SECONDS, self._look)


class Caller(Protocol):
    """A connection with calls."""

    def refuse(self, limit: str, reason: str) -> None:
        """End and say why."""


class CallsUnderWay:
    """The calls of all connections. Belongs to the door's thread."""

    def __init__(self) -> None:
        self._calls: dict[Caller, int] = {}  # of those with any
        self.count = 0

    def note(self, caller: Caller, calls: int) -> None:
        """Set the number of a connection's calls; end the connection with the most if that makes too many of all."""
        before = self._calls.pop(caller, 0)
        if calls:
            self._calls[caller] = calls
        self.count += calls - before
        if calls > before and self.count > CALLS_MAX:
            largest = max(self._calls, key=self._calls.__getitem__)
            largest.refuse(
                LIMIT_CALLS,
                f"more than {CALLS_MAX} calls of all connections are under way ({LIMIT_CALLS}), and this connection "
                "has the most; make fewer at a time",
            )
