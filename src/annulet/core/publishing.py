"""Publishing: a message into all queues its route leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.entry import REMOVED
from annulet.core.routing_graph import RoutingGraph

if TYPE_CHECKING:
    from annulet.core.message import Message
    from annulet.core.routing import Route


class Publishing(RoutingGraph):
    """A routing graph that messages are published to."""

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
