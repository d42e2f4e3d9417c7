"""Rings and limits that are too long for a time: victims that the disk does not give, and messages that came back.

An arrival makes a ring no longer than it may be: its size, or its earlier count, if that was more: an oversized ring
does not shrink by itself (spec artemis §2). The allowed count is remembered from the first arrival on for which nothing
could be dropped, and falls with the messages present. So whatever else makes a ring too long, a lowered size or
deliveries that came back, is no debt, and messages that others took, that expired or were removed are none any more.

A return in slices to a ring or an evicting limit without room for all of it ends as one in one step would: consumers
are served, the excess is dropped among the returned messages, and then each arrival drops what it makes too much. So
while messages come back the queue is longer than it may be, and an arrival drops nothing: it is noted, and drops its
share behind the excess.
"""

from __future__ import annotations

from heapq import heappop, heapreplace
from typing import TYPE_CHECKING, Final

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sliced_work import SLICE_MESSAGES, SlicedWork
from annulet.core.model.entry import PENDING, SCHEDULED
from annulet.core.policies.eviction import eviction_rank

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry, Rank
    from annulet.core.queue.entries import QueueEntries

SLICE_BYTES: Final = 1 << 20
"""Body bytes after which a slice ends: the most that one read of rows returns, for which the loop waits."""

PAUSE_MOST: Final = 256
"""Ticks, four a second, between two tries while the disk refuses: one after the first, then each time twice as many.
Rows that were refused forty times are given up until the next start, which is too much for an idle ring: so it takes
half an hour instead of ten seconds."""

Ranked = tuple["Rank", int, "QueueEntry"]
Head = tuple["Rank", int, int]


class RingDebt(SlicedWork):
    """Drops the excess in slices, others being served in between. ``allowed``: messages the ring may have."""

    def __init__(self, queue: QueueEntries, allowed: int) -> None:
        super().__init__()
        self._queue = queue
        self._running = False
        self._pause = self._left = 0  # ticks to wait after a refusal, and how many of them are left
        self.allowed = allowed
        self.defers = False  # arrivals drop nothing

    def defer(self, arrival: QueueEntry, *, grew: bool, yields: bool = False) -> bool:
        """Return whether an arrival, which made the queue longer if it ``grew``, drops nothing now.

        ``yields``: it goes itself where there is no room, as what falls due does.
        """
        del arrival, grew, yields
        return False

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


