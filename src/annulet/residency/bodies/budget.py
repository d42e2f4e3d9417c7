"""The budget of bodies in memory: how much the messages of each queue take, and which queue has to page.

Bytes are an account, not a measurement: bodies at their size, and for each message a constant for the objects that
leave memory with the body: the whole entry if it becomes a row, only the body itself in all other queues and in
delivery. A message in several queues counts in each queue that needs its body.
"""

from __future__ import annotations

from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Final

from annulet.core.model.compact_messages import CompactDelivery
from annulet.core.model.entry import DELIVERING, REMOVED
from annulet.core.paging.front_limits import FrontBounds
from annulet.core.paging.paged_fifo import KEEP_BYTES, KEEP_MESSAGES
from annulet.core.paging.row_conditions import ENTRY_BYTES
from annulet.residency.bodies.arrival_notes import FLOOR_BYTES, messages_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from annulet.core.model.compact_messages import Slot
    from annulet.core.queue.queue import Queue

MIB: Final = 1 << 20

BODY_BUDGET_BYTES: Final = 256 * MIB
"""Default: half of the smallest machine brokers run on, and the value of the design's figures."""

BODY_BUDGET_LEAST: Final = MIB
"""Bytes. Below it a single queue's front would not fit."""

BODY_BYTES: Final = 48
"""Bytes of a body in memory beside its content: the object and the allocator's rounding."""

SLACK: Final = 8
"""The part of the budget, or of a share, that is freed in excess, so that one pass serves many arrivals."""

PEAKS_AT_ONCE: Final = 1024
"""Small queues that are measured once more in one go: 2 ms of the loop."""

PAGED_AT_ONCE: Final = 64
"""Queues that page in one go, the largest: to sort ten thousand for each slice would take as long as the slice."""


