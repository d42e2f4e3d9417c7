"""The TLS listeners of one broker: their certificates, renewed together, and the sockets of those asyncio serves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

import structlog

from annulet.broker.network.listening import bound_endpoint, open_listening_socket
from annulet.broker.network.paced_handshake import HandshakePace
from annulet.broker.observing.limited_log import LimitedLog
from annulet.broker.security.tls import TlsAcceptor, TlsCounters, TlsListener

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.security.admission import Admission
    from annulet.broker.settings.configuration import BrokerConfiguration, Endpoint
    from annulet.broker.turns.input_turns import InputTurns

logger = structlog.get_logger(__name__)

TITLES: Final = {"amqps": "AMQP over TLS", "stomps": "STOMP over TLS", "https": "HTTPS", "bulks": "bulk over TLS"}


class TlsListeners:
    """By their names in the configuration: ``amqps``, ``stomps``, ``https``, ``bulks``. Belongs to the event loop.

    Raises :class:`annulet.broker.security.tls.TlsError` when the files of one cannot be used.
    """

    def __init__(self, configuration: BrokerConfiguration, admission: Admission, turns: InputTurns) -> None:
        self.counters = TlsCounters()
        self.listeners = {name: TlsListener(name, settings) for name, settings in configuration.tls.items()}
        self._admission = admission
        self._pace = HandshakePace(turns)
        self._timeout = configuration.handshake_timeout
        self._log = LimitedLog(logger)

    def renew(self) -> None:
        """Look at the files, now and then; called on every tick of the broker."""
        for listener in self.listeners.values():
            listener.renew()

    def renew_now(self) -> None:
        """Load the files again, whether they have changed or not."""
        for listener in self.listeners.values():
            listener.renew(anew=True)

    def acceptor(self, name: str, make_protocol: Callable[[], Any]) -> Callable[[], asyncio.BaseProtocol]:
        """Return a factory for ``create_server``: hand-shake first, then the protocol that ``make_protocol`` makes."""
        listener = self.listeners[name]
        watched = name != "https"  # requests have no hand-shake, and uvicorn ends idle connections

        def accept() -> asyncio.BaseProtocol:
            acceptor = TlsAcceptor(
                listener,
                make_protocol,
                self._admission,
                self.counters,
                self._timeout,
                self._log,
                self._pace,
                watched=watched,
            )
            return cast("asyncio.BaseProtocol", acceptor)

        return accept

    async def listen(
        self, name: str, endpoint: Endpoint, make_protocol: Callable[[], Any]
    ) -> tuple[asyncio.Server, Endpoint]:
        """Listen; return the server and the real address. Raises
        :class:`annulet.broker.network.listening.ListenerError`.
        """
        listening = open_listening_socket(endpoint, TITLES[name], f"--{name}")
        bound = bound_endpoint(listening)
        server = await asyncio.get_running_loop().create_server(self.acceptor(name, make_protocol), sock=listening)
        logger.info("listening", listener=TITLES[name], address=str(bound))
        return server, bound
