"""How important a message is, and the rank its queue's order gives it.

A rank is computed once, when the message becomes pending for the first time, and kept through returns; all disciplines
are therefore orders by a fixed number, and no message has to be moved while it waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.settings import AGEING, STRICT
from annulet.core.message.message import DEFAULT_PRIORITY
from annulet.core.model.order import Order
from annulet.core.ordering.order import FifoOrder, RankedOrder
from annulet.core.ordering.priority_order import LevelledOrder

if TYPE_CHECKING:
    from annulet.core.base.settings import QueueSettings
    from annulet.core.message.message import Message, PropertyValue
    from annulet.core.model.entry import QueueEntry, Rank

CENTRED_LEVELS: Final = 10
"""With fewer levels Broker-J's mapping applies, which keeps JMS's default 4 in the middle (qpid §3)."""

SORTED_MISSING: Final = 0
SORTED_NUMBER: Final = 1
SORTED_TEXT: Final = 2
SORTED_BYTES: Final = 3
SORTED_TRUTH: Final = 4
SORTED_OTHER: Final = 5


class PriorityLevels:
    """Maps a message's priority to a level of its queue, 0 the least important."""

    __slots__ = ("_highest", "_offset", "_peer", "count")

    def __init__(self, settings: QueueSettings) -> None:
        levels = settings.priorities
        self._peer = settings.max_priority >= 0  # RabbitMQ's alias: none given counts as 0
        if self._peer:
            levels = settings.max_priority + 1
        self.count = max(1, levels)
        self._highest = self.count - 1
        self._offset = 0
        if not self._peer and levels < CENTRED_LEVELS:
            self._offset = 5 - (levels + 1) // 2

    def level_of(self, message: Message) -> int:
        """Return the level of a message."""
        if self._highest == 0:
            return 0
        priority = message.priority
        if self._peer and priority == DEFAULT_PRIORITY and message.origin.view.given_priority(message) < 0:
            priority = 0
        return self._level_for(priority)

    def level_of_row(self, priority: int) -> int:
        """Return the level of a message that was not read: by the priority its sender gave, -1 for none."""
        if priority < 0:
            priority = 0 if self._peer else DEFAULT_PRIORITY
        return self._level_for(priority)

    def _level_for(self, priority: int) -> int:
        return max(0, min(priority - self._offset, self._highest))


class Ranker:
    """Gives no rank: FIFO. Subclasses are the other orders."""

    due_first = False  # a message that falls due precedes the backlog of its rank
    ranks = True  # entries have ranks
    in_turn = False  # later arrivals follow all present ones, on their level where there are several
    sorts = False  # by a key of the message, whenever it arrives

    def assign(self, entry: QueueEntry, now: int, *, due: bool = False) -> None:
        """Set the rank of an entry that becomes pending for the first time; ``due``: it comes from the schedule."""

    def assign_again(self, entry: QueueEntry, former: QueueEntry, now: int) -> None:
        """Set the rank of a pending entry that stands for ``former`` from now on, with another priority."""
        del former
        self.assign(entry, now)

    def served(self, entry: QueueEntry) -> None:
        """Note that an entry was dispatched."""

    def new_order(self) -> Order:
        """Return an empty order for the entries of a whole queue."""
        return self.new_list()

    def new_list(self) -> Order:
        """Return an empty order that takes little memory: one lane's, or what one reader has to see yet."""
        return RankedOrder()


class FifoRanker(Ranker):
    """Places only."""

    due_first = True
    ranks = False
    in_turn = True

    def new_list(self) -> Order:
        """Return an empty order."""
        return FifoOrder()


class StrictRanker(Ranker):
    """Higher level first, FIFO inside."""

    due_first = True
    in_turn = True

    def __init__(self, levels: PriorityLevels) -> None:
        self._ranks: list[Rank] = [(-level,) for level in range(levels.count)]  # shared by all entries of a level
        self._levels = levels

    def assign(self, entry: QueueEntry, now: int, *, due: bool = False) -> None:
        """Rank by level."""
        del now, due
        entry.rank = self._ranks[self._levels.level_of(entry.message)]

    def new_order(self) -> Order:
        """Return an empty order with a list for each level."""
        return LevelledOrder(self._levels.count)


