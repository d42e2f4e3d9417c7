"""HTTP connections are bounded: in number, in the time a request takes to arrive and an answer to be read.

uvicorn bounds requests, but keeps a socket that sends nothing, or half a request, without limit. Enough of them would
use up all file descriptors, and a broker that cannot open the next segment of its log ends. An exception of a parser
ends only its own connection: its slot is released with its socket.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from annulet.admin.listening.lingering_transport import LingeringTransport
from annulet.broker.network.lingering import LINGER_BYTES_MAX, STRANGER_BYTES_MAX
from annulet.broker.network.listening import release_transport
from annulet.broker.turns.input_turns import PacedInput

if TYPE_CHECKING:
    import asyncio

    from annulet.admin.listening.http_front import HttpFront
    from annulet.admin.listening.http_slots import HttpSlot

HTTP_CONNECTIONS_MAX: Final = 100
"""HTTP connections at a time, with and without TLS; WebSockets are counted apart. Management never needs as many."""

BODY_SECONDS: Final = 30.0
"""How long a request's body may take to arrive; the head has the hand-shake time-out. 4 MiB at 140 kB/s."""

ANSWER_SECONDS: Final = 30.0
"""How long a peer may read nothing of an answer that does not fit into the socket's buffers."""

BAD_REQUEST: Final = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
"""The answer to a request that no parser could make anything of."""


PARSER: Final = "conn"
"""Name of uvicorn's field for it."""


class HttpParser(h11.Connection):
    """h11's connection with errors that reference no frames: an error that is raised again is referenced by the raising
    frame."""

    def next_event(self) -> Any:
        """Return the next event. Raises h11.RemoteProtocolError."""
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
            error.__traceback__ = None
            raise


