"""The invisible part of a queue: messages of a staged batch, until the commit of the batch is durable.

A batch is added to its queues in turns, by the rules of each queue: log, ring, keys and limits include every message at
once. From its first message in a queue on, nothing of that queue is dispatched, browsed, leased or counted, including
later messages of other publishers. When the commit is durable all of it becomes visible in one call. A failed commit
removes its messages while they are invisible.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from annulet.core.base.sliced_work import SLICE_MESSAGES, SlicedWork
from annulet.core.model.entry import PENDING
from annulet.core.model.queue_state import HIDES_NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable

    from annulet.core.model.effects import Effects
    from annulet.core.model.entry import QueueEntry
    from annulet.core.policies.queue_policies import QueuePolicies
    from annulet.core.policies.schedule import Appointment


WOKEN_AT_ONCE_MAX: Final = 500
"""Queues of a batch whose consumers are served in one turn: 1 ms of the loop, deliveries come to it."""


class StagedRange:
    """The pending messages of one queue from the first one of a batch on, up to the next range."""

    __slots__ = ("batch", "bytes", "count", "sequence")

    def __init__(self, batch: HiddenBatch, sequence: int) -> None:
        self.batch = batch
        self.sequence = sequence  # of the first message
        self.count = 0  # pending messages, those of others included
        self.bytes = 0  # body bytes of these


class HiddenBatch:
    """The messages that one commit puts into queues. End it with :meth:`show` or :func:`take_back`."""

    __slots__ = ("entries", "queues")

    def __init__(self) -> None:
        self.entries: list[QueueEntry] = []  # in order, those included that have left since
        self.queues: dict[QueuePolicies, None] = {}  # that hide something for it

    def take_in(self, queue: QueuePolicies, entry: QueueEntry) -> None:
        """Hide an arrival. Batches that are filled one after the other have ascending sequences in each queue."""
        self.entries.append(entry)
        if queue in self.queues:
            return
        self.queues[queue] = None
        queue.hidden.append(StagedRange(self, entry.sequence))
        queue.hidden_from = min(queue.hidden_from, entry.sequence)

    def show(self, now: int) -> None:
        """Make the rest of it visible in all its queues, and serve waiting consumers."""
        queues = list(self.queues)
        self.queues.clear()
        self.entries = []
        for queue in queues:
            queue.hidden = self._without_its_own(queue.hidden)
            queue.hidden_from = queue.hidden[0].sequence if queue.hidden else HIDES_NOTHING
        if len(queues) > WOKEN_AT_ONCE_MAX:
            queues[0].effects.later(Waking(queues), now)
            return
        for queue in queues:
            if not queue.deleted:
                queue.wake(now)

    def _without_its_own(self, stretches: list[StagedRange]) -> list[StagedRange]:
        """Return those of other batches.

        The last of them continues to hide messages in ranges of this batch behind them.
        """
        left: list[StagedRange] = []
        for stretch in stretches:
            if stretch.batch is not self:
                left.append(stretch)
            elif left:
                left[-1].count += stretch.count
                left[-1].bytes += stretch.bytes
        return left


class Waking(SlicedWork):
    """Serves the consumers of very many queues in which a batch has become visible."""

    def __init__(self, queues: list[QueuePolicies]) -> None:
        super().__init__()
        self._queues = deque(queues)

    def step(self, now: int) -> bool:
        """Serve those of the next queues."""
        for _ in range(min(WOKEN_AT_ONCE_MAX, len(self._queues))):
            queue = self._queues.popleft()
            if not queue.deleted:
                queue.wake(now)
        return bool(self._queues)


class Batches:
    """The batch being added to a virtual host's queues; ``None`` during arrivals of others.

    One batch at a time is put into the queues of a virtual host, so that in every queue they stand in one order: see
    :meth:`begin`.
    """

    __slots__ = ("_filling", "_waiting", "current")

    def __init__(self) -> None:
        self.current: HiddenBatch | None = None
        self._filling = False
        self._waiting: deque[Callable[[], None]] = deque()

    def begin(self, go_on: Callable[[], None]) -> bool:
        """Return whether a batch may be filled now; else ``go_on`` is called when it may. :meth:`end` ends its turn."""
        if self._filling:
            self._waiting.append(go_on)
            return False
        self._filling = True
        return True

    def end(self) -> None:
        """A batch has all its messages, or none any more: the next one has its turn."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._filling = False


# ------------------------------------------------------------------ a commit that failed


def take_back(batch: HiddenBatch, effects: Effects, now: int) -> None:
    """Remove the rest of a batch from all its queues without a trace, in slices; then show messages of others.

    Messages that rules removed for it return only after a restart.
    """
    effects.later(TakingBack(batch), now)


class TakingBack(SlicedWork):
    """Removes the messages of a batch, the newest first. They are hidden until the last of them is removed."""

    def __init__(self, batch: HiddenBatch) -> None:
        super().__init__()
        self._batch = batch

    def step(self, now: int) -> bool:
        """Remove the next few; after the last of them show the rest."""
        entries = self._batch.entries
        for _ in range(min(SLICE_MESSAGES, len(entries))):
            entry = entries.pop()
            entry.queue.take_back(entry, now)
        if entries:
            return True
        self._batch.show(now)
        return False

    def abandon(self, now: int) -> None:
        """Show messages of others, because this work will not be finished."""
        self._batch.show(now)


# ------------------------------------------------------------------ a queue that is emptied or deleted


class StagedEntries:
    """The hidden messages of a queue being emptied, which are not affected."""

    def __init__(self, queue: QueuePolicies) -> None:
        self._queue = queue
        first = queue.hidden_from
        self._pending: list[QueueEntry] = []
        self._appointments: list[Appointment] = []
        if queue.hidden:
            pending = [entry for entry in queue.order.in_memory() if entry.state == PENDING and entry.sequence >= first]
            self._pending = sorted(pending)
            self._appointments = [item for item in queue.schedule.snapshot() if item.entry.sequence >= first]

    def put_back(self) -> None:
        """Put the pending ones into the order, which has just been cleared."""
        queue = self._queue
        for stretch in queue.hidden:
            stretch.count = stretch.bytes = 0
        for entry in self._pending:
            entry.lane = None  # which was cleared with the order
            if entry.place == entry.sequence:
                queue.order.append(entry)
            else:
                queue.order.reinsert(entry)
            queue.count_pending(entry.message.size)
            queue.count_hidden(entry, 1)

    def schedule_again(self) -> None:
        """Put the scheduled ones into the schedule, which has just been cleared."""
        for item in self._appointments:
            self._queue.appoint(item.entry, item.at, fresh=item.fresh, schedule_id=item.schedule_id)
