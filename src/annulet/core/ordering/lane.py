"""Lanes and shelves: pending entries that the same consumers may have.

If consumers are restricted, the search for a consumer's next message must not walk over ineligible ones. So a queue's
pending entries are split: a *lane* has entries of one group (or fair key) with the same answers of the queue's
matchers; a *shelf* has the lanes with the same answers and the same owner. Only heads of lanes are examined.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from annulet.core.model.entry import EntryLane

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.order import Order
    from annulet.core.policies.fair_keys import FairKey
    from annulet.core.policies.message_groups import Group

COMPACTION_MINIMUM: Final = 64
"""Outdated heads on a shelf before they are swept out."""


class Lane(EntryLane):
    """Entries of one group or fair key with equal answers."""

    __slots__ = ("blocked", "dropped", "evaluated", "fair", "group", "order", "shelf")

    def __init__(self, order: Order, group: Group | None, fair: FairKey | None, evaluated: int, blocked: int) -> None:
        self.order = order
        self.group = group
        self.fair = fair
        self.evaluated = evaluated
        self.blocked = blocked
        self.shelf: Shelf | None = None
        self.dropped = False  # no longer in the table: a returned entry looks its lane up again

    def __hash__(self) -> int:
        """Compiled classes that order themselves lose the inherited hash; equality stays identity."""
        return id(self)

    def __lt__(self, other: Lane) -> bool:
        """Lanes have no order; heaps compare them only behind equal entries."""
        return False


def lane_of(entry: QueueEntry) -> Lane | None:
    """Return the lane of an entry, ``None`` when it has none."""
    lane = entry.lane
    return lane if isinstance(lane, Lane) else None


class Shelf:
    """Lanes with one owner and equal answers, as a heap by their heads."""

    __slots__ = ("_heads", "_turns", "blocked", "evaluated", "lanes", "owner", "parked")

    def __init__(self, owner: Consumer | None, evaluated: int, blocked: int, *, parked: bool) -> None:
        self.owner = owner  # only this consumer may take; None = all that the answers allow
        self.evaluated = evaluated
        self.blocked = blocked
        self.parked = parked  # no consumer may take now: the group's former owner still has some, or a cap is reached
        self.lanes = 0  # lanes on the shelf, empty ones included
        self._heads: list[tuple[QueueEntry, Lane]] = []
        self._turns: list[tuple[int, FairKey]] = []  # fair queues: the keys of its lanes, by turn

    def note_head(self, entry: QueueEntry, lane: Lane) -> None:
        """A lane on this shelf has a new head."""
        heads = self._heads
        heappush(heads, (entry, lane))
        if len(heads) > 2 * self.lanes + COMPACTION_MINIMUM:
            current = [(head, lane) for head, lane in heads if lane.shelf is self and lane.order.first() is head]
            self._heads = list(dict.fromkeys(current))
            heapify(self._heads)

    def first(self) -> Lane | None:
        """Return the lane whose head is first, ``None`` when all are empty."""
        heads = self._heads
        while heads:
            entry, lane = heads[0]
            if lane.shelf is self and lane.order.first() is entry:
                return lane
            heappop(heads)
        return None

    def leading(self, count: int) -> list[Lane]:
        """Return some ``count`` lanes with entries, those first whose heads are first. O(count log count)."""
        lanes: dict[Lane, None] = {}
        heads = self._heads
        reached: list[tuple[QueueEntry, int]] = [(heads[0][0], 0)] if heads else []
        visited = 0
        while reached and len(lanes) < count and visited < 2 * count + COMPACTION_MINIMUM:
            head, place = heappop(reached)
            lane = heads[place][1]
            visited += 1
            if lane.shelf is self and lane.order.first() is head:
                lanes[lane] = None
            for below in (2 * place + 1, 2 * place + 2):
                if below < len(heads):
                    heappush(reached, (heads[below][0], below))
        return list(lanes)

    def note_turn(self, key: FairKey) -> None:
        """A fair key with a lane on this shelf has a new turn, or a new lane here."""
        turns = self._turns
        heappush(turns, (key.turn, key))
        if len(turns) > 2 * self.lanes + COMPACTION_MINIMUM:
            self._turns = list(dict.fromkeys([item for item in turns if self._is_current(item[0], item[1])]))
            heapify(self._turns)

    def first_key(self) -> FairKey | None:
        """Return the fair key whose turn is first of those with an entry on this shelf, ``None`` when there is none."""
        turns = self._turns
        while turns:
            turn, key = turns[0]
            if self._is_current(turn, key):
                return key
            heappop(turns)
        return None

    def _is_current(self, turn: int, key: FairKey) -> bool:
        return key.turn == turn and any(lane.shelf is self and lane.order.count > 0 for lane in key.lanes)
