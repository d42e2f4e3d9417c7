"""A virtual host: exchanges, queues and bindings, and the way of a message from an exchange into queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.arguments import Arguments, describe, parse_alternate_exchange, parse_queue_arguments
from annulet.core.bindings import Binding, BindingKey
from annulet.core.entry import REMOVED
from annulet.core.errors import AccessRefused, InvalidArgument, NotFound, PreconditionFailed, ResourceLocked
from annulet.core.exchanges import EXCHANGE_TYPES, DirectExchange, Exchange
from annulet.core.ledger import LossLedger
from annulet.core.queue import Queue
from annulet.core.routing import Route, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.effects import Effects
    from annulet.core.message import Message
    from annulet.core.settings import QueueSettings

ROUTES_MAX: Final = 10_000
"""Routes remembered per virtual host, about 4 MB. When it is full all are forgotten: routing keys that never repeat
would push out any better choice as well."""

RESERVED_PREFIX: Final = "amq."
"""Names that only the broker gives (AMQP 0-9-1 §3.1.2, rule "reserved")."""

STANDARD_EXCHANGES: Final = (
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
)
"""Exchanges every virtual host has beside the default one (AMQP 0-9-1 §3.1.3, RabbitMQ)."""


class VirtualHost:
    """Everything clients can name, and nothing of another virtual host.

    ``generation`` grows with every change of the routing graph; routes of an older generation are looked up anew.
    """

    def __init__(self, name: str, effects: Effects, *, ledger: LossLedger | None = None) -> None:
        self.name = name
        self.effects = effects
        self.ledger = LossLedger() if ledger is None else ledger
        self.exchanges: dict[str, Exchange] = {"": DirectExchange("", durable=True)}
        self.queues: dict[str, Queue] = {}
        self.generation = 0
        self._bindings_to_queue: dict[Queue, dict[tuple[str, BindingKey], Binding]] = {}
        self._routes: dict[tuple[str, str], Route] = {}
        for exchange_name, type_name in STANDARD_EXCHANGES:
            self.exchanges[exchange_name] = EXCHANGE_TYPES[type_name](exchange_name, durable=True)

    # ------------------------------------------------------------------ exchanges

    def exchange_for(self, name: str) -> Exchange:
        """Return an exchange. Raises :class:`NotFound`."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.name}'")
        return exchange

    def declare_exchange(
        self,
        name: str,
        type_name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments | None = None,
        passive: bool = False,
    ) -> Exchange:
        """Create an exchange, or check that the existing one is the same. ``passive`` only asks whether it exists.

        Raises :class:`AccessRefused` for the default exchange and new names in ``amq.``, :class:`PreconditionFailed`
        when an existing one differs, :class:`InvalidArgument` for an unknown type, :class:`NotFound` when passive.
        """
        self._refuse_default(name)
        if passive:
            return self.exchange_for(name)
        exchange_class = EXCHANGE_TYPES.get(type_name)
        if exchange_class is None:
            raise InvalidArgument(f"unknown exchange type '{type_name}'; known are {', '.join(EXCHANGE_TYPES)}")
        alternate = parse_alternate_exchange({} if arguments is None else arguments)
        existing = self.exchanges.get(name)
        if existing is not None:
            what = f"exchange '{name}' in vhost '{self.name}'"
            _require_same("type", what, type_name, existing.type_name)
            _require_same("durable", what, durable, existing.durable)
            _require_same("auto_delete", what, auto_delete, existing.auto_delete)
            _require_same("internal", what, internal, existing.internal)
            _require_same("alternate-exchange", what, alternate, existing.alternate)
            return existing
        self._refuse_reserved("exchange", name)
        exchange = exchange_class(
            name,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            alternate=alternate,
            arguments=arguments,
        )
        self.exchanges[name] = exchange
        self._graph_changed()
        return exchange

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete an exchange with the bindings from and to it; one that is not there is deleted already (RabbitMQ).

        Raises :class:`AccessRefused` for the exchanges every virtual host has, :class:`PreconditionFailed` when
        ``if_unused`` and it has bindings as a source.
        """
        self._refuse_default(name)
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefused(f"exchange '{name}' in vhost '{self.name}' cannot be deleted: every vhost has it")
        exchange = self.exchanges.get(name)
        if exchange is None:
            return
        if if_unused and exchange.bindings:
            raise PreconditionFailed(
                f"exchange '{name}' in vhost '{self.name}' in use: it has {len(exchange.bindings)} bindings; "
                "unbind them or delete without if-unused"
            )
        self._drop_exchange(exchange)

    # ------------------------------------------------------------------ bindings

    def bind_queue(
        self, queue: Queue, exchange_name: str, routing_key: str, arguments: Arguments | None = None
    ) -> Binding:
        """Bind a queue; binding twice is binding once. Raises :class:`NotFound`, :class:`AccessRefused`."""
        self._refuse_default(exchange_name)
        source = self.exchange_for(exchange_name)
        return self._bind(Binding(source, queue, None, routing_key, {} if arguments is None else arguments))

    def unbind_queue(
        self, queue: Queue, exchange_name: str, routing_key: str, arguments: Arguments | None = None
    ) -> Binding | None:
        """Undo :meth:`bind_queue`; ``None`` when there was no such binding, which is no error (RabbitMQ)."""
        self._refuse_default(exchange_name)
        source = self.exchange_for(exchange_name)
        return self._unbind(Binding(source, queue, None, routing_key, {} if arguments is None else arguments))

    def bind_exchange(
        self, destination_name: str, source_name: str, routing_key: str, arguments: Arguments | None = None
    ) -> Binding:
        """Bind an exchange to another (RabbitMQ ``exchange.bind``); cycles are allowed and go round once."""
        return self._bind(self._edge(destination_name, source_name, routing_key, arguments))

    def unbind_exchange(
        self, destination_name: str, source_name: str, routing_key: str, arguments: Arguments | None = None
    ) -> Binding | None:
        """Undo :meth:`bind_exchange`; ``None`` when there was no such binding."""
        return self._unbind(self._edge(destination_name, source_name, routing_key, arguments))

    def bindings(self) -> Iterator[Binding]:
        """Iterate all bindings, by source. Those of the default exchange are implied by the queues' names."""
        for exchange in self.exchanges.values():
            yield from exchange.bindings.values()

    def bindings_of_queue(self, queue: Queue) -> list[Binding]:
        """Return the bindings that lead to a queue, oldest first."""
        return list(self._bindings_to_queue.get(queue, {}).values())

    # ------------------------------------------------------------------ queues

    def queue_for(self, name: str, owner: object | None = None) -> Queue:
        """Return a queue that ``owner``'s connection may use. Raises :class:`NotFound`, :class:`ResourceLocked`."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        if queue.owner is not None and queue.owner is not owner:
            raise ResourceLocked(
                f"cannot obtain exclusive access to locked queue '{name}' in vhost '{self.name}': "
                "it belongs to another connection"
            )
        return queue

    def declare_queue(
        self,
        name: str,
        *,
        now: int,
        durable: bool = False,
        auto_delete: bool = False,
        owner: object | None = None,
        arguments: Arguments | None = None,
        queue_id: int = 0,
        server_named: bool = False,
    ) -> Queue:
        """Create a queue, or check that the existing one is the same.

        ``owner``: the connection an exclusive queue belongs to. ``server_named``: the broker chose the name, which may
        then start with ``amq.``. Raises :class:`ResourceLocked`, :class:`PreconditionFailed`, :class:`InvalidArgument`,
        :class:`AccessRefused`.
        """
        settings = parse_queue_arguments({} if arguments is None else arguments)
        if name in self.queues:
            queue = self.queue_for(name, owner)
            what = f"queue '{name}' in vhost '{self.name}'"
            _require_same("durable", what, durable, queue.durable)
            _require_same("auto_delete", what, auto_delete, queue.auto_delete)
            _require_same("exclusive", what, owner is not None, queue.owner is not None)
            _require_same_settings(what, settings, queue.settings)
            queue.last_used_at = now
            return queue
        if not server_named:
            self._refuse_reserved("queue", name)
        queue = Queue(
            name,
            settings,
            self.effects,
            self.ledger,
            durable=durable,
            auto_delete=auto_delete,
            owner=owner,
            queue_id=queue_id,
        )
        queue.last_used_at = now
        self.queues[name] = queue
        self._bindings_to_queue[queue] = {}
        self._graph_changed()
        return queue

    def delete_queue(self, queue: Queue, now: int, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete a queue with its bindings, messages and consumers. Returns how many messages were pending.

        Raises :class:`PreconditionFailed` when ``if_unused`` and it has consumers, or ``if_empty`` and messages pend.
        """
        if queue.deleted:
            return 0
        what = f"queue '{queue.name}' in vhost '{self.name}'"
        if if_unused and queue.users:
            raise PreconditionFailed(
                f"{what} in use: it has {queue.consumers.count} consumers and {len(queue.leases)} leases; end them or "
                "delete without if-unused"
            )
        queue.expire(now)
        if if_empty and queue.order.count:
            raise PreconditionFailed(
                f"{what} not empty: it holds {queue.order.count} messages; purge it or delete without if-empty"
            )
        for binding in self.bindings_of_queue(queue):
            self._unbind(binding)
        del self.queues[queue.name]
        del self._bindings_to_queue[queue]
        self._graph_changed()
        pending = queue.delete(now)
        self.effects.queue_deleted(queue)
        return pending

    def check_consumer(self, queue: Queue, *, exclusive: bool) -> None:
        """Check that one more consumer may be attached. Raises :class:`AccessRefused` (AMQP 0-9-1 §1.8.3.3)."""
        if any(consumer.exclusive for consumer in queue.consumers):
            raise AccessRefused(
                f"queue '{queue.name}' in vhost '{self.name}' in exclusive use by another consumer; "
                "cancel that one first"
            )
        if exclusive and queue.users:
            raise AccessRefused(
                f"queue '{queue.name}' in vhost '{self.name}' has {queue.consumers.count} consumers and "
                f"{len(queue.leases)} leases; exclusive use needs a queue without any"
            )

    def consumer_removed(self, queue: Queue, now: int) -> bool:
        """Delete an auto-delete queue that lost its last consumer; call after each consumer that ends.

        A session that closes returns its deliveries first. Returns whether the queue was deleted.
        """
        if queue.deleted or not queue.auto_delete or not queue.had_consumer or queue.users:
            return False
        self.delete_queue(queue, now)
        return True

    def connection_closed(self, owner: object, now: int) -> list[Queue]:
        """Delete the exclusive queues of a connection that ended, and return them."""
        owned = [queue for queue in self.queues.values() if queue.owner is owner]
        for queue in owned:
            self.delete_queue(queue, now)
        return owned

    def tick(self, now: int) -> int:
        """Expire what is due: messages, and queues unused for their ``expires``. Returns when more is due; 0 for never.

        Messages and queues that arrive later may be due earlier, so call it at least every second. Being late costs
        memory and counters only: an expired message is never delivered.
        """
        following = 0
        for queue in list(self.queues.values()):
            queue.expire(now)
            at = queue.next_expiry_at()
            if queue.settings.expires >= 0 and not queue.users:
                unused_at = queue.last_used_at + queue.settings.expires
                if unused_at <= now:
                    self.delete_queue(queue, now)
                    continue
                at = unused_at if at == 0 else min(at, unused_at)
            if at and (following == 0 or at < following):
                following = at
        return following

    # ------------------------------------------------------------------ messages

    def route(self, exchange_name: str, routing_key: str) -> Route:
        """Return where messages for this exchange and key go, from memory while the graph does not change.

        Raises :class:`NotFound`, and :class:`AccessRefused` for an internal exchange.
        """
        route = self._routes.get((exchange_name, routing_key))
        if route is not None:
            return route
        exchange = self.exchange_for(exchange_name)
        if exchange.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{exchange_name}' in vhost '{self.name}'; "
                "publish to one that is bound to it"
            )
        walk = Walk(self.exchanges, self.queues)
        queues = walk.follow(exchange, routing_key, None)
        route = Route(exchange_name, routing_key, queues, self.generation, static=walk.static)
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        self._routes[(exchange_name, routing_key)] = route
        return route

    def targets(self, message: Message, route: Route) -> list[Queue]:
        """Return the queues one message goes to now. Not to be changed. Empty if its exchange is gone."""
        if route.generation != self.generation:
            exchange = self.exchanges.get(route.exchange)
            if exchange is None or exchange.internal:  # gone, or made anew as one nobody may publish to
                return []
            route = self.route(route.exchange, route.routing_key)
        if route.static:
            return route.queues
        return Walk(self.exchanges, self.queues).follow(self.exchanges[route.exchange], route.routing_key, message)

    def publish(self, message: Message, route: Route, now: int) -> int:
        """Put a message into every queue of its route, once each, and store it when it is durable.

        Returns how many queues it reached: 0 means unroutable. A route of an older generation is looked up anew.
        """
        fresh = route.static and route.generation == self.generation
        queues = route.queues if fresh else self.targets(message, route)
        if len(queues) == 1:
            queue = queues[0]
            entry = queue.enqueue(message, now)
            if message.durable and queue.durable and entry.state != REMOVED:
                self.effects.store(message, [entry])
            return 1
        entries = [queue.enqueue(message, now) for queue in queues]
        if message.durable:
            stored = [entry for entry in entries if entry.queue.durable and entry.state != REMOVED]
            if stored:
                self.effects.store(message, stored)
        return len(entries)

    # ------------------------------------------------------------------ the graph

    def _edge(self, destination_name: str, source_name: str, routing_key: str, arguments: Arguments | None) -> Binding:
        self._refuse_default(source_name)
        self._refuse_default(destination_name)
        source = self.exchange_for(source_name)
        destination = self.exchange_for(destination_name)
        return Binding(source, None, destination, routing_key, {} if arguments is None else arguments)

    def _bind(self, binding: Binding) -> Binding:
        existing = binding.source.bindings.get(binding.key)
        if existing is not None:
            return existing
        binding.source.add(binding)
        if binding.queue is not None:
            self._bindings_to_queue[binding.queue][(binding.source.name, binding.key)] = binding
        self._graph_changed()
        return binding

    def _unbind(self, wanted: Binding) -> Binding | None:
        source = wanted.source
        binding = source.bindings.get(wanted.key)
        if binding is None:
            return None
        source.remove(binding)
        if binding.queue is not None:
            del self._bindings_to_queue[binding.queue][(source.name, binding.key)]
        self._graph_changed()
        if source.auto_delete and not source.bindings and self.exchanges.get(source.name) is source:
            self._drop_exchange(source)
        return binding

    def _drop_exchange(self, exchange: Exchange) -> None:
        """Take an exchange out of the graph. Sources it was bound to may lose their last binding and go too."""
        del self.exchanges[exchange.name]
        for binding in list(exchange.bindings.values()):
            self._unbind(binding)
        for source in list(self.exchanges.values()):
            for binding in [edge for edge in source.bindings.values() if edge.exchange is exchange]:
                self._unbind(binding)
        self._graph_changed()
        self.effects.exchange_deleted(exchange.name)

    def _graph_changed(self) -> None:
        self.generation += 1
        self._routes.clear()

    def _refuse_default(self, exchange_name: str) -> None:
        if not exchange_name:
            raise AccessRefused(f"operation not permitted on the default exchange of vhost '{self.name}'")

    def _refuse_reserved(self, kind: str, name: str) -> None:
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefused(
                f"{kind} name '{name}' in vhost '{self.name}' contains reserved prefix 'amq.*'; choose another name"
            )


def _spell(value: object) -> str:
    if value is None:
        return "none"
    return f"'{str(value).lower()}'" if isinstance(value, bool) else f"'{value}'"


def _require_same(argument: str, what: str, received: object, current: object) -> None:
    """Raise :class:`PreconditionFailed` in RabbitMQ's words when a redeclaration differs."""
    if received != current:
        raise PreconditionFailed(
            f"inequivalent arg '{argument}' for {what}: received {_spell(received)} but current is {_spell(current)}; "
            "declare it with the current value, passively, or delete it first"
        )


def _require_same_settings(what: str, received: QueueSettings, current: QueueSettings) -> None:
    if received == current:
        return
    wanted, existing = describe(received), describe(current)
    for name in sorted({*wanted, *existing}):
        _require_same(name, what, wanted.get(name), existing.get(name))
