"""How a 0-9-1 connection logs in: SASL, which may take seconds, as a task."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.security.authentication import AMQP_0, Authenticator
from annulet.broker.security.sasl import Challenge, Failure, SaslExchange, Step, Success, mechanisms_text
from annulet.broker.security.token_grants import TokenRefused
from annulet.wire.amqp091.types.constants import NOT_ALLOWED, RESOURCE_ERROR
from annulet.wire.amqp091.types.errors import ConnectionFault

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from annulet.broker.amqp091.connection import AmqpConnection
    from annulet.broker.security.access_tokens import AccessTokens
    from annulet.broker.security.authentication import User
    from annulet.core.message.message import PropertyValue

logger = structlog.get_logger(__name__)

FLOW_PRODUCTS: Final = ("RabbitMQ",)
"""Clients, by the ``product`` they announce, that stop publishing at channel.flow: RabbitMQ's for Java and .NET. Others
ignore it (pika, py-amqp), or take it for the answer to something else and break (amqplib, aiormq): RabbitMQ sends it no
more. They are not read instead."""

STANDARD_QOS_PRODUCTS: Final = ("py-amqp",)
"""Clients, by the ``product`` they announce, that mean by ``basic.qos`` without ``global`` what the standard says: a
limit of the channel that counts at once. kombu, and so Celery, gives this meaning to every broker whose product is not
RabbitMQ, and raises the count for each task it holds back (ETA, countdown, retry) and each process of its pool."""


def offered_mechanisms(connection: AmqpConnection) -> str:
    """Return the SASL mechanisms for a peer, as connection.start names them."""
    return mechanisms_text(connection.broker.authenticator.mechanisms(connection.peer, AMQP_0))


class ConnectionLogin:
    """The authenticator's record of one connection, until it has ended."""

    def __init__(self, connection: AmqpConnection) -> None:
        self._connection = connection
        self._broker = connection.broker
        self._exchange = SaslExchange(self._broker.authenticator, AMQP_0)
        self._task: asyncio.Task[None] | None = None

    def begin(self, mechanism: str, response: bytes, client_properties: dict[str, PropertyValue]) -> None:
        """Check the response of start-ok; the engine is answered later. 506 to a connection that was not admitted."""
        if self._connection.refusal:
            raise ConnectionFault(RESOURCE_ERROR, self._connection.refusal)
        self._connection.obeys_flow = client_properties.get("product") in FLOW_PRODUCTS
        self._connection.standard_qos = client_properties.get("product") in STANDARD_QOS_PRODUCTS
        self._start(self._exchange.begin(mechanism, response, peer=self._connection.peer))

    def respond(self, response: bytes) -> None:
        """Check the response of secure-ok; the engine is answered later."""
        self._start(self._exchange.respond(response))

    def renew(self, secret: bytes) -> None:
        """Have the connection go on with another access token, if it began with one. A wrong one ends it (530)."""
        tokens, user = self._broker.authenticator.access_tokens, self._connection.user
        if tokens is not None and user is not None and user.grants is not None:
            self.cancel()
            self._task = self._broker.loop.create_task(self._renew(tokens, user, secret))

    async def _renew(self, tokens: AccessTokens, user: User, secret: bytes) -> None:
        connection, refusal = self._connection, ""
        renewed = user
        try:
            token = await tokens.check(secret.decode())
            renewed = Authenticator.bearer(token)
            if renewed.name != user.name:
                refusal = f"the access token is of user '{renewed.name}', the connection of user '{user.name}'"
        except (TokenRefused, UnicodeDecodeError) as error:
            refusal = str(error)
        except Exception as error:  # noqa: BLE001 - a defect: the connection goes on with its rights
            connection.note_defect(error, "defect while checking a token")
            return
        connection.begin_waiting()
        try:
            if refusal:
                connection.engine.close_connection(NOT_ALLOWED, refusal)
            else:
                connection.user = renewed
                connection.require_access().renew(renewed)
                self._broker.login_ends.watch(connection)
                self._broker.login_ends.on_renewed(connection)
        finally:
            connection.end_serving()

    def cancel(self) -> None:
        """The socket is gone: no client waits for an answer any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _start(self, work: Coroutine[Any, Any, Step]) -> None:
        self._task = self._broker.loop.create_task(self._answer(work))

    async def _answer(self, work: Coroutine[Any, Any, Step]) -> None:
        connection = self._connection
        try:
            step = await work
        except Exception as error:  # noqa: BLE001 - a defect, or the catalogue: the peer is refused and not left waiting
            connection.note_defect(error, "defect while checking a login")
            step = Failure("the broker failed; see its log")
        connection.begin_waiting()
        try:
            if isinstance(step, Success):
                connection.logged_in(step.user)
            elif isinstance(step, Challenge):
                connection.engine.secure(step.octets)
            else:
                connection.engine.authentication_finished(None)
        except Exception as error:  # noqa: BLE001 - in what waited; the engine has closed with 541, and the peer is told
            connection.note_defect(error)
        connection.end_serving()
