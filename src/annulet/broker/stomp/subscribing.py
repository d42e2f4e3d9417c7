"""SUBSCRIBE: from headers to a queue and a consumer. Header names of RabbitMQ, ActiveMQ and Artemis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from annulet.broker.connections.access import READ
from annulet.broker.connections.subscriptions import Subscription, end_subscription, find_subscription, subscribe
from annulet.broker.stomp.consumers import StompConsumer, tag_for
from annulet.broker.stomp.destinations import (
    AUTO_DELETE,
    DURABLE,
    EXISTING_QUEUE,
    PLAIN_ARGUMENTS,
    QUEUE_ARGUMENTS,
    REPLY_QUEUE,
    TEMPORARY_QUEUE,
    nearest_argument,
    plain_queue_name,
    refuse_temporary_topic,
)
from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.core.base.settings import BROWSE_OFF, BROWSE_SNAPSHOT, UNLIMITED, ConsumerSettings
from annulet.core.configuration.arguments import parse_consumer_arguments
from annulet.core.model.consumer import CreditWindow
from annulet.core.routing.exchanges import Address
from annulet.core.routing.exchanges.address import ANYCAST, MULTICAST
from annulet.wire.stomp.send_headers import read_number, read_switch

if TYPE_CHECKING:
    from annulet.broker.security.authentication import PermissionKind
    from annulet.broker.stomp.session import StompSession
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.nodes import NodeReference
    from annulet.core.queue.queue import Queue

SUBSCRIPTION_NAMES: Final = ("durable-subscription-name", "activemq.subscriptionName", "x-queue-name")
"""Artemis, ActiveMQ, RabbitMQ: the name of a durable subscription. With ``durable:true`` alone it is SUBSCRIBE's id."""

EXCLUSIVE_NAMES: Final = ("exclusive", "activemq.exclusive")
NO_LOCAL_NAMES: Final = ("no-local", "noLocal", "activemq.noLocal")
PRIORITY_NAMES: Final = ("consumer-priority", "activemq.priority", "x-priority")
PREFETCH_NAMES: Final = ("prefetch-count", "activemq.prefetchSize")
WINDOW: Final = "consumer-window-size"  # Artemis: bytes; 0 is one message at a time
BROWSER: Final = "browser"
SELECTOR: Final = "selector"
ROUTING_TYPE: Final = "subscription-type"  # Artemis
CONSUMER_ARGUMENTS: Final = (
    "x-browse",
    "x-auto-close",
    "x-replay-period",
    "x-qpid-replay-period",
    "x-consumer-timeout",
)

OF_THE_SUBSCRIPTION: Final = frozenset(
    {
        *SUBSCRIPTION_NAMES,
        *EXCLUSIVE_NAMES,
        *NO_LOCAL_NAMES,
        *PRIORITY_NAMES,
        *PREFETCH_NAMES,
        *CONSUMER_ARGUMENTS,
        WINDOW,
        BROWSER,
        SELECTOR,
        ROUTING_TYPE,
        DURABLE,
        AUTO_DELETE,
        "destination",
        "id",
        "ack",
        "receipt",
    }
)
"""Headers of SUBSCRIBE that are no arguments of the queue."""

COUNT_MAX: Final = 2**31 - 1
PRIORITY_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """The options of SUBSCRIBE beside destination and acknowledge mode."""

    settings: ConsumerSettings
    exclusive: bool
    messages_max: int
    bytes_max: int
    durable: bool
    auto_delete: bool
    name: str  # of a durable subscription, empty when it has none of its own
    routing_type: str
    arguments: Arguments


def read_options(headers: dict[str, str]) -> SubscribeOptions:
    """Read the headers of SUBSCRIBE.

    Raises :class:`~annulet.wire.stomp.errors.RemoteProtocolError`, :class:`InvalidArgument` for values that are none.
    """
    browser = _switch(headers, (BROWSER,))
    arguments: Arguments = {name: headers[name] for name in CONSUMER_ARGUMENTS if name in headers}
    if headers.get(SELECTOR):
        arguments[SELECTOR] = headers[SELECTOR]
    settings = parse_consumer_arguments(arguments)
    if browser and settings.browse == BROWSE_OFF:
        settings = replace(settings, browse=BROWSE_SNAPSHOT, auto_close=True)
    priority = _number(headers, PRIORITY_NAMES, "the consumer's priority", -PRIORITY_MAX, PRIORITY_MAX)
    settings = replace(settings, no_local=_switch(headers, NO_LOCAL_NAMES), priority=priority or 0)
    messages_max = _number(headers, PREFETCH_NAMES, "messages, 0 for no limit", 0, COUNT_MAX) or UNLIMITED
    window = _number(headers, (WINDOW,), "bytes, -1 for no limit", -1, COUNT_MAX)
    if window == 0:
        messages_max = 1
    return SubscribeOptions(
        settings=settings,
        exclusive=_switch(headers, EXCLUSIVE_NAMES),
        messages_max=messages_max,
        bytes_max=window or UNLIMITED,
        durable=_switch(headers, (DURABLE,)),
        auto_delete=_switch(headers, (AUTO_DELETE,)),
        name=next((headers[name] for name in SUBSCRIPTION_NAMES if headers.get(name)), ""),
        routing_type=headers.get(ROUTING_TYPE, "").lower(),
        arguments=_queue_arguments(headers),
    )


def _queue_arguments(headers: dict[str, str]) -> Arguments:
    """Return the headers that are arguments of the queue, with or without ``x-``. Misspelt ones are refused."""
    found: Arguments = {}
    for name, value in headers.items():
        if name in OF_THE_SUBSCRIPTION:
            continue
        if name in QUEUE_ARGUMENTS or name in PLAIN_ARGUMENTS:
            found[name] = value
        elif near := nearest_argument(name):
            raise InvalidArgument(f"header '{name}' is unknown; did you mean '{near}'?")
    return found


