"""Nodes of a virtual host by name: addresses, and the creation for unknown names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.reply_names import REPLY_QUEUE
from annulet.core.host.dead_letters import ORIGINAL_ADDRESS, original_address_of
from annulet.core.routing.address_names import (
    QUALIFIER,
    TO_EXCHANGE,
    TO_QUEUE,
    AddressName,
    names_management,
    parse_address_name,
)
from annulet.core.routing.bindings import ROUTING_TYPE
from annulet.core.routing.exchanges import Address
from annulet.core.routing.exchanges.address import (
    ADDRESS_TYPE,
    ANYCAST,
    MULTICAST,
    ROUTING_TYPES_ARGUMENT,
    parse_routing_type,
)

if TYPE_CHECKING:
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.exchanges.exchange import Exchange


class NodeReference:
    """The target of a name: publish to ``exchange`` with ``routing_key``; consume from ``queue`` or subscribe.

    ``queue`` is the one queue a consumer reads, ``None`` for a node to subscribe to; ``node`` the exchange or address,
    ``None`` when a queue was named. ``created``: the name was unknown and automatic creation made it.
    """

    __slots__ = ("created", "exchange", "node", "queue", "routing_key", "routing_type")

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        *,
        queue: Queue | None = None,
        node: Exchange | None = None,
        routing_type: str = "",
        created: bool = False,
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.queue = queue
        self.node = node
        self.routing_type = routing_type
        self.created = created


class NodeDirectory:
    """The namespace of a virtual host as protocols see it that give an address only: one name leads to one node."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host

    # ------------------------------------------------------------------ addresses

    def declare_address(
        self, name: str, routing_types: tuple[str, ...] = (), *, durable: bool = True, auto_created: bool = False
    ) -> Address:
        """Create an address, or check that the existing one is the same.

        ``routing_types``: anycast, multicast or both; empty keeps the existing ones, or
        ``default-address-routing-type`` for a new one. Raises :class:`PreconditionFailed` when an exchange has the name
        or the types differ, :class:`InvalidArgument` for a name with ``::``, :class:`AccessRefused` for reserved names.
        """
        existing = self._host.exchanges.get(name)
        if not routing_types and isinstance(existing, Address):
            return existing
        types = routing_types or (self._host.settings_of(name).default_address_routing_type,)
        address = self._host.declare_exchange(
            name, ADDRESS_TYPE, durable=durable, arguments={ROUTING_TYPES_ARGUMENT: ",".join(types)}
        )
        assert isinstance(address, Address)
        if existing is None:
            address.auto_created = auto_created
        return address

    def address_for(self, name: str) -> Address:
        """Return an address. Raises :class:`NotFound`."""
        address = self._host.addresses.get(name)
        if address is None:
            raise NotFound(
                f"no address '{name}' in vhost '{self._host.name}'; declare it, or allow auto-create-addresses"
            )
        return address

    def delete_address(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an address with its bindings and its rings; its queues stay. Raises as ``delete_exchange``."""
        self.address_for(name)
        self._host.delete_exchange(name, if_unused=if_unused)

    def attach_queue(self, queue: Queue, address_name: str, routing_type: str = "") -> Binding:
        """Make a queue one of an address's; the address is created if need be.

        ``routing_type``: anycast or multicast; empty is the address's only one, or ``default-queue-routing-type``.
        Raises :class:`InvalidArgument` for a type the address does not have.
        """
        address = self.declare_address(
            address_name, (routing_type,) if self._unknown(address_name, routing_type) else ()
        )
        wanted = routing_type
        if not wanted and len(address.routing_types) > 1:
            wanted = self._host.settings_of(address_name).default_queue_routing_type.lower()
        return self._host.bind_queue(queue, address_name, "", {ROUTING_TYPE: wanted} if wanted else {})

    def _unknown(self, address_name: str, routing_type: str) -> bool:
        return bool(routing_type) and address_name not in self._host.exchanges

    # ------------------------------------------------------------------ dead-letter and expiry queues

    def ensure_target(self, queue: Queue, message: Message, target: str, reason: RemovalReason) -> None:
        """Create the queue that ``auto-create-dead-letter-resources`` or ``auto-create-expiry-resources`` promises.

        It is one of the target address's, named by prefix, original address and suffix, and accepts only messages sent
        to that original address (Artemis §8, §9). Messages sent to the target itself create none.
        """
        original = original_address_of(message)
        settings = self._host.settings_of(self._host.settings_address_of(queue))
        if reason is RemovalReason.EXPIRED:
            wanted = settings.auto_create_expiry_resources and target == queue.settings.expiry_address
            name = f"{settings.expiry_queue_prefix}{original}{settings.expiry_queue_suffix}"
        else:
            wanted = settings.auto_create_dead_letter_resources and target == queue.settings.dead_letter_address
            name = f"{settings.dead_letter_queue_prefix}{original}{settings.dead_letter_queue_suffix}"
        if not wanted or not original or original == target or name in self._host.queues:
            return
        if target not in self._host.exchanges:
            self._create_address(target)
        quoted = original.replace("'", "''")
        made = self._host.declare_queue(
            name,
            now=self._host.latest,
            durable=True,
            arguments={"x-selector": f"{ORIGINAL_ADDRESS} = '{quoted}'"},
            address=target,
            auto_created=True,
        )
        self._host.write_down(made)
        self._host.effects.binding_created(self.attach_queue(made, target))

    # ------------------------------------------------------------------ names

    def resolve_node(
        self,
        name: str,
        now: int,
        *,
        owner: object | None = None,
        routing_type: str = "",
        create: bool = True,
    ) -> NodeReference:
        """Return the target of a name, for protocols that give an address only (design §2).

        In this order: ``address::queue``; spellings such as ``/queues/q``, ``/exchanges/e/key``, ``topic://t``; an
        existing queue; an existing node; with ``create`` a new node by the address settings. ``routing_type``: the
        client's request (anycast: a queue, multicast: a topic); empty accepts any. Raises :class:`NotFound`,
        :class:`ResourceLocked`, :class:`PreconditionFailed` for a topic that is declared as anycast; for missing nodes,
        :class:`InvalidArgument` if the name is empty and :class:`AccessRefused` if reserved.
        """
        parsed = parse_address_name(name)
        wanted = parsed.routing_type or (parse_routing_type(routing_type, "routing type") if routing_type else "")
        if parsed.kind == TO_EXCHANGE:
            return NodeReference(parsed.name, parsed.routing_key, node=self._host.exchange_for(parsed.name))
        if parsed.address:
            return self._qualified_node(parsed, owner)
        found = self._existing_node(parsed, owner, wanted)
        if found is not None:
            return found
        if parsed.name.startswith(REPLY_QUEUE):
            raise NotFound(
                f"no queue '{parsed.name}' in vhost '{self._host.name}': the channel that waited for answers has "
                "ended, or has cancelled its consumer; do not answer it any more"
            )
        if names_management(parsed.name):
            raise NotFound(
                f"no management node '{parsed.name}' in vhost '{self._host.name}'; use the HTTP API to manage the "
                "broker"
            )
        if create:
            return self._create_node(parsed.name, now, wanted, queue_only=parsed.kind == TO_QUEUE)
        raise NotFound(f"no queue, exchange or address '{parsed.name}' in vhost '{self._host.name}'; declare it first")

    def _create_address(self, name: str) -> Address:
        """Create a multicast address implicitly; if it cannot be stored it does not exist."""
        address = self.declare_address(name, (MULTICAST,), auto_created=True)
        try:
            self._host.effects.address_created(address)
        except BaseException:
            self.delete_address(name)
            raise
        return address

    def _qualified_node(self, parsed: AddressName, owner: object | None) -> NodeReference:
        queue = self._host.queue_for(parsed.name, owner)
        address = self._host.exchanges.get(parsed.address)
        if parsed.address != parsed.name and not (isinstance(address, Address) and queue in address.queues()):
            raise NotFound(
                f"queue '{parsed.name}' in vhost '{self._host.name}' is not one of address '{parsed.address}'; bind it "
                "there first, or name the queue alone"
            )
        return NodeReference("", f"{parsed.address}{QUALIFIER}{parsed.name}", queue=queue)

    def _existing_node(self, parsed: AddressName, owner: object | None, wanted: str) -> NodeReference | None:
        """Return the queue of a name, else its exchange or address; for a requested topic never the queue.

        A queue and a multicast address of one name exist side by side, like the anycast and the multicast half of one
        address in Artemis.
        """
        name = parsed.name
        node = self._host.exchanges.get(name) if name and parsed.kind != TO_QUEUE else None
        if name in self._host.queues and (wanted != MULTICAST or parsed.kind == TO_QUEUE):
            return NodeReference("", name, queue=self._host.queue_for(name, owner), routing_type=wanted)
        if node is None:
            return None
        if isinstance(node, Address) and wanted and wanted not in node.routing_types:
            if wanted == ANYCAST:
                return None  # the queue of that name, if the settings let one be made
            raise PreconditionFailed(
                f"address '{name}' in vhost '{self._host.name}' is {' and '.join(node.routing_types)} only, not "
                f"{wanted}; ask for {node.routing_types[0]} or declare it with both"
            )
        return NodeReference(name, name, node=node, routing_type=wanted)

    def _create_node(self, name: str, now: int, wanted: str, *, queue_only: bool) -> NodeReference:
        """Create a queue, or for a requested topic an address, if the settings allow it."""
        if not name:
            raise InvalidArgument(
                f"an empty name leads nowhere in vhost '{self._host.name}'; give that of a queue or address"
            )
        settings = self._host.settings_of(name)
        multicast = wanted == MULTICAST and not queue_only
        if not (settings.auto_create_addresses if multicast else settings.auto_create_queues):
            raise NotFound(
                f"no {'address' if multicast else 'queue'} '{name}' in vhost '{self._host.name}', and address settings "
                f"say auto-create-{'addresses' if multicast else 'queues'} = false; declare it first"
            )
        if multicast:
            address = self._create_address(name)
            return NodeReference(name, name, node=address, routing_type=wanted, created=True)
        queue = self._host.declare_queue(name, now=now, durable=True, auto_created=True)
        self._host.write_down(queue)
        return NodeReference("", name, queue=queue, routing_type=ANYCAST, created=True)
