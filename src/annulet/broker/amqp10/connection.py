"""One AMQP 1.0 connection: the engine, its sessions, its login and its time-outs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from annulet import __version__
from annulet.broker.amqp10.dynamic_nodes import DynamicNodes
from annulet.broker.amqp10.remembered import LinkName
from annulet.broker.amqp10.service import Amqp10Service
from annulet.broker.amqp10.session import Amqp10Session
from annulet.broker.connections.transport import CLOSE_ANSWER_SECONDS, ClientConnection
from annulet.broker.observing.tracing import frame_trace
from annulet.broker.security.authentication import ANONYMOUS, EXTERNAL, PLAIN
from annulet.broker.security.sasl import Challenge, SaslExchange, Success
from annulet.wire.amqp10.connection.engine import Amqp10Engine
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import ConnectionFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.amqp10.services import Amqp10Services
    from annulet.wire.amqp10.connection.link import Link
    from annulet.wire.amqp10.frames.outcomes import Outcome
    from annulet.wire.amqp10.frames.performatives import Open

logger = structlog.get_logger(__name__)

CONTAINER_ID: Final = "annulet"
OFFERED_CAPABILITIES: Final = ("ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS", "queue", "topic")
"""Values that clients read by these names: an anonymous terminus, scheduled delivery, shared subscriptions."""

DEFAULT_HOST: Final = "/"
HOST_PREFIX: Final = "vhost:"
"""``open.hostname`` ``vhost:name`` means the virtual host; so does the bare name of one (RabbitMQ's convention)."""

TOKEN_FRAME_SIZE: Final = 17_408
"""Octets of a SASL frame where an issuer's access tokens log in: the longest token, and 1 KiB for the names. The
standard has 512 (§5.3.1), and clients send tokens of several KB nevertheless."""

SILENT_MECHANISMS: Final = (ANONYMOUS, EXTERNAL)
"""Clients have nothing to say in these: one without an initial response expects no empty challenge (Broker-J)."""

SASL_OK: Final = 0
SASL_AUTHENTICATION_FAILED: Final = 1
SASL_SYSTEM_ERROR: Final = 2


class Amqp10Connection(ClientConnection[Amqp10Engine, Amqp10Session]):
    """Handles one client: login, virtual host, idle time-out; sessions are the service's."""

    protocol_name = "AMQP 1.0"

    def __init__(self, broker: Amqp10Services) -> None:
        super().__init__(broker)
        self.obeys_flow = True  # link credit holds publishers back (§2.6.7)
        self.container_id = ""
        self.client_properties: dict[str, Any] = {}  # of its open
        configuration = broker.configuration
        limits = configuration.limits
        self.engine = Amqp10Engine(
            Amqp10Service(self),
            container_id=CONTAINER_ID,
            max_frame_size=configuration.frame_max,
            channel_max=limits.max_sessions_per_connection - 1,
            handle_max=limits.max_links_per_session - 1,
            idle_time_out=configuration.heartbeat * 1000,
            max_message_size=limits.max_message_bytes,
            max_assembling_bytes=2 * limits.max_message_bytes,
            max_unauthenticated_bytes=limits.max_unauthenticated_bytes,
            offered_capabilities=list(OFFERED_CAPABILITIES),
            properties={"product": "Annulet", "version": __version__, "platform": "Python"},
        )
        if configuration.oidc is not None:
            self.engine.max_sasl_frame_size = TOKEN_FRAME_SIZE
        self.engine.output.trace = frame_trace(configuration, self)
        self.engine.output.error_sent = self.note_error
        self.services = broker
        self.dynamic_nodes = DynamicNodes(broker)
        self._exchange: SaslExchange | None = None
        self._login: asyncio.Task[None] | None = None

    def trace_frames(self, trace: Callable[[str], None] | None) -> None:
        """Call ``trace`` with each frame as a line from now on; ``None``: as the configuration says."""
        self.engine.output.trace = frame_trace(self.broker.configuration, self) if trace is None else trace

    # ------------------------------------------------------------------ login, §5.3

    def mechanisms(self) -> tuple[str, ...]:
        """Return the SASL mechanisms for this peer; of none PLAIN, to be refused: no list may be empty (§5.3.3.1)."""
        return self.broker.authenticator.mechanisms(self.peer, "amqp10") or (PLAIN,)

    def begin_login(self, mechanism: str, response: bytes) -> None:
        """Start a SASL exchange; the engine gets its answer when there is one."""
        self._exchange = SaslExchange(self.broker.authenticator, "amqp10", success_carries_data=True)
        self._login = self.broker.loop.create_task(self._step(mechanism, response))

    def continue_login(self, response: bytes) -> None:
        """Go on with the exchange."""
        self._login = self.broker.loop.create_task(self._step("", response))

    async def _step(self, mechanism: str, response: bytes) -> None:
        exchange = self._exchange
        assert exchange is not None
        try:
            if mechanism:
                waits = not response and mechanism not in SILENT_MECHANISMS
                step = await exchange.begin(mechanism, None if waits else response, peer=self.peer)
            else:
                step = await exchange.respond(response)
        except Exception as error:  # noqa: BLE001 - a defect, or the catalogue: the peer is refused and not left waiting
            self.note_defect(error, "defect while checking a login")
            self.engine.sasl_outcome(SASL_SYSTEM_ERROR)
            self.mark_dirty()
            return
        self.begin_waiting()
        try:
            if isinstance(step, Challenge):
                self.engine.sasl_challenge(step.octets)
            elif isinstance(step, Success):
                self.user = step.user
                self.engine.sasl_outcome(SASL_OK, step.additional)
            else:
                self.engine.sasl_outcome(SASL_AUTHENTICATION_FAILED)
        except Exception as error:  # noqa: BLE001 - in what waited; the engine has closed, and the peer is to be told
            self.note_defect(error)
        self.end_serving()

    def enter_anonymously(self) -> bool:
        """Let a peer in that skips SASL, where ANONYMOUS is offered (§2.2)."""
        if ANONYMOUS not in self.mechanisms():
            return False
        self.user = self.broker.authenticator.login_anonymous(peer=self.peer)
        return self.user is not None

    # ------------------------------------------------------------------ open, §2.7.1

    def open_host(self, performative: Open) -> None:
        """Enter the virtual host that ``hostname`` names; any name that is none of a virtual host means ``/``.

        Clients put the DNS name of the server there (§2.7.1). Raises ConnectionFault ``amqp:not-allowed``.
        """
        user_name = "" if self.user is None else self.user.name
        if self.refusal:
            raise ConnectionFault(conditions.RESOURCE_LIMIT_EXCEEDED, self.refusal)
        self.container_id = performative.container_id
        self.client_properties = {str(name): value for name, value in (performative.properties or {}).items()}
        given = self.engine.hostname
        name = given.removeprefix(HOST_PREFIX)
        if name not in self.broker.hosts:
            if given.startswith(HOST_PREFIX):
                raise ConnectionFault(conditions.NOT_FOUND, f"hostname: no virtual host '{name}'; create it first")
            name = DEFAULT_HOST
        if not self.broker.authenticator.admits(self.user, name):
            raise ConnectionFault(
                conditions.UNAUTHORIZED_ACCESS, f"access to vhost '{name}' refused for user '{user_name}'"
            )
        refusal = self.log_in(user_name, name)
        if refusal:
            raise ConnectionFault(conditions.RESOURCE_LIMIT_EXCEEDED, refusal)
        self.enter_host(self.broker.hosts[name], records=True)
        self.opened = True
        self.watch_silence()
        logger.info("connection opened", peer=self.name, user=self.user_name, vhost=name, protocol=self.protocol_name)

    # ------------------------------------------------------------------ outcomes of suspended links, §2.6.13

    def remembered(self, link: Link) -> dict[bytes, Outcome]:
        """Return, once, the outcomes that a link of this container had not seen settled when it was suspended."""
        return self.services.remembered_outcomes.take(self._name_of(link))

    def remember(self, link: Link, outcomes: dict[bytes, Outcome]) -> None:
        """Keep such outcomes."""
        self.services.remembered_outcomes.keep(self._name_of(link), outcomes)

    def _name_of(self, link: Link) -> LinkName:
        return LinkName(self.require_host().name, self.user_name, self.container_id, link.name)

    # ------------------------------------------------------------------ signs of life, §2.4.5

    idle_remedy = "; announce an idle-time-out"

    def seconds_between_looks(self) -> float:
        """Half of what either side wants."""
        theirs = self.engine.remote_idle_time_out / 1000
        wanted = [seconds for seconds in (self.seconds_promised(), theirs) if seconds]
        return min(wanted) / 2 if wanted else 0.0

    def seconds_promised(self) -> float:
        """The values of our open."""
        return float(self.broker.configuration.heartbeat)

    def send_sign_of_life(self) -> None:
        """Queue an empty frame for a peer that wants one."""
        if self.engine.remote_idle_time_out:
            self.engine.heartbeat()

    # ------------------------------------------------------------------ end

    @property
    def client_name(self) -> str:
        """The client's container id (§2.7.1)."""
        return self.container_id

    @property
    def running(self) -> bool:
        """Open, and neither side has sent close: a connection that closes is read, as the peer's close has to come."""
        return self.engine.opened

    @property
    def holding(self) -> bool:
        """Input waits for its answers to be written."""
        return self.engine.holding

    def go_on(self) -> None:
        """Serve it."""
        self.engine.go_on()

    def take_deliveries(self) -> list[bytes]:
        """Leave what the engine does when a turn ends: it wakes sessions, and gives credit to links."""
        return self.engine.output.take_frames()

    def force_close(self, text: str) -> None:
        """End the connection politely: ``amqp:connection:forced``."""
        if not self.opened:
            self.abort()
            return
        self.engine.close(conditions.CONNECTION_FORCED, text)
        self.mark_dirty()

    def close_for_resources(self, text: str) -> None:
        """``amqp:resource-limit-exceeded``."""
        self.engine.close(conditions.RESOURCE_LIMIT_EXCEEDED, text)

    def note_closed(self, condition: str, description: str, *, by_peer: bool) -> None:
        """The connection is closed, or its end is under way."""
        if self.opened:
            if condition in {"", conditions.CONNECTION_FORCED}:
                self.broker.protocol_errors.note_ended(self, condition, description, by_peer=by_peer)
            else:
                self.broker.protocol_errors.note_closed(self, condition, description, by_peer=by_peer)
        elif condition:  # anybody can cause these
            if not by_peer:
                self.broker.protocol_errors.count(self.protocol_name, condition)
            self.broker.admission.note_never_open(self.name, 0, f"{condition}: {description}")
        self.end_nodes()
        if not self.engine.closed and not self.lost:  # our close was sent; not every peer answers
            self.restart_timer(CLOSE_ANSWER_SECONDS, self.abort)

    def end_nodes(self) -> None:
        """Delete what lives as long as the connection: dynamic nodes, queues of volatile subscriptions."""
        if self.host is not None:
            self.dynamic_nodes.connection_ended()
            self.host.connection_closed(self, self.now)

    def ended(self) -> None:
        """The socket is gone."""
        self.engine.output.error_sent = None
        if self._login is not None:
            self._login.cancel()
            self._login = None  # it ends with an error whose traceback holds us
        self.end_nodes()
