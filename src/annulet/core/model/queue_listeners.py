"""The listeners of a queue beside its events: the accounts of addresses, and the lists of readers.

A queue tells them what its messages become; both are absent from most queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.core.base.sliced_work import SlicedWork

if TYPE_CHECKING:
    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_area import QueueArea
    from annulet.core.model.queue_state import QueueState


class SettlementWork(SlicedWork):
    """Deliveries that a command has settled and whose turn has not come (:mod:`annulet.core.sessions`)."""

    def hurry(self) -> bool:
        """Settle the next ones for a sender that needs room, and serve no consumer. Returns whether there were any."""
        raise NotImplementedError

    def settle_all_of(self, queue: QueueState, now: int) -> None:
        """Settle now the deliveries of a queue, and serve no consumer."""
        raise NotImplementedError


class AddressListener:
    """Accounts of what the queues of addresses with limits hold."""

    __slots__ = ("settling",)

    def __init__(self) -> None:
        self.settling: list[SettlementWork] = []  # of queues with something in an account

    def counted(self, message: Message) -> bool:
        """Return whether an account counts a message."""
        raise NotImplementedError

    def replaced(self, entry: QueueEntry, message: Message) -> None:
        """Note that an entry has another message from now on."""
        raise NotImplementedError

    def released(self, entry: QueueEntry) -> None:
        """Note that an entry left its queue."""
        raise NotImplementedError

    def rows_gone(self, queue: QueueState, rows: QueueArea) -> None:
        """Note that all rows left a queue."""
        raise NotImplementedError

    def rows_lost(self, queue: QueueState, rows: int, octets: int) -> None:
        """Note that damaged rows left a queue."""
        raise NotImplementedError


class ReaderLists:
    """The lists of browsers and of the consumers of non-destructive queues."""

    __slots__ = ()

    def may_page(self) -> bool:
        """Return whether no reader has to keep references to possible rows."""
        raise NotImplementedError

    def use_rows(self) -> None:
        """Note that the queue may have rows from now on."""
        raise NotImplementedError

    def paged(self) -> None:
        """Note that entries have become rows: other entries replace them when they are read."""
        raise NotImplementedError

    def pin(self, entry: QueueEntry) -> None:
        """Have an entry stay an object, for the list of a reader that would show it whatever became of its row."""
        raise NotImplementedError

    def unpin(self, entry: QueueEntry) -> None:
        """A list does not refer to it any more."""
        raise NotImplementedError

    def stored_anew(self, entry: QueueEntry) -> None:
        """Note that an entry's message has another record now."""
        raise NotImplementedError

    def is_pinned(self, entry: QueueEntry) -> bool:
        """Return whether an entry has to stay an object."""
        raise NotImplementedError

    def pinned_count(self) -> int:
        """Return how many entries have to."""
        raise NotImplementedError

    def is_leaving(self, record: int) -> bool:
        """Return whether a message that left the queue still has its record, because it is to be sent on."""
        raise NotImplementedError
