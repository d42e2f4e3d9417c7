"""The HTTP listeners, plain and with TLS: one uvicorn in the broker's event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

import structlog
import uvicorn

from annulet.admin.application import build_application
from annulet.admin.listening.defects import DefectBoundary
from annulet.admin.listening.http_connection import HTTP_CONNECTIONS_MAX, protocol_of
from annulet.admin.listening.http_front import HttpFront
from annulet.admin.listening.web_socket import WEB_SOCKET_MESSAGE_BYTES_MAX, WEB_SOCKETS_MAX
from annulet.admin.listening.web_socket_protocol import web_socket_protocol_of
from annulet.broker.network.listening import bound_endpoint, open_listening_socket

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    from annulet.admin.console.streams import ConsoleStreams
    from annulet.broker.broker import Broker
    from annulet.broker.settings.configuration import Endpoint

logger = structlog.get_logger(__name__)

REQUEST_HEAD_BYTES_MAX: Final = 16 * 1024
"""Request line and headers together."""

ACCEPTED_MAX: Final = 128
"""Connections that asyncio accepts in one turn, and that the system accepts before: 10 ms, and more than there are
slots."""

IDLE_SECONDS: Final = 30
"""How long an idle keep-alive connection is kept: two scrapes of the usual 15 s interval."""

DATE_SECONDS: Final = 1
"""How old the ``Date`` header of an answer may be: it has no finer unit."""

STOP_SECONDS: Final = 3
"""How long a stop waits for running requests."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the program that owns the loop decides when to end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self._ending = asyncio.Event()
        self.secure: tuple[socket.socket, Callable[[], asyncio.BaseProtocol]] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.secure is not None:
            listening, accept = self.secure
            loop = asyncio.get_running_loop()
            self.servers.append(await loop.create_server(accept, sock=listening, backlog=self.config.backlog))
        self.listening.set()

    def end(self) -> None:
        """Make :meth:`serve` return soon, at once if there are no connections."""
        self.should_exit = True
        self._ending.set()

    async def main_loop(self) -> None:
        # uvicorn's own loop checks ten times a second whether to end, and each stop waits for that
        while not await self.on_tick(0):  # renews the date header
            with contextlib.suppress(TimeoutError):  # the usual case: it continues
                await asyncio.wait_for(self._ending.wait(), DATE_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)  # gives them a tenth of a second, and more if they need it
            return
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        with contextlib.suppress(TimeoutError):  # a peer is in the middle of a TLS hand-shake
            async with asyncio.timeout(STOP_SECONDS):
                for server in self.servers:
                    await server.wait_closed()

    def make_protocol(self) -> asyncio.Protocol:
        """Return the protocol of a connection whose TLS hand-shake is done."""
        make: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class AdminService:
    """Serves health, metrics and the API. The endpoints are the real addresses once :meth:`start` has returned.

    ``endpoint`` is plain HTTP, ``tls_endpoint`` the listener ``https`` of the configuration; either may be ``None``.
    """

    def __init__(self, endpoint: Endpoint | None, tls_endpoint: Endpoint | None = None) -> None:
        self.endpoint = endpoint
        self.tls_endpoint = tls_endpoint
        self._server: _Server | None = None
        self.streams: ConsoleStreams | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def urls(self) -> dict[str, str]:
        """URL of each listener by its name in the configuration: ``http``, ``https``."""
        endpoints = {"http": self.endpoint, "https": self.tls_endpoint}
        return {name: f"{name}://{endpoint}" for name, endpoint in endpoints.items() if endpoint is not None}

    @property
    def url(self) -> str:
        """URL of the plain listener, or of the other when there is only that."""
        return next(iter(self.urls.values()))

    def restore(self, broker: Broker) -> None:
        """Nothing of this service is durable."""

    async def start(self, broker: Broker) -> None:
        """Listen. Raises :class:`annulet.broker.network.listening.ListenerError`. A cancelled start listens no more."""
        sockets = []
        if self.endpoint is not None:
            sockets.append(open_listening_socket(self.endpoint, "HTTP", "--http"))
            self.endpoint = bound_endpoint(sockets[0])
        front = HttpFront(broker)
        application = build_application(broker)
        self.streams = application.state.streams
        config = uvicorn.Config(
            DefectBoundary(application, front.log),
            log_config=None,
            access_log=False,
            lifespan="off",
            http=protocol_of(front),
            ws=web_socket_protocol_of(front),
            ws_max_size=WEB_SOCKET_MESSAGE_BYTES_MAX,
            ws_per_message_deflate=False,  # a small message could unpack to a large one
            proxy_headers=False,  # the peer's address affects its rights, so it must not claim another one
            server_header=False,
            backlog=ACCEPTED_MAX,
            limit_concurrency=HTTP_CONNECTIONS_MAX + 2 * WEB_SOCKETS_MAX,  # each is a connection and a task
            h11_max_incomplete_event_size=REQUEST_HEAD_BYTES_MAX,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        self._server = server = _Server(config)
        if self.tls_endpoint is not None:
            secure = open_listening_socket(self.tls_endpoint, "HTTPS", "--https")
            self.tls_endpoint = bound_endpoint(secure)
            server.secure = (secure, broker.tls.acceptor("https", server.make_protocol))
        self._task = asyncio.create_task(server.serve(sockets=sockets), name="annulet-http")
        started = asyncio.create_task(self._server.listening.wait())
        try:
            await asyncio.wait({started, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.stop()
            raise
        finally:
            started.cancel()
        if self._task.done():
            for listening in sockets:
                listening.close()
            self._task.result()
        logger.info("http listening", **self.urls)

    async def stop(self) -> None:
        """Stop listening; running requests get :data:`STOP_SECONDS`. Harmless when nothing was started."""
        server, task = self._server, self._task
        self._server = self._task = None
        if self.streams is not None:
            self.streams.stop()
        if server is not None and task is not None:
            server.end()
            await task
