"""Removes the bindings of a deleted exchange or queue, in slices if there are very many.

Routes stop following such edges at once, and listings do not show them, because their source or destination is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.sliced_work import SlicedWork

if TYPE_CHECKING:
    from collections import deque

    from annulet.core.routing.bindings import Binding
    from annulet.core.routing.routing_graph import RoutingGraph

EDGES_AT_ONCE: Final = 500
"""Bindings up to which they are removed in the same call: about 3 ms of the loop."""

SLICE_EDGES: Final = 200
"""Bindings of one slice: 1 ms of the loop."""


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
