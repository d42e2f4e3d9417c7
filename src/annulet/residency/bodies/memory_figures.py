"""Where the bodies in memory are, in the words of the design (its §2.1: D, T, P and H).

The broker keeps one structure where the design has several: the front of a queue is delivered directly to consumers,
or, without consumers, is the head that waits for the first of them; everything else in memory is late. So the four
figures are derived from the structure. Messages being loaded (L) are on the loop and never wait; bodies read for
browsers are in :attr:`annulet.residency.bodies.body_store.BodyStore.ahead_bytes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from annulet.core.paging.front_limits import FrontBounds
from annulet.residency.bodies.budget import body_bytes

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue


@dataclass(frozen=True, slots=True)
class Residence:
    """Body bytes in memory by where they are. The sum is all that a queue has in memory."""

    in_delivery: int = 0  # D: with consumers that have not settled them
    direct: int = 0  # T: up to the target list's watermark, with a consumer there to take them
    late: int = 0  # P, the PendingCache: behind that, scheduled messages included
    head: int = 0  # H, the HeadQueueCache: the same as direct, without a consumer

    @property
    def total(self) -> int:
        """All of them together."""
        return self.in_delivery + self.direct + self.late + self.head

    def __add__(self, other: Residence) -> Residence:
        """Put the figures of two queues together."""
        return Residence(
            self.in_delivery + other.in_delivery,
            self.direct + other.direct,
            self.late + other.late,
            self.head + other.head,
        )

    def as_dict(self) -> dict[str, int]:
        """Return the figures by name."""
        return {"in_delivery": self.in_delivery, "direct": self.direct, "late": self.late, "head": self.head}


def residence_of(queue: Queue, bounds: FrontBounds | None = None) -> Residence:
    """Measure one queue; about 0.1 ms, at any depth. All zero for a deleted queue.

    ``bounds``: those of its front; as of one that has the whole floor unless given.
    """
    if queue.deleted:
        return Residence()
    in_delivery = queue.delivering_bytes
    if queue.bodies is not None:
        in_delivery -= queue.bodies.in_delivery_bytes
    front = min(_front_bytes(queue, bounds or FrontBounds()), body_bytes(queue) - in_delivery)
    late = body_bytes(queue) - in_delivery - front
    if queue.takers:
        return Residence(in_delivery, direct=front, late=late)
    return Residence(in_delivery, late=late, head=front)


def _front_bytes(queue: Queue, bounds: FrontBounds) -> int:
    """Return the bytes of the next bodies that are in memory, as many as never leave."""
    size = 0
    for entry in queue.order.upcoming(bounds.messages):
        if size >= bounds.size:
            break
        if not entry.away:
            size += entry.message.size
    return size
