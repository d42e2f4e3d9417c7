"""A peer's input for its TLS hand-shake is handled in pieces, some milliseconds a turn of the loop for all.

asyncio does a hand-shake in the call that reads: a signature with an RSA key of 4096 bits takes 5 ms, and a thousand
hellos may come in one turn. So during the hand-shake this object has asyncio's place at the socket, and passes on input
in its turn, see :mod:`annulet.broker.turns.input_turns`. OpenSSL's object for a connection takes up to 1 ms as well,
and asyncio accepts 100 connections in a turn: so many of them are made in several turns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.broker.turns.input_turns import PacedInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.turns.input_turns import InputTurns

STARTS_MAX: Final = 10
"""Hand-shakes that are begun in one turn of the loop: some 3 ms, 10 at most."""


class HandshakePace:
    """How many hand-shakes begin in a turn, and the turns that handle their input. Belongs to one event loop."""

    def __init__(self, turns: InputTurns) -> None:
        self.turns = turns
        self._waiting: deque[Callable[[], None]] = deque()
        self._begun = 0  # in this turn
        self._scheduled = False

    def begin(self, start: Callable[[], None]) -> None:
        """Call ``start``, now or in one of the next turns."""
        self._waiting.append(start)
        self._start_some()

    def _start_some(self) -> None:
        while self._waiting and self._begun < STARTS_MAX:
            self._begun += 1
            self._waiting.popleft()()
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._begun = 0
        if self._waiting:
            self._start_some()


class PacedHandshake(asyncio.Protocol):
    """Stands between a socket and asyncio's TLS until the hand-shake is over and all that came for it was handed on."""

    def __init__(self, turns: InputTurns) -> None:
        self._turns = turns
        self._transport: asyncio.Transport | None = None
        self._tls: asyncio.BufferedProtocol | None = None
        self._paced: PacedInput | None = None
        self._finished = False

    def step_in(self, transport: asyncio.Transport) -> None:
        """Take the place of the protocol that does the hand-shake, before it was given anything."""
        tls = transport.get_protocol()
        if self._finished or transport.is_closing() or not isinstance(tls, asyncio.BufferedProtocol):
            return
        self._transport = transport
        self._tls = tls
        self._paced = PacedInput(self._turns, transport, self._hand_on, lambda: True)
        transport.set_protocol(self)

    def finish(self) -> None:
        """The hand-shake is over: leave as soon as nothing is left to hand on."""
        self._finished = True
        if self._paced is not None and not self._paced.left:
            self._step_out()

    def data_received(self, data: bytes) -> None:
        """Let the input wait for its turn."""
        if self._paced is not None:
            self._paced.received(data)

    def eof_received(self) -> bool | None:
        """Tell TLS."""
        return None if self._tls is None else self._tls.eof_received()

    def pause_writing(self) -> None:
        """Tell TLS."""
        if self._tls is not None:
            self._tls.pause_writing()

    def resume_writing(self) -> None:
        """Tell TLS."""
        if self._tls is not None:
            self._tls.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell TLS, and leave no reference cycle."""
        tls, paced = self._tls, self._paced
        self._transport = self._tls = self._paced = None
        if paced is not None:
            paced.end()
        if tls is not None:
            tls.connection_lost(error)

    def _hand_on(self, data: bytes) -> None:
        tls = self._tls
        position = 0
        while tls is not None and position < len(data):
            buffer = memoryview(tls.get_buffer(len(data) - position))
            size = min(len(buffer), len(data) - position)
            buffer[:size] = data[position : position + size]
            position += size
            tls.buffer_updated(size)
        if self._finished and self._paced is not None and not self._paced.left:
            self._step_out()

    def _step_out(self) -> None:
        transport, tls = self._transport, self._tls
        self._transport = self._tls = self._paced = None
        if transport is not None and tls is not None:
            transport.set_protocol(tls)
