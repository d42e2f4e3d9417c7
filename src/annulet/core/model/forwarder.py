"""Forwarding of messages that leave a queue for another address: dead letters, expired and dropped ones.

A queue passes a removed entry to its forwarder in the middle of its own work, so nothing is sent then: ``flush`` sends
when the queue is consistent again. Every public call of a queue ends with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.loss_ledger import LossRecord
    from annulet.core.model.queue_state import QueueState


@mypyc_attr(allow_interpreted_subclasses=True)
class Forwarder:
    """Forwards nothing: the base for a queue without a virtual host. A virtual host has one for all its queues."""

    def __init__(self) -> None:
        self.waiting = False  # something was added since the last flush

    def takes(self, queue: QueueState, reason: RemovalReason) -> bool:
        """Return whether messages that leave ``queue`` for this reason are forwarded."""
        del queue, reason
        return False

    def add(
        self, queue: QueueState, entry: QueueEntry, reason: RemovalReason, now: int, loss: LossRecord | None
    ) -> None:
        """Take over a removed entry whose record is not settled yet: send a copy, then ``queue.settle_record``.

        ``loss``: its ledger record, to be durable with the settlement (``LossLedger.settled``). ``None``: it is only
        counted there, or no loss.
        """
        raise NotImplementedError

    def flush(self, now: int) -> None:
        """Send waiting messages, the rest of very many in slices.

        A nested call, or one while slices follow, returns at once: the other one continues.
        """

    def records_of(self, queue: QueueState) -> list[int]:
        """Return the records of a queue's entries that wait to be sent, and are not settled."""
        del queue
        return []
