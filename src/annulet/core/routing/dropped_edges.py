"""Removes the bindings and queues of a deleted exchange, queue or connection, in slices if there are very many.

Routes stop following such edges at once, and listings do not show them, because their source or destination is dropped.
Remaining exclusive queues stay locked until their slice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.sliced_work import SlicedWork

if TYPE_CHECKING:
    from collections import deque

    from annulet.core.host.declared_queues import DeclaredQueues
    from annulet.core.queue.queue import Queue
    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.routing_graph import RoutingGraph

EDGES_AT_ONCE: Final = 500
"""Bindings up to which they are removed in the same call: about 3 ms of the loop."""

SLICE_EDGES: Final = 200
"""Bindings of one slice: 1 ms of the loop."""

QUEUES_AT_ONCE: Final = 100
"""Exclusive queues of a connection that are deleted when it ends: some 4 ms of the loop."""

SLICE_QUEUES: Final = 25
"""Of one slice: 1 ms of the loop."""


class DroppedEdges(SlicedWork):
    """Bindings whose source or destination was deleted."""

    def __init__(self, graph: RoutingGraph, edges: deque[Binding]) -> None:
        super().__init__()
        self._graph = graph
        self._edges = edges

    def step(self, now: int) -> bool:
        """Take some away."""
        del now
        self._graph.drop_some(self._edges, SLICE_EDGES)
        return bool(self._edges)


class OwnedQueues(SlicedWork):
    """Exclusive queues of a connection that ended."""

    def __init__(self, host: DeclaredQueues, queues: list[Queue]) -> None:
        super().__init__()
        self._host = host
        self._queues = queues
        self._queues.reverse()

    def step(self, now: int) -> bool:
        """Delete some."""
        queues = self._queues
        for _ in range(min(SLICE_QUEUES, len(queues))):
            self._host.delete_queue(queues.pop(), now)
        return bool(queues)
