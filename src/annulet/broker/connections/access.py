"""Permission before effect, once for all protocols: a user's operations in a virtual host, with their permissions.

Every protocol declares, deletes, binds, purges, consumes and publishes through an :class:`Access`. It asks for the
permissions, compares the owner of an exclusive queue, and only then calls the core; no other module that serves clients
calls the core's declaring methods (``tests/broker/connections/test_access.py`` looks). The rules are RabbitMQ's; their
table is ``tests/regression/permission_matrix.py``, printed in ``docs/security.md``.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Final

from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.broker.security.authentication import DEFAULT_EXCHANGE_IN_PERMISSIONS
from annulet.core.base.errors import AccessRefused, CoreError, NotFound, ResourceLocked
from annulet.core.base.reply_names import is_reply_name, new_reply_name
from annulet.core.base.sealed_names import is_sealed_name
from annulet.core.configuration.arguments import parse_queue_arguments, read_declaration
from annulet.core.configuration.arguments.exchanges import parse_alternate_exchange
from annulet.core.host.nodes import NodeReference
from annulet.core.routing.address_names import TO_EXCHANGE, TO_QUEUE, names_management, parse_address_name
from annulet.core.routing.exchanges import Address
from annulet.core.routing.exchanges.address import MULTICAST

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.broker.security.authentication import Authenticator, PermissionKind, User
    from annulet.core.base.settings import ConsumerSettings, QueueSettings
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.auto_created import SubscriptionMark
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.address_names import AddressName
    from annulet.core.routing.exchanges import Exchange
    from annulet.store.database.catalogue import Catalogue

GENERATED: Final = "amq.gen-"
"""The prefix of queue names that the broker chooses for a client: RabbitMQ's, which permissions may allow by it."""

CONFIGURE: Final = "configure"
WRITE: Final = "write"
READ: Final = "read"
BROWSE: Final = "browse"
MANAGE: Final = "manage"


def generated_name(prefix: str = GENERATED) -> str:
    """Return a name that no other client can guess."""
    return f"{prefix}{secrets.token_urlsafe(16)}"


def targets_of(settings: QueueSettings) -> list[str]:
    """Return the addresses and exchanges that a queue with these settings sends messages on to."""
    targets = [settings.dead_letter_address, settings.expiry_address, settings.dropped_address]
    targets = [target for target in targets if target]
    if settings.dead_letter_exchange is not None:
        targets.append(settings.dead_letter_exchange)
    return targets


def end_queue(host: VirtualHost, queue: Queue, now: int) -> int:
    """Delete a queue that the broker made for a client and that has had its time; one that is gone is fine.

    Returns how many messages were pending. No permission is asked for: its maker asked for this when it was made.
    """
    return 0 if queue.deleted else host.delete_queue(queue, now)


def end_address(host: VirtualHost, address: Address) -> None:
    """Delete an address that the broker made for a client and that has had its time; one that is gone is fine."""
    if host.exchanges.get(address.name) is address:
        host.nodes.delete_address(address.name)