class AgeingRanker(Ranker):
    """A level is worth ``age`` milliseconds of waiting, so that nothing waits for ever."""

    def __init__(self, levels: PriorityLevels, age: int) -> None:
        self._levels = levels
        self._age = age

    def assign(self, entry: QueueEntry, now: int, *, due: bool = False) -> None:
        """Rank by the time at which a message of level 0 would have had to arrive to be its equal."""
        del due
        message = entry.message
        # a scheduled message has waited since its time, whenever that was noticed; one delivered early, since now
        since = min(now, max(message.accepted_at, message.deliver_at))
        entry.rank = (since - self._levels.level_of(message) * self._age,)

    def assign_again(self, entry: QueueEntry, former: QueueEntry, now: int) -> None:
        """Move the rank by levels: it has waited since it became pending, which only its former rank still says."""
        del now
        rank = former.rank
        assert rank is not None  # it is pending
        risen = self._levels.level_of(entry.message) - self._levels.level_of(former.message)
        entry.rank = (rank[0] - risen * self._age,)


class WeightedRanker(Ranker):
    """Levels share the dispatches by weight: start-time fair queueing with one flow per level.

    finish = max(virtual time, finish of the level's latest) + 1 / weight; the smallest finish is served first and
    becomes the virtual time. Fractions are exact: times are multiples of 1 / product-free ``SCALE``.
    """

    SCALE: Final = 720720  # divisible by 1 to 16: usual weights divide it without remainder

    def __init__(self, levels: PriorityLevels, weights: tuple[int, ...]) -> None:
        self._levels = levels
        self._costs = [
            self.SCALE // (weights[level] if level < len(weights) else level + 1) for level in range(levels.count)
        ]
        self._finishes = [0] * levels.count
        self._virtual = 0

    def assign(self, entry: QueueEntry, now: int, *, due: bool = False) -> None:
        """Rank by virtual finish time; at equal times the higher level goes first."""
        del now, due
        level = self._levels.level_of(entry.message)
        finish = max(self._virtual, self._finishes[level]) + self._costs[level]
        self._finishes[level] = finish
        entry.rank = (finish, -level)

    def served(self, entry: QueueEntry) -> None:
        """Advance the virtual time."""
        rank = entry.rank
        if rank is not None and rank[0] > self._virtual:
            self._virtual = rank[0]


class SortedRanker(Ranker):
    """Ascending by a property: missing, then numbers by value, then text by code point; types never mix silently."""

    sorts = True

    def __init__(self, key: str) -> None:
        self._key = key

    def assign(self, entry: QueueEntry, now: int, *, due: bool = False) -> None:
        """Rank by the property's value."""
        del now, due
        message = entry.message
        entry.rank = sort_rank(message.origin.view.application_property(message, self._key))


def sort_rank(value: PropertyValue) -> Rank:
    """Return the rank of a sort key's value. Not-a-number counts as missing: it compares with nothing."""
    if value is None:
        return (SORTED_MISSING,)
    if isinstance(value, bool):
        return (SORTED_TRUTH, value)
    if isinstance(value, (int, float)):
        return (SORTED_NUMBER, value) if value == value else (SORTED_MISSING,)  # noqa: PLR0124 - false for NaN
    if isinstance(value, str):
        return (SORTED_TEXT, value)
    if isinstance(value, bytes):
        return (SORTED_BYTES, value)
    return (SORTED_OTHER, repr(value))


def ranker_for(settings: QueueSettings, levels: PriorityLevels) -> Ranker:
    """Return the ranker of a queue's order."""
    if settings.sort_key:
        return SortedRanker(settings.sort_key)
    if settings.priorities <= 0 and settings.max_priority < 0:
        return FifoRanker()
    if settings.priority_discipline == STRICT:
        return StrictRanker(levels)
    if settings.priority_discipline == AGEING:
        return AgeingRanker(levels, settings.priority_age)
    return WeightedRanker(levels, settings.priority_weights)
