"""The handler of the AMQP 1.0 engine: each call goes to the session or the connection it concerns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from annulet.broker.amqp10.errors import detach_for
from annulet.broker.amqp10.session import Amqp10Session
from annulet.core.base.errors import CoreError
from annulet.store.files.errors import StoreError
from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import ConnectionFault

if TYPE_CHECKING:
    from annulet.broker.amqp10.connection import Amqp10Connection
    from annulet.wire.amqp10.connection.link import IncomingDelivery, Link
    from annulet.wire.amqp10.connection.session import EngineSession
    from annulet.wire.amqp10.frames.outcomes import Error
    from annulet.wire.amqp10.frames.performatives import Attach, Begin, Open

logger = structlog.get_logger(__name__)


def session_of(session: EngineSession) -> Amqp10Session:
    """Return the broker's half of a session."""
    owner = session.owner
    assert isinstance(owner, Amqp10Session)
    return owner


class Amqp10Service(Amqp10Handler):
    """Serves one connection."""

    def __init__(self, connection: Amqp10Connection) -> None:
        self.connection = connection

    # ------------------------------------------------------------------ SASL

    def sasl_mechanisms(self) -> tuple[str, ...]:
        """Offer what this peer may use."""
        return self.connection.mechanisms()

    def sasl_init(self, mechanism: str, response: bytes, hostname: str) -> None:  # noqa: ARG002 - the engine keeps it
        """Begin a login."""
        self.connection.begin_login(mechanism, response)

    def sasl_response(self, response: bytes) -> None:
        """Go on with it."""
        self.connection.continue_login(response)

    def anonymous_allowed(self) -> bool:
        """A peer without SASL has the identity of ANONYMOUS, where that is offered."""
        return self.connection.enter_anonymously()

    # ------------------------------------------------------------------ connection

    def connection_opened(self, performative: Open) -> None:
        """Enter the virtual host."""
        self.connection.open_host(performative)

    def connection_closed(self, condition: str, description: str, by_peer: bool) -> None:
        """All sessions ended before."""
        self.connection.note_closed(condition, description, by_peer=by_peer)

    # ------------------------------------------------------------------ sessions

    def session_began(self, session: EngineSession, performative: Begin) -> None:  # noqa: ARG002 - the engine keeps it
        """Make the broker's half."""
        connection = self.connection
        reason = connection.broker.admission.may_have_channel(connection.user_name)
        if reason:
            raise ConnectionFault(conditions.RESOURCE_LIMIT_EXCEEDED, reason)
        owner = Amqp10Session(connection, session)
        session.owner = owner
        connection.channels[session.channel] = owner

    def session_ended(self, session: EngineSession) -> None:
        """Everything unsettled goes back to its place. A session without an owner was refused when it began."""
        if session.owner is None:
            return
        owner = session_of(session)
        self.connection.channels.pop(session.channel, None)
        owner.end(self.connection.now)
        session.owner = None

    def session_writable(self, session: EngineSession) -> None:
        """The peer's window is open again."""
        session_of(session).window_opened(self.connection.now)

    # ------------------------------------------------------------------ links

    def attach(self, link: Link, performative: Attach) -> None:
        """Find or make the node, and answer."""
        engine = self.connection.engine
        try:
            session_of(link.session).attach_link(link, performative)
        except (CoreError, StoreError) as error:
            fault = detach_for(error)
            engine.endpoints.refuse_attach(link, fault.condition, fault.description)

    def detached(self, link: Link, *, closed: bool, error: Error | None, by_peer: bool) -> None:
        """The link is gone."""
        if error is not None:
            logger.info("link detached with an error", peer=self.connection.name, link=link.name, error=repr(error))
        session_of(link.session).link_detached(link, closed=closed, by_peer=by_peer)
        link.owner = None

    def credit_changed(self, link: Link) -> None:
        """The consumer has other credit."""
        session_of(link.session).credit_changed(link)

    # ------------------------------------------------------------------ deliveries

    def delivery(self, link: Link, delivery: IncomingDelivery) -> None:
        """A message came."""
        session_of(link.session).delivery_received(link, delivery)

    def disposition(self, session: EngineSession, first: int, last: int, state: object | None, settled: bool) -> None:
        """The peer tells what became of what we sent."""
        session_of(session).outcomes.told(first, last, state, settled=settled)

    def incoming_disposition(
        self, session: EngineSession, first: int, last: int, state: object | None, settled: bool
    ) -> None:
        """The peer settles its transfers: the engine has forgotten it, and nothing here waits for that."""