class Access:
    """The rights of one user in one virtual host, and every effect on its definitions that they allow.

    ``owner`` is the connection that exclusive queues belong to, ``None`` where there is none (HTTP, bulk transfer): no
    exclusive queue is open then. ``administrator``: HTTP's, which needs no permissions as long as it is one, but opens
    no exclusive queue either. ``user``: the user that logged in; its token may have a scope. ``records``: declarations
    of commands are remembered until :meth:`keep`, for :meth:`take_back`; every command that may declare something ends
    with one of the two then.

    Methods raise :class:`~annulet.core.base.errors.AccessRefused` before they look at what exists, so that a user
    without permission does not learn what there is; then what the core and the catalogue raise.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        catalogue: Catalogue,
        host: VirtualHost,
        user_name: str,
        *,
        owner: object | None = None,
        administrator: User | None = None,
        records: bool = False,
        user: User | None = None,
    ) -> None:
        self.host = host
        self.user_name = user_name
        self.owner = owner
        self.made: list[Callable[[int], object]] = []  # undo, each, what the command that is under way declared
        self._authenticator = authenticator
        self._administrator = administrator
        self._records = records
        self._scope = None if user is None else user.scope
        self._grants = None if user is None else user.grants
        self._declarations = DurableDeclarations(host, catalogue)

    def renew(self, user: User) -> None:
        """The connection goes on with another token of the same user."""
        self._scope, self._grants = user.scope, user.grants

    def connection_ended(self) -> None:
        """Let go of the connection, which holds this object: none of its commands follow."""
        self.owner = None
        self.made.clear()

    # ------------------------------------------------------------------ permissions

    def allowed(self, kind: PermissionKind, name: str) -> bool:
        """Return whether the user may configure, write, read, browse or manage what is called ``name``.

        No permission opens a sealed queue: patterns such as ``amq\\..*`` are meant for others.
        """
        if self._scope is not None and not self._scope.allows(kind, self.host.name):
            return False
        if self._administrator is not None and self._authenticator.is_administrator(self._administrator):
            return True
        if self._grants is not None:
            return not is_sealed_name(name) and self._grants.allows(kind, self.host.name, name)
        return not is_sealed_name(name) and self._authenticator.allowed(self.user_name, self.host.name, kind, name)

    def may_still_read(self, queue: Queue) -> bool:
        """Return whether a consumer of this user may stay, after permissions have changed.

        The queue of a subscription is named by the broker, or by the client that may configure it, and takes the
        permission to read its sources.
        """
        if is_reply_name(queue.name) or self.allowed(READ, queue.name):
            return True
        made_for_it = queue.owner is not None or self.host.lifetime_of(queue).subscription is not None
        sources = [binding.source.name for binding in self.host.bindings_of_queue(queue)] if made_for_it else []
        return bool(sources) and all(self.allowed(READ, source) for source in sources)

    def require(self, kind: PermissionKind, *names: str) -> None:
        """Raise :class:`AccessRefused` unless the user may do this with all of ``names``."""
        for name in names:
            if not self.allowed(kind, name):
                raise AccessRefused(
                    f"{kind} access to '{name or DEFAULT_EXCHANGE_IN_PERMISSIONS}' in vhost '{self.host.name}' refused "
                    f"for user '{self.user_name}'"
                )

    def _require_targets(self, name: str, settings: QueueSettings) -> None:
        """Require that a user whose queue sends messages on could read them and write there himself (RabbitMQ)."""
        targets = targets_of(settings)
        if targets:
            self.require(READ, name)
            self.require(WRITE, *targets)

    # ------------------------------------------------------------------ a command that is refused

    def keep(self) -> None:
        """The command succeeded: its declarations stay."""
        self.made.clear()

    def take_back(self, now: int) -> None:
        """The command was refused: delete its declared objects, the latest first."""
        made, self.made = self.made, []
        for undo in reversed(made):
            undo(now)

    def _note_queue(self, queue: Queue) -> None:
        if self._records:
            self.made.append(partial(end_queue, self.host, queue))

    # ------------------------------------------------------------------ exchanges

    def declare_exchange(
        self, name: str, type_name: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Arguments
    ) -> Exchange:
        """Create an exchange, or check that it is the same. An alternate exchange is a target as a queue's are."""
        self.require(CONFIGURE, name)
        if name not in self.host.exchanges:
            alternate = parse_alternate_exchange(arguments)
            if alternate is not None:  # empty is the default exchange
                self.require(READ, name)
                self.require(WRITE, alternate)
        return self._declarations.exchange(
            name, type_name, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
        )

    def look_at_exchange(self, name: str, type_name: str) -> None:
        """Check that an exchange is there, which needs no permission (RabbitMQ)."""
        self.host.declare_exchange(name, type_name, passive=True)

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange with its bindings; one that is not there is fine (RabbitMQ)."""
        self.require(CONFIGURE, name)
        self.host.delete_exchange(name, if_unused=if_unused)

    def bind_exchange(self, destination: str, source: str, routing_key: str, arguments: Arguments) -> None:
        """Bind an exchange to an exchange."""
        self.require(WRITE, destination)
        self.require(READ, source)
        self._declarations.bind_exchange(destination, source, routing_key, arguments)

    def unbind_exchange(self, destination: str, source: str, routing_key: str, arguments: Arguments) -> None:
        """Undo :meth:`bind_exchange`; a binding that is not there is fine, so are missing ends (RabbitMQ)."""
        self.require(WRITE, destination)
        self.require(READ, source)
        if destination in self.host.exchanges and source in self.host.exchanges:
            self._declarations.unbind_exchange(destination, source, routing_key, arguments)

    # ------------------------------------------------------------------ queues

    def declare_queue(
        self,
        name: str,
        *,
        now: int,
        durable: bool,
        auto_delete: bool,
        arguments: Arguments,
        exclusive: bool = False,
        server_named: bool = False,
        then: PermissionKind | None = None,
    ) -> Queue:
        """Create a queue, or check that it is the same.

        ``server_named``: the name is :func:`generated_name`'s. ``then``: the command goes on to ``read`` from the
        queue, or to ``write`` to it through the default exchange; that is asked for first too.
        """
        self.require(CONFIGURE, name)
        if then is not None:
            self.require(then, name if then == READ else "")
        known = name in self.host.queues
        if not known:
            self._require_targets(name, parse_queue_arguments(arguments, name, unknown=self.host.unknown_arguments))
        queue = self._declarations.queue(
            name,
            now=now,
            durable=durable,
            auto_delete=auto_delete,
            arguments=arguments,
            owner=self.owner if exclusive else None,
            server_named=server_named,
        )
        if not known:
            self._note_queue(queue)
        return queue

    def delete_queue(self, name: str, now: int, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue and return how many messages were pending; one that is not there is fine (RabbitMQ)."""
        self.require(CONFIGURE, name)
        if name not in self.host.queues:
            return 0
        queue = self.host.queue_for(name, self.owner)
        return self.host.delete_queue(queue, now, if_unused=if_unused, if_empty=if_empty)

    def bind_queue(self, name: str, source: str, routing_key: str, arguments: Arguments) -> None:
        """Bind a queue to an exchange; twice is once."""
        self.require(WRITE, name)
        self.require(READ, source)
        self._declarations.bind_queue(self.host.queue_for(name, self.owner), source, routing_key, arguments)

    def unbind_queue(self, name: str, source: str, routing_key: str, arguments: Arguments) -> None:
        """Undo :meth:`bind_queue`; a binding that is not there is fine, so are missing ends (RabbitMQ)."""
        self.require(WRITE, name)
        self.require(READ, source)
        if name in self.host.queues and source in self.host.exchanges:
            queue = self.host.queue_for(name, self.owner)
            self._declarations.unbind_queue(queue, source, routing_key, arguments)

    def purge_queue(self, name: str, now: int) -> tuple[Queue, int]:
        """Drop the pending messages of a queue. Returns the queue and how many messages these were."""
        queue = self.queue_to_read(name)
        return queue, queue.purge(now)

    def look_at_queue(self, name: str) -> Queue:
        """Return a queue for its figures, which needs no permission (RabbitMQ), but one of another connection."""
        return self.host.queue_for(name, self.owner)

    def queue_to_read(self, name: str) -> Queue:
        """Return a queue whose messages the user may read: for each basic.get, so what ``require`` adds is left out."""
        if not self.allowed(READ, name):
            self.require(READ, name)
        return self.host.queue_for(name, self.owner)

    def queue_to_browse(self, name: str) -> Queue:
        """Return a queue whose messages the user may look at, which takes nothing from others."""
        self.require(BROWSE, name)
        return self.host.queue_for(name, self.owner)

    def queue_to_manage(self, name: str) -> Queue:
        """Return a queue with whose messages the user may do operations."""
        self.require(MANAGE, name)
        return self.host.queue_for(name, self.owner)

    def queue_to_configure(self, name: str) -> Queue:
        """Return a queue that the user may change."""
        self.require(CONFIGURE, name)
        return self.host.queue_for(name, self.owner)

    def require_change(self, queue: Queue, changes: Arguments) -> None:
        """Require what a change of a live queue's settings takes: to configure it, and its new targets."""
        self.queue_to_configure(queue.name)
        self._require_targets(queue.name, read_declaration(changes, queue.name))

    def require_consumer(
        self, queue: Queue, settings: ConsumerSettings, *, exclusive: bool = False, granted: bool = False
    ) -> None:
        """Require that the user may consume from a queue as these settings say; a browser takes nothing from others.

        ``granted``: the queue was made for this consumer, by :meth:`subscription_queue` or :meth:`reply_queue`.
        """
        if not granted:
            self.require(READ, queue.name)
        self.host.queue_for(queue.name, self.owner)
        if exclusive or not settings.browse:
            self.host.check_consumer(queue, exclusive=exclusive)
        self.host.check_reader(queue, settings)

    # ------------------------------------------------------------------ names of AMQP 1.0 and STOMP

    def source(self, name: str, now: int, routing_type: str = "", *, create: bool = True) -> NodeReference:
        """Return what a name leads to for a consumer, see ``NodeDirectory.resolve_node``.

        Creating a missing node takes permission to configure it. Permission to consume from the returned ``queue`` or
        to subscribe to ``node`` is checked where that is done.
        """
        try:
            return self._existing(name, now, routing_type)
        except CoreError as error:
            parsed = parse_address_name(name)
            if parsed.name and not names_management(parsed.name):  # that there is none is no secret
                self.require(READ, parsed.name)
            if not (create and isinstance(error, NotFound) and _may_come(parsed)):
                raise
        self.require(CONFIGURE, parsed.name)
        return self._create(name, now, routing_type)

    def target(self, name: str, now: int, routing_type: str = "", *, create: bool = True) -> NodeReference:
        """Return the node of a name for a sender with permission to write there; see :meth:`source`."""
        parsed = parse_address_name(name)
        try:
            node = self._existing(name, now, routing_type)
        except ResourceLocked:  # only its owner may consume from it, but all may send there: replies go to such queues
            node = NodeReference("", name if parsed.address else parsed.name)
        except CoreError as error:
            comes = create and isinstance(error, NotFound) and _may_come(parsed)
            if comes:
                self.require(CONFIGURE, parsed.name)
            if not names_management(parsed.name):  # as above
                self.require(WRITE, _exchange_of(parsed, routing_type))
            if not comes:
                raise
            node = self._create(name, now, routing_type)
        self.require(WRITE, node.exchange)
        return node

    def _existing(self, name: str, now: int, routing_type: str) -> NodeReference:
        return self.host.nodes.resolve_node(name, now, owner=self.owner, routing_type=routing_type, create=False)

    def _create(self, name: str, now: int, routing_type: str) -> NodeReference:
        node = self.host.nodes.resolve_node(name, now, owner=self.owner, routing_type=routing_type)
        if node.created and node.queue is not None:
            self._note_queue(node.queue)
        elif node.created and isinstance(node.node, Address):
            self._note_address(node.node)
        return node

    def _note_address(self, address: Address) -> None:
        if self._records:
            self.made.append(partial(_end_address_at, self.host, address))

    # ------------------------------------------------------------------ what the broker makes for a client

    def declare_dynamic_address(self, name: str) -> Address:
        """Create a multicast address that the broker named, for as long as its maker wants it."""
        self.require(CONFIGURE, name)
        self.require(WRITE, name)
        address = self.host.nodes.declare_address(name, (MULTICAST,), durable=False)
        self._note_address(address)
        return address

    def reply_queue(self, now: int) -> Queue:
        """Create the queue that answers to a channel's requests come to (``amq.rabbitmq.reply-to``).

        It takes no permission (RabbitMQ): its name cannot be guessed, only this connection consumes from it, and it
        goes with its only consumer.
        """
        return self.host.declare_queue(new_reply_name(), now=now, auto_delete=True, owner=self.owner, server_named=True)

    def require_subscription(self, exchange: str, name: str, arguments: Arguments, *, named: bool) -> None:
        """Require what a subscription takes that is not there yet, before anything is changed for it.

        To read the exchange or address; where the client names the subscription, to configure that name; and its
        queue's targets. Raises :class:`~annulet.core.base.errors.InvalidArgument` for wrong arguments as well.
        """
        self.require(READ, exchange)
        if named:
            self.require(CONFIGURE, name)
        self._require_targets(name, parse_queue_arguments(arguments, name, unknown=self.host.unknown_arguments))

    def subscription_queue(
        self,
        name: str,
        *,
        now: int,
        durable: bool,
        arguments: Arguments,
        exclusive: bool,
        server_named: bool,
        subscription: SubscriptionMark | None,
    ) -> Queue:
        """Create the queue of a subscription after :meth:`require_subscription`, or check that it is the same."""
        known = name in self.host.queues
        queue = self._declarations.queue(
            name,
            now=now,
            durable=durable,
            auto_delete=not durable,
            arguments=arguments,
            owner=self.owner if exclusive else None,
            server_named=server_named,
            subscription=subscription,
        )
        if not known:
            self._note_queue(queue)
        return queue

    def mark_subscription(self, queue: Queue, subscription: SubscriptionMark) -> None:
        """Say of a queue that is older than such marks that it is a subscription."""
        self._declarations.mark_subscription(queue, subscription)

    def bind_subscription(self, queue: Queue, exchange: str, routing_key: str, arguments: Arguments) -> None:
        """Bind the queue of a subscription to its source."""
        self.require(READ, exchange)
        self._declarations.bind_queue(queue, exchange, routing_key, arguments)


def _end_address_at(host: VirtualHost, address: Address, _now: int) -> None:
    end_address(host, address)


def _may_come(parsed: AddressName) -> bool:
    """Return whether an unknown name may be made by naming it.

    No exchange is, no queue of an address, no management node and no reply queue.
    """
    name = parsed.name
    return parsed.kind != TO_EXCHANGE and not parsed.address and not names_management(name) and not is_reply_name(name)


def _exchange_of(parsed: AddressName, routing_type: str) -> str:
    """Return the exchange that a name leads to if it is made: an address of its own, or the default exchange."""
    if parsed.kind == TO_EXCHANGE:
        return parsed.name
    multicast = (parsed.routing_type or routing_type.lower()) == MULTICAST and parsed.kind != TO_QUEUE
    return parsed.name if multicast else ""
