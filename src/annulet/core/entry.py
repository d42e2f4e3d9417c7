"""A queue entry: one queue's handle on a message, and the states it passes through.

============ ============================================== =====================================
state        meaning                                        held in
============ ============================================== =====================================
PENDING      waits for a consumer; what ring and key limits the queue's order
             count
DELIVERING   given to a consumer or lease, not settled      ``queue.delivering`` and the session
REMOVED      left the queue with exactly one reason         nowhere
============ ============================================== =====================================

PENDING -> DELIVERING by dispatch, get or acquire; DELIVERING -> PENDING by the one return path; both -> REMOVED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.core.consumer import Consumer
    from annulet.core.message import Message
    from annulet.core.queue import Queue
    from annulet.core.retention import KeyRecord

PENDING: Final = 0
DELIVERING: Final = 1
REMOVED: Final = 2

STATE_NAMES: Final = ("pending", "delivering", "removed")


class QueueEntry:
    """One message in one queue. ``sequence`` is its place: strictly increasing per queue, never changed by a return."""

    __slots__ = ("consumer", "delivery_count", "indexed", "key", "message", "queue", "redelivered", "sequence", "state")

    def __init__(self, queue: Queue, message: Message, sequence: int) -> None:
        self.queue = queue
        self.message = message
        self.sequence = sequence
        self.state = PENDING
        self.delivery_count = 0  # deliveries that came back; RabbitMQ's x-delivery-count, AMQP 1.0 §3.2.1
        self.redelivered = False  # may have been seen by a consumer before (AMQP 0-9-1 basic.deliver)
        self.consumer: Consumer | None = None  # who holds it while DELIVERING
        self.indexed = False  # its expiry is in the queue's index
        self.key: KeyRecord | None = None  # its key's record on a keep-per-key queue

    def __hash__(self) -> int:
        """Compiled classes that order themselves lose the inherited hash; equality stays identity."""
        return self.sequence

    def __lt__(self, other: QueueEntry) -> bool:
        """Order of dispatch in a FIFO queue; lets a heap of returned entries compare without a key."""
        return self.sequence < other.sequence

    def __repr__(self) -> str:
        return f"<QueueEntry {self.queue.name}#{self.sequence} {STATE_NAMES[self.state]}>"
