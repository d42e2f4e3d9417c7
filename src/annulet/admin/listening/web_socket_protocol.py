"""The lower half of WebSockets with bounds that uvicorn's lacks.

uvicorn answers every ping, even of a peer that does not read, waits for such a peer without limit when it closes, and
treats the silence of a peer that we do not read as death. It parses a read of thousands of tiny frames at once. A
hand-shake that it cannot parse keeps a place among its connections permanently. And an application has no access to the
socket, so it could not close it.

The contents of a message are passed on as they arrive, before the message is complete, in the turn that parsed them:
see :mod:`annulet.broker.turns.input_turns`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto import events

from annulet.admin.listening.http_connection import BAD_REQUEST
from annulet.admin.listening.http_front import REASON_CHARACTERS_MAX
from annulet.admin.listening.lingering_transport import LingeringTransport
from annulet.broker.connections.transport import CLOSE_GRACE_SECONDS
from annulet.broker.network.lingering import LINGER_BYTES_MAX, STRANGER_BYTES_MAX
from annulet.broker.turns.input_turns import PacedInput

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from annulet.admin.listening.http_front import HttpFront
    from annulet.admin.listening.http_slots import HttpSlot

EXTENSION: Final = "annulet.lower"
"""Where :func:`lower_half` finds a WebSocket's :class:`Lower` in its ASGI scope."""

MESSAGE_TOO_BIG: Final = 1009
POLICY_VIOLATION: Final = 1008
"""Codes of close frames (RFC 6455 §7.4.1)."""

STRANGER_OCTETS: Final = 2
"""Octets on the line for each that a peer may say before its login (``max_unauthenticated_bytes``): frames of ordinary
size add a tenth, frames of one octet six times as much."""


def _nothing() -> None:
    """Do nothing."""


@dataclass(slots=True)
class Lower:
    """The link between a WebSocket's protocol and the application."""

    transport: asyncio.Transport
    message_too_large: bool = False  # it ends because of a message beyond ``ws_max_size``
    receiver: Callable[[bytes, bool], None] | None = None  # gets octets, and whether they arrived as text
    held: bool = False  # the receiver accepts no input for now
    stranger: bool = True  # the peer is not logged in
    go_on: Callable[[], None] = field(default=_nothing)  # called when ``receiver`` or ``held`` has changed
    leave_slot: Callable[[], None] = field(default=_nothing)  # it is counted as a WebSocket from now on
    known: Callable[[], None] = field(default=_nothing)  # called once when the peer is no stranger any longer

    def end_stranger(self) -> None:
        """The peer is logged in, or gone."""
        if self.stranger:
            self.stranger = False
            self.known()


PARSER: Final = ("connection", "_proto", "_parse_more")
"""The way from wsproto's connection to the generator that parses frames. There is no method that ends it."""


def end_parsing(connection: object) -> None:
    """End the parser of a WebSocket, which would keep itself and the begun frame until a garbage collection."""
    part: Any = connection
    for name in PARSER:
        part = getattr(part, name, None)
    if part is not None:  # there is none without a hand-shake
        part.close()


