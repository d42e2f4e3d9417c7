"""Cancelling a scheduled message: its sender names it and sends to the same destination."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.steps import Steps
from annulet.core.routing.exchanges.address import MULTICAST
from annulet.core.routing.routes import Walk

if TYPE_CHECKING:
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.exchanges.address import Address
    from annulet.core.routing.routes import Route
    from annulet.core.routing.routing_graph import RoutingGraph


class Search(Walk):
    """Reaches every queue that a message sent there may have entered.

    It evaluates no filter, as the cancellation need not look like the message, and uses all anycast queues of an
    address, as the turn of the message is not known any more.
    """

    def _anycast(self, address: Address) -> bool:
        if self.routing_type == MULTICAST:
            return False
        for queue in address.anycast_queues:
            self.queues[queue] = None
        return bool(address.anycast_queues)

    def _reach(self, queue: Queue) -> bool:
        self.queues[queue] = None
        return True

    def _admits(self, binding: Binding) -> bool:
        del binding
        return True

    def _diverted(self, address: str) -> bool:
        for divert in self.graph.diverts.watching(address, self.steps):
            if divert.name not in self.applied:
                self._apply(divert, address)
        return False


def cancel_scheduled(
    graph: RoutingGraph,
    message: Message,
    route: Route,
    schedule_id: str,
    now: int,
    *,
    further_keys: tuple[str, ...] = (),
) -> list[QueueEntry]:
    """Remove the scheduled messages of this name from the queues that ``message`` would reach, with reason *deleted*.

    Copies made by diverts are removed as well. ``message`` itself is not routed; its headers are used for headers
    exchanges only. Returns the removed messages; nothing if no message of that name waits.
    """
    removed: list[QueueEntry] = []
    for queue in _reachable(graph, message, route, further_keys):
        entry = queue.schedule.named(schedule_id)
        if entry is not None and queue.remove(entry, RemovalReason.DELETED, now):
            removed.append(entry)
    return removed


def _reachable(graph: RoutingGraph, message: Message, route: Route, further_keys: tuple[str, ...]) -> list[Queue]:
    """Return the queues that a search finds, and those behind alternates that a filter sends this message to."""
    found: dict[Queue, None] = {}
    for wide in (True, False):
        applied: set[str] = set()
        steps = Steps()
        waiting: deque[tuple[Route, tuple[str, ...]]] = deque([(route, further_keys)])
        while waiting:
            way, keys = waiting.popleft()
            start = graph.exchanges.get(way.exchange)
            if start is None:
                continue
            kind = Search if wide else Walk
            walk = kind(graph, routing_type=way.routing_type, looking=True, applied=applied, steps=steps)
            for key in (way.routing_key, *keys):
                walk.follow(start, key, message)
            found.update(walk.queues)
            for diversion in walk.diversions:
                routing_type = diversion.divert.routing_type_for(way.routing_type)
                for target in diversion.divert.forwarding_addresses:
                    waiting.append((graph.route_to(target, way.routing_key, routing_type, forwarded=True), ()))
    return list(found)
