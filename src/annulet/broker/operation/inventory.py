"""What is connected: connections, their sessions, and consumers, with what each holds; and closing a connection.

Nothing is kept for it: each answer is read from the objects that serve the clients. Callers ask for what they need of
as many objects as they need, one by one, and give other tasks turns between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from annulet.broker.amqp091.channel import Channel
from annulet.broker.amqp091.connection import AmqpConnection
from annulet.broker.amqp10.connection import Amqp10Connection
from annulet.broker.connections.client_session import ClientSession
from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import UNLIMITED
from annulet.core.configuration.arguments.values import refuse_line_breaks, shown
from annulet.core.deliveries.delivery_table import BLOCK_BITS
from annulet.core.model.compact_messages import consumer_of, entry_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from annulet.broker.connections.transport import AnyConnection
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.model.consumer import Consumer
    from annulet.core.queue.queue import Queue

logger = structlog.get_logger(__name__)

REASON_CHARACTERS_MAX: Final = 200
"""Characters of the reason for closing a connection: a short string of AMQP 0-9-1 holds it with the words before it."""

RUNNING: Final = "running"
BLOCKED: Final = "blocked"
CLOSING: Final = "closing"


@dataclass(frozen=True, slots=True)
class ConnectionFacts:
    """The facts of one open connection. Times are milliseconds since 1970, sizes bytes."""

    name: str  # peer -> listener
    client_name: str  # the name the client gave it: ``connection_name``, or the container id of AMQP 1.0
    user: str
    virtual_host: str
    protocol: str  # AMQP 0-9-1, AMQP 1.0, STOMP 1.2
    state: str  # running, blocked, closing
    peer_host: str
    peer_port: int
    host: str  # the listener's address
    port: int
    tls: bool
    tls_version: str
    tls_cipher: str
    connected_at: int
    client_properties: Mapping[str, Any]
    mechanism: str  # of the login; empty where it is not known any more
    sessions: int
    frame_max: int  # 0: the protocol has none
    session_max: int  # channels or sessions; 0: the protocol has none
    heartbeat_seconds: float
    bytes_received: int
    bytes_sent: int


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The facts of one channel of AMQP 0-9-1, session of AMQP 1.0, or STOMP connection."""

    number: int
    consumers: int
    unacknowledged: int  # deliveries that are not settled
    prefetch: int  # of each consumer that starts from now on; 0 for no limit
    shared_prefetch: int  # of all its consumers together; 0 for no limit
    confirms: bool  # publishes are confirmed
    transactional: bool
    held_back: bool  # its publishing waits for room in a queue


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """The facts of one consumer of a connection. ``credit``: unsettled deliveries it may have; 0 for no limit."""

    tag: str
    queue: str
    virtual_host: str
    acknowledges: bool
    exclusive: bool
    credit: int
    unacknowledged: int
    priority: int
    selector: str
    browses: bool
    attached_at: int


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """One unsettled delivery. ``message``: its id in the queue. ``since`` is 0 while no consumer timeout applies."""

    delivery_tag: int
    queue: str
    message: int
    delivery_count: int
    redelivered: bool
    bytes: int
    since: int


def open_connections(connections: Iterable[AnyConnection], hosts: Iterable[VirtualHost]) -> list[AnyConnection]:
    """Return the connections whose login is over, in these virtual hosts, by name."""
    wanted = {host.name for host in hosts}
    chosen = [
        connection
        for connection in connections
        if connection.opened and connection.host is not None and connection.host.name in wanted
    ]
    return sorted(chosen, key=_name)


def _name(connection: AnyConnection) -> str:
    return connection.name


def describe_connection(connection: AnyConnection) -> ConnectionFacts:
    """Return the facts of an open connection."""
    host, port = listening_address(connection)
    version, cipher = _tls(connection)
    properties, mechanism, frame_max, session_max = _negotiated(connection)
    return ConnectionFacts(
        name=connection.name,
        client_name=connection.client_name,
        user=connection.user_name,
        virtual_host=connection.require_host().name,
        protocol=connection.protocol_name,
        state=state_of(connection),
        peer_host=connection.peer.address,
        peer_port=connection.peer.port,
        host=host,
        port=port,
        tls=connection.peer.tls,
        tls_version=version,
        tls_cipher=cipher,
        connected_at=connection.connected_at,
        client_properties=properties,
        mechanism=mechanism,
        sessions=len(connection.channels),
        frame_max=frame_max,
        session_max=session_max,
        heartbeat_seconds=connection.seconds_promised(),
        bytes_received=connection.bytes_received,
        bytes_sent=connection.bytes_sent,
    )


def state_of(connection: AnyConnection) -> str:
    """Return whether a connection runs, is held back from publishing, or closes."""
    if not connection.running or connection.lost:
        return CLOSING
    return BLOCKED if connection.blocked_told else RUNNING


def listening_address(connection: AnyConnection) -> tuple[str, int]:
    """Return the address and port that a connection came to; empty and 0 when its socket is gone."""
    transport = connection.transport
    ours = None if transport is None else transport.get_extra_info("sockname")
    return (str(ours[0]), int(ours[1])) if isinstance(ours, tuple) else ("", 0)


