"""The parts of the broker that connections and backups use, declared below them.

:class:`annulet.broker.broker.Broker` derives from this and implements the calls: it starts, stops and owns everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from annulet import __version__
from annulet.broker.connections.consumer_timeouts import ConsumerTimeouts
from annulet.broker.connections.dialect import ALL, Dialect
from annulet.broker.connections.login_ends import LoginEnds
from annulet.broker.connections.protocol_errors import ProtocolErrors
from annulet.broker.network.lingering import LingeringSockets
from annulet.broker.network.unfinished import UnfinishedWork, unfinished_limit
from annulet.broker.paging.spill_pace import SpillPace
from annulet.broker.security.admission import Admission
from annulet.broker.settings import descriptors
from annulet.broker.turns.delivery_shares import DeliveryShares
from annulet.broker.turns.input_shares import InputShares
from annulet.broker.turns.input_turns import InputTurns

if TYPE_CHECKING:
    import asyncio

    from annulet.broker.connections.transport import AnyConnection
    from annulet.broker.durability.blocked import BlockedTargets
    from annulet.broker.durability.commit import CommitPipeline
    from annulet.broker.durability.definition_commits import DefinitionCommits
    from annulet.broker.durability.history import HistoryRecorder
    from annulet.broker.security.authentication import Authenticator
    from annulet.broker.security.tls_listeners import TlsListeners
    from annulet.broker.settings.clock import Clock
    from annulet.broker.settings.configuration import BrokerConfiguration
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import PropertyValue
    from annulet.store.database.catalogue import Catalogue
    from annulet.store.segments.interface import Log

SERVER_CAPABILITIES: Final[dict[str, PropertyValue]] = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "consumer_priorities": True,
    "authentication_failure_close": True,
    "per_consumer_qos": True,
    "direct_reply_to": True,
}


class Undecided(Protocol):
    """A socket whose protocol header has not come."""

    def abort(self) -> None:
        """Cut it."""


class BrokerServices:
    """What connections share: the loop's resources, limits and shares, storage, security, and counters."""

    loop: asyncio.AbstractEventLoop  # since the start
    authenticator: Authenticator  # since recovery, as the next ones
    catalogue: Catalogue
    log: Log
    commit: CommitPipeline
    definitions: DefinitionCommits
    tls: TlsListeners
    dialect: Dialect = ALL  # of clients of AMQP 0-9-1

    def __init__(self, configuration: BrokerConfiguration, clock: Clock) -> None:
        self.configuration = configuration
        self.clock = clock
        self.stopping = False
        self.memory_blocked = False
        self.hosts: dict[str, VirtualHost] = {}
        self.blocked: dict[str, BlockedTargets] = {}  # by virtual host
        self.history: HistoryRecorder | None = None  # None: a broker in memory
        self.connections: set[AnyConnection] = set()
        self.connections_accepted = 0  # all of them
        self.unroutable = 0  # publishes that reached no queue
        self.refused_publishes = 0  # persistent publishes refused because the disk takes no more
        self.deliveries_too_large = 0  # withheld: the header does not fit into a frame of the consumer's connection
        self.undecided: set[Undecided] = set()
        self.lingering, self.protocol_errors = LingeringSockets(self.look_drained), ProtocolErrors()
        self.consumer_timeouts = ConsumerTimeouts(self.connections, configuration.consumer_timeout)
        self.login_ends = LoginEnds(clock)
        self.server_properties: dict[str, PropertyValue] = {
            "product": "Annulet",
            "version": __version__,
            "platform": "Python",
            "copyright": "The Annulet developers",
            "information": "Queues that are rings, tables and DataFrames",
            "cluster_name": "annulet",
            "capabilities": dict(SERVER_CAPABILITIES),
        }
        self.admission, self.input_turns = Admission(descriptors.fit(configuration.limits)), InputTurns()
        self.unfinished = UnfinishedWork(unfinished_limit(configuration))
        self.shares, self.inputs, self.spill_pace = DeliveryShares(), InputShares(), SpillPace()

    def accepted(self, protocol: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        """Return the protocol of a socket that was accepted. The test kit puts a gate before it."""
        return protocol

    def look_drained(self) -> None:
        """Note that a socket is closed: a stop may wait for the last."""
        raise NotImplementedError

    def connection_ended(self, connection: AnyConnection) -> None:
        """Forget a connection whose socket is gone."""
        raise NotImplementedError

    def flush_later(self, connection: AnyConnection) -> None:
        """Write a connection's output at the end of this loop turn, or in one of the next turns."""
        raise NotImplementedError

    def accepts_durable(self, size: int, now: int) -> bool:
        """Return whether the message log takes another persistent message of ``size`` bytes."""
        raise NotImplementedError

    def note_limit_refusal(self, text: str, now: int) -> None:
        """Count a publish that a full queue or address refused."""
        raise NotImplementedError

    def note_settled_loss(self, name: str, reason: str) -> None:
        """Count a refused message whose sender had settled it (AMQP 1.0 §2.6.12)."""
        raise NotImplementedError