class BoundedWebSocketProtocol(WSProtocol):
    """uvicorn's protocol of one WebSocket, with bounds."""

    _unanswered: events.Ping | None = None  # the latest ping that has no answer yet
    peer_closed = False  # the peer's close frame, or its end of input, has arrived

    def __init__(self, front: HttpFront, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self.logger = front.library_log
        self.close_timeout = CLOSE_GRACE_SECONDS
        self.slot: HttpSlot | None = None  # of the HTTP connection that it was, until the application counts it
        self._front = front
        self._input: PacedInput | None = None
        self._lower: Lower | None = None
        self._message_size = 0  # of the incomplete message
        self._raw_size = 0  # octets on the line since the hand-shake
        self._raw_most = STRANGER_OCTETS * front.broker.configuration.limits.max_unauthenticated_bytes
        self._discarded = 0  # octets received after our close frame

    # ------------------------------------------------------------------ asyncio.Protocol

    @property
    def stranger(self) -> bool:
        """Return whether the peer has not logged in."""
        return self._lower is None or self._lower.stranger

    def bytes_to_discard(self) -> int:
        """Return how many octets may follow our close: none behind the peer's, or when it was waited for."""
        if self.peer_closed or self.close_timer is not None:  # that timer has fired, or ends now
            return 0
        return STRANGER_BYTES_MAX if self.stranger else LINGER_BYTES_MAX

    def handed_over(self) -> None:
        """The socket lingers: the WebSocket has ended."""
        if not self.disconnected:
            self.connection_lost(None)

    def shake_hands(self, head: bytes) -> None:
        """Process the request for a WebSocket. An unparsable one is answered 400."""
        try:
            super().data_received(head)
        except ValueError as error:  # invalid text in a text field
            reason = f"{type(error).__name__}: {error}"[:REASON_CHARACTERS_MAX]
            self._front.log.warning("web socket refused", peer=self._peer(), reason=reason)
        except Exception as error:  # noqa: BLE001 - as said above
            self._front.log.defect("defect while serving a web socket", error, peer=self._peer())
        else:
            return
        self.transport.write(BAD_REQUEST)
        self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start on a socket that is read in pieces, and lingers when it is closed."""
        broker = self._front.broker
        super().connection_made(cast("asyncio.Transport", LingeringTransport(transport, self, broker)))
        self._input = PacedInput(
            broker.input_turns, transport, self._take, lambda: not self.read_paused, self._may_take
        )

    def connection_lost(self, error: Exception | None) -> None:
        """Give the slot back, once, whatever else happens, and leave no reference cycle."""
        if self.disconnected:
            return
        self._leave_slot()
        if self._input is not None:
            self._input.end()
            self._input = None
        if self._lower is not None:
            self._lower.go_on = self._lower.leave_slot = _nothing
            self._lower = None
        super().connection_lost(error)
        if isinstance(self.transport, LingeringTransport):
            self.transport.release()
        end_parsing(self.conn)

    def data_received(self, data: bytes) -> None:
        """Process input as far as there is time for it; for a peer that is not logged in within a limit.

        Behind our close frame, while the peer's is awaited, only so much is taken.
        """
        self._raw_size += len(data)
        if self.close_sent:
            self._discarded += len(data)
        if self._discarded > LINGER_BYTES_MAX:
            self.transport.abort()
        elif self._lower is not None and self.stranger and self._raw_size > self._raw_most:
            reason = f"{self._raw_size} octets before the login; {self._raw_most} are the limit"
            self._front.broker.admission.note_never_open(self._peer(), 0, reason)
            self._front.broker.admission.note_limits("STOMP", {"max_unauthenticated_bytes": 1})
            self._refuse(POLICY_VIOLATION, reason)
        elif self._input is not None:
            self._input.received(data)

    def eof_received(self) -> None:
        """The peer will send nothing more."""
        self.peer_closed = True
        super().eof_received()

    def resume_writing(self) -> None:
        """The peer reads again."""
        super().resume_writing()
        self._answer_ping()

    # ------------------------------------------------------------------ frames

    def _take(self, piece: bytes) -> None:
        """Parse a piece. Its exceptions are caused by the peer, or defects: either ends this WebSocket only."""
        try:
            super().data_received(piece)
            self._answer_ping()
        except Exception as error:  # noqa: BLE001 - as said above
            self._front.log.defect("defect while serving a web socket", error, peer=self._peer())
            self.transport.abort()

    def _may_take(self) -> bool:
        lower = self._lower
        return self.close_sent or (lower is not None and lower.receiver is not None and not lower.held)

    def handle_close(self, event: events.CloseConnection) -> None:
        """The peer closes, or answers our close: nothing follows its close frame (RFC 6455 §5.5.1)."""
        self.peer_closed = True
        super().handle_close(event)

    def handle_connect(self, event: events.Request) -> None:
        """Begin, and show the application the socket."""
        super().handle_connect(event)
        extensions: Any = self.scope["extensions"]
        assert self._input is not None
        self._lower = Lower(self.transport, go_on=self._input.go_on, leave_slot=self._leave_slot)
        extensions[EXTENSION] = self._lower

    def handle_ping(self, event: events.Ping) -> None:
        """Remember the latest: it is answered after its piece (RFC 6455 §5.5.3: that one is enough)."""
        self._unanswered = event

    def _answer_ping(self) -> None:
        """Answer the latest ping, unless the peer reads nothing."""
        event = self._unanswered
        if event is None or not self.writable.is_set():
            return
        self._unanswered = None
        if not self.close_sent and not self.transport.is_closing():
            super().handle_ping(event)

    def handle_message(self, event: events.TextMessage | events.BytesMessage) -> None:
        """Pass on a part of a message; one that is too large ends the WebSocket."""
        data = event.data
        octets = data.encode() if isinstance(data, str) else bytes(data)
        self._message_size += len(octets)
        lower = self._lower
        if lower is None:
            return  # it has ended, by something before this in the same piece
        if self._message_size > self.config.ws_max_size:
            lower.message_too_large = True
            self._refuse(MESSAGE_TOO_BIG, f"Message exceeds the maximum size ({self.config.ws_max_size} bytes)")
            return
        if event.message_finished:
            self._message_size = 0
        if lower.receiver is not None and octets:
            lower.receiver(octets, isinstance(event, events.TextMessage))

    def _refuse(self, code: int, reason: str) -> None:
        """Close for what the peer has sent."""
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        if not self.transport.is_closing():
            self.transport.write(self.conn.send(events.CloseConnection(code=code, reason=reason)))
            self.transport.close()
        self._cut_later()

    async def send(self, message: Any) -> None:
        """Send for the application. Behind a close nothing is handed on, and the peer's close is looked for."""
        await super().send(message)
        if self.close_sent and self._input is not None:
            self._input.go_on()

    def keepalive_timeout(self) -> None:
        """No pong arrived. It may be behind unread input: publishers are blocked this way, for any time."""
        if self.read_paused or (self._input is not None and self._input.paused):
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self._cut_later()

    def _cut_later(self) -> None:
        """A closed socket stays until its peer has read the output."""
        self.loop.call_later(CLOSE_GRACE_SECONDS, self.transport.abort)

    def _leave_slot(self) -> None:
        if self.slot is not None:
            self.slot.release()
            self.slot = None

    def _peer(self) -> str:
        return "{}:{}".format(*self.client) if self.client else "?"


def lower_half(scope: Any) -> Lower:
    """Return the link of a WebSocket of :class:`BoundedWebSocketProtocol`."""
    lower: Lower = scope["extensions"][EXTENSION]
    return lower


def web_socket_protocol_of(front: HttpFront) -> type[asyncio.Protocol]:
    """Return the factory of the protocol of each WebSocket, for ``uvicorn.Config(ws=...)``."""
    return cast("type[asyncio.Protocol]", partial(BoundedWebSocketProtocol, front))
