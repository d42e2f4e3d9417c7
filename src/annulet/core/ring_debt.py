"""Rings drop what arrivals make too much; what the disk does not give then goes once it does.

An arrival makes a ring no longer than it may be: its size, or what it had before, if that was more: an oversized ring
does not shrink by itself (spec artemis §2). What it may have is remembered from the first arrival on for which nothing
could be dropped, and falls with what is there. So whatever else makes a ring too long, a lowered size or deliveries
that came back, is no debt, and what others took, what expired or was removed is none any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.reasons import RemovalReason
from annulet.core.sliced import SLICE_MESSAGES, SlicedWork

if TYPE_CHECKING:
    from annulet.core.entry import QueueEntry
    from annulet.core.queue import Queue

SLICE_BYTES: Final = 1 << 20
"""Body bytes after which a slice ends: what one read of rows brings at most, for which the loop waits."""


class RingDebt(SlicedWork):
    """Drops what is too much in slices, others being served in between. ``allowed``: messages the ring may have."""

    def __init__(self, queue: Queue, allowed: int) -> None:
        super().__init__()
        self._queue = queue
        self._running = False
        self.allowed = allowed

    def pay(self, now: int) -> None:
        """Begin, unless it is being done: the disk may give again."""
        if not self._running:
            self._running = True
            self._queue.effects.later(self, now)

    def step(self, now: int) -> bool:
        """Drop the next few. Returns whether there are more to be had."""
        queue = self._queue
        if queue.ring_debt is not self:
            return False
        if queue.expiring is not None:  # what has expired goes first, and may be all that is too much
            queue.expiring.step(now)
            return True
        allowed = max(queue.settings.ring_size, self.allowed)
        size = 0
        for _ in range(SLICE_MESSAGES):
            victim = drop_next(queue, allowed, None, now)
            if victim is None:
                self._running = False
                break
            size += victim.message.size
            if size >= SLICE_BYTES:
                break
        if queue.order.count <= allowed and queue.ring_debt is self:
            queue.ring_debt = None
            self._running = False
        return self._running

    def abandon(self, now: int) -> None:
        """The next arrival tries again."""
        del now
        self._running = False


def make_way(queue: Queue, arrival: QueueEntry, before: int, now: int) -> None:
    """Drop the message that has to go for one that made a ring too long; ``before`` the arrival there were so many."""
    debt = queue.ring_debt
    if debt is not None:
        before = debt.allowed = min(debt.allowed, before)
    allowed = max(queue.settings.ring_size, before)
    dropped = drop_next(queue, allowed, arrival, now) is not None
    if queue.order.count <= allowed:
        queue.ring_debt = None
    elif debt is None and not dropped:
        queue.ring_debt = RingDebt(queue, allowed)
    elif debt is not None and dropped:
        debt.pay(now)


def drop_next(queue: Queue, allowed: int, arrival: QueueEntry | None, now: int) -> QueueEntry | None:
    """Drop who has to go next if more than ``allowed`` are there.

    Returns it; ``None`` also when the disk does not give it now.
    """
    victim = queue.victim() if queue.order.count > allowed else None
    if victim is None or queue.order.count <= allowed:  # the look may have found that others are damaged
        return None
    replaced_by = 0 if arrival is None or victim is arrival else arrival.sequence
    queue.remove_pending(victim, RemovalReason.REPLACED_RING, now, replaced_by)
    queue.dispatch(now)  # as for limits: who has room for the next one takes it, and it need not go
    return victim


def trim_ring(queue: Queue, now: int) -> None:
    """Drop what is beyond a ring that was lowered."""
    ring_size = queue.settings.ring_size
    if ring_size >= 0:
        while drop_next(queue, ring_size, None, now) is not None:
            pass
        queue.ring_debt = RingDebt(queue, ring_size) if queue.order.count > ring_size else None
