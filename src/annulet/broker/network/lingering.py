"""The end of a connection: after the last answer our half ends, and input is discarded until the peer ends its own.

The system resets a connection that is closed with unread input, and a reset destroys what the peer has not read yet:
close-ok, ERROR, the reason of a refused login. So a peer that still writes is read until it has seen the end (RFC 9112
§9.6 describes the same for HTTP). The time and the number of bytes are bounded.

Through TLS the end of our half is close_notify, which ends one direction only (RFC 8446 §6.1). A peer that waits for
the end of the stream sees it at once, and one that still writes is read on. asyncio's own end of TLS reads no more.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

from annulet.broker.network.listening import release_transport

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

LINGER_SECONDS: Final = 5.0
"""How long a peer may take to end its half after ours has ended. Then the socket is cut."""

LINGER_BYTES_MAX: Final = 128 << 20
"""Bytes that are discarded from a peer that was logged in: the largest message by default, which it may be sending."""

STRANGER_BYTES_MAX: Final = 1 << 20
"""The same of a peer that was not: about what the system's buffers hold."""


class LingeringSockets:
    """The sockets of one broker whose connections have ended. Belongs to the event loop.

    Args:
        ended: called whenever one of them is gone.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        self.ended = ended
        self.sockets: set[Lingering] = set()
        self.stopped = False  # nothing is taken any more
        self.cut = 0  # sockets that were cut because the peer did not end in time, or sent too much

    def __len__(self) -> int:
        return len(self.sockets)

    def begin(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        seconds: float,
        most: int,
        release: Callable[[], None],
    ) -> bool:
        """Take a socket over from its protocol, which hears nothing more of it. ``release`` is called at its end.

        Args:
            transport: the last message is written to it.
            loop: of the transport.
            seconds: after which it is cut; :data:`LINGER_SECONDS` at most.
            most: bytes of input after which it is cut.
            release: gives back what the socket was counted to.

        Returns:
            ``False`` when the transport cannot be taken over, is closing, or after :meth:`stop`: nothing was done, and
            the caller closes it.
        """
        # That of a WebSocket's stream is no socket's. One of TLS that is closing may have told its protocol of the end.
        if self.stopped or not hasattr(transport, "can_write_eof") or transport.is_closing():
            return False
        socket = Lingering(self, transport, loop, most, release)
        self.sockets.add(socket)
        # It has the methods of asyncio.Protocol, as all protocols here.
        transport.set_protocol(cast("asyncio.BaseProtocol", socket))
        socket.begin(min(seconds, LINGER_SECONDS))
        return True

    def stop(self) -> None:
        """Cut all of them, and take no more."""
        self.stopped = True
        for socket in list(self.sockets):
            socket.abort()


class Lingering:
    """One such socket. A duck-typed ``asyncio.Protocol``."""

    opened = True
    """Hand-shake timers of listeners pass over it: it has a time of its own."""

    def __init__(
        self,
        sockets: LingeringSockets,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        most: int,
        release: Callable[[], None],
    ) -> None:
        self._sockets = sockets
        self._transport = transport
        self._loop = loop
        self._most = most
        self._release = release
        self._discarded = 0  # bytes
        self._deadline: asyncio.TimerHandle | None = None

    def begin(self, seconds: float) -> None:
        """End our half, and read."""
        transport = self._transport
        self._deadline = self._loop.call_later(seconds, self._cut)
        secured = transport.get_extra_info("ssl_object")
        if secured is not None:
            self._end_secured_half(secured)
            return
        transport.resume_reading()
        try:
            transport.write_eof()
        except OSError:  # the peer has reset the connection meanwhile
            transport.abort()

    def _end_secured_half(self, secured: ssl.SSLObject) -> None:
        """Send close_notify behind the written octets, and read."""
        with suppress(ssl.SSLError):  # it was sent; the peer's has not come yet, or other input came before it
            secured.unwrap()
        # asyncio writes what TLS has for the socket when it looks for input, as it does when reading begins anew.
        self._transport.pause_reading()
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Discard input, up to the bound."""
        self._discarded += len(data)
        if self._discarded > self._most:
            self._cut()

    def eof_received(self) -> bool:
        """The peer has ended as well: asyncio closes the socket."""
        return False

    def connection_lost(self, error: BaseException | None) -> None:  # noqa: ARG002 - asyncio's; the end was reported
        """The socket is gone."""
        if self._deadline is not None:
            self._deadline.cancel()
        if self in self._sockets.sockets:
            self._sockets.sockets.remove(self)
            self._release()
            self._sockets.ended()
        release_transport(self._transport)

    def pause_writing(self) -> None:
        """Nothing more is written."""

    def resume_writing(self) -> None:
        """As above."""

    def abort(self) -> None:
        """Cut the socket."""
        self._transport.abort()

    def _cut(self) -> None:
        self._sockets.cut += 1
        self.abort()
