"""The bound of the work that finding the way of one message may take.

A user with bindings decides how much there is to look at: many wildcards, chains of exchanges, filters. One count for
all of it, however it is composed, keeps the event loop free: a message of which the way is longer is refused before any
queue has it, and its sender is told.
"""

from __future__ import annotations

from typing import Final

from annulet.core.base.errors import RoutingTooLong

ROUTING_STEPS_MAX: Final = 100_000
"""Steps of the way of one message: some 40 ms of the loop in pure Python, a third of that compiled.

A step is half a place in the patterns of a topic exchange for one word of the routing key, a binding that leads to no
queue the message did not reach yet, a compared header, or an operation of a filter. Queues that are reached do not
count: a fanout to any number of them is not refused.
"""

LIMIT_ROUTING: Final = "routing_steps_max"
"""The name of the bound in texts and metrics."""


class Steps:
    """The remaining steps of one message, over all exchanges, keys and copies by diverts."""

    __slots__ = ("left",)

    def __init__(self, left: int = ROUTING_STEPS_MAX) -> None:
        self.left = left

    def take(self, count: int) -> None:
        """Use up some. Raises :class:`RoutingTooLong` when there are not so many."""
        self.left -= count
        if self.left < 0:
            raise RoutingTooLong(
                f"routing takes more than {ROUTING_STEPS_MAX} steps ({LIMIT_ROUTING}); use fewer bindings with "
                "wildcards, filters or many headers, a shorter routing key, or fewer exchanges on the way"
            )