class BodyBudget:
    """Accounts for the memory of queues. Those with more than the floor count: they may have to page.

    With ``spills`` queues that are not durable do as well: their bodies can leave.
    """

    def __init__(self, limit: int = BODY_BUDGET_BYTES, *, spills: bool = False) -> None:
        self.limit = limit  # bytes
        self.spills = spills
        self.floor = FLOOR_BYTES  # bytes from which on a queue counts, set by small_queues
        self.used = 0  # bytes that queues take together that count, by when each was measured last
        self.below = 0  # the same for those below: a queue that pages until it is small moves from one to the other
        self._costs: dict[Queue, int] = {}  # the one measured last is the last one
        self._small: dict[Queue, int] = {}
        self._peaks: dict[Queue, None] = {}  # of these, those measured right after arrivals
        self._unsure = -1  # of these, how many are to be measured before any queue pages; -1: the budget is kept

    def __len__(self) -> int:
        return len(self._costs)

    def measure(self, queues: Iterable[Queue]) -> None:
        """Measure these queues again. Those below the floor, or of which nothing can leave, do not count."""
        for queue in queues:
            self.account(queue)

    def concerns(self, queue: Queue) -> bool:
        """Return whether anything of a queue can leave memory."""
        return not queue.deleted and (queue.queue_id != 0 or self.spills)

    def account(self, queue: Queue) -> None:
        """Measure a queue again. It counts nothing if nothing of it can leave."""
        cost = cost_of(queue) if self.concerns(queue) else 0
        self.used -= self._costs.pop(queue, 0)
        self.below -= self._small.pop(queue, 0)
        self._peaks.pop(queue, None)
        if cost >= self.floor or (cost and in_memory(queue) > messages_of(self.floor)):
            self._costs[queue] = cost
            self.used += cost
        elif cost:
            self._small[queue] = cost
            self.below += cost

    def measure_arrivals(self, queues: Iterable[Queue]) -> None:
        """Measure queues with arrivals again. The messages may be consumed soon, see :meth:`surely_exceeded`."""
        for queue in queues:
            self.account(queue)
            if queue in self._small:
                self._peaks[queue] = None

    def surely_exceeded(self) -> bool:
        """Return whether queues have to page now: the budget is exceeded, also after small queues that were measured
        right after arrivals are measured once more. That is done in portions, so call it again.

        It does not wait for queues with new arrivals: there may always be some.
        """
        if not self.exceeded():
            self._unsure = -1
            return False
        if self._unsure < 0:
            self._unsure = len(self._peaks)
        self.measure(list(islice(self._peaks, min(PEAKS_AT_ONCE, self._unsure))))
        self._unsure = max(0, self._unsure - PEAKS_AT_ONCE)
        return not self._unsure and self.exceeded()

    def counted(self) -> list[Queue]:
        """Return the queues that count now."""
        return list(self._costs)

    def measure_some(self, most: int) -> None:
        """Measure this many of the counting queues again, the least recently measured first."""
        self.measure(list(islice(self._costs, most)))

    def cost_of(self, queue: Queue) -> int:
        """Return the last measured size of a queue, whether it counts or not."""
        return self._costs.get(queue) or self._small.get(queue, 0)

    def exceeded(self) -> bool:
        """Return whether more is in memory than may be."""
        return self.over > 0

    @property
    def over(self) -> int:
        """Bytes in memory beyond the budget, by the last measures; negative while there is room."""
        return self.used - (self.limit - self.below)

    @property
    def share(self) -> int:
        """Bytes a queue may have while the budget is exceeded: an equal part, at least the floor."""
        return max(self.floor, (self.limit - self.below) // max(1, len(self._costs)))

    def front_of(self, queue: Queue, sizes: Sequence[int] = ()) -> FrontBounds:
        """How much of its next messages a queue keeps: by the account no more than a lowered floor, but one message.

        It depends on the average size of bodies in bytes: of these ``sizes``, else of all that wait there. Without
        waiting messages it is unknown, and with few it is unreliable, since a few large ones may determine it: the next
        may be small ones, which have half the floor.
        """
        floor = self.floor
        if floor >= FLOOR_BYTES:
            return FrontBounds()
        beside = _bytes_beside(queue)
        count, size = (len(sizes), sum(sizes)) if sizes else (queue.order.count, queue.pending_bytes)
        average = size // count if count else beside
        if beside + average > floor // 2:
            floor //= 2
            average = beside
        messages = min(KEEP_MESSAGES, max(1, floor // (beside + average)))
        return FrontBounds(messages, min(KEEP_BYTES, max(1, floor - messages * beside)))

    def excess(self, queue: Queue) -> int:
        """Return how many bytes a queue should free: its excess over the budget and over its share, and an eighth more.

        So a pass over its bodies is not for one arrival.
        """
        share, limit = self.share, self.limit - self.below
        return min(self.cost_of(queue) - (share - share // SLACK), self.used - (limit - limit // SLACK))

    def to_page(self, without: AbstractSet[Queue] = frozenset()) -> list[Queue]:
        """Return the queues over their share but those ``without``, the largest first; none while the budget is kept.

        No more than :data:`PAGED_AT_ONCE`. Fronts may exceed the budget when there are very many queues: those without
        anything to page are not checked each time.
        """
        if not self.exceeded():
            return []
        share = self.share
        over = [queue for queue, cost in self._costs.items() if cost > share and queue not in without]
        return nlargest(PAGED_AT_ONCE, over, key=self._costs.__getitem__)


def in_memory(queue: Queue) -> int:
    """Return how many messages of a queue have their bodies in memory: pending, scheduled, in delivery, leaving."""
    count = queue.order.count - queue.order.paged_count() + len(queue.delivering) + queue.schedule.count + queue.leaving
    return count if queue.bodies is None else count - queue.bodies.count


def body_bytes(queue: Queue) -> int:
    """Return the bytes of these bodies."""
    size = queue.pending_bytes - queue.order.paged_bytes() + queue.delivering_bytes + queue.schedule.bytes
    size += queue.leaving_bytes
    return size if queue.bodies is None else size - queue.bodies.bytes


def cost_of(queue: Queue) -> int:
    """Return the bytes these take, by the account."""
    return 0 if queue.deleted else in_memory(queue) * _bytes_beside(queue) + body_bytes(queue)


def waiting_in(queue: Queue) -> int:
    """Return the bytes that all messages of a queue would take in memory, those on disk too."""
    count = queue.message_count()
    size = queue.pending_bytes + queue.delivering_bytes + queue.schedule.bytes
    return count * _bytes_beside(queue) + size


def _bytes_beside(queue: Queue) -> int:
    """Return the bytes that leave memory with a body of a queue."""
    return ENTRY_BYTES if queue.pageable() else BODY_BYTES


class Recount:
    """Recounts the bodies of a queue, a slice at a time: a million messages may be in delivery.

    Waiting and scheduled messages are counted in one turn, and deliveries by their blocks, between which nothing moves.
    So it is exact if nothing has :attr:`changed` since it began, and otherwise has no result. Compact messages stay
    compact, and rows on disk are not examined.
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.messages = 0  # that were counted
        self._account = _account_of(queue)
        self._near = 0  # body bytes in memory
        self._away = 0  # entries without their bodies
        self._away_bytes = 0
        self._out = 0  # of these, those in delivery
        self._out_bytes = 0
        self._blocks: list[int] | None = None  # of deliveries, those that are not counted yet

    @property
    def changed(self) -> bool:
        """Return whether any message arrived, was delivered, settled, removed or moved since this began."""
        return _account_of(self.queue) != self._account

    def step(self, most: int) -> bool:
        """Count waiting messages the first time, then deliveries, about ``most`` in total.

        Returns whether there are more.
        """
        queue = self.queue
        until = self.messages + most
        blocks = self._blocks
        if blocks is None:
            self._count(queue.order.in_memory())
            self._count([appointment.entry for appointment in queue.schedule.snapshot()])
            blocks = self._blocks = queue.delivering.block_numbers()
        while blocks and self.messages < until:
            self._count([slot for slot in queue.delivering.block(blocks.pop()) if slot is not None])
        return bool(blocks)

    def drift(self) -> int:
        """Return by how many bytes and messages the account is wrong, when all is counted."""
        bodies = self.queue.bodies
        drift = abs(body_bytes(self.queue) - self._near)
        if bodies is not None:
            drift += abs(bodies.bytes - self._away_bytes) + abs(bodies.count - self._away)
            drift += abs(bodies.in_delivery_bytes - self._out_bytes) + abs(bodies.in_delivery - self._out)
        return drift

    def _count(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            if isinstance(slot, CompactDelivery):
                self._count_away(slot.size, out=True)
            elif slot.state == REMOVED:
                continue
            elif slot.away:
                self._count_away(slot.message.size, out=slot.state == DELIVERING)
            else:
                self._near += slot.message.size
            self.messages += 1

    def _count_away(self, size: int, *, out: bool) -> None:
        self._away += 1
        self._away_bytes += size
        if out:
            self._out += 1
            self._out_bytes += size


def _account_of(queue: Queue) -> tuple[int, ...]:
    """Return all figures that a recount is compared with, and counters that detect replaced messages."""
    counters, bodies = queue.counters, queue.bodies
    account = (
        counters.messages_added,
        counters.messages_delivered,
        counters.messages_returned,
        counters.bytes_removed,
        queue.order.count,
        queue.order.paged_count(),
        len(queue.delivering),
        queue.schedule.count,
        body_bytes(queue),
    )
    if bodies is None:
        return account
    return (*account, bodies.count, bodies.bytes, bodies.in_delivery, bodies.in_delivery_bytes)


def drift_of(queue: Queue) -> int:
    """Return the error of the account of a queue's bodies in bytes by a recount: always 0 without a defect.

    O(n); rows on disk are not examined.
    """
    recount = Recount(queue)
    while recount.step(len(queue.delivering)):
        pass
    return recount.drift()
