"""The effects of operations on one message. Number, order and pace are decided by the operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import SCHEDULED

if TYPE_CHECKING:
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.management.keeping import Keeper
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue

# why a selected message is passed over; under these names operations count them

IN_DELIVERY: Final = "in delivery"
"""It is in delivery to a consumer or lease: no operation removes it."""

NOT_THERE: Final = "not in the queue"
"""An id that the queue does not have, or has no more."""

SCHEDULED_ALREADY: Final = "scheduled"
"""It waits for its time, and the operation or selection is for pending messages."""

NOT_SCHEDULED: Final = "not scheduled"
SAME_PRIORITY: Final = "has this priority already"
UNREADABLE: Final = "its properties cannot be read"
BODY_TOO_LONG: Final = "too long to be searched for a text"
DAMAGED: Final = "its record is damaged"
NO_ORIGINAL: Final = "names no original queue"
ORIGINAL_GONE: Final = "its original queue does not exist"
ORIGINAL_HERE: Final = "this is its original queue"
ORIGINAL_REFUSES: Final = "its original queue refuses it"


class Action:
    """One kind of operation on the messages of one queue, its ``arguments`` as the audit trail quotes them.

    With a ``keeper`` it can be undone.
    """

    pending = True  # it applies to pending messages
    scheduled = False  # it applies to scheduled messages by default
    keep = False  # messages stay in the queue as they are
    delivering = False  # it applies to messages in delivery as well

    def __init__(self, name: str, queue: Queue, arguments: str = "") -> None:
        self.name = name
        self.queue = queue
        self.arguments = arguments
        self.keeper: Keeper | None = None

    def obstacle(self, entry: QueueEntry, now: int) -> str:
        """Return why this entry, pending or scheduled, is passed over; empty when it is not."""
        del entry, now
        return ""

    def refusal(self, entry: QueueEntry, now: int) -> str:
        """Return why the operation has to stop before this entry; empty when it has not."""
        del entry, now
        return ""

    def carry_out(self, entry: QueueEntry, now: int) -> int:
        """Carry it out. Returns the id of the resulting message, 0 if none."""
        raise NotImplementedError

    def cost(self, entry: QueueEntry) -> int:
        """Return how many body bytes are copied."""
        del entry
        return 0


class Remove(Action):
    """Remove messages from the queue for one reason, which decides their target: expired ones go to the expiry
    address."""

    def __init__(self, name: str, queue: Queue, reason: RemovalReason, *, scheduled: bool = False) -> None:
        super().__init__(name, queue)
        self.reason = reason
        self.scheduled = scheduled

    def carry_out(self, entry: QueueEntry, now: int) -> int:
        """Remove it, and settle its record, so that it does not return at a restart, for every kind of queue."""
        keeper = self.keeper
        kept = None if keeper is None else keeper.envelope(entry, now)
        if keeper is None or kept is None:
            self.queue.remove(entry, self.reason, now)
        else:
            keeper.place().take(self.queue, entry, kept, self.reason, now)
        return 0

    def cost(self, entry: QueueEntry) -> int:
        """Return the body bytes that are kept, and the effort of making room for those before."""
        return 0 if self.keeper is None else entry.message.size + self.keeper.effort()


class Find(Action):
    """Change nothing: the operation reports the ids of the selected messages."""

    scheduled = True
    keep = True
    delivering = True

    def carry_out(self, entry: QueueEntry, now: int) -> int:
        """Leave it as it is; it keeps its id."""
        del now
        return entry.sequence


class CancelScheduled(Remove):
    """Remove scheduled messages before their time."""

    pending = False

    def obstacle(self, entry: QueueEntry, now: int) -> str:
        """Skip messages that are not scheduled, or have fallen due."""
        del now
        return "" if entry.state == SCHEDULED else NOT_SCHEDULED


class DeliverNow(Action):
    """Let scheduled messages fall due at once."""

    pending = False
    scheduled = True

    def obstacle(self, entry: QueueEntry, now: int) -> str:
        """Skip messages that are not scheduled, or fell due on time."""
        del now
        return "" if entry.state == SCHEDULED else NOT_SCHEDULED

    def carry_out(self, entry: QueueEntry, now: int) -> int:
        """Let it fall due; it keeps its id."""
        self.queue.deliver_now(entry, now)
        return entry.sequence


class ChangePriority(Action):
    """Put pending messages at the tail of another priority. Each gets a new id: it is stored again."""

    def __init__(self, name: str, queue: Queue, priority: int) -> None:
        super().__init__(name, queue, f"priority {priority}")
        self.priority = priority

    def obstacle(self, entry: QueueEntry, now: int) -> str:
        """Skip messages that have the priority already, so that they keep their place, and those not pending."""
        del now
        if entry.state == SCHEDULED:
            return SCHEDULED_ALREADY
        return SAME_PRIORITY if entry.message.priority == self.priority else ""

    def carry_out(self, entry: QueueEntry, now: int) -> int:
        """Replace it. Returns the new id."""
        former = entry.message.priority
        replacement = self.queue.reprioritise(entry, self.priority, now)
        if replacement is None:
            return 0
        if self.keeper is not None:
            self.keeper.moved(self.queue, replacement.message, replacement.sequence, former)
        return replacement.sequence
