"""Dead letters, expired and dropped messages that wait to be sent on, in the order in which they left their queues."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from annulet.core.model.forwarding_targets import Target, targets_for

if TYPE_CHECKING:
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.base.settings import QueueSettings
    from annulet.core.host.entering import Entering
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.loss_ledger import LossRecord
    from annulet.core.model.queue_state import QueueState


class Batch:
    """Entries that left one queue for one reason, under the same ``settings``, which name their targets."""

    __slots__ = ("entries", "losses", "queue", "reason", "settings")

    def __init__(self, queue: QueueState, reason: RemovalReason, settings: QueueSettings) -> None:
        self.queue = queue
        self.reason = reason
        self.settings = settings
        self.entries: deque[QueueEntry] = deque()
        self.losses: deque[LossRecord | None] = deque()  # of the entries, see ``Forwarder.add``


class Letter:
    """One entry that is being sent: its copy for one target after the other, each perhaps in parts.

    Attributes:
        entering: the copy that is on its way, if one is.
        target: of the copy that was made last.
        sent: no copy of it has failed.
        kept: its record stays, so that the next start has it again.
        rules: why no queue gets a copy.
    """

    __slots__ = (
        "entering", "entry", "kept", "loss", "queue", "reason", "rules", "sent", "settings", "target", "targets",
    )  # fmt: skip

    def __init__(self, batch: Batch, entry: QueueEntry, loss: LossRecord | None) -> None:
        self.queue = batch.queue
        self.reason = batch.reason
        self.settings = batch.settings
        self.entry = entry
        self.loss = loss
        self.targets: deque[Target] = deque(targets_for(batch.settings, batch.reason))
        self.target: Target | None = None
        self.entering: Entering | None = None
        self.sent = True
        self.kept = False
        self.rules: list[str] = []

    @property
    def done(self) -> bool:
        """Return whether nothing of it is left to be sent."""
        return self.entering is None and not self.targets


class Outbox:
    """Letters that wait, and the ``current`` one. ``added`` counts all there were."""

    __slots__ = ("_count", "added", "batches", "current")

    def __init__(self) -> None:
        self.batches: deque[Batch] = deque()
        self.current: Letter | None = None
        self.added = 0
        self._count = 0

    @property
    def empty(self) -> bool:
        """Return whether nothing waits."""
        return not self.batches and self.current is None

    @property
    def passed(self) -> int:
        """How many of those that were added are not here any more."""
        return self.added - self._count - (self.current is not None)

    def add(
        self,
        queue: QueueState,
        entry: QueueEntry,
        reason: RemovalReason,
        loss: LossRecord | None,
        settings: QueueSettings,
    ) -> None:
        """Append a letter that left its queue under these settings."""
        batches = self.batches
        last = batches[-1] if batches else None
        if last is None or last.queue is not queue or last.reason is not reason or last.settings is not settings:
            last = Batch(queue, reason, settings)
            batches.append(last)
        last.entries.append(entry)
        last.losses.append(loss)
        self.added += 1
        self._count += 1

    def next(self) -> Letter:
        """Make the first one current."""
        batch = self.batches[0]
        self.current = Letter(batch, batch.entries.popleft(), batch.losses.popleft())
        self._count -= 1
        if not batch.entries:
            self.batches.popleft()
        return self.current

    def take_out(self, queue: QueueState) -> Outbox:
        """Take out all of a queue but the current one, in their order."""
        taken = Outbox()
        others: deque[Batch] = deque()
        for batch in self.batches:
            if batch.queue is queue:
                taken.batches.append(batch)
                taken.added += len(batch.entries)
            else:
                others.append(batch)
        taken._count = taken.added
        self.batches = others
        self._count -= taken.added
        return taken

    def put_last(self, other: Outbox) -> None:
        """Put those of another outbox, which has no current one, behind all that wait here."""
        self.batches.extend(other.batches)
        self.added += other._count
        self._count += other._count

    def put_first(self, other: Outbox) -> None:
        """Put those of another outbox before all that wait here."""
        self.batches.extendleft(reversed(other.batches))
        self._count += other._count

    def count_of(self, queue: QueueState) -> int:
        """Return how many are of a queue. O(batches)."""
        count = sum([len(batch.entries) for batch in self.batches if batch.queue is queue])
        return count + (self.current is not None and self.current.queue is queue)

    def records_of(self, queue: QueueState) -> list[int]:
        """Return the records of a queue's letters, 0 for those that have none. O(n)."""
        records = [entry.message.record for batch in self.batches if batch.queue is queue for entry in batch.entries]
        current = self.current
        if current is not None and current.queue is queue:
            records.insert(0, current.entry.message.record)
        return records
