"""Subscriptions to addresses and exchanges: the queue behind each, its name, its lifetime.

AMQP 0-9-1 clients declare and bind such queues themselves. AMQP 1.0 and STOMP clients name an address and say how long
they want to be subscribed; the broker makes the queue (Artemis §16, Broker-J §13.2).

A queue made so carries a mark with its client and its user (:class:`~annulet.core.host.auto_created.SubscriptionMark`),
which is written down with the queue. Only a queue with the mark is found by the name of a subscription alone, is
replaced, or is ended with its subscription. An ordinary queue of the same name never is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from annulet.broker.connections.access import end_queue, generated_name
from annulet.core.base.errors import AccessRefused, InvalidArgument, PreconditionFailed, ResourceLocked
from annulet.core.host.auto_created import SubscriptionMark
from annulet.core.model.audit_trail import AuditEntry
from annulet.core.routing.bindings import ROUTING_TYPE
from annulet.core.routing.exchanges import Address
from annulet.core.routing.exchanges.address import MULTICAST

if TYPE_CHECKING:
    from annulet.broker.connections.sending import SendingSession
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.nodes import NodeReference
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.exchanges import Exchange

logger = structlog.get_logger(__name__)

SELECTOR: Final = "x-selector"
EXPIRES: Final = "x-expires"
ALL_WORDS: Final = "#"
"""Binding key for topic exchanges that are named without one: everything."""

SHARED_VOLATILE: Final = ":shared-volatile"
"""Ends the name of the queue of a shared subscription that goes with its consumers (Artemis)."""

SHARED_BY_ALL: Final = ":global"
"""Follows it where all clients share the subscription (Artemis)."""

UNSUBSCRIBE: Final = "unsubscribe"
"""Operation of the audit trail: a durable subscription was ended, or replaced, with what waited in it."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A client's request. Without ``name`` it lasts as long as its consumer, and is not shared.

    ``client``: container or client id; empty for one that all clients share (1.0 capability ``global``). ``selector``:
    other messages never enter. ``expires``: milliseconds without a consumer after which a durable one ends, 0 never; of
    one that is there already the first counts. ``arguments``: further queue arguments by their 0-9-1 names.
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
        """Artemis's name: client, a point, subscription; points in the client's part are escaped, so none collide.

        A shared one that goes with its consumers is another subscription than a durable one of its name (JMS).
        """
        client = self.client.replace("%", "%25").replace(".", "%2E")
        name = f"{client}.{self.name}" if client else self.name
        if self.durable or not self.shared:
            return name
        return name + SHARED_VOLATILE if client else name + SHARED_VOLATILE + SHARED_BY_ALL

    def mark_for(self, user: str) -> SubscriptionMark | None:
        """Return the mark of its queue; ``None`` for one without a name, which is never looked up."""
        return SubscriptionMark(self.client, self.name, user) if self.name else None


def subscribe(
    session: SendingSession,
    node: NodeReference,
    subscription: Subscription,
    *,
    binding_arguments: Arguments | None = None,
) -> Queue:
    """Return the queue of a subscription, made and bound if it is not there.

    ``binding_arguments``: for an exchange that goes by them, a headers exchange. A subscription of that name with
    another source or selector is replaced while it has no consumers. An ordinary queue of that name is consumed from if
    it has the same source and selector.

    Raises :class:`ResourceLocked` when one with another source or selector is in use, :class:`AccessRefused` when the
    user may not do it or another user made it, :class:`PreconditionFailed` for a queue that is no such subscription.
    """
    exchange = node.node
    assert exchange is not None, "a queue is consumed from, not subscribed to"
    host = session.host
    connection = session.connection
    access = session.access
    arguments: Arguments = dict(subscription.arguments)
    if subscription.selector:
        arguments[SELECTOR] = subscription.selector
    key, implied = _binding(exchange, node.routing_key, binding_arguments or {})
    existing: Queue | None = None
    if subscription.name:
        name = subscription.queue_name
        access.require_subscription(exchange.name, name, arguments, named=True)
        existing = host.queues.get(name)
        if existing is not None and not _usable(
            session, existing, subscription, same=_same(session, existing, exchange, key, arguments)
        ):
            existing = None
        arguments = _arguments_for(session, existing, subscription, arguments)
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
        subscription=subscription.mark_for(connection.user_name),
    )
    try:
        access.bind_subscription(queue, exchange.name, key, implied)
    except BaseException:
        if existing is None and not queue.users:
            end_queue(host, queue, connection.now)
        raise
    return queue


