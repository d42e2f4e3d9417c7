"""The interface through which a queue does without the bodies of its entries, and gets them back.

:mod:`annulet.residency` implements it: it decides which bodies leave memory, and reads them. The bookkeeping of entries
that are away is in :mod:`annulet.core.deliveries.bodies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from annulet.core.message.message import BodySource, Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.order import Order


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueBodies:
    """The entries of one queue whose bodies it can do without. A queue has this from when the first of them leaves."""

    def __init__(self, source: BodySource) -> None:
        self.source = source
        self.count = 0  # entries that are away, pending, scheduled or in delivery
        self.bytes = 0  # body bytes of these
        self.in_delivery_bytes = 0  # of these, those of entries in delivery
        self.in_delivery = 0  # how many entries these are
        self.stalled = False  # the disk refused: no reads until the next retry, which wakes the queue
        self.rows = False  # plain entries become rows: only others are candidates
        self.grown = 0  # candidates added since the last pass over them began
        self.unmeasured = 0  # bytes of rows loaded since the account was checked for this
        self.claimed_block = -1  # of the queue's deliveries: the one that was noted last

    def fetch(self, entry: QueueEntry, order: Order) -> int:
        """Load the body of an entry, together with those of the next ones in ``order``.

        Returns ``FOUND``, ``REFUSED`` or ``DAMAGED``; bodies not found stay away.
        """
        raise NotImplementedError

    def look(self, messages: list[Message]) -> int:
        """Keep these bodies ready for the next callers, with one read; they do not stay.

        Returns the result of the first: ``FOUND``, ``REFUSED`` or ``DAMAGED``.
        """
        raise NotImplementedError

    def reading_refusal(self, messages: list[Message]) -> str:
        """Return why not all these bodies can be in memory at once; empty when they can."""
        raise NotImplementedError

    def kept(self, entries: list[QueueEntry], kept: bytearray) -> None:
        """Of these entries became rows those with a 0 in ``kept``; the others stay objects among the rows."""
        raise NotImplementedError

    def note(self, entry: QueueEntry) -> None:
        """Note an entry that entered the queue with its body."""
        raise NotImplementedError

    def claimed(self, entry: QueueEntry) -> None:
        """Note that :func:`claim` reached another block of the queue's deliveries, or the account has to be checked."""
        raise NotImplementedError

    def loaded(self, messages: int, size: int) -> None:
        """Note rows that became entries with bodies of ``size`` bytes: the queue's account has to be checked."""
        raise NotImplementedError

    def left_rows(self, entry: QueueEntry) -> None:
        """Note a pending entry with its body that will not become a row soon: the budget may page the body."""
        raise NotImplementedError

    def left_delivery(self, entries: list[QueueEntry]) -> None:
        """Note entries that left delivery without being removed: the budget may page the bodies of those not away."""
        raise NotImplementedError

    def came_back(self, size: int) -> None:
        """Note a returned pulled message with a body of ``size`` bytes: only now the budget may page it."""
        raise NotImplementedError
