"""Where a message would go, and why: each edge that it meets, followed or not, with the reason. Nothing is changed.

The queues are those that :meth:`RoutingGraph.targets` returns, the walk of real messages. The edges come from a walk of
their own over the same nodes, which asks the same exchanges, filters and diverts, and looks at the rest too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from annulet.core.base.steps import Steps
from annulet.core.message.filters import Verdicts
from annulet.core.routing.address_names import split_qualified
from annulet.core.routing.bindings import FILTER, TO_EXCHANGE, TO_QUEUE, text_argument
from annulet.core.routing.exchanges.address import ANYCAST, MULTICAST, Address
from annulet.core.routing.exchanges.headers import HeadersPattern, equal_values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.message.message import Message
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.exchanges.exchange import Exchange
    from annulet.core.routing.routes import Route
    from annulet.core.routing.routing_graph import RoutingGraph

EDGES_MAX: Final = 500
"""Edges of an explanation: some 5 ms of the loop uncompiled, and more than anybody reads."""

TO_DIVERT: Final = "divert"
TO_ADDRESS: Final = "address"

FANOUT_TEXT: Final = "a fanout exchange sends to every binding"
RESCUED: Final = "no queue took it: the settings of the address send it to the dead-letter address"


@dataclass(frozen=True, slots=True)
class Edge:
    """One edge of the graph and whether the message follows it. ``copy_of``: the divert whose copy meets the edge."""

    source: str
    key: str
    kind: str
    target: str
    fits: bool
    why: str
    copy_of: str = ""


class Edges:
    """The first :data:`EDGES_MAX` edges of an explanation, and how many more there were."""

    def __init__(self) -> None:
        self.noted: list[Edge] = []
        self.left_out = 0

    @property
    def full(self) -> bool:
        """Whether no further edge is noted."""
        return len(self.noted) >= EDGES_MAX

    def note(self, edge: Edge) -> None:
        """Add an edge, or count it."""
        if self.full:
            self.left_out += 1
        else:
            self.noted.append(edge)


@dataclass(frozen=True, slots=True)
class Explanation:
    """``queues`` would get the message; ``refusals``: why some would not take it; ``left_out``: further edges."""

    queues: list[str]
    refusals: dict[str, str]
    edges: list[Edge]
    left_out: int


def explain_route(host: VirtualHost, message: Message, route: Route, further_keys: tuple[str, ...] = ()) -> Explanation:
    """Explain the way of a message that is not sent.

    Raises :class:`~annulet.core.base.errors.RoutingTooLong` for a way that a real message could not go either.
    """
    reached: dict[Queue, None] = {}
    edges = Edges()
    ways = [route, *(host.route(route.exchange, key) for key in further_keys)]
    for way in ways:
        reached.update(dict.fromkeys(host.targets(message, way)))
    copied = _follow(host, message, ways, edges)
    settings = host.address_settings.resolve(route.address)
    target = settings.dead_letter_address
    if not reached and not copied and settings.send_to_dla_on_no_route and target not in {"", route.address}:
        edges.note(Edge(route.address, "", TO_ADDRESS, target, fits=True, why=RESCUED))
        rescue = host.route_to(target, message.origin.routing_key, forwarded=True)
        reached.update(dict.fromkeys(host.targets(message, rescue)))
        _follow(host, message, [rescue], edges)
    refusals = {queue.name: queue.refusal(message) for queue in reached}
    return Explanation(
        [queue.name for queue in reached],
        {name: refusal for name, refusal in refusals.items() if refusal},
        edges.noted,
        edges.left_out,
    )


def _follow(host: VirtualHost, message: Message, routes: list[Route], edges: Edges) -> bool:
    """Note the edges on these routes, and on those of the copies that diverts make; return whether there are any."""
    steps, diverted = Steps(), dict.fromkeys([""])
    ways = [(route, "") for route in routes]
    for route, copy_of in ways:
        walk = _Walk(host, message, route.routing_type, copy_of, steps, diverted, edges)
        walk.follow(host.exchanges[route.exchange], route.routing_key)
        for name in walk.copies:
            divert = host.diverts.by_name[name]
            kind = divert.routing_type_for(route.routing_type)
            key = message.origin.routing_key
            ways += [(host.route_to(to, key, kind, forwarded=True), name) for to in divert.forwarding_addresses]
    return len(diverted) > 1


class _Walk:
    """One walk from a node: notes each edge that it meets. ``copies``: names of the diverts that copied the message."""

    def __init__(
        self,
        graph: RoutingGraph,
        message: Message,
        routing_type: str,
        copy_of: str,
        steps: Steps,
        diverted: dict[str, None],
        edges: Edges,
    ) -> None:
        self.copies: list[str] = []
        self._edges = edges
        self._graph = graph
        self._message = message
        self._verdicts = Verdicts(message)
        self._headers = message.origin.view.properties(message).application
        self._routing_type = routing_type
        self._copy_of = copy_of
        self._steps = steps
        self._diverted = diverted
        self._taken_away: dict[str, bool] = {}

    def follow(self, start: Exchange, routing_key: str) -> None:
        """Look at every edge from here, and from the nodes that the message reaches."""
        waiting = [(start, routing_key)]
        seen = {(start.name, routing_key)}
        while waiting:
            exchange, key = waiting.pop()
            for following in self._step(exchange, key):
                place = (following[0].name, following[1])
                if place not in seen:
                    seen.add(place)
                    waiting.append(following)

    def _note(self, source: str, key: str, kind: str, target: str, *, fits: bool, why: str) -> None:
        self._edges.note(Edge(source, key, kind, target, fits, why, self._copy_of))

    def _step(self, exchange: Exchange, key: str) -> list[tuple[Exchange, str]]:
        if not exchange.name:
            return self._by_name(key)
        if self._away(exchange.name):
            return []
        following: list[tuple[Exchange, str]] = []
        taken = False
        if isinstance(exchange, Address):
            taken = self._anycast(exchange)
            following += self._wildcards(exchange.name, key)
        matching = [] if self._only_anycast(exchange) else exchange.match(key, self._headers, self._steps)
        for binding in matching:
            if not self._admitted(binding):
                continue
            why = self._matched(exchange, binding, fits=True)
            if binding.queue is not None:
                taken = self._reach(exchange.name, binding.routing_key, binding.queue, why) or taken
            elif binding.exchange is not None and not binding.exchange.dropped:
                replaced = binding.replacement_key
                further = "" if replaced is None else f"; it continues with the key {replaced!r}"
                target = binding.exchange.name
                self._note(exchange.name, binding.routing_key, TO_EXCHANGE, target, fits=True, why=why + further)
                following.append((binding.exchange, key if replaced is None else replaced))
        self._others(exchange, set(matching))
        alternate = None if exchange.alternate is None else self._graph.exchanges.get(exchange.alternate)
        if alternate is not None:
            goes = not taken and not following
            why = "no binding took it, so the alternate exchange gets it"
            kept = "a binding took it, so the alternate exchange gets nothing"
            self._note(exchange.name, "", TO_EXCHANGE, alternate.name, fits=goes, why=why if goes else kept)
            if goes:
                following.append((alternate, key))
        return following

    def _only_anycast(self, exchange: Exchange) -> bool:
        return self._routing_type == ANYCAST and isinstance(exchange, Address) and not exchange.uses_headers

    def _admitted(self, binding: Binding) -> bool:
        """Return whether the filter of a binding admits the message; note the edge if it does not."""
        if self._verdicts.admits(binding.selector, self._steps):
            return True
        why = f"the filter of the binding refuses it: {text_argument(binding.arguments, FILTER)}"
        kind, target = binding.destination_kind, binding.destination_name
        self._note(binding.source.name, binding.routing_key, kind, target, fits=False, why=why)
        return False

    def _others(self, exchange: Exchange, matching: set[Binding]) -> None:
        """Note the bindings that do not match, as far as there is room."""
        if isinstance(exchange, Address):
            return  # its bindings have no condition but the routing type, which is noted with each queue
        for place, binding in enumerate(exchange.bindings.values()):
            if self._edges.full:
                self._edges.left_out += len(exchange.bindings) - max(place, len(matching))
                return
            if binding not in matching and not binding.leads_nowhere:
                kind, target = binding.destination_kind, binding.destination_name
                why = self._matched(exchange, binding, fits=False)
                self._note(exchange.name, binding.routing_key, kind, target, fits=False, why=why)

    def _matched(self, exchange: Exchange, binding: Binding, *, fits: bool) -> str:
        """Return why a binding takes the message or not, by the rule of its exchange."""
        rule = exchange.type_name
        if rule == "topic":
            return "the pattern covers the key" if fits else "the pattern does not cover the key"
        if rule == "direct":
            return "the keys are equal" if fits else "the keys differ"
        if rule == "headers":
            pattern = HeadersPattern(binding.arguments)
            found = sum(
                name in self._headers and (value is None or equal_values(value, self._headers[name]))
                for name, value in pattern.wanted
            )
            needed = "all" if pattern.match_all else "any"
            return f"{found} of {len(pattern.wanted)} headers match, {needed} needed"
        if rule == "address":
            return "the address is multicast: each of its queues gets it"
        return FANOUT_TEXT

    def _reach(self, source: str, key: str, queue: Queue, why: str) -> bool:
        """Note the edge to a queue, which its own filter may close."""
        if self._graph.queues.get(queue.name) is not queue:
            return False  # it was deleted, and its bindings go in slices
        selector = self._graph.filters.get(queue)
        if selector is not None and not self._verdicts.admits(selector, self._steps):
            why = f"the selector of the queue refuses it: {selector.text}"
            self._note(source, key, TO_QUEUE, queue.name, fits=False, why=why)
            return False
        self._note(source, key, TO_QUEUE, queue.name, fits=True, why=why)
        return True

    def _by_name(self, name: str) -> list[tuple[Exchange, str]]:
        """Follow the default exchange: a queue, else an address, else ``address::queue``, else wildcard addresses."""
        queue = self._graph.queues.get(name)
        if queue is not None:
            if not self._away(name):
                self._reach("", name, queue, "the queue has this name")
            return []
        node = self._graph.exchanges.get(name)
        if isinstance(node, Address) and name:
            self._note("", name, TO_ADDRESS, name, fits=True, why="the address has this name")
            return [(node, name)]
        qualified = split_qualified(name)
        if qualified is not None:
            self._qualified(name, *qualified)
            return []
        if self._away(name):
            return []
        following = self._wildcards(name, name)
        if not following:
            self._note("", name, TO_QUEUE, name, fits=False, why="no queue and no address has this name")
        return following

    def _qualified(self, name: str, address_name: str, queue_name: str) -> None:
        queue, address = self._graph.queues.get(queue_name), self._graph.exchanges.get(address_name)
        if queue is None:
            self._note("", name, TO_QUEUE, queue_name, fits=False, why="no queue has this name")
        elif address_name in {"", queue_name} or (isinstance(address, Address) and queue in address.queues()):
            self._reach("", name, queue, "the key names a queue of the address")
        else:
            why = f"the queue is none of the address {address_name!r}"
            self._note("", name, TO_QUEUE, queue_name, fits=False, why=why)

    def _wildcards(self, name: str, key: str) -> list[tuple[Exchange, str]]:
        found: list[tuple[Exchange, str]] = []
        why = "the wildcards of the address cover the name"
        for address in self._graph.wildcards_for(name, self._steps):
            self._note(name, key, TO_ADDRESS, address.name, fits=True, why=why)
            found.append((address, key))
        return found

    def _anycast(self, address: Address) -> bool:
        """Note the anycast queues of an address: the next one that takes the message gets it."""
        queues = address.anycast_queues
        if not queues:
            return False
        if self._routing_type == MULTICAST:
            for queue in queues:
                self._note(address.name, "", TO_QUEUE, queue.name, fits=False, why="it is sent as multicast only")
            return False
        taken = False
        for offset in range(len(queues)):
            queue = queues[(address.turn + offset) % len(queues)]
            if taken:
                why = "another anycast queue of the address has its turn"
                self._note(address.name, "", TO_QUEUE, queue.name, fits=False, why=why)
            elif self._any_admits(address.anycast[queue].values()):
                taken = self._reach(address.name, "", queue, "it has its turn among the anycast queues of the address")
        return taken

    def _any_admits(self, bindings: Iterable[Binding]) -> bool:
        admitted = [self._admitted(binding) for binding in bindings]  # each refusal is noted
        return any(admitted)

    def _away(self, address: str) -> bool:
        """Note the diverts of an address; return whether an exclusive one took the message."""
        known = self._taken_away.get(address)
        if known is not None:
            return known
        exclusive = False
        for divert in self._graph.diverts.watching(address, self._steps):
            if exclusive and not divert.exclusive:
                fits, why = False, "an exclusive divert took the message"
            elif divert.name in self._diverted:
                fits, why = False, "it copied this message before"
            elif not self._verdicts.admits(divert.selector, self._steps):
                fits, why = False, f"the filter of the divert refuses it: {divert.selector_text}"
            else:
                fits = True
                why = "it turns the message aside" if divert.exclusive else "it copies the message"
                self._diverted[divert.name] = None
                self.copies.append(divert.name)
                exclusive = exclusive or divert.exclusive
            self._note(address, "", TO_DIVERT, divert.name, fits=fits, why=why)
        self._taken_away[address] = exclusive
        return exclusive
