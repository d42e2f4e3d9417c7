"""The routing graph of a virtual host: its nodes and the edges between them, and the routes remembered over them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import AccessRefused, InvalidArgument, NotFound, PreconditionFailed, RoutingTooLong
from annulet.core.base.steps import ROUTING_STEPS_MAX, Steps
from annulet.core.configuration.arguments import Arguments, parse_alternate_exchange
from annulet.core.configuration.arguments.values import NAME_BYTES_MAX, refuse_line_breaks, shown
from annulet.core.configuration.redeclaration import require_same
from annulet.core.routing.address_names import QUALIFIER, AddressPatterns, is_wildcard, names_management
from annulet.core.routing.bindings import Binding, BindingKey
from annulet.core.routing.diverts import DivertTable
from annulet.core.routing.dropped_edges import EDGES_AT_ONCE, DroppedEdges
from annulet.core.routing.exchanges import EXCHANGE_TYPES, Address, DirectExchange, Exchange
from annulet.core.routing.exchanges.address import ROUTING_TYPES_ARGUMENT, parse_routing_types
from annulet.core.routing.routes import Route, Walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.message.message import Message
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.node_effects import NodeEffects
    from annulet.selector.selector import Selector

REMEMBERED_KEY_CHARACTERS_MAX: Final = 255
"""Characters of a routing key whose route is remembered: any that AMQP 0-9-1 can say. AMQP 1.0 and STOMP have keys of
64 KiB, and with such keys the cache would take 600 MB."""

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


class RoutingGraph:
    """The nodes of a virtual host with their bindings: exchanges and addresses share one namespace, ``exchanges``.

    ``generation`` grows with every change of the graph; routes of an older generation are looked up anew.
    ``filters``: the compiled selector of every queue that has one.
    """

    def __init__(self, name: str, effects: NodeEffects) -> None:
        self.name = name
        self.effects = effects
        self.exchanges: dict[str, Exchange] = {"": DirectExchange("", durable=True)}
        self.queues: dict[str, Queue] = {}
        self.addresses: dict[str, Address] = {}  # those among ``exchanges``
        self.filters: dict[Queue, Selector] = {}
        self.diverts = DivertTable()
        self.generation = 0
        self.steps_taken = 0  # of all ways that were looked up, see :mod:`annulet.core.base.steps`
        self.latest = 0  # the latest time a caller gave, for what happens without one, milliseconds since 1970
        self._leaving: deque[Binding] | None = None  # bindings of nodes that are gone, while they are taken away
        self._wildcards = AddressPatterns()
        self._bindings_to_queue: dict[Queue, dict[tuple[str, BindingKey], Binding]] = {}
        self._routes: dict[tuple[str, str], Route] = {}
        self._typed_routes: dict[tuple[str, str, str], Route] = {}  # of sends that name a routing type
        for exchange_name, type_name in STANDARD_EXCHANGES:
            self.exchanges[exchange_name] = EXCHANGE_TYPES[type_name](exchange_name, durable=True)

    # ------------------------------------------------------------------ exchanges

    @property
    def routes_remembered(self) -> int:
        """How many routes are remembered until a binding changes, at most :data:`ROUTES_MAX`."""
        return len(self._routes) + len(self._typed_routes)

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
        stored: bool = False,
    ) -> Exchange:
        """Create an exchange, or check that the existing one is the same. ``passive`` only asks whether it exists.

        ``stored``: it was declared before the broker started, so its name was accepted once.

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
            require_same("type", what, type_name, existing.type_name)
            require_same("durable", what, durable, existing.durable)
            require_same("auto_delete", what, auto_delete, existing.auto_delete)
            require_same("internal", what, internal, existing.internal)
            require_same("alternate-exchange", what, alternate, existing.alternate)
            if isinstance(existing, Address):
                wanted = parse_routing_types((arguments or {}).get(ROUTING_TYPES_ARGUMENT))
                require_same(ROUTING_TYPES_ARGUMENT, what, ",".join(wanted), ",".join(existing.routing_types))
            return existing
        if not stored:
            self._refuse_name("exchange", name)
        if exchange_class is Address and QUALIFIER in name:
            raise InvalidArgument(
                f"address name '{name}' contains '{QUALIFIER}', which separates an address from its queue; leave it out"
            )
        exchange = exchange_class(
            name,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            alternate=alternate,
            arguments=arguments,
        )
        self.exchanges[name] = exchange
        self.graph_changed()
        if isinstance(exchange, Address):
            self.addresses[name] = exchange
            if is_wildcard(name):
                self._wildcards.add(name)
            self.address_added(exchange)
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
        if if_unused and any(not edge.leads_nowhere for edge in exchange.bindings.values()):
            raise PreconditionFailed(
                f"exchange '{name}' in vhost '{self.name}' in use: it has {len(exchange.bindings)} bindings; "
                "unbind them or delete without if-unused"
            )
        self._drop_exchange(exchange)

    def address_added(self, address: Address) -> None:
        """An address is new: the objects that its settings require are created. Nothing, for a bare graph."""

    def address_dropped(self, address: Address) -> None:
        """An address is gone, its bindings not yet. Nothing, for a bare graph."""

    def exchange_dropped(self, exchange: Exchange) -> None:
        """An exchange or address is gone with its bindings. Nothing, for a bare graph."""

    def before_routing(self) -> None:
        """Called before a route is looked up anew. Nothing, for a bare graph."""

    def kept_for(self, address: Address, binding: Binding) -> list[Message]:
        """Return what a retroactive address kept for a queue that is about to join. Nothing, for a bare graph.

        Raises :class:`~annulet.core.base.errors.PreconditionFailed` when that cannot be read, and then it does not
        join.
        """
        del address, binding
        return []

    def queue_joined(self, address: Address, binding: Binding, kept: list[Message]) -> None:
        """A queue became one of an address's: it gets what that ``kept``. Nothing, for a bare graph."""

    def binding_removed(self, binding: Binding) -> None:
        """A binding is gone: messages kept for the queues behind it may be removed too. Nothing, for a bare graph."""

    def wildcards_for(self, name: str, steps: Steps | None = None) -> list[Address]:
        """Return the addresses with wildcards that ``name`` fits; a name with wildcards is not looked for in others.

        Looking for them takes of a message's ``steps``.
        """
        if not self._wildcards or name in self._wildcards:
            return []
        return [self.addresses[pattern] for pattern in self._wildcards.fitting(name, steps)]

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
            yield from [edge for edge in exchange.bindings.values() if not edge.leads_nowhere]

    def bindings_of_queue(self, queue: Queue) -> list[Binding]:
        """Return the bindings that lead to a queue, oldest first."""
        return [edge for edge in self._bindings_to_queue.get(queue, {}).values() if not edge.source.dropped]

    # ------------------------------------------------------------------ routes

    def route(self, exchange_name: str, routing_key: str, routing_type: str = "") -> Route:
        """Return where messages for this exchange and key go, from memory while the graph does not change.

        ``routing_type``: only queues of an address that have this one, empty for both. Raises :class:`NotFound`, and
        :class:`AccessRefused` for an internal exchange.
        """
        if routing_type:
            route = self._typed_routes.get((exchange_name, routing_key, routing_type))
        else:
            route = self._routes.get((exchange_name, routing_key))
        if route is not None:
            return route
        exchange = self.exchange_for(exchange_name)
        if exchange.internal:
            raise AccessRefused(
                f"cannot publish to internal exchange '{exchange_name}' in vhost '{self.name}'; "
                "publish to one that is bound to it"
            )
        self.before_routing()
        walk = Walk(self, routing_type=routing_type, looking=True)
        refusal = ""
        try:
            queues = walk.follow(exchange, routing_key, None)
        except RoutingTooLong as error:
            queues, walk.static, refusal = [], False, str(error)
        self.steps_taken += ROUTING_STEPS_MAX - walk.steps.left
        route = Route(exchange_name, routing_key, queues, self.generation, routing_type=routing_type)
        route.static = route.fixed = walk.static
        route.refusal = refusal
        if walk.static:
            self.judge_route(route)
        if len(routing_key) > REMEMBERED_KEY_CHARACTERS_MAX:
            return route
        if self.routes_remembered >= ROUTES_MAX:
            self._routes.clear()
            self._typed_routes.clear()
        if routing_type:
            self._typed_routes[(exchange_name, routing_key, routing_type)] = route
        else:
            self._routes[(exchange_name, routing_key)] = route
        return route

    def judge_route(self, route: Route) -> None:
        """Take back ``static`` and ``fixed`` where more than the graph has a say. Nothing has, for a bare graph."""

    def renewed(self, route: Route) -> Route | None:
        """Return the route as the graph is now; ``None`` when its exchange is gone or takes no publishes any more."""
        if route.generation == self.generation:
            return route
        exchange = self.exchanges.get(route.exchange)
        if exchange is None or exchange.internal:
            return None
        return self.route(route.exchange, route.routing_key, route.routing_type)

    def route_to(self, name: str, routing_key: str, routing_type: str = "", *, forwarded: bool = False) -> Route:
        """Return the route to a node by name.

        ``forwarded``: the broker sends, and may use internal exchanges. Raises :class:`AccessRefused` for one of those
        otherwise.
        """
        node = self.exchanges.get(name) if name else None
        if node is None:
            return self.route("", name, routing_type)
        key = name if isinstance(node, Address) else routing_key
        if forwarded and node.internal:
            return Route(name, key, [], self.generation, static=False, routing_type=routing_type)
        return self.route(name, key, routing_type)

    def targets(self, message: Message, route: Route) -> list[Queue]:
        """Return the queues one message and its copies would go to now, not to be changed; none if the exchange went.

        Limits and duplicates are not asked, and no anycast queue's turn is used up. Raises
        :class:`~annulet.core.base.steps.RoutingTooLong`.
        """
        current = self.renewed(route)
        if current is None:
            return []
        if current.fixed:
            return current.queues
        reached: dict[Queue, None] = {}
        applied: set[str] = set()
        steps = Steps()
        before = steps.left
        waiting = [current]
        try:
            while waiting:
                way = waiting.pop(0)
                way.refuse()
                walk = Walk(self, routing_type=way.routing_type, looking=True, applied=applied, steps=steps)
                reached.update(dict.fromkeys(walk.follow(self.exchanges[way.exchange], way.routing_key, message)))
                for diversion in walk.diversions:
                    routing_type = diversion.divert.routing_type_for(way.routing_type)
                    key = message.origin.routing_key
                    for name in diversion.divert.forwarding_addresses:
                        waiting += [self.route_to(name, key, routing_type, forwarded=True)]
        finally:
            self.steps_taken += before - steps.left
        return list(reached)

    # ------------------------------------------------------------------ the graph

    def _edge(self, destination_name: str, source_name: str, routing_key: str, arguments: Arguments | None) -> Binding:
        self._refuse_default(source_name)
        self._refuse_default(destination_name)
        source = self.exchange_for(source_name)
        destination = self.exchange_for(destination_name)
        return Binding(source, None, destination, routing_key, {} if arguments is None else arguments)

    def _bind(self, binding: Binding) -> Binding:
        existing = binding.source.bindings.get(binding.key)
        if existing is not None and not existing.leads_nowhere:
            return existing
        if existing is not None:  # to something of the same name that is gone
            binding.source.remove(existing)
            self._unlink(existing)
        kept = self.kept_for(binding.source, binding) if isinstance(binding.source, Address) else []
        binding.source.add(binding)
        if binding.queue is not None:
            self._bindings_to_queue[binding.queue][(binding.source.name, binding.key)] = binding
        elif binding.exchange is not None:
            binding.exchange.incoming[binding] = None
        self.graph_changed()
        if isinstance(binding.source, Address):
            self.queue_joined(binding.source, binding, kept)
        return binding

    def _unbind(self, wanted: Binding) -> Binding | None:
        source = wanted.source
        binding = source.bindings.get(wanted.key)
        if binding is None:
            return None
        self.drop_edge(binding)
        self.graph_changed()
        return binding

    def drop_edges(self, edges: list[Binding]) -> None:
        """Take away bindings of which one end is gone: at once, or very many in slices of work.

        With the last binding its source may go, whose bindings go next: a chain of exchanges is a list, no recursion.
        """
        if self._leaving is not None:
            self._leaving.extend(edges)
            return
        leaving = deque(edges)
        if len(leaving) <= EDGES_AT_ONCE:
            self.drop_some(leaving, EDGES_AT_ONCE)
        if leaving:
            self.effects.later(DroppedEdges(self, leaving), self.latest)

    def drop_some(self, leaving: deque[Binding], most: int) -> None:
        """Take away so many bindings; those which go with them are appended."""
        before, self._leaving = self._leaving, leaving
        try:
            for _ in range(most):
                if not leaving:
                    return
                self.drop_edge(leaving.popleft())
        finally:
            self._leaving = before

    def drop_edge(self, binding: Binding) -> None:
        """Take a binding away, unless it is already. A source that goes with its last binding goes too."""
        source = binding.source
        if source.bindings.get(binding.key) is not binding:
            return
        source.remove(binding)
        self._unlink(binding)
        if source.dropped:
            return  # messages kept for all of its bindings were removed with it
        self.binding_removed(binding)
        if source.auto_delete and not source.bindings:
            self._drop_exchange(source)

    def _unlink(self, binding: Binding) -> None:
        """Take a binding from what its destination knows."""
        if binding.exchange is not None:
            binding.exchange.incoming.pop(binding, None)
        elif binding.queue is not None:
            known = self._bindings_to_queue.get(binding.queue)
            place = (binding.source.name, binding.key)
            if known is not None and known.get(place) is binding:
                del known[place]

    def _drop_exchange(self, exchange: Exchange) -> None:
        """Take an exchange out of the graph. Sources it was bound to may lose their last binding and go too."""
        del self.exchanges[exchange.name]
        address = self.addresses.pop(exchange.name, None)
        if address is not None:
            self._wildcards.remove(exchange.name)
            self.address_dropped(address)
        exchange.dropped = True
        edges = list(exchange.bindings.values())
        for binding in edges:
            if binding.queue is not None:
                self.binding_removed(binding)
                break
        edges += exchange.incoming
        self.drop_edges(edges)
        self.graph_changed()
        self.exchange_dropped(exchange)
        self.effects.exchange_deleted(exchange.name)

    def graph_changed(self) -> None:
        """Forget all routes: their content may be outdated."""
        self.generation += 1
        self._routes.clear()
        self._typed_routes.clear()

    def _refuse_default(self, exchange_name: str) -> None:
        if not exchange_name:
            raise AccessRefused(f"operation not permitted on the default exchange of vhost '{self.name}'")

    def _refuse_name(self, kind: str, name: str) -> None:
        """Refuse a name that only the broker gives, one that no AMQP 0-9-1 client could say, and line breaks.

        The name of a management node too: a request for one is answered that there is none.
        """
        refuse_line_breaks(kind, name)
        length = len(name.encode(errors="surrogatepass"))
        if length > NAME_BYTES_MAX:
            raise InvalidArgument(
                f"{kind} name {shown(name)} in vhost '{self.name}' has {length} bytes; give one of at most "
                f"{NAME_BYTES_MAX}"
            )
        if name.startswith(RESERVED_PREFIX):
            raise AccessRefused(
                f"{kind} name '{name}' in vhost '{self.name}' contains reserved prefix 'amq.*'; choose another name"
            )
        if names_management(name):
            raise AccessRefused(
                f"{kind} name '{name}' in vhost '{self.name}' is reserved for a management node; choose another name"
            )
