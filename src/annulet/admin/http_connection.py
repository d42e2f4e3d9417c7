"""HTTP connections are bounded: in number, in the time a request takes to arrive and an answer to be read.

uvicorn bounds requests, but holds a socket that says nothing, or half a request, for ever. Enough of them would take
every file descriptor, and a broker that cannot open the next segment of its log ends.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from annulet.broker.listening import release_transport

if TYPE_CHECKING:
    import asyncio

    from annulet.broker.broker import Broker

HTTP_CONNECTIONS_MAX: Final = 100
"""HTTP connections at a time, with and without TLS; WebSockets are counted apart. Management never needs as many."""

BODY_SECONDS: Final = 30.0
"""How long a request's body may take to arrive; the head has the hand-shake time-out. 4 MiB at 140 kB/s."""

ANSWER_SECONDS: Final = 30.0
"""How long a peer may read nothing of an answer that does not fit into the socket's buffers."""


PARSER: Final = "conn"
"""Name of uvicorn's field for it."""


class HttpParser(h11.Connection):
    """h11's connection, whose errors hold no frames: one that raises itself anew is held by the frame that does."""

    def next_event(self) -> Any:
        """Return the next event. Raises h11.RemoteProtocolError."""
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
            error.__traceback__ = None
            raise


class BoundedHttpProtocol(H11Protocol):
    """uvicorn's protocol of one connection, with the bounds above."""

    def __init__(self, broker: Broker, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        head_bytes_max = self.config.h11_max_incomplete_event_size
        assert head_bytes_max is not None
        setattr(self, PARSER, HttpParser(h11.SERVER, head_bytes_max))
        self._broker = broker
        self._counted = False
        self._arriving: Any = None  # their state of h11 while a request is on its way, None when none is
        self._request_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or cut it."""
        if not self._broker.admission.may_ask(HTTP_CONNECTIONS_MAX):
            self.transport = transport
            transport.abort()
            return
        self._counted = True
        super().connection_made(transport)
        self._watch_request()

    def connection_lost(self, error: Exception | None) -> None:
        """Forget it."""
        if self._counted:
            self._leave()
            super().connection_lost(error)
        release_transport(self.transport)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        if self._counted:
            self._watch_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """From here on it is a STOMP connection, with limits of its own."""
        self._leave()
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        """The socket takes no more of an answer: not for ever."""
        super().pause_writing()
        if self._counted and self._answer_timer is None:
            self._answer_timer = self.loop.call_later(ANSWER_SECONDS, self._expired, ANSWER_SECONDS)

    def resume_writing(self) -> None:
        """The peer reads."""
        self._stop_answer_timer()
        super().resume_writing()

    def _watch_request(self) -> None:
        """Give each part of a request, head and body, its time."""
        arriving = self.conn.their_state if self.conn.their_state in {h11.IDLE, h11.SEND_BODY} else None
        if self.timeout_keep_alive_task is not None:  # between requests uvicorn watches
            arriving = None
        if arriving is self._arriving:
            return
        self._arriving = arriving
        self._stop_request_timer()
        if arriving is not None:
            seconds = BODY_SECONDS if arriving is h11.SEND_BODY else self._broker.configuration.handshake_timeout
            self._request_timer = self.loop.call_later(seconds, self._expired, seconds)

    def _expired(self, seconds: float) -> None:
        peer = "{}:{}".format(*self.client) if self.client else "?"
        self._broker.admission.note_timed_out(peer, seconds)
        self.transport.abort()

    def _leave(self) -> None:
        self._counted = False
        self._broker.admission.asked()
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


def protocol_of(broker: Broker) -> type[asyncio.Protocol]:
    """Return what makes the protocol of each connection, for ``uvicorn.Config(http=...)``."""
    return cast("type[asyncio.Protocol]", partial(BoundedHttpProtocol, broker))
