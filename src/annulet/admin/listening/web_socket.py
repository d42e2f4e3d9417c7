"""STOMP over WebSocket (RFC 6455) on the HTTP port, for browsers: ``/ws`` and ``/stomp``.

The frames are those of the STOMP port, read and written by the same engine under the same limits. A message of the
WebSocket is a piece of the stream: frames may be split over several messages and several may be in one. Text and binary
messages are accepted; answers are of the kind that the client sent last, and binary if they are not UTF-8.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import structlog
from starlette.websockets import WebSocketDisconnect, WebSocketState

from annulet.admin.listening.web_socket_protocol import lower_half
from annulet.admin.requests.local_requests import peer_address, refused_origin, was_forwarded
from annulet.broker.connections.transport import CLOSE_GRACE_SECONDS
from annulet.broker.network.listening import site_of
from annulet.broker.observing.limited_log import LimitedLog
from annulet.broker.security.admission import LIMIT_STRANGERS, LIMIT_WEB_SOCKETS
from annulet.broker.stomp.connection import StompConnection

if TYPE_CHECKING:
    from starlette.websockets import WebSocket

    from annulet.admin.listening.web_socket_protocol import Lower
    from annulet.broker.broker import Broker

logger = structlog.get_logger(__name__)
_defects: Final = LimitedLog(logger)

PATHS: Final = ("/ws", "/stomp")
"""RabbitMQ's path, and the one of ActiveMQ and Artemis examples."""

SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp")
"""Names of the versions (IANA's registry), the best first. The version itself is negotiated by CONNECT."""

WEB_SOCKETS_MAX: Final = 256
"""WebSockets at a time. Programs use the STOMP port, which has its own limits."""

WEB_SOCKET_MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest WebSocket message in bytes; larger STOMP frames are split over several."""

LIMIT_MESSAGE: Final = "web_socket_message_bytes_max"
"""Its name in the metrics."""

WEB_SOCKET_STRANGERS_MAX: Final = 128
"""WebSockets of one address that are not logged in: half of all, so that one address leaves the others a half."""

POLICY_VIOLATION: Final = 1008
"""RFC 6455 §7.4.1. Before the hand-shake is accepted it is answered 403."""

ANY_ORIGIN: Final = "*"


class WebSocketTransport:
    """The WebSocket as a connection's transport: the methods of ``asyncio.Transport`` that it uses."""

    def __init__(self, web_socket: WebSocket, lower: Lower, protocol: StompConnection) -> None:
        self._web_socket = web_socket
        self._lower = lower
        self._protocol = protocol
        self._output: list[bytes] = []
        self._output_size = 0
        self._high = 0
        self._writing_paused = False
        self._wanted = asyncio.Event()  # there is output to send, or the end was reached
        self._closing = False
        self._binary = False
        self._tasks: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------------ asyncio.Transport

    def get_extra_info(self, name: str) -> Any:
        """As the socket's. A peer behind a proxy is not local, nor is one that gives this machine another name."""
        web_socket = self._web_socket
        if name == "peername" and web_socket.client is not None:
            return (peer_address(web_socket), web_socket.client.port)
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
        self._note_login()
        self._output.append(data)
        self._output_size += len(data)
        self._wanted.set()
        if self._output_size > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def pause_reading(self) -> None:
        """Stop reading from the peer; TCP slows it down."""
        self._lower.held = True

    def resume_reading(self) -> None:
        """Resume in a later turn: new input must not be served while other input is being served."""
        self._lower.held = False
        asyncio.get_running_loop().call_soon(self._lower.go_on)

    def is_closing(self) -> bool:
        """Return whether :meth:`close` was called."""
        return self._closing

    def close(self) -> None:
        """Send the queued output, then close."""
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
        self._lower.receiver = self._receive
        self._lower.go_on()
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._lower.receiver = None
            for task in self._tasks:
                task.cancel()
            for ending in await asyncio.gather(*self._tasks, return_exceptions=True):
                if isinstance(ending, Exception) and not self._is_end(ending):
                    _defects.defect("defect while serving a web socket", ending, peer=self._protocol.name)
            self._tasks = []  # the frames of a cancelled task reference this object

    def _is_end(self, error: Exception) -> bool:
        """Return whether it only reports a lost peer, or a close while output was in transit."""
        if isinstance(error, WebSocketDisconnect | OSError):
            return True
        return isinstance(error, RuntimeError) and self._lower.transport.is_closing()

    async def finish(self) -> None:
        """Close the connection if it is open, without waiting for a peer that does not read."""
        cut = asyncio.get_running_loop().call_later(CLOSE_GRACE_SECONDS, self._lower.transport.abort)
        if self._web_socket.application_state is WebSocketState.CONNECTED:
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):  # closed by the peer in the meantime
                await self._web_socket.close()
        if self._lower.transport.get_write_buffer_size() == 0:
            cut.cancel()

    async def _read(self) -> None:
        """Wait for the end: the contents of messages are passed to :meth:`_receive`."""
        while (await self._web_socket.receive())["type"] != "websocket.disconnect":
            logger.debug("message beside the lower half", peer=self._protocol.name)
        if self._lower.message_too_large:
            self._protocol.engine.count_hit(LIMIT_MESSAGE)

    def _receive(self, data: bytes, text: bool) -> None:
        """Serve a piece of the stream, in the turn that parsed it."""
        self._binary = not text
        if not self._closing:
            self._protocol.data_received(data)
            self._note_login()

    def _note_login(self) -> None:
        if self._lower.stranger and getattr(self._protocol, "opened", False):
            self._lower.end_stranger()

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
            except UnicodeDecodeError:  # a body that is not a text: RFC 6455 §5.6 allows it in binary messages only
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
    connection.paces_strangers = False  # the lower half does, for all it carries
    lower = lower_half(web_socket.scope)
    transport = WebSocketTransport(web_socket, lower, connection)
    site = site_of(peer_address(web_socket))
    broker.web_sockets += 1
    broker.connections_accepted += 1
    broker.admission.web_socket_strangers[site] += 1
    lower.known = partial(broker.admission.web_socket_known, site)
    lower.leave_slot()  # it is counted here from now on
    try:
        await web_socket.accept(subprotocol=next((name for name in SUBPROTOCOLS if name in offered), None))
        connection.connection_made(cast("asyncio.Transport", transport))
        await transport.run()
    except WebSocketDisconnect:  # the peer has closed, as at the end of every connection
        logger.debug("web socket gone", peer=connection.name)
    finally:
        try:
            connection.connection_lost(None)
            await transport.finish()
        finally:
            lower.end_stranger()
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
    site = site_of(peer_address(web_socket))
    if broker.admission.web_socket_strangers[site] >= WEB_SOCKET_STRANGERS_MAX:
        text = f"address {site} has {WEB_SOCKET_STRANGERS_MAX} web sockets that are not logged in, which is the limit"
        return LIMIT_STRANGERS, text
    offered = web_socket.scope.get("subprotocols", [])
    if offered and not set(offered) & set(SUBPROTOCOLS):
        return "", f"subprotocols {', '.join(offered)[:100]} are not served; offer {', '.join(SUBPROTOCOLS)} or none"
    allowed = broker.configuration.web_socket_origins
    origin = "" if ANY_ORIGIN in allowed else refused_origin(web_socket, allowed)
    if origin:
        return "", f"pages of {origin[:100]!r} may open no web socket here; list it in 'web_socket_origins'"
    return "", ""
