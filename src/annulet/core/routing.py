"""From an exchange and a routing key to queues: a walk over the graph of exchanges, remembered as :class:`Route`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.message import PropertyValue

if TYPE_CHECKING:
    from annulet.core.exchanges.exchange import Exchange
    from annulet.core.message import Message
    from annulet.core.queue import Queue


class Route:
    """Where messages for one exchange and routing key go.

    ``static``: ``queues`` is the answer for every message. Otherwise a headers exchange is on the way and
    ``VirtualHost.targets`` decides per message. A route of an older ``generation`` is looked up anew when it is used.
    """

    __slots__ = ("exchange", "generation", "queues", "routing_key", "static")

    def __init__(
        self, exchange: str, routing_key: str, queues: list[Queue], generation: int, *, static: bool = True
    ) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.queues = queues
        self.generation = generation
        self.static = static


class Walk:
    """One walk: follows bindings, exchange-to-exchange bindings and alternate exchanges, each exchange at most once.

    An exchange's alternate is followed when none of its own bindings matched (RabbitMQ). An alternate that does not
    exist is as good as none.
    """

    __slots__ = ("exchanges", "headers", "queues", "queues_by_name", "static")

    def __init__(self, exchanges: dict[str, Exchange], queues_by_name: dict[str, Queue]) -> None:
        self.exchanges = exchanges
        self.queues_by_name = queues_by_name
        self.queues: dict[Queue, None] = {}  # in the order they were reached, each once
        self.headers: dict[str, PropertyValue] | None = None
        self.static = True

    def follow(self, start: Exchange, routing_key: str, message: Message | None) -> list[Queue]:
        """Return the queues reached. Without a message, headers exchanges match nothing and ``static`` turns false."""
        waiting = [start]
        seen = {start.name}
        while waiting:
            exchange = waiting.pop()
            for following in self._step(exchange, routing_key, message):
                if following.name not in seen:
                    seen.add(following.name)
                    waiting.append(following)
        return list(self.queues)

    def _step(self, exchange: Exchange, routing_key: str, message: Message | None) -> list[Exchange]:
        if not exchange.name:  # the default exchange is bound to every queue by its name (AMQP 0-9-1 §3.1.3.1)
            queue = self.queues_by_name.get(routing_key)
            if queue is not None:
                self.queues[queue] = None
            return []
        headers: dict[str, PropertyValue] = {}
        if exchange.uses_headers:
            self.static = False
            if message is None:
                return []
            headers = self._headers_of(message)
        bindings = exchange.match(routing_key, headers)
        following: list[Exchange] = []
        for binding in bindings:
            if binding.queue is not None:
                self.queues[binding.queue] = None
            elif binding.exchange is not None:
                following.append(binding.exchange)
        if not bindings and exchange.alternate is not None:
            alternate = self.exchanges.get(exchange.alternate)
            if alternate is not None:
                following.append(alternate)
        return following

    def _headers_of(self, message: Message) -> dict[str, PropertyValue]:
        if self.headers is None:
            self.headers = message.origin.view.properties(message).application
        return self.headers
