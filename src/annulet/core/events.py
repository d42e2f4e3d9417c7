"""What happens to the messages of a queue, for whoever listens: accepted, delivered, returned, gone.

A queue without a listener pays a look at ``None`` for it. Listeners only take notes: they are called in the middle of
the queue's work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from annulet.core.consumer import Consumer
    from annulet.core.entry import QueueEntry
    from annulet.core.reasons import RemovalReason


@mypyc_attr(allow_interpreted_subclasses=True)
class QueueEvents:
    """Hears of one queue. Calls come in the order of what happened; ``now`` is in milliseconds since 1970, or 0 for
    an acknowledgement and for what is found to be damaged, which need no time themselves.

    Of each message: ``accepted`` once, then ``delivered`` and ``returned`` in turn, and at most once ``removed``. One
    that is ``reprioritised`` goes on under the number of its replacement, of which there is no ``accepted``. A
    queue that is emptied at once (purged, deleted) says how many went, not which; so do records found to be damaged.
    What a restart brings back is not accepted again, browsing is no delivery, and a non-destructive queue delivers
    copies of what stays.
    """

    def accepted(self, entry: QueueEntry, now: int) -> None:
        """The queue took a message in, be it to drop it at once."""

    def delivered(self, entry: QueueEntry, consumer: Consumer | None, now: int) -> None:
        """A consumer got it, or its copy; ``None``: somebody fetched it (``basic.get``, a lease)."""

    def returned(self, entry: QueueEntry, now: int) -> None:
        """It came back from who had it."""

    def removed(self, entry: QueueEntry, reason: RemovalReason, now: int) -> None:
        """It left the queue, acknowledged or for another reason."""

    def reprioritised(self, entry: QueueEntry, replacement: QueueEntry, now: int) -> None:
        """An operator put it on another level: it goes on as ``replacement``, under a number of its own."""

    def emptied(self, count: int, reason: RemovalReason, now: int) -> None:
        """So many left at once."""
