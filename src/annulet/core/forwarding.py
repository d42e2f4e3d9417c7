"""What becomes of messages that leave a queue for another address: dead letters, expired and dropped ones.

A queue hands a removed entry to its forwarder in the middle of its own work, so nothing is sent then: ``flush`` sends
when the queue is consistent again. Every public call of a queue ends with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.core.ledger import LossRecord
    from annulet.core.queue import Queue
    from annulet.core.reasons import RemovalReason


@mypyc_attr(allow_interpreted_subclasses=True)
class Forwarder:
    """Forwards nothing: the base for a queue that stands alone. A virtual host has one for all its queues."""

    def __init__(self) -> None:
        self.waiting = False  # something was added since the last flush

    def takes(self, queue: Queue, reason: RemovalReason) -> bool:
        """Say whether what leaves ``queue`` for this reason is to be sent on."""
        del queue, reason
        return False

    def add(self, queue: Queue, entry: QueueEntry, reason: RemovalReason, now: int, loss: LossRecord | None) -> None:
        """Take over a removed entry whose record is not settled yet: send a copy, then ``queue.settle_record``.

        ``loss``: what the ledger has of it; to be durable with the settlement (``LossLedger.settled``). ``None``: it is
        counted there, or no loss.
        """
        raise NotImplementedError

    def flush(self, now: int) -> None:
        """Send what is waiting, of very much the rest in slices.

        A call from inside a flush, or while slices are to come, returns at once: the other one goes on.
        """

    def complete(self, now: int) -> None:
        """Send all that is waiting, now: something that decides where it goes is about to change."""

    def records_of(self, queue: Queue) -> list[int]:
        """Return the records of a queue's entries that wait to be sent, and are not settled."""
        del queue
        return []
