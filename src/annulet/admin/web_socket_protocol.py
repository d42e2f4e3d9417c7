"""The lower half of WebSockets with bounds that uvicorn's lacks.

uvicorn answers every ping of a peer that reads nothing, waits for such a peer for ever when it closes, and takes the
silence of one that we do not read for death. And an application sees no socket: nothing could be cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from annulet.broker.lingering import LINGER_BYTES_MAX
from annulet.broker.listening import release_transport
from annulet.broker.transport import CLOSE_GRACE_SECONDS

if TYPE_CHECKING:
    import asyncio

    from wsproto import events

    from annulet.broker.broker import Broker

EXTENSION: Final = "annulet.lower"
"""Where :func:`lower_half` finds a WebSocket's :class:`Lower` in its ASGI scope."""


@dataclass(slots=True)
class Lower:
    """What is below a WebSocket."""

    transport: asyncio.Transport
    message_too_large: bool = False  # it ends because of a message beyond ``ws_max_size``


LINGERING_MAX: Final = 256
"""Closed WebSockets whose peers may still write, with other lingering sockets: as many as there may be open ones. Their
connections are counted to no limit any more, so further ones are closed at once."""


class LingeringTransport:
    """A socket that, once closed, is read to its end; all else is the transport's.

    uvicorn waits for the answer when the application closes. It closes a socket right behind the close frame for a
    message that is too large, for missing pongs and for a stop: a peer that still writes would be reset and never see
    the frame (RFC 6455 §7.1.1 has the server wait for the peer's).
    """

    def __init__(self, transport: asyncio.Transport, protocol: BoundedWebSocketProtocol, broker: Broker) -> None:
        self._transport = transport
        self._protocol: BoundedWebSocketProtocol | None = protocol  # while it is connected
        self._broker = broker
        self._handed_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Say whether the socket was closed."""
        return self._handed_over or self._transport.is_closing()

    def close(self) -> None:
        """Close once the peer has; at once where it has said its last."""
        transport, protocol = self._transport, self._protocol
        if protocol is None or self._handed_over:  # uvicorn closes what it is told was lost
            return
        lingering = self._broker.lingering
        waited = protocol.peer_closed or protocol.close_timer is not None  # that timer has fired, or ends now
        served = transport.get_protocol() is protocol  # not while the request that opens it is handled
        if transport.is_closing() or waited or not served or len(lingering) >= LINGERING_MAX:
            transport.close()
            return
        self._handed_over = lingering.begin(
            transport, protocol.loop, seconds=CLOSE_GRACE_SECONDS, most=LINGER_BYTES_MAX, release=_nothing
        )
        if not self._handed_over:
            transport.close()
        elif not protocol.disconnected:
            protocol.connection_lost(None)

    def release(self) -> None:
        """Leave no reference cycle: the protocol has ended, and holds this."""
        self._protocol = None
        if not self._handed_over:
            release_transport(self._transport)


def _nothing() -> None:
    """Give nothing back: the WebSocket itself has ended, and was counted until then."""


class BoundedWebSocketProtocol(WSProtocol):
    """uvicorn's protocol of one WebSocket, with bounds."""

    _unanswered: events.Ping | None = None  # the latest ping that came while the peer took no answers
    peer_closed = False  # the peer's close frame has come, or its end of input

    def __init__(self, broker: Broker, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self.close_timeout = CLOSE_GRACE_SECONDS
        self._broker = broker
        self._discarded = 0  # bytes that came behind our close frame

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin on a socket that lingers when it is closed."""
        super().connection_made(cast("asyncio.Transport", LingeringTransport(transport, self, self._broker)))

    def data_received(self, data: bytes) -> None:
        """Take input; behind our close frame only so much, while the peer's is awaited."""
        if self.close_sent:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES_MAX:
                self.transport.abort()
                return
        super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget it, once."""
        if not self.disconnected:
            super().connection_lost(error)
            if isinstance(self.transport, LingeringTransport):
                self.transport.release()

    def eof_received(self) -> None:
        """The peer will send nothing more."""
        self.peer_closed = True
        super().eof_received()

    def handle_close(self, event: events.CloseConnection) -> None:
        """The peer closes, or answers our close: nothing follows its close frame (RFC 6455 §5.5.1)."""
        self.peer_closed = True
        super().handle_close(event)

    def handle_connect(self, event: events.Request) -> None:
        """Begin, and show the application the socket."""
        super().handle_connect(event)
        extensions: Any = self.scope["extensions"]
        extensions[EXTENSION] = Lower(self.transport)

    def handle_ping(self, event: events.Ping) -> None:
        """Answer, or remember the latest while the peer reads nothing (RFC 6455 §5.5.3: that one is enough)."""
        if self.writable.is_set():
            super().handle_ping(event)
        else:
            self._unanswered = event

    def resume_writing(self) -> None:
        """The peer reads again."""
        super().resume_writing()
        event, self._unanswered = self._unanswered, None
        if event is not None and not self.close_sent and not self.transport.is_closing():
            super().handle_ping(event)

    def handle_message(self, event: events.TextMessage | events.BytesMessage) -> None:
        """Take a part of a message; one that is too large ends the WebSocket."""
        super().handle_message(event)
        if self.close_sent:
            lower_half(self.scope).message_too_large = True
            self._cut_later()

    def keepalive_timeout(self) -> None:
        """No pong came. It may be behind what we do not read: publishers are held back so, for as long as it takes."""
        if self.read_paused:
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self._cut_later()

    def _cut_later(self) -> None:
        """A socket that is closed stays for as long as its peer does not read what was written."""
        self.loop.call_later(CLOSE_GRACE_SECONDS, self.transport.abort)


def web_socket_protocol_of(broker: Broker) -> type[asyncio.Protocol]:
    """Return what makes the protocol of each WebSocket, for ``uvicorn.Config(ws=...)``."""
    return cast("type[asyncio.Protocol]", partial(BoundedWebSocketProtocol, broker))


def lower_half(scope: Any) -> Lower:
    """Return what is below a WebSocket of :class:`BoundedWebSocketProtocol`."""
    lower: Lower = scope["extensions"][EXTENSION]
    return lower
