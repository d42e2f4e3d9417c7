"""The lower half of WebSockets with bounds that uvicorn's lacks.

uvicorn answers every ping of a peer that reads nothing, waits for such a peer for ever when it closes, and takes the
silence of one that we do not read for death. And an application sees no socket: nothing could be cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol

from annulet.broker.listening import release_transport
from annulet.broker.transport import CLOSE_GRACE_SECONDS

if TYPE_CHECKING:
    import asyncio

    from wsproto import events

EXTENSION: Final = "annulet.lower"
"""Where :func:`lower_half` finds a WebSocket's :class:`Lower` in its ASGI scope."""


@dataclass(slots=True)
class Lower:
    """What is below a WebSocket."""

    transport: asyncio.Transport
    message_too_large: bool = False  # it ends because of a message beyond ``ws_max_size``


class BoundedWebSocketProtocol(WSProtocol):
    """uvicorn's protocol of one WebSocket, for ``uvicorn.Config(ws=...)``."""

    _unanswered: events.Ping | None = None  # the latest ping that came while the peer took no answers

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

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the socket."""
        super().connection_lost(error)
        release_transport(self.transport)

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


def lower_half(scope: Any) -> Lower:
    """Return what is below a WebSocket of :class:`BoundedWebSocketProtocol`."""
    lower: Lower = scope["extensions"][EXTENSION]
    return lower
