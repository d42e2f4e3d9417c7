"""Sockets of uvicorn's protocols that are read to their end once they are closed.

uvicorn closes a socket right behind its last answer: that a request cannot be parsed, that a body is too large, a
WebSocket's close frame for a message that is too large, for missing pongs and for a stop. A peer that still writes
would be reset and never see the answer (RFC 9112 §9.6, RFC 6455 §7.1.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from annulet.broker.connections.transport import CLOSE_GRACE_SECONDS
from annulet.broker.network.listening import release_transport

if TYPE_CHECKING:
    import asyncio

    from annulet.broker.broker import Broker

LINGERING_MAX: Final = 256
"""Closed HTTP connections and WebSockets whose peers may still write, with other lingering sockets: as many as there
may be open WebSockets. They are counted to no other limit any more, so further ones are closed at once."""


class Closing(Protocol):
    """The protocol of such a socket."""

    loop: asyncio.AbstractEventLoop

    def bytes_to_discard(self) -> int:
        """Return how many octets of input may follow our close; 0 when the socket is to be closed at once."""

    def handed_over(self) -> None:
        """The socket lingers: nothing more is heard of it."""


class LingeringTransport:
    """A socket that, once closed, is read to its end; all else is the transport's."""

    def __init__(self, transport: asyncio.Transport, protocol: Closing, broker: Broker) -> None:
        self._transport = transport
        self._protocol: Closing | None = protocol  # while it is connected
        self._broker = broker
        self._handed_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether the socket was closed."""
        return self._handed_over or self._transport.is_closing()

    def close(self) -> None:
        """Close once the peer has closed; at once if nothing is to be expected from it."""
        transport, protocol = self._transport, self._protocol
        if protocol is None or self._handed_over:  # uvicorn closes a connection reported as lost
            return
        if transport.is_closing():  # closed twice, one of TLS forgets its state, and its methods raise
            return
        most = protocol.bytes_to_discard()
        served = (
            cast("object", transport.get_protocol()) is protocol
        )  # not while the request that opens a WebSocket is handled
        lingering = self._broker.lingering
        if most and served and len(lingering) < LINGERING_MAX:
            self._handed_over = lingering.begin(
                transport,
                protocol.loop,
                seconds=CLOSE_GRACE_SECONDS,
                most=most,
                release=_nothing,  # the connection itself has ended, and was counted until then
            )
        if self._handed_over:
            protocol.handed_over()
        else:
            transport.close()

    def detach(self) -> asyncio.Transport:
        """Leave no reference cycle: the protocol has ended, or another one has the socket, which is returned.

        It is not closed here any more.
        """
        self._protocol = None
        return self._transport

    def release(self) -> None:
        """Leave no reference cycle: the protocol has ended, and references this."""
        self.detach()
        if not self._handed_over:
            release_transport(self._transport)


def _nothing() -> None:
    """Do nothing."""
