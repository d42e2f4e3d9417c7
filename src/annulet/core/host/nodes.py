"""Nodes of a virtual host by name: addresses, their rings and diverts, and the creation for unknown names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.reply_names import REPLY_QUEUE
from annulet.core.host.dead_letters import ORIGINAL_ADDRESS, original_address_of
from annulet.core.host.declared_queues import DeclaredQueues
from annulet.core.host.retroactive import is_ring_name, kept_messages, owner_of, ring_name
from annulet.core.message.filters import Verdicts
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
    from annulet.core.configuration.address_settings import AddressPattern, AddressSettingsRepository, PolicyRepository
    from annulet.core.message.message import Message
    from annulet.core.model.loss_ledger import LossLedger
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.diverts import Divert
    from annulet.core.routing.exchanges.exchange import Exchange
    from annulet.core.routing.node_effects import NodeEffects


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


class Nodes(DeclaredQueues):
    """Queues and exchanges with addresses: the whole namespace of a virtual host."""

    def __init__(
        self,
        name: str,
        effects: NodeEffects,
        ledger: LossLedger,
        address_settings: AddressSettingsRepository,
        policies: PolicyRepository | None = None,
    ) -> None:
        super().__init__(name, effects, ledger, address_settings, policies)
        self._rings_due: dict[str, None] = {}  # addresses whose rings do not match their settings yet

    # ------------------------------------------------------------------ addresses

    def declare_address(
        self, name: str, routing_types: tuple[str, ...] = (), *, durable: bool = True, auto_created: bool = False
    ) -> Address:
        """Create an address, or check that the existing one is the same.

        ``routing_types``: anycast, multicast or both; empty keeps the existing ones, or
        ``default-address-routing-type`` for a new one. Raises :class:`PreconditionFailed` when an exchange has the name
        or the types differ, :class:`InvalidArgument` for a name with ``::``, :class:`AccessRefused` for reserved names.
        """
        existing = self.exchanges.get(name)
        if not routing_types and isinstance(existing, Address):
            return existing
        types = routing_types or (self.settings_of(name).default_address_routing_type,)
        address = self.declare_exchange(
            name, ADDRESS_TYPE, durable=durable, arguments={ROUTING_TYPES_ARGUMENT: ",".join(types)}
        )
        assert isinstance(address, Address)
        if existing is None:
            address.auto_created = auto_created
        return address

    def address_for(self, name: str) -> Address:
        """Return an address. Raises :class:`NotFound`."""
        address = self.addresses.get(name)
        if address is None:
            raise NotFound(f"no address '{name}' in vhost '{self.name}'; declare it, or allow auto-create-addresses")
        return address

    def delete_address(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an address with its bindings and its rings; its queues stay. Raises as ``delete_exchange``."""
        self.address_for(name)
        self.delete_exchange(name, if_unused=if_unused)

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
            wanted = self.settings_of(address_name).default_queue_routing_type.lower()
        return self.bind_queue(queue, address_name, "", {ROUTING_TYPE: wanted} if wanted else {})

    def _unknown(self, address_name: str, routing_type: str) -> bool:
        return bool(routing_type) and address_name not in self.exchanges

    # ------------------------------------------------------------------ diverts

    def add_divert(self, divert: Divert) -> None:
        """Let a divert take part in routing. Raises :class:`PreconditionFailed` when its name is taken."""
        if self.diverts.add(divert):
            self.graph_changed()

    def remove_divert(self, name: str) -> None:
        """Take a divert out. Raises :class:`NotFound`."""
        self.diverts.remove(name)
        self.graph_changed()

    # ------------------------------------------------------------------ retroactive addresses

    def address_added(self, address: Address) -> None:
        """Have the rings of a new address set up before its first message."""
        self._rings_due[address.name] = None

    def address_dropped(self, address: Address) -> None:
        """Delete the messages an address kept for later queues."""
        for ring in list(address.rings.values()):
            self.delete_queue(ring, self.latest)
        address.rings.clear()

    def address_settings_changed(self, pattern: AddressPattern) -> None:
        """Have the rings follow as well."""
        self._rings_due.update(dict.fromkeys(name for name in self.addresses if pattern.matches(name)))
        super().address_settings_changed(pattern)

    def before_routing(self) -> None:
        """Update the rings before a route is looked up."""
        if self._rings_due:
            self.settle_rings(self.latest)

    def settle_rings(self, now: int) -> None:
        """Create, resize or delete the rings of addresses that are new or whose settings changed."""
        while self._rings_due:
            name = next(iter(self._rings_due))
            del self._rings_due[name]
            address = self.addresses.get(name)
            if address is not None:
                count = self.settings_of(name).retroactive_message_count
                for routing_type in address.routing_types:
                    self._settle_ring(address, routing_type, count, now)

    def _settle_ring(self, address: Address, routing_type: str, count: int, now: int) -> None:
        name = ring_name(address.name, routing_type)
        ring = self.queues.get(name)  # a recovered one belongs to its address again
        if count <= 0:
            if ring is not None:
                address.rings.pop(routing_type, None)
                self.delete_queue(ring, now)
            return
        if ring is None:
            ring = self.declare_queue(
                name,
                now=now,
                durable=address.durable,
                arguments={"x-ring-size": count, "x-ring-trim": "now"},
                server_named=True,
                configured=True,
            )
            self._write_down(ring)
        elif ring.settings.ring_size != count:
            self.update_queue(ring, replace(ring.settings, ring_size=count, ring_trim_now=True), now)
        address.rings[routing_type] = ring
        self.graph_changed()

    def delete_queue(self, queue: Queue, now: int, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue, see :class:`DeclaredQueues`; a deleted ring is soon created again, empty."""
        pending = super().delete_queue(queue, now, if_unused=if_unused, if_empty=if_empty)
        if is_ring_name(queue.name):
            name, routing_type = owner_of(queue.name)
            address = self.addresses.get(name)
            if address is not None and address.rings.get(routing_type) is queue:
                del address.rings[routing_type]
                self._rings_due[name] = None
        return pending

    def _write_down(self, queue: Queue) -> None:
        """Store an implicitly created durable queue; if that fails it does not exist."""
        if not queue.durable:
            return
        try:
            self.effects.queue_created(queue)
        except BaseException:
            self.delete_queue(queue, self.latest)
            raise

    def kept_for(self, address: Address, binding: Binding) -> list[Message]:
        """Return copies of the messages an address kept, for a queue about to join."""
        self.before_routing()
        if binding.queue is None or not address.rings:
            return []
        ring = address.rings.get(address.routing_type_of(binding))
        return [] if ring is None else kept_messages(ring)

    def queue_joined(self, address: Address, binding: Binding, kept: list[Message]) -> None:
        """Give a queue that joined an address the kept messages, if filters admit them."""
        queue = binding.queue
        address.had_queue = True
        self.before_routing()
        if queue is None:
            return
        selector = self.filters.get(queue)
        for message in kept:
            verdicts = Verdicts(message)
            if verdicts.admits(binding.selector) and verdicts.admits(selector):
                account = self.account_of(address.name)
                if account is not None:
                    self.accounts.charge(account, message, 1)
                self.enqueue_all(message, [queue], self.latest)

    # ------------------------------------------------------------------ dead-letter and expiry queues

    def ensure_target(self, queue: Queue, message: Message, target: str, reason: RemovalReason) -> None:
        """Create the queue that ``auto-create-dead-letter-resources`` or ``auto-create-expiry-resources`` promises.

        It is one of the target address's, named by prefix, original address and suffix, and accepts only messages sent
        to that original address (Artemis §8, §9). Messages sent to the target itself create none.
        """
        original = original_address_of(message)
        settings = self.settings_of(self.settings_address_of(queue))
        if reason is RemovalReason.EXPIRED:
            wanted = settings.auto_create_expiry_resources and target == queue.settings.expiry_address
            name = f"{settings.expiry_queue_prefix}{original}{settings.expiry_queue_suffix}"
        else:
            wanted = settings.auto_create_dead_letter_resources and target == queue.settings.dead_letter_address
            name = f"{settings.dead_letter_queue_prefix}{original}{settings.dead_letter_queue_suffix}"
        if not wanted or not original or original == target or name in self.queues:
            return
        if target not in self.exchanges:
            self._create_address(target)
        quoted = original.replace("'", "''")
        made = self.declare_queue(
            name,
            now=self.latest,
            durable=True,
            arguments={"x-selector": f"{ORIGINAL_ADDRESS} = '{quoted}'"},
            address=target,
            auto_created=True,
        )
        self._write_down(made)
        self.effects.binding_created(self.attach_queue(made, target))

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
            return NodeReference(parsed.name, parsed.routing_key, node=self.exchange_for(parsed.name))
        if parsed.address:
            return self._qualified_node(parsed, owner)
        found = self._existing_node(parsed, owner, wanted)
        if found is not None:
            return found
        if parsed.name.startswith(REPLY_QUEUE):
            raise NotFound(
                f"no queue '{parsed.name}' in vhost '{self.name}': the channel that waited for answers has ended, "
                "or has cancelled its consumer; do not answer it any more"
            )
        if names_management(parsed.name):
            raise NotFound(
                f"no management node '{parsed.name}' in vhost '{self.name}'; use the HTTP API to manage the broker"
            )
        if create:
            return self._create_node(parsed.name, now, wanted, queue_only=parsed.kind == TO_QUEUE)
        raise NotFound(f"no queue, exchange or address '{parsed.name}' in vhost '{self.name}'; declare it first")

    def _create_address(self, name: str) -> Address:
        """Create a multicast address implicitly; if it cannot be stored it does not exist."""
        address = self.declare_address(name, (MULTICAST,), auto_created=True)
        try:
            self.effects.address_created(address)
        except BaseException:
            self.delete_address(name)
            raise
        return address

    def _qualified_node(self, parsed: AddressName, owner: object | None) -> NodeReference:
        queue = self.queue_for(parsed.name, owner)
        address = self.exchanges.get(parsed.address)
        if parsed.address != parsed.name and not (isinstance(address, Address) and queue in address.queues()):
            raise NotFound(
                f"queue '{parsed.name}' in vhost '{self.name}' is not one of address '{parsed.address}'; bind it "
                "there first, or name the queue alone"
            )
        return NodeReference("", f"{parsed.address}{QUALIFIER}{parsed.name}", queue=queue)

    def _existing_node(self, parsed: AddressName, owner: object | None, wanted: str) -> NodeReference | None:
        """Return the queue of a name, else its exchange or address; for a requested topic never the queue.

        A queue and a multicast address of one name exist side by side, like the anycast and the multicast half of one
        address in Artemis.
        """
        name = parsed.name
        node = self.exchanges.get(name) if name and parsed.kind != TO_QUEUE else None
        if name in self.queues and (wanted != MULTICAST or parsed.kind == TO_QUEUE):
            return NodeReference("", name, queue=self.queue_for(name, owner), routing_type=wanted)
        if node is None:
            return None
        if isinstance(node, Address) and wanted and wanted not in node.routing_types:
            if wanted == ANYCAST:
                return None  # the queue of that name, if the settings let one be made
            raise PreconditionFailed(
                f"address '{name}' in vhost '{self.name}' is {' and '.join(node.routing_types)} only, not {wanted}; "
                f"ask for {node.routing_types[0]} or declare it with both"
            )
        return NodeReference(name, name, node=node, routing_type=wanted)

    def _create_node(self, name: str, now: int, wanted: str, *, queue_only: bool) -> NodeReference:
        """Create a queue, or for a requested topic an address, if the settings allow it."""
        if not name:
            raise InvalidArgument(
                f"an empty name leads nowhere in vhost '{self.name}'; give that of a queue or address"
            )
        settings = self.settings_of(name)
        multicast = wanted == MULTICAST and not queue_only
        if not (settings.auto_create_addresses if multicast else settings.auto_create_queues):
            raise NotFound(
                f"no {'address' if multicast else 'queue'} '{name}' in vhost '{self.name}', and address settings say "
                f"auto-create-{'addresses' if multicast else 'queues'} = false; declare it first"
            )
        if multicast:
            address = self._create_address(name)
            return NodeReference(name, name, node=address, routing_type=wanted, created=True)
        queue = self.declare_queue(name, now=now, durable=True, auto_created=True)
        self._write_down(queue)
        return NodeReference("", name, queue=queue, routing_type=ANYCAST, created=True)
