"""How much of what clients sent is handled in one turn of the event loop, by how long it takes.

Publishes of 64 KiB take a third of a millisecond, as many acknowledgements with the deliveries that they make room for
14, and where four consumers acknowledge in one turn, four times that. So less is read at once of a connection whose
input takes long: the rest stays in the socket until the next turn.

That looks back. The next input may take far longer than the one before: 64 KiB hold 1,000 declarations, or 1,000
publishes to an exchange with 1,000 queues. So the engines ask between frames whether the turn has time left. If it has
not, the rest waits: the connection is not read, and those that wait take turns.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

INPUT_BYTES_MAX: Final = 64 << 10
"""Bytes that are read from a socket at once, and handled in one turn. Publishes of 1 KiB take as much processor time
with asyncio's 256 KiB."""

INPUT_BYTES_LARGE: Final = 256 << 10
"""The same of a connection that sends large bodies: with 64 KiB a body of that size takes a turn of its own, and the
turn takes as long as the body."""

LARGE_SECONDS: Final = 0.0001
"""Computing time of ``INPUT_BYTES_MAX`` bytes below which these are large bodies. Uncompiled a body of 64 KiB takes
45 µs, four of 16 KiB take 125 to 166, 60 of 1 KiB take 650 to 1,400."""

INPUT_BYTES_LEAST: Final = 8 << 10
"""The same for connections that take long, however long: 390 acknowledgements, 1 to 2 ms with deliveries. With less the
turn around them counts as much."""

INPUT_BYTES_FIRST: Final = 16 << 10
"""The same for new connections, until their time is known."""

INPUT_SECONDS: Final = 0.005
"""Computing time of one turn, for all connections together that have more to be read."""

INPUT_SECONDS_MAX: Final = 0.015
"""Computing time after which no more frames of clients are handled in a turn: three times what reads are cut to, so
that only surprises meet it. With the shares of deliveries, strangers and sliced work a turn stays below 50 ms."""

LOOK_SECONDS: Final = 0.001
"""Computing time of the frames between two looks at the clock, by what those before took."""

LOOK_FRAMES_MAX: Final = 32
"""Steps between two looks at the clock at most. A publish, transfer or acknowledgement in place is one, any other frame
four. A look takes 0.5 µs and leaves the loop of the hot path: with one for 8 of these frames a tenth of the rate went.
"""


class RestingClient(Protocol):
    """A connection whose input waits for a turn."""

    def end_rest(self) -> None:
        """Serve what rested, as far as there is time."""


class LookingEngine(Protocol):
    """An engine that asks between frames whether there is time for more."""

    def look_soon(self) -> None:
        """Ask before the next frame."""


class InputShares:
    """How much may be read of each connection, so that a turn takes ``INPUT_SECONDS`` at most.

    Connections of which as much was read as may be share that time in the next turn. The amount to read is set on their
    transports: it is all there is to remember. Belongs to the event loop.
    """

    def __init__(self, computed: Callable[[], float] = time.thread_time) -> None:
        self.computed = computed  # seconds the loop's thread has computed
        self.reads_cut = 0  # times less was to be read of a connection from then on
        self.rests = 0  # times input waited for another turn
        self._sharing = 1  # connections that have more to be read, by the last turn
        self._full = 0  # of this turn
        self._spent = 0.0  # seconds of this turn
        self._until = 0.0  # how long the thread will have computed when the turn has no time left
        self._looked = 0.0  # how long it had at the last look
        self._frames = 1  # that may be served between that look and the next
        self._engine: LookingEngine | None = None  # whose input is handled
        self._waiting: deque[RestingClient] = deque()
        self._scheduled = False

    def turn_ended(self) -> None:
        """All that was read in this turn of the loop has been handled, or rests."""
        self._sharing = max(1, self._full)
        self._full = 0
        self._spent = 0.0

    def has_time(self) -> bool:
        """Return whether this turn has time for more input."""
        return self._spent < INPUT_SECONDS_MAX

    def begin(self, engine: LookingEngine | None = None) -> float:
        """Note that input is about to be handled, by ``engine``. Returns how long the thread has computed."""
        self._engine = engine
        now = self._looked = self.computed()
        self._until = now + INPUT_SECONDS_MAX - self._spent
        self._frames = 1
        return now

    def look(self) -> int:
        """Say how many frames of the input that is handled may be served before the next look; 0: it has to rest."""
        now = self.computed()
        if now >= self._until:
            return 0
        took = now - self._looked
        self._looked = now
        frames = LOOK_FRAMES_MAX
        if took * LOOK_FRAMES_MAX > self._frames * LOOK_SECONDS:  # else it would be more
            frames = int(self._frames * LOOK_SECONDS / took) or 1
        self._frames = frames
        return frames

    def look_soon(self) -> None:
        """One frame took longer than those before it: its engine asks again before the next one."""
        if self._engine is not None:
            self._engine.look_soon()

    def handled(self, transport: asyncio.Transport | None, size: int, began: float) -> None:
        """Note that so many bytes were handled, and how long the thread had computed before; set how many may be next.

        Decrypted data arrives in the transport's pieces.
        """
        self._engine = None
        took = self.computed() - began
        self._spent += took
        limit: int = getattr(transport, "max_size", 0)  # of asyncio's selector transports; there is no method to set it
        if transport is None or not limit:
            return
        share = INPUT_SECONDS / self._sharing
        full = size >= limit
        if full:
            self._full += 1
        large = took * INPUT_BYTES_MAX < LARGE_SECONDS * size
        if took > share:
            cut = max(INPUT_BYTES_LEAST, min(limit, int(size * share / took)))
            if cut < limit:
                self.reads_cut += 1
            _set(transport, cut)
        elif limit > INPUT_BYTES_MAX and not large:
            _set(transport, INPUT_BYTES_MAX)
        elif full and took < share / 2:
            most = INPUT_BYTES_LARGE if large else INPUT_BYTES_MAX
            if limit < most:
                _set(transport, min(most, 2 * limit))

    # ------------------------------------------------------------------ what a turn had no time for

    def rest(self, client: RestingClient) -> None:
        """Let a connection wait for its turn."""
        self.rests += 1
        self._waiting.append(client)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """A new turn of the loop, before anything is read in it: those that wait go on, the first first."""
        self._scheduled = False
        self._spent = 0.0
        for _ in range(len(self._waiting)):
            if not self.has_time():
                break
            self._waiting.popleft().end_rest()
        if self._waiting:
            self._schedule()


def _set(transport: asyncio.Transport, size: int) -> None:
    transport.max_size = size  # type: ignore[attr-defined]
