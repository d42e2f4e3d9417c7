"""Subscriptions to addresses and exchanges: the queue behind each, its name, its lifetime.

AMQP 0-9-1 clients declare and bind such queues themselves. AMQP 1.0 and STOMP clients name an address and say how long
they want to be subscribed; the broker makes the queue (Artemis §16, Broker-J §13.2).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from annulet.broker.access import end_queue, generated_name
from annulet.core.bindings import ROUTING_TYPE
from annulet.core.errors import InvalidArgument, ResourceLocked
from annulet.core.exchanges import Address
from annulet.core.exchanges.address import MULTICAST

if TYPE_CHECKING:
    from annulet.broker.sending import SendingSession
    from annulet.core.arguments import Arguments
    from annulet.core.exchanges import Exchange
    from annulet.core.nodes import NodeReference
    from annulet.core.queue import Queue

SELECTOR: Final = "x-selector"
EXPIRES: Final = "x-expires"
ALL_WORDS: Final = "#"
"""Binding key for topic exchanges that are named without one: everything."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a client asks for. Without ``name`` it lasts as long as its consumer, and nobody shares it.

    ``client``: container or client id; empty for one that all clients share (1.0 capability ``global``).
    ``selector``: what does not match never enters. ``expires``: milliseconds without a consumer after which a durable
    one ends, 0 never; of one that is there already the first counts. ``arguments``: further queue arguments by their
    0-9-1 names.
    """

    name: str = ""
    client: str = ""
    durable: bool = False
    shared: bool = False
    selector: str = ""
    expires: int = 0
    arguments: Arguments = field(default_factory=dict)

    @property
    def queue_name(self) -> str:
        """Artemis's name: client, a point, subscription; points in the client's part are escaped, so none collide."""
        client = self.client.replace("%", "%25").replace(".", "%2E")
        return f"{client}.{self.name}" if client else self.name


def subscribe(
    session: SendingSession,
    node: NodeReference,
    subscription: Subscription,
    *,
    binding_arguments: Arguments | None = None,
) -> Queue:
    """Return the queue of a subscription, made and bound if it is not there.

    ``binding_arguments``: for an exchange that goes by them, a headers exchange. A subscription of that name with
    another source or selector is replaced when nobody uses it. Raises :class:`~annulet.core.errors.ResourceLocked` when
    somebody does, :class:`~annulet.core.errors.AccessRefused`.
    """
    exchange = node.node
    assert exchange is not None, "a queue is consumed from, not subscribed to"
    host = session.host
    connection = session.connection
    access = session.access
    arguments: Arguments = dict(subscription.arguments)
    if subscription.selector:
        arguments[SELECTOR] = subscription.selector
    key, implied = _binding(exchange, node.routing_key)
    implied.update(binding_arguments or {})
    if subscription.name:
        name = subscription.queue_name
        access.require_subscription(exchange.name, name, arguments, named=True)
        existing = host.queues.get(name)
        if existing is not None and not _same(session, existing, exchange, key, arguments):
            if existing.users:
                raise ResourceLocked(
                    f"subscription '{name}' in vhost '{host.name}' is in use with another address or selector; end its "
                    "consumers first, or choose another name"
                )
            unsubscribe(session, existing)
            existing = None
        expires = (
            host.resolved_for(existing).arguments.get(EXPIRES) if existing is not None else subscription.expires or None
        )
        if expires is not None:
            arguments[EXPIRES] = expires
    else:
        name = generated_name("amq.subscription-")
        access.require_subscription(exchange.name, name, arguments, named=False)
    queue = access.subscription_queue(
        name,
        now=connection.now,
        durable=subscription.durable,
        arguments=arguments,
        exclusive=not (subscription.name and (subscription.durable or subscription.shared)),
        server_named=not subscription.name,
    )
    try:
        access.bind_subscription(queue, exchange.name, key, implied)
    except BaseException:
        if not queue.users:
            unsubscribe(session, queue)
        raise
    return queue


def unsubscribe(session: SendingSession, queue: Queue) -> None:
    """Delete the queue of a subscription with what waits in it."""
    end_queue(session.host, queue, session.connection.now)


def find_subscription(session: SendingSession, name: str, client: str) -> Queue | None:
    """Return the queue of a subscription, ``None`` when there is none: for who only names it (1.0 null source)."""
    return session.host.queues.get(Subscription(name, client).queue_name)


def _binding(exchange: Exchange, key: str) -> tuple[str, Arguments]:
    if isinstance(exchange, Address):
        if MULTICAST not in exchange.routing_types:
            raise InvalidArgument(
                f"address '{exchange.name}' is anycast only: it has no subscriptions; consume from one of its queues "
                f"as '{exchange.name}::queue'"
            )
        return "", {ROUTING_TYPE: MULTICAST} if len(exchange.routing_types) > 1 else {}
    if key in {"", exchange.name}:  # named without a key
        return (ALL_WORDS if exchange.type_name == "topic" else ""), {}
    return key, {}


def _same(session: SendingSession, queue: Queue, exchange: Exchange, key: str, arguments: Arguments) -> bool:
    declared = session.host.resolved_for(queue).arguments
    if {argument: value for argument, value in declared.items() if argument != EXPIRES} != arguments:
        return False
    return any(
        binding.source is exchange and binding.routing_key == key for binding in session.host.bindings_of_queue(queue)
    )
