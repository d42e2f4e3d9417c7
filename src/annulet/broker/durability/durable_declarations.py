"""Declarations in a virtual host and in the catalogue at once: durable definitions are written, or do not exist.

For whoever declares: clients, the configuration file, the HTTP API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.broker.observing.node_log import NODE_LOG
from annulet.store.database.definitions import SubscriptionRecord
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.host.auto_created import SubscriptionMark
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.exchanges import Exchange
    from annulet.store.database.catalogue import Catalogue

QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"
"""Destination types of the catalogue's bindings."""


class DurableDeclarations:
    """Declares in one virtual host.

    Every method raises what the host raises, and :class:`CatalogueError`: then new definitions are undone, or they
    would pass for durable.
    """

    def __init__(self, host: VirtualHost, catalogue: Catalogue) -> None:
        self.host = host
        self.catalogue = catalogue

    def exchange(
        self, name: str, type_name: str, *, durable: bool, auto_delete: bool, internal: bool, arguments: Arguments
    ) -> Exchange:
        """Create an exchange (or address), or check that it is the same."""
        host = self.host
        known = name in host.exchanges
        declared = host.declare_exchange(
            name, type_name, durable=durable, auto_delete=auto_delete, internal=internal, arguments=arguments
        )
        if durable and not known:
            try:
                self.catalogue.add_exchange(host.name, name, type_name, auto_delete, internal, arguments)
            except CatalogueError:
                host.delete_exchange(name)
                raise
            self.catalogue.if_refused(lambda: host.delete_exchange(name))
        if not known:
            NODE_LOG.exchange_created(host.name, declared)
        return declared

    def queue(
        self,
        name: str,
        *,
        now: int,
        durable: bool,
        auto_delete: bool,
        arguments: Arguments,
        owner: object | None = None,
        server_named: bool = False,
        subscription: SubscriptionMark | None = None,
    ) -> Queue:
        """Create a queue, or check that it is the same. One with an ``owner`` dies with it: it is not written down.

        ``subscription`` marks a new queue as one; the mark of a queue that exists does not change.
        """
        host = self.host
        known = name in host.queues
        queue = host.declare_queue(
            name,
            durable=durable,
            auto_delete=auto_delete,
            owner=owner,
            arguments=arguments,
            now=now,
            server_named=server_named,
        )
        if not known:
            host.lifetime_of(queue).subscription = subscription
        if durable and owner is None and not known:
            try:
                with self.catalogue.transaction():
                    queue.queue_id = self.catalogue.add_queue(host.name, name, auto_delete, arguments)
                    if subscription is not None:
                        self._write_mark(name, subscription)
            except CatalogueError:
                queue.queue_id = 0
                host.delete_queue(queue, now)
                raise
            self.catalogue.if_refused(lambda: self._undo_queue(queue, now))
        if not known:
            NODE_LOG.queue_created(host.name, name, durable=durable, exclusive=owner is not None)
        return queue

    def mark_subscription(self, queue: Queue, subscription: SubscriptionMark) -> None:
        """Say of a queue that is older than such marks that it is a subscription."""
        if queue.queue_id:
            self._write_mark(queue.name, subscription)
        self.host.lifetime_of(queue).subscription = subscription

    def _write_mark(self, name: str, mark: SubscriptionMark) -> None:
        self.catalogue.set_subscription(self.host.name, SubscriptionRecord(name, mark.client, mark.name, mark.user))

    def _undo_queue(self, queue: Queue, now: int) -> None:
        if not queue.deleted:
            self.host.delete_queue(queue, now)

    def bind_queue(self, queue: Queue, source: str, routing_key: str, arguments: Arguments) -> None:
        """Bind a queue to an exchange; twice is once."""
        host = self.host
        count = len(host.exchange_for(source).bindings)
        binding = host.bind_queue(queue, source, routing_key, arguments)
        if queue.queue_id and binding.source.durable:
            try:
                self.catalogue.add_binding(host.name, source, QUEUE, queue.name, routing_key, arguments)
            except CatalogueError:
                if len(binding.source.bindings) > count:
                    host.unbind_queue(queue, source, routing_key, arguments)
                raise
            if len(binding.source.bindings) > count:
                self.catalogue.if_refused(lambda: host.drop_edge(binding))
        if len(binding.source.bindings) > count:
            NODE_LOG.binding_created(host.name, source, queue.name, routing_key)

    def unbind_queue(self, queue: Queue, source: str, routing_key: str, arguments: Arguments) -> None:
        """Undo :meth:`bind_queue`; a binding that is not there is fine (RabbitMQ)."""
        if self.host.unbind_queue(queue, source, routing_key, arguments) is not None:
            NODE_LOG.binding_deleted(self.host.name, source, queue.name, routing_key)
        if queue.queue_id:
            self.catalogue.remove_binding(self.host.name, source, QUEUE, queue.name, routing_key, arguments)

    def bind_exchange(self, destination: str, source: str, routing_key: str, arguments: Arguments) -> None:
        """Bind an exchange to an exchange; twice is once."""
        host = self.host
        count = len(host.exchange_for(source).bindings)
        binding = host.bind_exchange(destination, source, routing_key, arguments)
        if binding.source.durable and host.exchanges[destination].durable:
            try:
                self.catalogue.add_binding(host.name, source, EXCHANGE, destination, routing_key, arguments)
            except CatalogueError:
                if len(binding.source.bindings) > count:
                    host.unbind_exchange(destination, source, routing_key, arguments)
                raise
            if len(binding.source.bindings) > count:
                self.catalogue.if_refused(lambda: host.drop_edge(binding))
        if len(binding.source.bindings) > count:
            NODE_LOG.binding_created(host.name, source, destination, routing_key)

    def unbind_exchange(self, destination: str, source: str, routing_key: str, arguments: Arguments) -> None:
        """Undo :meth:`bind_exchange`; a binding that is not there is fine (RabbitMQ)."""
        if self.host.unbind_exchange(destination, source, routing_key, arguments) is not None:
            NODE_LOG.binding_deleted(self.host.name, source, destination, routing_key)
        self.catalogue.remove_binding(self.host.name, source, EXCHANGE, destination, routing_key, arguments)