def _switch(headers: dict[str, str], known: tuple[str, ...]) -> bool:
    return any(read_switch(name, headers[name]) for name in known if name in headers)


def _number(headers: dict[str, str], known: tuple[str, ...], meaning: str, least: int, most: int) -> int | None:
    for name in known:
        if name in headers:
            return read_number(name, headers[name], meaning, least, most)
    return None


def start_subscription(
    session: StompSession, headers: dict[str, str], identifier: str, destination: str, mode: str
) -> StompConsumer:
    """Make a consumer, and the queue if need be; ``session.attach`` starts it. Raises what the core refuses."""
    tag = tag_for(identifier, destination)
    if tag in session.consumers:
        raise PreconditionFailed(
            f"this connection has a subscription {identifier or destination!r} already; UNSUBSCRIBE first, or take "
            "another id"
        )
    options = read_options(headers)
    settings = options.settings
    queue, filtered = _queue_for(session, options, identifier, destination)
    session.host.check_owner(queue, session.connection)
    if filtered:
        settings = replace(settings, selector="")  # the queue itself has it
    session.access.require_consumer(queue, settings, exclusive=options.exclusive, granted=filtered)
    return StompConsumer(
        session,
        queue,
        tag,
        identifier=identifier,
        destination=destination,
        mode=mode,
        window=CreditWindow(options.messages_max, options.bytes_max),
        exclusive=options.exclusive,
        settings=settings,
    )


def _queue_for(
    session: StompSession, options: SubscribeOptions, identifier: str, destination: str
) -> tuple[Queue, bool]:
    """Return the queue to consume from, and whether it is a subscription's, which has the selector itself."""
    refuse_temporary_topic(destination)
    if destination.startswith(TEMPORARY_QUEUE):
        return session.client.temporary.queue_for(destination, READ, options.arguments), False
    name = destination.removeprefix(REPLY_QUEUE)
    declared = declare_if_asked(session, name, options.arguments, READ, auto_delete=options.auto_delete)
    if declared is not None:
        return declared, False
    node = session.resolve(name, options.routing_type, create=not name.startswith(EXISTING_QUEUE))
    queue = node.queue or _anycast_queue(node, options.routing_type)
    if queue is not None:
        return queue, False
    return subscribe(session, node, _wanted(session, options, identifier)), True


def declare_if_asked(
    session: StompSession, destination: str, arguments: Arguments, then: PermissionKind, *, auto_delete: bool
) -> Queue | None:
    """Declare the queue a destination names when its headers say how; ``None`` when they do not, or it is no queue.

    ``then``: the command's later use of it, to read from it or to write to it. Raises :class:`PreconditionFailed` when
    there is one that was declared otherwise.
    """
    name = plain_queue_name(destination) if arguments or auto_delete else None
    bare = name == destination  # else it is spelt as a queue, beside which there may be a topic
    if not name or (bare and name not in session.host.queues and name in session.host.exchanges):
        return None
    return session.access.declare_queue(
        name,
        now=session.connection.now,
        durable=True,
        auto_delete=auto_delete,
        arguments=dict(arguments),
        then=then,
    )


def _anycast_queue(node: NodeReference, routing_type: str) -> Queue | None:
    """Return the queue to consume from when the node is an address whose messages go to one of its queues."""
    address = node.node
    if not isinstance(address, Address) or ANYCAST not in address.routing_types:
        return None
    wanted = node.routing_type or routing_type
    if wanted == MULTICAST or (MULTICAST in address.routing_types and wanted != ANYCAST):
        return None
    queues = address.anycast_queues
    if len(queues) == 1:
        return queues[0]
    names = ", ".join(f"'{address.name}::{queue.name}'" for queue in queues) or f"'{address.name}::name'"
    raise InvalidArgument(f"address '{address.name}' has {len(queues)} anycast queues; name one: {names}")


def _wanted(session: StompSession, options: SubscribeOptions, identifier: str) -> Subscription:
    named = options.name or (identifier if options.durable else "")
    if options.durable and not named:
        raise InvalidArgument("a durable subscription needs a name; give 'id' or 'durable-subscription-name'")
    return Subscription(
        name=named,
        client=client_of(session) if named else "",
        durable=bool(named),
        selector=options.settings.selector,
        arguments=options.arguments,
    )


def client_of(session: StompSession) -> str:
    """Return whose durable subscriptions these are: CONNECT's ``client-id``, else the user's."""
    return session.engine.client_id or session.connection.user_name


def delete_subscription(session: StompSession, headers: dict[str, str], identifier: str) -> None:
    """Delete a durable subscription that UNSUBSCRIBE names, whether this connection consumes from it or not.

    Raises :class:`NotFound`, and :class:`PreconditionFailed` while others do.
    """
    options = read_options(headers)
    name = options.name or identifier
    queue = find_subscription(session, name, client_of(session))
    if queue is None:
        raise NotFound(
            f"no durable subscription '{name}' of client '{client_of(session)}' made by user "
            f"'{session.connection.user_name}'"
        )
    session.access.require("configure", queue.name)
    if queue.users:
        raise PreconditionFailed(f"durable subscription '{name}' is in use by another connection; end that first")
    end_subscription(session, queue)


def names_durable(headers: dict[str, str]) -> bool:
    """Return whether UNSUBSCRIBE means the end of a durable subscription and not only of its consumer."""
    return any(headers.get(name) for name in SUBSCRIPTION_NAMES) or _switch(headers, (DURABLE,))
