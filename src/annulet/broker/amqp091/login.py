"""How a 0-9-1 connection comes in: the limits on connections, then SASL, which may take seconds, as a task."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.admission import EXPLANATION_SECONDS
from annulet.broker.authentication import AMQP_0
from annulet.broker.sasl import Challenge, Failure, PeerFacts, SaslExchange, Step, Success, mechanisms_text
from annulet.broker.tls import peer_facts
from annulet.broker.tracing import frame_trace
from annulet.wire.amqp091.constants import NOT_ALLOWED, RESOURCE_ERROR
from annulet.wire.amqp091.errors import ConnectionFault

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from annulet.broker.amqp091.connection import AmqpConnection
    from annulet.core.message import PropertyValue

logger = structlog.get_logger(__name__)

FLOW_PRODUCTS: Final = ("RabbitMQ",)
"""Clients, by the ``product`` they announce, that stop publishing at channel.flow: RabbitMQ's for Java and .NET. Others
ignore it (pika, py-amqp), or take it for the answer to something else and break (amqplib, aiormq): RabbitMQ sends it no
more. They are not read instead."""

UNEXPLAINED: Final = -1.0
"""Answer of :meth:`ConnectionLogin.enter`: cut the socket at once."""


class ConnectionLogin:
    """What one connection is to the admission and the authenticator, until it has ended."""

    def __init__(self, connection: AmqpConnection) -> None:
        self.peer = PeerFacts()
        self.refusal = ""  # why the connection may not come in, to be told as soon as the protocol allows
        self._connection = connection
        self._broker = connection.broker
        self._exchange = SaslExchange(self._broker.authenticator, AMQP_0)
        self._task: asyncio.Task[None] | None = None
        self._counted = False
        self._user = ""  # the connection is counted to
        self.waited = 0.0  # seconds of the hand-shake's that are used up already

    def enter(self, transport: asyncio.Transport) -> float:
        """Learn who the peer is and ask for admission. Returns the seconds it has for its hand-shake."""
        broker = self._broker
        self.peer = peer_facts(transport, broker.configuration)
        ours = transport.get_extra_info("sockname") or ("?", 0)
        self._connection.name = f"{self.peer.address or '?'}:{self.peer.port} -> {ours[0]}:{ours[1]}"
        self.refusal = broker.admission.may_connect(self.peer)
        self._counted = not self.refusal
        if self.refusal and not broker.admission.may_explain():
            return UNEXPLAINED
        self._connection.engine.trace = frame_trace(broker.configuration, self._connection)
        self._connection.engine.mechanisms = mechanisms_text(broker.authenticator.mechanisms(self.peer, AMQP_0))
        seconds = max(0.0, self.timeout - self.waited)
        return min(EXPLANATION_SECONDS, seconds) if self.refusal else seconds

    @property
    def timeout(self) -> float:
        """Seconds from accept to open."""
        return self._broker.configuration.handshake_timeout

    def note_expired(self) -> None:
        """Count a peer that was not open in time; one that was refused is counted already."""
        if not self.refusal:
            self._broker.admission.note_timed_out(self._connection.name, self.timeout)

    def begin(self, mechanism: str, response: bytes, client_properties: dict[str, PropertyValue]) -> None:
        """Check the response of start-ok; the engine is answered later. 506 to who was not admitted."""
        if self.refusal:
            raise ConnectionFault(RESOURCE_ERROR, self.refusal)
        self._connection.obeys_flow = client_properties.get("product") in FLOW_PRODUCTS
        self._start(self._exchange.begin(mechanism, response, peer=self.peer))

    def respond(self, response: bytes) -> None:
        """Check the response of secure-ok; the engine is answered later."""
        self._start(self._exchange.respond(response))

    def open(self, user: str) -> None:
        """Count the connection to its user; 530 when it has as many as it may."""
        reason = self._broker.admission.may_open(user)
        if reason:
            raise ConnectionFault(NOT_ALLOWED, reason)
        self._user = user

    def leave(self) -> None:
        """The socket is gone: nobody waits for an answer any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._counted:
            self._counted = False
            self._broker.admission.closed(self.peer, self._user)

    def _start(self, work: Coroutine[Any, Any, Step]) -> None:
        self._task = self._broker.loop.create_task(self._answer(work))

    async def _answer(self, work: Coroutine[Any, Any, Step]) -> None:
        connection = self._connection
        try:
            step = await work
        except Exception:  # a defect of ours, or the catalogue: the peer is refused and not left waiting
            logger.exception("defect while checking a login", peer=connection.name)
            step = Failure("the broker failed; see its log")
        connection.now = self._broker.clock()  # of what waited and is served now
        try:
            if isinstance(step, Success):
                connection.logged_in(step.user.name)
            elif isinstance(step, Challenge):
                connection.engine.secure(step.octets)
            else:
                connection.engine.authentication_finished(None)
        except Exception:  # a defect in what waited; the engine has closed with 541, and the peer is to be told
            logger.exception("defect while serving a connection", peer=connection.name)
        connection.mark_dirty()
