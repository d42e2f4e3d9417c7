"""Events of a queue's messages for listeners: accepted, delivered, returned, removed.

Without a listener the cost is a check for ``None``. Listeners only record: they are called in the middle of the queue's
work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueEvents:
    """Listener of one queue. Calls are in the order of events; ``now`` is in milliseconds since 1970, or 0 for an
    acknowledgement and for damaged messages, which need no time themselves.

    Of each message: ``accepted`` once, then ``delivered`` and ``returned`` in turn, and at most once ``removed``. One
    that is ``reprioritised`` continues with the number of its replacement, which has no ``accepted``. A queue that is
    emptied at once (purged, deleted) reports only the number of messages; so do damaged records. Recovered messages are
    not accepted again, browsing is no delivery, and a non-destructive queue delivers copies.
    """

    def accepted(self, entry: QueueEntry, now: int) -> None:
        """The queue accepted a message, even if it is dropped at once."""

    def delivered(self, entry: QueueEntry, consumer: Consumer | None, now: int) -> None:
        """A consumer got it, or its copy; ``None``: it was pulled (``basic.get``, a lease)."""

    def returned(self, entry: QueueEntry, now: int) -> None:
        """It was returned."""

    def removed(self, entry: QueueEntry, reason: RemovalReason, now: int) -> None:
        """It left the queue, acknowledged or for another reason."""

    def reprioritised(self, entry: QueueEntry, replacement: QueueEntry, now: int) -> None:
        """An operator changed its level: it continues as ``replacement``, with a new number."""

    def emptied(self, count: int, reason: RemovalReason, now: int) -> None:
        """This many left at once."""
