"""The HTTP listener: uvicorn in the broker's event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn

from annulet.admin.application import build_application
from annulet.broker.listening import bound_endpoint, open_listening_socket

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from annulet.broker.broker import Broker
    from annulet.broker.configuration import Endpoint

logger = structlog.get_logger(__name__)

CONCURRENT_REQUESTS_MAX: Final = 100
"""Connections and running requests; further ones are answered 503. Management traffic never needs as many."""

REQUEST_HEAD_BYTES_MAX: Final = 16 * 1024
"""Request line and headers together."""

IDLE_SECONDS: Final = 30
"""How long an idle keep-alive connection is held: two scrapes of the usual 15 s interval."""

STOP_SECONDS: Final = 3
"""How long a stop waits for running requests."""


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the program that owns the loop decides when to end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class AdminService:
    """Serves health, metrics and the API. ``endpoint`` is the real address once :meth:`start` has returned."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """``http://HOST:PORT`` of the listener."""
        return f"http://{self.endpoint}"

    def restore(self, broker: Broker) -> None:
        """Nothing of this service is durable."""

    async def start(self, broker: Broker) -> None:
        """Listen. Raises :class:`annulet.broker.listening.ListenerError`. A cancelled start listens no more."""
        listening = open_listening_socket(self.endpoint, "HTTP", "--http")
        self.endpoint = bound_endpoint(listening)
        config = uvicorn.Config(
            build_application(broker),
            log_config=None,
            access_log=False,
            lifespan="off",
            http="h11",
            ws="none",
            proxy_headers=False,  # the peer's address decides what it may do: nobody may claim another one
            server_header=False,
            limit_concurrency=CONCURRENT_REQUESTS_MAX,
            h11_max_incomplete_event_size=REQUEST_HEAD_BYTES_MAX,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]), name="annulet-http")
        started = asyncio.create_task(self._server.listening.wait())
        try:
            await asyncio.wait({started, self._task}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self.stop()
            raise
        finally:
            started.cancel()
        if self._task.done():
            listening.close()
            self._task.result()
        logger.info("http listening", url=self.url)

    async def stop(self) -> None:
        """Stop listening; running requests get :data:`STOP_SECONDS`. Harmless when nothing was started."""
        server, task = self._server, self._task
        self._server = self._task = None
        if server is not None and task is not None:
            server.should_exit = True
            await task
