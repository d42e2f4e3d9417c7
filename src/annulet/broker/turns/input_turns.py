"""Input of strangers, HTTP and WebSocket peers is handled in pieces, some milliseconds a turn of the loop for all.

A stranger is a peer of any protocol that is not logged in. The parsers of HTTP and WebSocket are plain Python and take
20 to 50 µs for a WebSocket frame or a chunk of a body, of one octet too. A read of 256 KiB holds 37,000 such frames:
parsed at once it would hold the loop for seconds, and so would a thousand strangers with 16 KiB each. So a read is
cut into pieces of :data:`PIECE_BYTES`, connections take turns, and none is read while pieces of it are left.

Clients that are logged in have :mod:`annulet.broker.turns.input_shares`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.broker.turns.input_shares import INPUT_BYTES_FIRST

if TYPE_CHECKING:
    from collections.abc import Callable

TURN_SECONDS: Final = 0.004
"""Seconds of computing that these peers may take of one turn, but for the piece that ends it: as much as the core's
sliced work."""

PIECE_BYTES: Final = 2048
"""Octets that are parsed without looking at the clock: 300 of the smallest frames, some 10 ms at most. Large bodies
lose little by it: 20 µs for each 2 KiB."""


class InputTurns:
    """The connections that have pieces left, in the order of their turns. Belongs to the event loop."""

    def __init__(self, *, clock: Callable[[], float] = time.thread_time) -> None:
        self.cut = 0  # reads that were not parsed whole in the turn they came in
        self._clock = clock
        self._waiting: deque[PacedInput] = deque()
        self._spent = 0.0  # of this turn
        self._scheduled = False

    def has_time(self) -> bool:
        """Return whether another piece may be taken in this turn."""
        return self._spent < TURN_SECONDS

    def take(self, paced: PacedInput) -> None:
        """Take one piece of a connection, and count the time it takes to this turn."""
        self._schedule()
        began = self._clock()
        try:
            paced.take_piece()
        finally:
            self._spent += self._clock() - began

    def wait(self, paced: PacedInput) -> None:
        """Let a connection wait for its turn."""
        self.cut += 1
        self._waiting.append(paced)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        """A new turn of the loop: one piece of each connection that waits, again and again while there is time."""
        self._scheduled = False
        self._spent = 0.0
        while self._waiting and self.has_time():
            paced = self._waiting.popleft()
            if paced.ready:
                self.take(paced)
            if paced.ready:
                self._waiting.append(paced)
            else:
                paced.stopped_waiting()
        if self._waiting:
            self._schedule()


def always() -> bool:
    """Say that pieces may be taken at any time."""
    return True


def _discard(_piece: bytes) -> None:
    """Take a piece of a connection that has ended."""


class PacedInput:
    """The input of one connection. ``take`` gets the pieces.

    ``may_take`` says whether it wants one now, and ``may_read`` whether others let the transport be read.
    """

    def __init__(
        self,
        turns: InputTurns,
        transport: asyncio.Transport,
        take: Callable[[bytes], None],
        may_read: Callable[[], bool],
        may_take: Callable[[], bool] = always,
    ) -> None:
        self.paused = False  # the connection is not read because of us
        self._turns = turns
        self._transport = transport
        self._take = take
        self._may_take = may_take
        self._may_read = may_read
        self._data = b""
        self._taken = 0  # octets of it
        self._waits = False  # among those whose turn will come
        self._ended = False
        if hasattr(transport, "max_size"):  # of asyncio's selector transports; there is no method to set it
            transport.max_size = INPUT_BYTES_FIRST

    @property
    def left(self) -> bool:
        """Return whether there are pieces that were not taken."""
        return bool(self._data)

    @property
    def ready(self) -> bool:
        """Return whether there is a piece that may be taken."""
        return self._taken < len(self._data) and not self._ended and self._may_take()

    def received(self, data: bytes) -> None:
        """Handle the input, as far as this turn has time for it."""
        if self._ended:
            return
        self._data = self._data[self._taken :] + data
        self._taken = 0
        self.go_on()

    def go_on(self) -> None:
        """Handle the rest, as far as this turn has time for it: pieces may be taken again, or have come."""
        if self._waits or self._ended:
            return
        while self.ready and self._turns.has_time():
            self._turns.take(self)
        if self.ready:
            self._waits = True
            self._turns.wait(self)
        self._set_reading()

    def take_piece(self) -> None:
        """Take the next piece."""
        piece = self._data[self._taken : self._taken + PIECE_BYTES]
        self._taken += len(piece)
        if self._taken >= len(self._data):
            self._data, self._taken = b"", 0
        self._take(piece)

    def stopped_waiting(self) -> None:
        """All is taken, or no more of it may be."""
        self._waits = False
        self._set_reading()

    def end(self) -> None:
        """Forget the rest: the connection is gone, or another protocol reads it."""
        self._ended = True
        self._data, self._taken = b"", 0
        self._take = _discard  # the input here leads back to the connection: a reference cycle
        self._may_take = self._may_read = always

    def _set_reading(self) -> None:
        if self._ended or self._transport.is_closing():
            return
        paused = bool(self._data) or not self._may_take()
        if paused and not self.paused:
            self.paused = True
            self._transport.pause_reading()
        elif self.paused and not paused:
            self.paused = False
            if self._may_read():
                self._transport.resume_reading()
