"""The STOMP listener, a service beside the AMQP listener."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import structlog

from annulet.broker.network.listening import bound_endpoint, open_listening_socket
from annulet.broker.stomp.connection import StompConnection

if TYPE_CHECKING:
    from annulet.broker.connections.services import BrokerServices
    from annulet.broker.settings.configuration import Endpoint

logger = structlog.get_logger(__name__)


class StompService:
    """Listens, without TLS, with it or both. The endpoints are the real ones once :meth:`start` has returned."""

    def __init__(self, endpoint: Endpoint | None, tls_endpoint: Endpoint | None = None) -> None:
        self.endpoint = endpoint
        self.tls_endpoint = tls_endpoint
        self._servers: list[asyncio.Server] = []

    @property
    def urls(self) -> dict[str, str]:
        """``stomp://HOST:PORT`` and ``stomp+ssl://HOST:PORT``, by the listeners' names in the configuration."""
        urls = {}
        if self.endpoint is not None:
            urls["stomp"] = f"stomp://{self.endpoint}"
        if self.tls_endpoint is not None:
            urls["stomps"] = f"stomp+ssl://{self.tls_endpoint}"
        return urls

    def restore(self, broker: BrokerServices) -> None:
        """Nothing of this service is durable."""

    async def start(self, broker: BrokerServices) -> None:
        """Listen. Raises :class:`annulet.broker.network.listening.ListenerError`."""
        if self.endpoint is not None:
            listening = open_listening_socket(self.endpoint, "STOMP", "--stomp")
            self.endpoint = bound_endpoint(listening)
            self._servers.append(await broker.loop.create_server(lambda: accept(broker), sock=listening))
            logger.info("stomp listening", address=str(self.endpoint))
        if self.tls_endpoint is not None:
            server, self.tls_endpoint = await broker.tls.listen("stomps", self.tls_endpoint, lambda: accept(broker))
            self._servers.append(server)

    async def stop(self) -> None:
        """Stop listening; harmless when nothing was started."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()


def accept(broker: BrokerServices) -> asyncio.BaseProtocol:
    """Return the protocol of a new connection, for sockets with or without TLS."""
    broker.connections_accepted += 1
    # The connection has the methods of asyncio.Protocol; inheriting from it would keep it from being compiled.
    return broker.accepted(cast("asyncio.BaseProtocol", StompConnection(broker)))
