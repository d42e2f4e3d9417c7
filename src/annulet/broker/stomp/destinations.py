"""Names of destinations, as STOMP clients of RabbitMQ, ActiveMQ and Artemis write them, and temporary queues.

``/queue/q``, ``/topic/t``, ``/exchange/e/key``, ``/amq/queue/q``, ``queue://q``, ``topic://t``, ``address::queue`` and
bare names are the core's (``core/routing/address_names.py``). Here are the two that belong to a connection:
``/temp-queue/n``, a queue of its own that goes with it, and ``/reply-queue/n``, which is what RabbitMQ calls such a
queue for all others.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from annulet.broker.connections.access import READ, end_queue, generated_name
from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments.reading import KNOWN
from annulet.core.configuration.arguments.table import BY_NAME, PREFIX
from annulet.core.routing.address_names import QUALIFIER, TO_EXCHANGE, parse_address_name
from annulet.core.routing.exchanges import Address
from annulet.core.routing.exchanges.address import MULTICAST
from annulet.wire.stomp.errors import RemoteProtocolError

if TYPE_CHECKING:
    from annulet.broker.security.authentication import PermissionKind
    from annulet.broker.stomp.connection import StompConnection
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Origin
    from annulet.core.queue.queue import Queue

TEMPORARY_QUEUE: Final = "/temp-queue/"
TEMPORARY_TOPIC: Final = "/temp-topic/"
REPLY_QUEUE: Final = "/reply-queue/"
QUEUE: Final = "/queue/"
EXISTING_QUEUE: Final = "/amq/queue/"
TOPIC: Final = "/topic/"
EXCHANGE: Final = "/exchange/"

LIMIT_TEMPORARY_QUEUES: Final = "stomp_temporary_queues_max"
TEMPORARY_QUEUES_MAX: Final = 256
"""Temporary queues of a connection; a client that asks for replies needs one."""

QUEUE_ARGUMENTS: Final = frozenset(name for name in KNOWN if name.startswith((PREFIX, "qpid.")))
"""Headers of SEND and SUBSCRIBE that say how a queue is declared, by their 0-9-1 names (RabbitMQ)."""

PLAIN_ARGUMENTS: Final = frozenset({*BY_NAME, *KNOWN}).difference(QUEUE_ARGUMENTS, ("selector",))
"""The same by their names without ``x-``, which SUBSCRIBE takes too. SUBSCRIBE's ``selector`` is its consumer's."""

MISSPELT: Final = 0.85
"""How alike, of 1, a header and an argument are that are taken for the same: two letters of fifteen may differ."""

DURABLE: Final = "durable"
AUTO_DELETE: Final = "auto-delete"


class TemporaryQueues:
    """The queues ``/temp-queue/...`` of one connection."""

    def __init__(self, connection: StompConnection) -> None:
        self._connection = connection
        self._queues: dict[str, Queue] = {}  # by destination

    def __contains__(self, destination: str) -> bool:
        return destination in self._queues

    def queue_for(self, destination: str, then: PermissionKind, arguments: Arguments | None = None) -> Queue:
        """Return the queue of a destination, made when it is first named.

        It has a name that any client of the virtual host may send to, is never written down, and goes with the
        connection. ``then``: to read from it, or to write to it. ``arguments``: the settings of its declaration; an
        existing queue has to have the same.

        Raises :class:`InvalidArgument` for an empty name and wrong arguments, :class:`PreconditionFailed` for other
        arguments than it has, :class:`RemoteProtocolError` for one too many.
        """
        access = self._connection.require_access()
        queue = self._queues.get(destination)
        if queue is not None and not queue.deleted:
            if arguments:
                return self._declare(queue.name, then, arguments)
            if then == READ:
                access.queue_to_read(queue.name)
            return queue
        if destination == TEMPORARY_QUEUE:
            raise InvalidArgument(f"destination '{destination}' has no name; give one behind the slash")
        if len(self._queues) >= TEMPORARY_QUEUES_MAX:
            raise RemoteProtocolError(
                f"this connection has {TEMPORARY_QUEUES_MAX} temporary queues, which is the limit; use them again",
                limit=LIMIT_TEMPORARY_QUEUES,
            )
        queue = self._declare(generated_name(), then, arguments or {})
        self._queues[destination] = queue
        return queue

    def _declare(self, name: str, then: PermissionKind, arguments: Arguments) -> Queue:
        return self._connection.require_access().declare_queue(
            name,
            now=self._connection.now,
            durable=False,
            auto_delete=False,
            arguments=arguments,
            exclusive=True,
            server_named=True,
            then=then,
        )

    def delete_all(self, now: int) -> None:
        """Delete them: the connection ends."""
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            end_queue(self._connection.require_host(), queue, now)


def nearest_argument(name: str) -> str:
    """Return the queue argument that a header was probably meant to be, empty when it is none or is spelt right."""
    if name in QUEUE_ARGUMENTS:
        return ""
    if name in PLAIN_ARGUMENTS:
        return f"{PREFIX}{name}" if f"{PREFIX}{name}" in QUEUE_ARGUMENTS else name
    found = get_close_matches(name, QUEUE_ARGUMENTS if name.startswith(PREFIX) else PLAIN_ARGUMENTS, 1, MISSPELT)
    return found[0] if found else ""


def refuse_message_headers(headers: dict[str, str], queue: str) -> None:
    """Refuse a SEND that makes a queue and has a header that looks like an argument for it, but is the message's.

    Only names that no application is likely to have: with a hyphen, or misspelt behind ``x-``.
    """
    for name in headers:
        near = nearest_argument(name) if "-" in name else ""
        if near.startswith(PREFIX) and (name in PLAIN_ARGUMENTS or name.startswith(PREFIX)):
            raise InvalidArgument(
                f"header '{name}' is one of the message's, and queue '{queue}' would be made without it; did you mean "
                f"'{near}'? Declare the queue first if the message is to have it"
            )


def queue_arguments(headers: dict[str, str]) -> Arguments:
    """Return the headers that are arguments of a queue; their values are texts, which every argument's reader takes."""
    return {name: value for name, value in headers.items() if name in QUEUE_ARGUMENTS}


