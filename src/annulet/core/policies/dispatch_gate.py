"""Conditions for any dispatch of a queue: pause, enough consumers, a rebalance that waits for deliveries.

``consumers-before-dispatch`` and ``delay-before-dispatch`` after Artemis §14.7: the gate opens when enough consumers
are attached, or this long after the first; it closes when the last one detaches, and does not open again while messages
are in delivery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.core.policies.queue_policies import QueuePolicies


class Gate:
    """State of one queue's gate; ``open`` is checked by dispatch."""

    __slots__ = ("first_consumer_at", "open", "rebalancing")

    def __init__(self) -> None:
        self.open = True
        self.rebalancing = False  # dispatch waits until everything in delivery is settled or back
        self.first_consumer_at = 0

    def consumer_added(self, queue: QueuePolicies, now: int) -> None:
        """A consumer is attached already: start the clock with the first one."""
        if queue.consumers.takers == 1:
            self.first_consumer_at = now
            self.open = queue.settings.consumers_before_dispatch <= 1

    def update(self, queue: QueuePolicies, now: int) -> None:
        """Open if the conditions are met. Called whenever one of them may have changed."""
        settings = queue.settings
        if self.rebalancing and not (queue.delivering and settings.group_rebalance_pause):
            self.rebalancing = False
        wanted = settings.consumers_before_dispatch
        if wanted <= 1:
            self.open = True
            return
        count = queue.consumers.takers
        if count == 0:
            self.open = False
        elif not self.open and not queue.delivering:
            delay = settings.delay_before_dispatch
            self.open = count >= wanted or (delay >= 0 and now >= self.first_consumer_at + delay)

    def opens_at(self, queue: QueuePolicies) -> int:
        """When time alone opens the gate; 0 when it is open or time does not, as while messages are in delivery."""
        delay = queue.settings.delay_before_dispatch
        if self.open or delay < 0 or queue.consumers.takers == 0 or queue.delivering:
            return 0
        return self.first_consumer_at + delay