def _tls(connection: AnyConnection) -> tuple[str, str]:
    """Return the version of TLS and the cipher; empty without TLS."""
    transport = connection.transport
    cipher = None if transport is None or not connection.peer.tls else transport.get_extra_info("cipher")
    return (str(cipher[1]), str(cipher[0])) if cipher else ("", "")


def _negotiated(connection: AnyConnection) -> tuple[Mapping[str, Any], str, int, int]:
    """Return the client's properties, the mechanism of the login, the largest frame and the number of sessions."""
    if isinstance(connection, AmqpConnection):
        engine = connection.engine
        return engine.client_properties, engine.mechanism, engine.output.frame_max, engine.channel_table.channel_max
    if isinstance(connection, Amqp10Connection):
        configuration = connection.broker.configuration
        sessions = configuration.limits.max_sessions_per_connection
        return connection.client_properties, "", configuration.frame_max, sessions
    return {}, "", 0, 0


def sessions_of(connection: AnyConnection) -> list[tuple[int, ClientSession]]:
    """Return the sessions of a connection by number."""
    return sorted(connection.channels.items(), key=_number)


def _number(item: tuple[int, ClientSession]) -> int:
    return item[0]


def describe_session(number: int, session: ClientSession) -> SessionFacts:
    """Return the facts of a session."""
    channel = session if isinstance(session, Channel) else None
    return SessionFacts(
        number=number,
        consumers=len(session.consumers),
        unacknowledged=len(session.unacknowledged),
        prefetch=0 if channel is None else _limit(channel.prefetch_count),
        shared_prefetch=_limit(session.window.messages_max),
        confirms=channel is not None and channel.confirms.enabled,
        transactional=channel is not None and channel.transaction is not None,
        held_back=bool(session.held_by),
    )


def _limit(messages: int) -> int:
    return 0 if messages == UNLIMITED else messages


def describe_consumer(consumer: Consumer, host: VirtualHost) -> ConsumerFacts:
    """Return the facts of a consumer."""
    return ConsumerFacts(
        tag=consumer.tag,
        queue=consumer.queue.name,
        virtual_host=host.name,
        acknowledges=not consumer.auto_acknowledge,
        exclusive=consumer.exclusive,
        credit=_limit(consumer.window.messages_max),
        unacknowledged=consumer.held,
        priority=consumer.priority,
        selector=consumer.settings.selector,
        browses=bool(consumer.settings.browse),
        attached_at=consumer.attached_at,
    )


def consumers_of(queue: Queue) -> Iterator[tuple[ClientSession, Consumer]]:
    """Yield the consumers of a queue that belong to connections, with their sessions; leases belong to none."""
    for consumer in list(queue.consumers):
        if isinstance(consumer.session, ClientSession):
            yield consumer.session, consumer


def number_of(session: ClientSession) -> int:
    """Return the number of a session in its connection; 0 when it has ended."""
    return next((number for number, other in session.connection.channels.items() if other is session), 0)


def held_messages(session: ClientSession, consumer: Consumer | None, after: int) -> Iterator[HeldMessage | None]:
    """Yield the unsettled deliveries of a session behind a tag, by tag; of one consumer, or of all (``None``).

    ``None`` is yielded for each block of tags without a wanted one, so that the caller can give others a turn.
    """
    table, deadlines = session.unacknowledged, session.deadlines
    for number in table.block_numbers():
        block = table.block(number)
        first = number << BLOCK_BITS
        slots = [] if block is None or first + (1 << BLOCK_BITS) <= after else list(block.slots)
        for tag, slot in enumerate(slots, first):
            if slot is None or tag <= after or (consumer is not None and consumer_of(slot) is not consumer):
                continue
            entry = entry_in(slot)
            yield HeldMessage(
                delivery_tag=tag,
                queue=entry.queue.name,
                message=entry.sequence,
                delivery_count=entry.delivery_count,
                redelivered=entry.redelivered,
                bytes=entry.message.size,
                since=0 if deadlines is None else deadlines.delivered_after(tag),
            )
        yield None


def checked_reason(reason: str) -> str:
    """Return a reason to be told to a client; refuse one that is too long or has a line break."""
    refuse_line_breaks("reason", reason)
    if len(reason) > REASON_CHARACTERS_MAX:
        raise InvalidArgument(
            f"reason {shown(reason)} has {len(reason)} characters; give at most {REASON_CHARACTERS_MAX}"
        )
    return reason


def end_consumer(consumer: Consumer, reason: str, by: str, now: int) -> None:
    """End a consumer: its client is told as when its queue is deleted. Its deliveries stay with its session.

    ``by``: name of the requesting user, for the log. Raises as :func:`close_connection`.
    """
    checked_reason(reason)
    logger.info("consumer ended by an operator", consumer=consumer.tag, queue=consumer.queue.name, reason=reason, by=by)
    consumer.ended_for = reason
    consumer.queue.end_consumer(consumer, now)


def close_connection(connection: AnyConnection, reason: str, by: str) -> None:
    """End a connection and tell its client why: 320 in AMQP 0-9-1, ``amqp:connection:forced``, ERROR in STOMP.

    ``by``: name of the requesting user, for the log. Raises :class:`~annulet.core.base.errors.InvalidArgument` for a
    reason that is too long or has a line break; nothing happens then.
    """
    checked_reason(reason)
    logger.info("connection closed by an operator", peer=connection.name, reason=reason, by=by)
    connection.force_close(reason)