def plain_queue_name(destination: str) -> str | None:
    """Return the name of the queue a destination means whether it exists or not; ``None`` for other destinations.

    ``/queue/q`` and bare names, of which a queue is made when nothing has the name.
    """
    if destination.startswith(QUEUE):
        return destination[len(QUEUE) :]
    if destination.startswith("queue://"):
        return destination[len("queue://") :]
    if "/" in destination or "://" in destination or QUALIFIER in destination:
        return None
    return destination


def refuse_temporary_topic(destination: str) -> None:
    """Refuse what ActiveMQ has and this broker has not (:class:`InvalidArgument`)."""
    if destination.startswith(TEMPORARY_TOPIC):
        raise InvalidArgument(
            f"destination '{destination}': temporary topics are not available; take '{TEMPORARY_QUEUE}name' for "
            f"replies, or '{TOPIC}' and a name of your own"
        )


def destination_of(origin: Origin, host: VirtualHost) -> str:
    """Return where a message was sent, spelt so that sending there again leads to the same place."""
    exchange, key = origin.exchange, origin.routing_key
    if not exchange:
        return key if QUALIFIER in key else f"{QUEUE}{key}"
    node = host.exchanges.get(exchange)
    if isinstance(node, Address):
        return f"{TOPIC}{exchange}" if MULTICAST in node.routing_types else f"{QUEUE}{exchange}"
    return f"{EXCHANGE}{exchange}/{key}" if key else f"{EXCHANGE}{exchange}"


def leads_to(destination: str, origin: Origin) -> bool:
    """Return whether a destination is where a message is from: the sender's text, unless the message was forwarded
    since."""
    parsed = parse_address_name(destination)
    if parsed.kind == TO_EXCHANGE:
        return parsed.name == origin.exchange and parsed.routing_key in {origin.routing_key, ""}
    if parsed.address:
        return not origin.exchange and origin.routing_key == destination
    return parsed.name == (origin.exchange or origin.routing_key)