class BoundedHttpProtocol(H11Protocol):
    """uvicorn's protocol of one connection, with the bounds above."""

    def __init__(self, front: HttpFront, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        head_bytes_max = self.config.h11_max_incomplete_event_size
        assert head_bytes_max is not None
        setattr(self, PARSER, HttpParser(h11.SERVER, head_bytes_max))
        self.logger = front.library_log
        self._front = front
        self._slot: HttpSlot | None = None
        self._input: PacedInput | None = None
        self._arriving: Any = None  # their state of h11 while a request is on its way, None when none is
        self._successor: asyncio.Protocol | None = None  # the protocol that has the transport now
        self._request_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a slot, or cut the connection."""
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        self._slot = self._front.slots.take(address, HTTP_CONNECTIONS_MAX, self.loop.time(), transport.abort)
        if self._slot is None:
            self.transport = transport
            transport.abort()
            return
        super().connection_made(cast("asyncio.Transport", LingeringTransport(transport, self, self._front.broker)))
        self._input = PacedInput(
            self._front.broker.input_turns, transport, self._take, lambda: not self.flow.read_paused
        )
        self._watch_request()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget it, or tell the WebSocket that it became a moment ago: asyncio's TLS has chosen us by then."""
        if self._successor is not None:
            self._successor.connection_lost(error)
            return
        if self._input is not None:
            self._leave()
            super().connection_lost(error)
            self._unset_keepalive_if_required()  # uvicorn lets it run on after a reset, and then holds us
        if isinstance(self.transport, LingeringTransport):
            self.transport.release()
        else:
            release_transport(self.transport)

    def eof_received(self) -> None:
        """The peer will send nothing more: a WebSocket is told."""
        if self._successor is None:
            super().eof_received()
        else:
            self._successor.eof_received()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request, as far as there is time for it."""
        if self._input is not None:
            self._input.received(data)

    def pause_writing(self) -> None:
        """The socket accepts no more of an answer: bound the wait."""
        super().pause_writing()
        if self._answer_timer is None:
            self._answer_timer = self.loop.call_later(ANSWER_SECONDS, self._expired, ANSWER_SECONDS)
        self._note_waiting()

    def resume_writing(self) -> None:
        """The peer reads."""
        self._stop_answer_timer()
        super().resume_writing()
        self._note_waiting()

    def bytes_to_discard(self) -> int:
        """Return how many octets may follow our last answer: the rest of a request, or input that was no request."""
        if self.conn.their_state is h11.SEND_BODY:
            return LINGER_BYTES_MAX
        return STRANGER_BYTES_MAX if self.conn.their_state is h11.ERROR else 0

    def handed_over(self) -> None:
        """The socket lingers: the connection has ended."""
        self.loop.call_soon(self.connection_lost, None)

    # ------------------------------------------------------------------ requests

    def _take(self, piece: bytes) -> None:
        """Parse a piece. Its exceptions are caused by the peer, or defects: either ends this connection only."""
        try:
            super().data_received(piece)
        except Exception as error:  # noqa: BLE001 - as said above
            self._front.log.defect("defect while serving http", error, peer=self._peer())
            self.transport.abort()
            return
        self._watch_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on it is a WebSocket: later events are passed to its own protocol, with the slot.

        uvicorn hands the socket over last, so that a hand-shake that cannot be parsed would never end.
        """
        slot = self._slot
        assert slot is not None
        self._stop_watching()
        self._slot = None
        if self._input is not None:
            self._input.end()
            self._input = None
        self.connections.discard(self)
        make: Any = self.ws_protocol_class
        protocol = make(config=self.config, server_state=self.server_state, app_state=self.app_state)
        protocol.slot = slot
        self._successor = protocol
        assert isinstance(self.transport, LingeringTransport)
        transport = self.transport.detach()
        transport.set_protocol(protocol)
        slot.waiting_since = self.loop.time()
        head = [event.method, b" ", event.target, b" HTTP/1.1\r\n"]
        for name, value in self.headers:
            head += [name, b": ", value, b"\r\n"]
        protocol.connection_made(transport)
        protocol.shake_hands(b"".join([*head, b"\r\n"]))

    def send_400_response(self, text: str) -> None:
        """Answer unparsable input. During or after the last answer of a connection no other answer is possible."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(text)
        elif not self.transport.is_closing():
            self.transport.close()

    def on_response_complete(self) -> None:
        """A request is answered: the next one may take its time."""
        super().on_response_complete()
        self._watch_request()

    # ------------------------------------------------------------------ time

    def _watch_request(self) -> None:
        """Give each part of a request, head and body, its time."""
        if self._input is None:  # gone, or a WebSocket by now
            return
        arriving = self.conn.their_state if self.conn.their_state in {h11.IDLE, h11.SEND_BODY} else None
        if self.timeout_keep_alive_task is not None:  # between requests uvicorn watches
            arriving = None
        if arriving is not self._arriving:
            self._arriving = arriving
            self._stop_request_timer()
            if arriving is not None:
                seconds = (
                    BODY_SECONDS if arriving is h11.SEND_BODY else self._front.broker.configuration.handshake_timeout
                )
                self._request_timer = self.loop.call_later(seconds, self._expired, seconds)
        self._note_waiting()

    def _note_waiting(self) -> None:
        """Say whether it is the peer that the broker waits for, and since when."""
        slot = self._slot
        if slot is None:
            return
        waits = self._arriving is not None or self.timeout_keep_alive_task is not None or self._answer_timer is not None
        if not waits:
            slot.waiting_since = None
        elif slot.waiting_since is None:
            slot.waiting_since = self.loop.time()

    def _expired(self, seconds: float) -> None:
        self._front.broker.admission.note_timed_out(self._peer(), seconds)
        self.transport.abort()

    def _leave(self) -> None:
        if self._slot is not None:
            self._slot.release()
            self._slot = None
        if self._input is not None:
            self._input.end()
            self._input = None
        self._stop_watching()

    def _stop_watching(self) -> None:
        self._stop_request_timer()
        self._stop_answer_timer()

    def _stop_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _stop_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _peer(self) -> str:
        return "{}:{}".format(*self.client) if self.client else "?"


def protocol_of(front: HttpFront) -> type[asyncio.Protocol]:
    """Return the factory of the protocol of each connection, for ``uvicorn.Config(http=...)``."""
    return cast("type[asyncio.Protocol]", partial(BoundedHttpProtocol, front))
