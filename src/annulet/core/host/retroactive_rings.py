"""The rings of retroactive addresses: created, resized and deleted as the settings of their addresses say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from annulet.core.host.retroactive import is_ring_name, kept_messages, owner_of, ring_name
from annulet.core.message.filters import Verdicts

if TYPE_CHECKING:
    from annulet.core.configuration.address_settings import AddressPattern
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.exchanges import Address


class RetroactiveRings:
    """The rings of a virtual host. Changes become due at once and are made before the next route is looked up."""

    def __init__(self, host: VirtualHost) -> None:
        self._host = host
        self._due: dict[str, None] = {}  # addresses whose rings do not match their settings yet

    def address_added(self, address: Address) -> None:
        """Have the rings of a new address set up before its first message."""
        self._due[address.name] = None

    def address_dropped(self, address: Address) -> None:
        """Delete the messages an address kept for later queues."""
        for ring in list(address.rings.values()):
            self._host.delete_queue(ring, self._host.latest)
        address.rings.clear()

    def before_routing(self) -> None:
        """Update the rings before a route is looked up."""
        if self._due:
            self.settle(self._host.latest)

    def settle(self, now: int) -> None:
        """Create, resize or delete the rings of addresses that are new or whose settings changed."""
        while self._due:
            name = next(iter(self._due))
            del self._due[name]
            address = self._host.addresses.get(name)
            if address is not None:
                count = self._host.settings_of(name).retroactive_message_count
                for routing_type in address.routing_types:
                    self._settle_ring(address, routing_type, count, now)

    def _settle_ring(self, address: Address, routing_type: str, count: int, now: int) -> None:
        name = ring_name(address.name, routing_type)
        ring = self._host.queues.get(name)  # a recovered one belongs to its address again
        if count <= 0:
            if ring is not None:
                address.rings.pop(routing_type, None)
                self._host.delete_queue(ring, now)
            return
        if ring is None:
            ring = self._host.declare_queue(
                name,
                now=now,
                durable=address.durable,
                arguments={"x-ring-size": count, "x-ring-trim": "now"},
                server_named=True,
                configured=True,
            )
            self._host.write_down(ring)
        elif ring.settings.ring_size != count:
            self._host.update_queue(ring, replace(ring.settings, ring_size=count, ring_trim_now=True), now)
        address.rings[routing_type] = ring
        self._host.graph_changed()

    def queue_deleted(self, queue: Queue) -> None:
        """Have a deleted ring created again soon, empty."""
        if not is_ring_name(queue.name):
            return
        name, routing_type = owner_of(queue.name)
        address = self._host.addresses.get(name)
        if address is not None and address.rings.get(routing_type) is queue:
            del address.rings[routing_type]
            self._due[name] = None

    def settings_changed(self, pattern: AddressPattern) -> None:
        """Have the rings of these addresses follow their settings."""
        self._due.update(dict.fromkeys(name for name in self._host.addresses if pattern.matches(name)))

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
        selector = self._host.filters.get(queue)
        for message in kept:
            verdicts = Verdicts(message)
            if verdicts.admits(binding.selector) and verdicts.admits(selector):
                account = self._host.limited.account_of(address.name)
                if account is not None:
                    self._host.accounts.charge(account, message, 1)
                self._host.publisher.enqueue_all(message, [queue], self._host.latest)
