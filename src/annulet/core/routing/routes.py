"""From a node and a routing key to queues: a walk over the routing graph, remembered as :class:`Route`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import RoutingTooLong
from annulet.core.base.sealed_names import is_sealed_name
from annulet.core.base.steps import Steps
from annulet.core.message.filters import Verdicts
from annulet.core.message.message import PropertyValue
from annulet.core.routing.address_names import split_qualified
from annulet.core.routing.diverts import Diversion, Divert
from annulet.core.routing.exchanges.address import ANYCAST, MULTICAST, Address

if TYPE_CHECKING:
    from annulet.core.message.message import Message
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.exchanges.exchange import Exchange
    from annulet.core.routing.routing_graph import RoutingGraph


NODE_STEPS: Final = 4
"""Steps of one exchange or address with one routing key, beside its bindings: some 2 µs."""


class Route:
    """Where messages for one exchange and routing key go.

    ``fixed``: ``queues`` is the answer for every message. ``static``: and none of them may refuse it. Otherwise it is
    decided per message. A route of an older ``generation`` is looked up anew when it is used. ``address``: the key of
    limits, duplicate detection and settings: the exchange or address sent to, for the default exchange the key.
    """

    __slots__ = (
        "address",
        "exchange",
        "fixed",
        "generation",
        "queues",
        "refusal",
        "routing_key",
        "routing_type",
        "static",
    )

    def __init__(
        self,
        exchange: str,
        routing_key: str,
        queues: list[Queue],
        generation: int,
        *,
        static: bool = True,
        routing_type: str = "",
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.queues = queues
        self.generation = generation
        self.static = static
        self.fixed = static
        self.routing_type = routing_type  # anycast, multicast, or empty for both; the key of addresses
        self.refusal = ""  # why it is too long for any message
        self.address = exchange or address_of_key(routing_key)

    def refuse(self) -> None:
        """Raise :class:`RoutingTooLong` if the way is too long, so that it is not walked again for each message."""
        if self.refusal:
            raise RoutingTooLong(self.refusal)


def address_of_key(routing_key: str) -> str:
    """Return the address that a routing key of the default exchange names: ``address::queue`` names its address."""
    qualified = split_qualified(routing_key)
    return routing_key if qualified is None or not qualified[0] else qualified[0]


class Walk:
    """One walk: follows bindings, exchange-to-exchange bindings and alternate exchanges, each node and key once.

    An exchange's alternate is followed when none of its own bindings took the message (RabbitMQ). An alternate that
    does not exist is as good as none. ``looking``: no turn is used up. ``applied``: names of the diverts that copied
    this message already; ``diversions`` adds to it. ``steps``: what is left of the message's, by default all.
    """

    __slots__ = (
        "_diverted_at",
        "_headers",
        "_verdicts",
        "applied",
        "diversions",
        "graph",
        "looking",
        "queues",
        "routing_type",
        "static",
        "steps",
    )

    def __init__(
        self,
        graph: RoutingGraph,
        *,
        routing_type: str = "",
        looking: bool = False,
        applied: set[str] | None = None,
        steps: Steps | None = None,
    ) -> None:
        self.graph = graph
        self.steps = Steps() if steps is None else steps
        self.routing_type = routing_type
        self.looking = looking
        self.applied: set[str] = set() if applied is None else applied
        self.queues: dict[Queue, None] = {}  # in the order they were reached, each once
        self.diversions: list[Diversion] = []
        self.static = True
        self._diverted_at: dict[str, bool] = {}  # by address: whether an exclusive divert took the message away
        self._headers: dict[str, PropertyValue] | None = None
        self._verdicts: Verdicts | None = None

    def follow(self, start: Exchange, routing_key: str, message: Message | None) -> list[Queue]:
        """Return the queues reached. Without a message, nothing that asks about it matches and ``static`` turns false.

        Called again with another key, it adds the queues that key reaches. Raises :class:`RoutingTooLong`.
        """
        if message is not None and self._verdicts is None:
            self._verdicts = Verdicts(message)
        waiting = [(start, routing_key)]
        seen = {(start.name, routing_key)}
        while waiting:
            exchange, key = waiting.pop()
            for following in self._step(exchange, key):
                place = (following[0].name, following[1])
                if place not in seen:
                    seen.add(place)
                    waiting.append(following)
        return list(self.queues)

    def _step(self, exchange: Exchange, routing_key: str) -> list[tuple[Exchange, str]]:
        if not exchange.name:  # the default exchange is bound to every queue by its name (AMQP 0-9-1 §3.1.3.1)
            return self._by_name(routing_key)
        if self.graph.diverts and self._diverted(exchange.name):
            return []
        following: list[tuple[Exchange, str]] = []
        taken = False
        if isinstance(exchange, Address):
            taken = self._anycast(exchange)
            self._rings(exchange)
            following.extend((address, routing_key) for address in self.graph.wildcards_for(exchange.name, self.steps))
        bindings = self._bindings(exchange, routing_key)
        reached = len(self.queues)
        for binding in bindings:
            if not self._admits(binding):
                continue
            if binding.queue is not None:
                taken = self._reach(binding.queue) or taken
            elif binding.exchange is not None and not binding.exchange.dropped:
                replaced = binding.replacement_key
                following.append((binding.exchange, routing_key if replaced is None else replaced))
        self.steps.take(NODE_STEPS + len(bindings) - (len(self.queues) - reached))
        if not taken and not following and exchange.alternate is not None:
            alternate = self.graph.exchanges.get(exchange.alternate)
            if alternate is not None:
                following.append((alternate, routing_key))
        return following

    def _bindings(self, exchange: Exchange, routing_key: str) -> list[Binding]:
        headers: dict[str, PropertyValue] = {}
        if exchange.uses_headers:
            self.static = False
            if self._verdicts is None:
                return []
            headers = self._headers_of(self._verdicts.message)
        elif self.routing_type == ANYCAST and isinstance(exchange, Address):
            return []
        return exchange.match(routing_key, headers, self.steps)

    def _by_name(self, name: str) -> list[tuple[Exchange, str]]:
        """Follow the default exchange: a queue, else an address, else ``address::queue``, else wildcard addresses."""
        graph = self.graph
        queue = graph.queues.get(name)
        if queue is not None:
            if not (graph.diverts and self._diverted(name)):
                self._reach(queue)
            return []
        node = graph.exchanges.get(name)
        if isinstance(node, Address) and name:
            return [(node, name)]
        qualified = split_qualified(name)
        if qualified is not None:
            self._qualified(qualified[0], qualified[1])
            return []
        if graph.diverts and self._diverted(name):
            return []
        return [(address, name) for address in graph.wildcards_for(name, self.steps)]

    def _qualified(self, address_name: str, queue_name: str) -> None:
        """Reach one queue of an address, whatever the address would choose; no address is any."""
        queue = self.graph.queues.get(queue_name)
        if queue is None:
            return
        address = self.graph.exchanges.get(address_name)
        if address_name in {"", queue_name} or (isinstance(address, Address) and queue in address.queues()):
            self._reach(queue)

    def _anycast(self, address: Address) -> bool:
        """Reach the next of an address's anycast queues that takes the message."""
        queues = address.anycast_queues
        count = len(queues)
        if count == 0 or self.routing_type == MULTICAST:
            return False
        if count > 1:
            self.static = False
            if self._verdicts is None:
                return False
        for offset in range(count):
            place = (address.turn + offset) % count
            queue = queues[place]
            bindings = address.anycast[queue].values()
            if any(self._admits(binding) for binding in bindings) and self._reach(queue):
                if not self.looking:
                    address.turn = (place + 1) % count
                return True
        return False

    def _rings(self, address: Address) -> None:
        """A retroactive address keeps its messages for later queues."""
        for routing_type, ring in address.rings.items():
            if self.routing_type in {"", routing_type}:
                self.queues[ring] = None

    def _reach(self, queue: Queue) -> bool:
        """Note a queue unless its own filter keeps the message out; say whether it takes it."""
        if queue.deleted or is_sealed_name(queue.name):  # its source is being removed, or it is closed to clients
            return False
        filters = self.graph.filters
        if filters:
            selector = filters.get(queue)
            if selector is not None:
                self.static = False
                if self._verdicts is None or not self._verdicts.admits(selector, self.steps):
                    return False
        self.queues[queue] = None
        return True

    def _admits(self, binding: Binding) -> bool:
        if binding.selector is None and not binding.no_local:
            return True
        self.static = False
        verdicts = self._verdicts
        return (
            verdicts is not None
            and verdicts.admits(binding.selector, self.steps)
            and not binding.local(verdicts.message)
        )

    def _diverted(self, address: str) -> bool:
        """Note the diverts that copy a message sent to ``address``; say whether an exclusive one took it away.

        Decided once for each address, however many keys and edges lead there.
        """
        known = self._diverted_at.get(address)
        if known is not None:
            return known
        watching = self.graph.diverts.watching(address, self.steps)
        if not watching:
            return False
        self.static = False
        verdicts = self._verdicts
        if verdicts is None:
            return False
        exclusive = False
        for divert in watching:
            if exclusive and not divert.exclusive:
                break
            if divert.name not in self.applied and verdicts.admits(divert.selector, self.steps):
                self._apply(divert, address)
                exclusive = exclusive or divert.exclusive
        self._diverted_at[address] = exclusive
        return exclusive

    def _apply(self, divert: Divert, address: str) -> None:
        self.applied.add(divert.name)
        self.diversions.append(Diversion(divert, address))

    def _headers_of(self, message: Message) -> dict[str, PropertyValue]:
        if self._headers is None:
            self._headers = message.origin.view.properties(message).application
        return self._headers