class ReturnExcess(RingDebt):
    """Collects what comes back in slices, and drops the excess once the last of it is back."""

    def __init__(self, queue: QueueEntries) -> None:
        super().__init__(queue, queue.order.count)
        self._former = queue.ring_debt
        self._back: list[list[Ranked]] = []  # of each slice, the least important last
        self._heads: list[Head] = []  # the least important of each slice, and which slice it is of
        self._noted: list[QueueEntry] = []  # arrivals until the last message is back
        self._yielding: list[QueueEntry] = []
        self._arrivals = self._arrived_bytes = 0  # those that are still there then, and later ones
        self._complete = self._scheduled = False
        self.defers = True

    def reopen(self) -> None:
        """More messages come back: nothing is dropped before the last of these is back, too."""
        self._complete = False

    def take_in(self, entries: list[QueueEntry]) -> None:
        """Note messages that are back and may be too many."""
        if entries:
            rule = self._queue.settings.evict
            ranked = [(eviction_rank(entry, rule), entry.sequence, entry) for entry in entries]
            ranked.sort(reverse=True)
            self._back.append(ranked)

    def defer(self, arrival: QueueEntry, *, grew: bool, yields: bool = False) -> bool:
        """Note an arrival that made the queue longer; it drops nothing now."""
        if not self.defers:
            return False
        if grew and yields:
            self._yielding.append(arrival)
        elif grew and self._complete:
            self._arrivals += 1
            self._arrived_bytes += arrival.message.size
        elif grew:
            self._noted.append(arrival)
        return True

    def tick(self, now: int) -> None:
        """Nothing: it is being done."""

    def pay(self, now: int) -> None:
        """Begin to drop. Call it when the last message is back and consumers have been served."""
        there = [entry.message.size for entry in self._noted if entry.state in (PENDING, SCHEDULED)]
        self._arrivals += len(there)
        self._arrived_bytes += sum(there)
        self._noted = []
        self._heads = [(*ranked[-1][:2], number) for number, ranked in enumerate(self._back) if ranked]
        self._heads.sort()  # a sorted list is a heap
        self._complete = True
        if not self._scheduled and self.step(now):
            self._scheduled = True
            self._queue.effects.later(self, now)

    def step(self, now: int) -> bool:
        """Drop the next few. Returns whether there are more."""
        queue = self._queue
        if not self._complete or queue.ring_debt is not self:
            self._scheduled = False
            return False
        queue.expire_due(now)
        if queue.expiring is not None:  # expired messages go first, and may be the whole excess
            queue.expiring.step(now)
            return True
        more = self._drop_returned(now) or self._drop_for_limits(now)
        if not more:
            self._end(now)
        if not queue.deleted:
            queue.finish(now)
        return more

    def complete(self, now: int) -> None:
        """Drop all of it now."""
        while self._complete and self._queue.ring_debt is self and self.step(now):
            pass

    def _drop_returned(self, now: int) -> bool:
        """Drop some of what came back. Returns whether there may be more to drop."""
        queue = self._queue
        for _ in range(SLICE_MESSAGES):
            reason = self._too_many()
            entry = None if reason is None else self._least()
            if reason is None or entry is None:
                self._back, self._heads = [], []
                return False
            queue.remove_waiting(entry, reason, now, 0)
            queue.dispatch(now)  # a consumer that lacked room for it may take another, which then need not be dropped
        return True

    def _drop_for_limits(self, now: int) -> bool:
        """Drop some of what arrivals made too much for the limits. Returns whether there may be more."""
        queue, limits = self._queue, self._queue.limits
        self.defers = False  # each arrival makes up for itself from now on, so this has an end
        if not self._arrivals or limits is None or not limits.evicts:
            return False
        for _ in range(SLICE_MESSAGES):
            victim = queue.victim() if queue.exceeds_limits() else None
            if victim is None or (limits.counts_all and queue.order.count == 1):
                return False
            queue.remove_pending(victim, RemovalReason.OVERFLOW, now, 0)
            queue.dispatch(now)
        return True

    def _too_many(self) -> RemovalReason | None:
        """Return why there is too much without the arrivals; ``None`` when there is not."""
        queue, limits = self._queue, self._queue.limits
        if 0 <= queue.settings.ring_size < queue.order.count - self._arrivals:
            return RemovalReason.REPLACED_RING
        if limits is not None and limits.evicts and queue.exceeds_limits(self._arrivals, self._arrived_bytes):
            return RemovalReason.OVERFLOW
        return None

    def _least(self) -> QueueEntry | None:
        """Return the next victim that is still there: what fell due, then the least important that came back."""
        while self._yielding:
            entry = self._yielding.pop()
            if entry.state == PENDING:
                return entry
        heads = self._heads
        while heads:
            number = heads[0][2]
            ranked = self._back[number]
            entry = ranked.pop()[2]
            if ranked:
                heapreplace(heads, (*ranked[-1][:2], number))
            else:
                heappop(heads)
            if entry.state in (PENDING, SCHEDULED):
                return entry
        return None

    def _end(self, now: int) -> None:
        """Let a ring drop for the arrivals that were noted as it does for any debt."""
        queue, before = self._queue, self._queue.order.count - self._arrivals
        if self._former is not None:
            before = min(before, self._former.allowed)
        self.abandon(now)
        ring_size = queue.settings.ring_size
        allowed = max(ring_size, before)
        if ring_size >= 0 and queue.order.count > allowed and not queue.deleted:
            debt = RingDebt(queue, allowed)
            queue.owe(debt)
            debt.pay(now)

    def abandon(self, now: int) -> None:
        """Let arrivals drop what they make too much."""
        del now
        self.defers = False
        self._back, self._heads, self._noted, self._yielding = [], [], [], []
        if self._queue.ring_debt is self:
            self._queue.owe(None)


def make_way(queue: QueueEntries, arrival: QueueEntry, before: int, now: int) -> None:
    """Drop the message that has to go for one that made a ring too long; ``before`` the arrival there were so many."""
    debt = queue.ring_debt
    if debt is not None and debt.defer(arrival, grew=queue.order.count > before):
        return
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
