"""Rings drop what arrivals make too much; what the disk does not give then goes once it does.

An arrival makes a ring no longer than it may be: its size, or its earlier count, if that was more: an oversized ring
does not shrink by itself (spec artemis §2). The allowed count is remembered from the first arrival on for which nothing
could be dropped, and falls with the messages present. So whatever else makes a ring too long, a lowered size or
deliveries that came back, is no debt, and what others took, what expired or was removed is none any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import SLICE_MESSAGES, SlicedWork
from annulet.core.model.entry import PENDING

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.entries import QueueEntries

SLICE_BYTES: Final = 1 << 20
"""Body bytes after which a slice ends: the most that one read of rows returns, for which the loop waits."""

PAUSE_MOST: Final = 256
"""Ticks, four a second, between two tries while the disk refuses: one after the first, then each time twice as many.
Rows that were refused forty times are given up until the next start, which is too much for an idle ring: so it takes
half an hour instead of ten seconds."""


class RingDebt(SlicedWork):
    """Drops the excess in slices, others being served in between. ``allowed``: messages the ring may have."""

    def __init__(self, queue: QueueEntries, allowed: int) -> None:
        super().__init__()
        self._queue = queue
        self._running = False
        self._pause = self._left = 0  # ticks to wait after a refusal, and how many of them are left
        self.allowed = allowed

    def tick(self, now: int) -> None:
        """The disk may give again: pay, unless it refused a short time ago."""
        if self._left:
            self._left -= 1
        else:
            self.pay(now)

    def pay(self, now: int) -> None:
        """Begin, unless it is being done."""
        if not self._running:
            self._running = True
            self._queue.effects.later(self, now)

    def step(self, now: int) -> bool:
        """Drop the next few. Returns whether there are more to be had."""
        queue = self._queue
        more = self._drop_some(now)
        if not queue.deleted:
            queue.finish(now)  # publishers may have been held back, and copies wait to be sent on
        return more

    def _drop_some(self, now: int) -> bool:
        queue = self._queue
        queue.expire_due(now)
        if queue.ring_debt is not self:
            return False
        if queue.expiring is not None:  # expired messages go first, and may be the whole excess
            queue.expiring.step(now)
            return True
        allowed = max(queue.settings.ring_size, self.allowed)
        size = 0
        for _ in range(SLICE_MESSAGES):
            victim = drop_next(queue, allowed, None, now)
            if victim is None:
                self._running = False
                break
            self._pause = 0
            size += victim.message.size
            if size >= SLICE_BYTES:
                break
        if queue.order.count <= allowed and queue.ring_debt is self:
            queue.owe(None)
            self._running = False
        elif not self._running:
            self._left = self._pause = min(max(1, 2 * self._pause), PAUSE_MOST)
        return self._running

    def abandon(self, now: int) -> None:
        """The next arrival tries again."""
        del now
        self._running = False


def make_way(queue: QueueEntries, arrival: QueueEntry, before: int, now: int) -> None:
    """Drop the message that has to go for one that made a ring too long; ``before`` the arrival there were so many."""
    debt = queue.ring_debt
    taken_in = arrival if arrival.state == PENDING and queue.order.count > before else None
    if debt is not None:
        before = debt.allowed = min(debt.allowed, before)
    allowed = max(queue.settings.ring_size, before)
    dropped = drop_next(queue, allowed, taken_in, now) is not None
    if queue.order.count <= allowed:
        if queue.ring_debt is not None:
            queue.owe(None)
    elif debt is None and not dropped:
        queue.owe(RingDebt(queue, allowed))
    elif debt is not None and dropped:
        debt.pay(now)


def drop_next(queue: QueueEntries, allowed: int, arrival: QueueEntry | None, now: int) -> QueueEntry | None:
    """Drop the next victim if there are more than ``allowed`` messages.

    Returns it; ``None`` also when the disk does not give it now.
    """
    victim = queue.victim() if queue.order.count > allowed else None
    if victim is None or queue.order.count <= allowed:  # the look may have found that others are damaged
        return None
    replaced_by = 0 if arrival is None or victim is arrival else arrival.sequence
    queue.remove_pending(victim, RemovalReason.REPLACED_RING, now, replaced_by)
    queue.dispatch(now)  # as for limits: a consumer with room for the next one takes it, and it need not be dropped
    return victim


def trim_ring(queue: QueueEntries, now: int) -> None:
    """Drop the excess over a lowered ring."""
    ring_size = queue.settings.ring_size
    while drop_next(queue, ring_size, None, now) is not None:
        pass
    queue.owe(RingDebt(queue, ring_size) if queue.order.count > ring_size else None)