def _usable(session: SendingSession, queue: Queue, subscription: Subscription, *, same: bool) -> bool:
    """Return whether a subscription is the queue that has its name; else the queue was one and is gone: make it anew.

    Raises as :func:`subscribe`.
    """
    host = session.host
    host.check_owner(queue, session.connection)
    mark = host.lifetime_of(queue).subscription
    wanted = subscription.mark_for(session.connection.user_name)
    assert wanted is not None
    if mark is None or not mark.user or (mark.client, mark.name) != (wanted.client, wanted.name):
        if not same or (mark is not None and mark.user):
            raise PreconditionFailed(
                f"queue '{queue.name}' in vhost '{host.name}' was not made as subscription '{subscription.name}' of "
                f"client '{subscription.client}' with this address and selector; choose another name, or delete the "
                "queue first"
            )
        session.access.require("read", queue.name)
        if mark is not None and subscription.durable:  # older than the mark, and the subscription in all else
            session.access.mark_subscription(queue, wanted)
        return True
    if mark.user != wanted.user and (mark.client or not same):  # that of all clients is shared by users with permission
        raise AccessRefused(
            f"subscription '{queue.name}' in vhost '{host.name}' was made by user '{mark.user}', not by "
            f"'{wanted.user}'; choose another client id or name"
        )
    if not same and queue.users:
        raise ResourceLocked(
            f"subscription '{queue.name}' in vhost '{host.name}' is in use with another address or selector; end its "
            "consumers first, or choose another name"
        )
    if not same:
        _end(session, queue, "replaced by one with another address or selector")
    return same


def find_subscription(session: SendingSession, name: str, client: str) -> Queue | None:
    """Return the queue of a durable subscription that this user made, for a client that names no address.

    ``None`` when there is none: an ordinary queue of that name is no subscription.
    """
    wanted = Subscription(name, client)
    queue = session.host.queues.get(wanted.queue_name)
    if queue is None or not queue.durable:
        return None
    mark = session.host.lifetime_of(queue).subscription
    return queue if mark == wanted.mark_for(session.connection.user_name) else None


def end_subscription(session: SendingSession, queue: Queue) -> bool:
    """End a durable subscription that this user made, with its messages; audited.

    Returns False, with nothing done, when the queue is none of this user's subscriptions, is in use, or may not be
    configured by the user.
    """
    connection = session.connection
    if queue.deleted or not queue.durable:
        return False
    if queue.users:
        logger.info("durable subscription not ended: it has consumers", queue=queue.name, vhost=session.host.name)
        return False
    mark = session.host.lifetime_of(queue).subscription
    if mark is None or mark.user != connection.user_name:
        return False
    if not session.access.allowed("configure", queue.name):
        logger.warning(
            "durable subscription not ended: its user may not configure the queue any more",
            queue=queue.name,
            vhost=session.host.name,
            user=connection.user_name,
            remedy="give the user configure permission on the queue, or delete it",
        )
        return False
    _end(session, queue, "ended by its client")
    return True


def _end(session: SendingSession, queue: Queue, how: str) -> None:
    """Delete the queue of a subscription with its messages, and note that in the log and the audit trail."""
    host, connection = session.host, session.connection
    mark = host.lifetime_of(queue).subscription
    assert mark is not None
    durable = queue.durable
    count = end_queue(host, queue, connection.now)
    if not durable:  # it would have gone with its last consumer
        return
    logger.info(
        "durable subscription ended",
        queue=queue.name,
        vhost=host.name,
        client=mark.client,
        user=connection.user_name,
        peer=connection.name,
        messages=count,
        how=how,
    )
    arguments = msgspec.json.encode({"client": mark.client, "name": mark.name}).decode()
    host.effects.audited(
        AuditEntry(
            connection.now, host.name, connection.user_name, UNSUBSCRIBE, queue.name, arguments, count, outcome=how
        )
    )


def _binding(exchange: Exchange, key: str, given: Arguments) -> tuple[str, Arguments]:
    key, implied = _implied_binding(exchange, key)
    return key, {**implied, **given}


def _implied_binding(exchange: Exchange, key: str) -> tuple[str, Arguments]:
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


def _arguments_for(
    session: SendingSession, existing: Queue | None, subscription: Subscription, arguments: Arguments
) -> Arguments:
    """Return the arguments to declare a queue with, so that one that is there stays as it is unless others are given.

    Those that are given have to be the same then, or the subscription is refused; its messages stay either way.
    """
    if existing is None:
        return {EXPIRES: subscription.expires, **arguments} if subscription.expires else arguments
    declared = session.host.resolved_for(existing).arguments
    if not subscription.arguments:
        return dict(declared)
    return {EXPIRES: declared[EXPIRES], **arguments} if EXPIRES in declared else arguments


def _same(session: SendingSession, queue: Queue, exchange: Exchange, key: str, arguments: Arguments) -> bool:
    if session.host.resolved_for(queue).arguments.get(SELECTOR) != arguments.get(SELECTOR):
        return False
    return any(
        binding.source is exchange and binding.routing_key == key for binding in session.host.bindings_of_queue(queue)
    )
