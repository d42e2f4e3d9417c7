"""STOMP over WebSocket (RFC 6455) on the HTTP port, for browsers: ``/ws`` and ``/stomp``.

The frames are those of the STOMP port, read and written by the same engine under the same limits. A message of the
WebSocket is a piece of the stream: frames may be split over several and several may come in one. Text and binary
messages are taken; answers are of the kind that the client sent last, and binary where they are no UTF-8.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import structlog
from starlette.websockets import WebSocketDisconnect, WebSocketState

from annulet.admin.web_socket_protocol import lower_half
from annulet.broker.admission import LIMIT_WEB_SOCKETS
from annulet.broker.listening import is_loopback
from annulet.broker.stomp.connection import StompConnection
from annulet.broker.transport import CLOSE_GRACE_SECONDS

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from annulet.admin.web_socket_protocol import Lower
    from annulet.broker.broker import Broker

logger = structlog.get_logger(__name__)

PATHS: Final = ("/ws", "/stomp")
"""RabbitMQ's path, and the one of ActiveMQ and Artemis examples."""

SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp")
"""Names of the versions (IANA's registry), the best first. The version itself is negotiated by CONNECT."""

WEB_SOCKETS_MAX: Final = 256
"""WebSockets at a time: with the largest message each, 1 GiB. Programs use the STOMP port, which has its own limits."""

