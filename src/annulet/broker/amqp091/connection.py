"""One AMQP 0-9-1 connection: the engine, its channels, its login and its time-outs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from annulet.broker.amqp091.cancel_notices import CancelNotices
from annulet.broker.amqp091.channel import Channel
from annulet.broker.amqp091.handler import AmqpHandler
from annulet.broker.amqp091.login import ConnectionLogin, offered_mechanisms
from annulet.broker.connections.transport import CLOSE_ANSWER_SECONDS, ClientConnection
from annulet.broker.observing.tracing import frame_trace
from annulet.wire.amqp091.connection.engine import ConnectionEngine
from annulet.wire.amqp091.connection.states import ConnectionState
from annulet.wire.amqp091.types import constants
from annulet.wire.amqp091.types.errors import ConnectionFault

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from annulet.broker.connections.services import BrokerServices
    from annulet.broker.security.authentication import User
    from annulet.core.host.virtual_host import VirtualHost

logger = structlog.get_logger(__name__)

ENDS_WITHOUT_ERROR: Final = frozenset({0, constants.SUCCESS, constants.CONNECTION_FORCED})
"""Reply codes of a lost socket, a polite close, and an end by the operator's wish."""


class AmqpConnection(ClientConnection[ConnectionEngine, Channel]):
    """One client of AMQP 0-9-1, 0-9 or 0-8: login, virtual host, heartbeats; its methods are the handler's."""

    __deletable__ = ("handler", "login")

    def __init__(self, broker: BrokerServices) -> None:
        super().__init__(broker)
        configuration = broker.configuration
        self.notices = CancelNotices()
        self.handler = AmqpHandler(self)
        self.engine = ConnectionEngine(
            self.handler,
            server_properties=broker.server_properties,
            channel_max=configuration.channel_max,
            frame_max=configuration.frame_max,
            heartbeat=configuration.heartbeat,
            max_message_size=configuration.limits.max_message_bytes,
            max_assembling_bytes=2 * configuration.limits.max_message_bytes,
            max_unauthenticated_bytes=configuration.limits.max_unauthenticated_bytes,
        )
        self.engine.output.trace = frame_trace(configuration, self)
        self.engine.output.error_sent = self.note_error
        self.login = ConnectionLogin(self)
        self.standard_qos = False  # a new prefetch without ``global`` limits the channel, as in the standard

    def trace_frames(self, trace: Callable[[str], None] | None) -> None:
        """Call ``trace`` with each frame as a line from now on; ``None``: as the configuration says."""
        self.engine.output.trace = frame_trace(self.broker.configuration, self) if trace is None else trace

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Determine the peer's identity, which decides how it may log in."""
        super().connection_made(transport)
        self.engine.mechanisms = offered_mechanisms(self)

    # ------------------------------------------------------------------ opening

    def logged_in(self, user: User) -> None:
        """The peer is this user: go on."""
        self.user = user
        self.user_name = user.name
        self.engine.authentication_finished(user.name)

    def enter(self, name: str) -> VirtualHost:
        """Enter a virtual host; 530 when it does not exist, the user may not, or has as many connections as he may."""
        host = self.broker.hosts.get(name)
        if host is None:
            raise ConnectionFault(constants.NOT_ALLOWED, f"vhost {name} not found")
        if not self.broker.authenticator.admits(self.user, name):
            raise ConnectionFault(
                constants.NOT_ALLOWED, f"access to vhost '{name}' refused for user '{self.user_name}'"
            )
        reason = self.log_in(self.user_name, name)
        if reason:
            raise ConnectionFault(constants.NOT_ALLOWED, reason)
        self.enter_host(host, records=False)
        return host

    def note_opened(self) -> None:
        """Negotiation is over: heartbeats replace the hand-shake timer."""
        self.opened = True
        logger.info(
            "connection opened",
            peer=self.name,
            user=self.user_name,
            vhost=self.require_host().name,
            protocol=self.protocol_name,
        )
        self.watch_silence()

    # ------------------------------------------------------------------ questions of channels

    def capable(self, name: str) -> bool:
        """Return whether the client announced a capability."""
        return bool(self.engine.notices.capabilities.get(name))

    def fail_channel(self, number: int, code: int, text: str, class_id: int, method_id: int) -> None:
        """Close a channel on the broker's own account."""
        self.engine.channel_table.close_channel_with_error(number, code, text, class_id, method_id)
        self.mark_dirty()

    # ------------------------------------------------------------------ what the transport asks

    @property
    def protocol_name(self) -> str:
        """The version the client speaks: ``AMQP 0-9-1``, ``AMQP 0-9`` or ``AMQP 0-8``."""
        return self.engine.output.version.name

    @property
    def client_name(self) -> str:
        """RabbitMQ's ``connection_name`` among the client's properties."""
        name = self.engine.client_properties.get("connection_name")
        return name if isinstance(name, str) else ""

    @property
    def running(self) -> bool:
        """Neither negotiating nor closing: a connection that closes is read, as close-ok has to come."""
        return self.engine.running

    @property
    def holding(self) -> bool:
        """Input waits for its answers to be written."""
        return self.engine.holding

    def explain_refusal(self) -> None:
        """506 RESOURCE_ERROR, behind the protocol header."""
        if self.engine.state is not ConnectionState.AWAITING_HEADER:
            self.engine.close_connection(constants.RESOURCE_ERROR, self.refusal)

    def go_on(self) -> None:
        """Serve it."""
        self.engine.go_on()

    def tell_blocked(self, reason: str) -> None:
        """Send connection.blocked or connection.unblocked."""
        if reason:
            self.engine.notices.send_blocked(reason)
        else:
            self.engine.notices.send_unblocked()
        self.mark_dirty()

    @property
    def idle_remedy(self) -> str:
        """The text for a client that negotiated no heartbeats."""
        return " without heartbeats; negotiate some"

    def seconds_between_looks(self) -> float:
        """Twice per interval (§4.2.7)."""
        return self.engine.heartbeat_interval / 2

    def seconds_promised(self) -> float:
        """The interval is that of both sides."""
        return float(self.engine.heartbeat_interval)

    def send_sign_of_life(self) -> None:
        """Queue a heartbeat."""
        self.engine.output.heartbeat()

    # ------------------------------------------------------------------ end

    def force_close(self, text: str) -> None:
        """End the connection politely: 320 CONNECTION_FORCED."""
        self.engine.close_connection(constants.CONNECTION_FORCED, text)
        self.mark_dirty()

    def close_for_resources(self, text: str) -> None:
        """506 RESOURCE_ERROR."""
        self.engine.close_connection(constants.RESOURCE_ERROR, text)

    def note_closed(self, code: int, text: str, *, by_peer: bool) -> None:
        """The connection is closed, or its end is under way."""
        if self.opened:
            if code in ENDS_WITHOUT_ERROR:
                self.broker.protocol_errors.note_ended(self, code, text, by_peer=by_peer)
            else:
                self.broker.protocol_errors.note_closed(self, str(code), text, by_peer=by_peer)
        else:
            if not by_peer and code not in ENDS_WITHOUT_ERROR:
                self.broker.protocol_errors.count(self.protocol_name, str(code))
            self.broker.admission.note_never_open(self.name, code, text)
        self.handler.end(self.now)
        if not self.engine.closed:  # connection.close was sent; not every peer answers
            self.restart_timer(CLOSE_ANSWER_SECONDS, self.abort)

    def ended(self) -> None:
        """The socket is gone."""
        self.engine.output.error_sent = None
        self.login.cancel()
        self.handler.end(self.now)
        del self.login, self.handler  # both hold the connection
