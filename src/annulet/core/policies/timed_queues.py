"""The queues in which something can fall due: only these are visited by ticks.

Four rounds a second over 10,000 idle queues took 13 % of a core; to look only whether there is something took 7 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from annulet.core.policies.queue_policies import QueuePolicies


class TimedQueues:
    """Registered queues of a virtual host. A queue registers itself, with ``note_timed``; a tick takes it out again."""

    def __init__(self) -> None:
        self.queues: dict[QueuePolicies, None] = {}  # in the order of registration

    def add(self, queue: QueuePolicies) -> None:
        """Have ticks visit a queue."""
        self.queues[queue] = None

    def discard(self, queue: QueuePolicies) -> None:
        """Have ticks visit a queue no more, until it is added again."""
        self.queues.pop(queue, None)