WEB_SOCKET_MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest WebSocket message in bytes, which is held whole before STOMP sees it; larger frames come in several."""

LIMIT_MESSAGE: Final = "web_socket_message_bytes_max"
"""What the metrics call it."""

POLICY_VIOLATION: Final = 1008
"""RFC 6455 §7.4.1. Before the hand-shake is accepted it is answered 403."""

ANY_ORIGIN: Final = "*"
LOCAL_NAMES: Final = frozenset({"localhost", "ip6-localhost"})


class WebSocketTransport:
    """What a connection sees of a WebSocket: the methods of ``asyncio.Transport`` that it uses."""

    def __init__(self, web_socket: WebSocket, lower: Lower, protocol: StompConnection) -> None:
        self._web_socket = web_socket
        self._lower = lower
        self._protocol = protocol
        self._output: list[bytes] = []
        self._output_size = 0
        self._high = 0
        self._writing_paused = False
        self._wanted = asyncio.Event()  # there is something to send, or nothing more will come
        self._reading = asyncio.Event()
        self._reading.set()
        self._closing = False
        self._binary = False
        self._tasks: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------------ asyncio.Transport

    def get_extra_info(self, name: str) -> Any:
        """As the socket's. A peer behind a proxy is not local."""
        web_socket = self._web_socket
        if name == "peername" and web_socket.client is not None:
            address = web_socket.client.host
            return (f"forwarded by {address}" if was_forwarded(web_socket) else address, web_socket.client.port)
        if name == "ssl_object" and was_forwarded(web_socket):  # its certificate is the proxy's
            return None
        return self._lower.transport.get_extra_info(name)

    def set_write_buffer_limits(self, high: int) -> None:
        """Pause the writer above ``high`` bytes; resume it when all is sent."""
        self._high = high

    def get_write_buffer_size(self) -> int:
        """Bytes that wait to be sent."""
        return self._output_size

    def write(self, data: bytes) -> None:
        """Queue octets."""
        if self._closing:
            return
        self._output.append(data)
        self._output_size += len(data)
        self._wanted.set()
        if self._output_size > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def pause_reading(self) -> None:
        """Take nothing more from the peer; it is held back by TCP."""
        self._reading.clear()

    def resume_reading(self) -> None:
        """Go on."""
        self._reading.set()

    def is_closing(self) -> bool:
        """Say whether :meth:`close` was called."""
        return self._closing

    def close(self) -> None:
        """Send what is queued, then close."""
        self._closing = True
        self._wanted.set()

    def abort(self) -> None:
        """End at once."""
        self._closing = True
        self._lower.transport.abort()
        for task in self._tasks:
            task.cancel()

    # ------------------------------------------------------------------ running

    async def run(self) -> None:
        """Carry octets both ways until either side ends."""
        if self._closing and not self._output:  # it was not let in
            return
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._write())]
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in self._tasks:
                task.cancel()
            for ending in await asyncio.gather(*self._tasks, return_exceptions=True):
                if isinstance(ending, Exception) and not isinstance(ending, WebSocketDisconnect):
                    logger.error("defect while serving a web socket", peer=self._protocol.name, exc_info=ending)
            self._tasks = []  # the frames of a task that was cancelled hold this object

    async def finish(self) -> None:
        """Close what is still open, without waiting for a peer that reads nothing."""
        cut = asyncio.get_running_loop().call_later(CLOSE_GRACE_SECONDS, self._lower.transport.abort)
        if self._web_socket.application_state is WebSocketState.CONNECTED:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # closed by the peer meanwhile
                await self._web_socket.close()
        if self._lower.transport.get_write_buffer_size() == 0:
            cut.cancel()

    async def _read(self) -> None:
        while True:
            await self._reading.wait()
            message = await self._web_socket.receive()
            if message["type"] == "websocket.disconnect":
                if self._lower.message_too_large:
                    self._protocol.engine.count_hit(LIMIT_MESSAGE)
                return
            text = message.get("text")
            self._binary = text is None
            data = message["bytes"] if text is None else text.encode("utf-8", "surrogatepass")
            if not self._closing:
                self._protocol.data_received(data)

    async def _write(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            output, self._output = self._output, []
            data = b"".join(output)
            if data:
                await self._send(data)
                self._output_size -= len(data)
            if self._writing_paused and not self._output:
                self._writing_paused = False
                self._protocol.resume_writing()
            if self._closing and not self._output:
                await self._web_socket.close()
                return

    async def _send(self, data: bytes) -> None:
        if not self._binary:
            try:
                text = data.decode()
            except UnicodeDecodeError:  # a body that is no text: RFC 6455 §5.6 allows it in binary messages only
                logger.debug("binary message to a text client", peer=self._protocol.name)
            else:
                await self._web_socket.send_text(text)
                return
        await self._web_socket.send_bytes(data)


async def serve(web_socket: WebSocket) -> None:
    """Serve one WebSocket as a STOMP connection."""
    broker: Broker = web_socket.app.state.broker
    limit, reason = refusal(web_socket, broker)
    if reason:
        broker.admission.note_web_socket_refused(str(web_socket.client), limit, reason)
        await web_socket.close(POLICY_VIOLATION, reason)
        return
    offered = web_socket.scope.get("subprotocols", [])
    connection = StompConnection(broker)
    connection.tls_listener = "https"
    transport = WebSocketTransport(web_socket, lower_half(web_socket.scope), connection)
    broker.web_sockets += 1
    broker.connections_accepted += 1
    try:
        await web_socket.accept(subprotocol=next((name for name in SUBPROTOCOLS if name in offered), None))
        connection.connection_made(cast("asyncio.Transport", transport))
        await transport.run()
    except WebSocketDisconnect:  # the peer is gone, which is how every connection ends
        logger.debug("web socket gone", peer=connection.name)
    finally:
        try:
            connection.connection_lost(None)
            await transport.finish()
        finally:
            broker.web_sockets -= 1


def refusal(web_socket: WebSocket, broker: Broker) -> tuple[str, str]:
    """Return the limit's name, if it is one, and why a WebSocket may not be opened; empty when it may.

    A page of any site can open one to this machine, with whatever logins are well known here. So the ``Origin`` that
    browsers send (RFC 6455 §10.2) must be a page of this machine, or of the same host and port as the listener where
    the peer is another machine, or listed in ``web_socket_origins``. Programs send none.
    """
    if broker.web_sockets >= WEB_SOCKETS_MAX:
        text = f"there are {WEB_SOCKETS_MAX} web sockets, which is the limit; close some, or use the STOMP port"
        return LIMIT_WEB_SOCKETS, text
    offered = web_socket.scope.get("subprotocols", [])
    if offered and not set(offered) & set(SUBPROTOCOLS):
        return "", f"subprotocols {', '.join(offered)[:100]} are not served; offer {', '.join(SUBPROTOCOLS)} or none"
    origin = web_socket.headers.get("origin")
    allowed = broker.configuration.web_socket_origins
    if origin is None or origin in allowed or ANY_ORIGIN in allowed:
        return "", ""
    place = urlsplit(origin)
    if is_local_name(place.hostname or ""):
        return "", ""
    client = web_socket.client
    local = client is not None and is_loopback(client.host) and not was_forwarded(web_socket)
    if place.netloc and place.netloc == web_socket.headers.get("host") and not local:
        return "", ""
    return "", f"pages of {origin[:100]!r} may open no web socket here; list it in 'web_socket_origins'"


def is_local_name(name: str) -> bool:
    """Say whether a host name is one of this machine's own, whoever resolves it."""
    return name in LOCAL_NAMES or is_loopback(name)


def was_forwarded(web_socket: WebSocket) -> bool:
    """Say whether a proxy passed the request on."""
    return "x-forwarded-for" in web_socket.headers or "forwarded" in web_socket.headers
