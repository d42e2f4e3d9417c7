"""The order of a queue with strict priorities: first in, first out on each level, the most important level first.

Every operation is O(1) but for returns, where one heap by level and place would compare entries with each arrival and
delivery. And a level is an order like that of a plain queue, whose middle may be on disk.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from annulet.core.model.order import Order, SequenceList
from annulet.core.ordering.order import FifoOrder

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry


class LevelledOrder(Order):
    """A FIFO order for each level. An entry's rank is ``(-level,)``: see
    :class:`annulet.core.ordering.ranks.StrictRanker`.

    ``levels`` may be replaced one by one: by an order of the same entries.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.levels = [FifoOrder() for _ in range(count)]  # the least important first
        self._upto = 0  # no level from here on has pending entries

    def take_over(self, order: LevelledOrder) -> None:
        """Have the levels of another order instead of its own. That one is not used any more."""
        self.levels = order.levels
        self.count = order.count
        self._upto = order._upto

    def append(self, entry: QueueEntry) -> None:
        """Add an arrival; its place is above all others of its level."""
        self._level_gaining(entry).append(entry)

    def reinsert(self, entry: QueueEntry) -> None:
        """Put an entry back at its place in its level."""
        self._level_gaining(entry).reinsert(entry)

    def first(self) -> QueueEntry | None:
        """Return the next entry without taking it. ``None`` when nothing is pending, or the disk does not give it now.

        A less important message is never served because the disk refuses a more important one.
        """
        levels = self.levels
        while self._upto:
            level = levels[self._upto - 1]
            before = level.count
            if before:
                entry = level.first()
                self.count += level.count - before  # damaged rows are no more
                if level.count:
                    return entry
            self._upto -= 1
        return None

    def coming(self) -> bool:
        """Use the first non-empty level: less important messages do not overtake it."""
        for index in range(self._upto - 1, -1, -1):
            level = self.levels[index]
            if level.count:
                return level.coming()
        return False

    def take_first(self) -> QueueEntry | None:
        """Remove and return the next entry, ``None`` when there is none."""
        levels = self.levels
        while self._upto:
            level = levels[self._upto - 1]
            before = level.count
            if before:
                entry = level.take_first()
                self.count += level.count - before  # as in first
                if entry is not None or level.count:
                    return entry
            self._upto -= 1
        return None

    def discard(self, entry: QueueEntry) -> None:
        """Take a pending entry out of the middle. The caller has set its state to REMOVED."""
        rank = entry.rank
        assert rank is not None
        self.count -= 1
        level = self.levels[-rank[0]]
        level.discard(entry)
        if not level.count:
            level.clear()  # empty levels are not read, and may contain removed entries

    def clear(self) -> None:
        """Forget all entries."""
        for level in self.levels:
            level.clear()
        self._upto = 0
        self.count = 0

    def entries(self) -> list[QueueEntry]:
        """Return the pending entries in order of dispatch."""
        return [entry for level in self._occupied() for entry in level.entries()]

    def held(self) -> set[QueueEntry]:
        """Return all entries, those included that were removed and not swept out yet."""
        return {entry for level in self.levels for entry in level.held()}

    def snapshot(self) -> list[QueueEntry]:
        """Return the entries, level by level, removed ones perhaps among them."""
        found: list[QueueEntry] = []
        for level in self._occupied():  # whole lists: of a million each copied alone takes 80 ms
            found += level.snapshot()
        return found

    def take_arrivals(self) -> deque[QueueEntry]:
        """Take out those of the level that has most of them."""
        longest: FifoOrder | None = None
        for level in self._occupied():
            if longest is None or level.front_length > longest.front_length:
                longest = level
        return deque() if longest is None else longest.take_arrivals()

    def in_memory(self) -> list[QueueEntry]:
        """Return the entries that are objects now."""
        found: list[QueueEntry] = []
        for level in self._occupied():
            found += level.in_memory()
        return found

    def lists(self) -> list[SequenceList]:
        """Return the levels that may have entries."""
        return list[SequenceList](self._occupied())

    def aside(self) -> list[QueueEntry]:
        """Combine the levels."""
        return [entry for level in self._occupied() for entry in level.aside()]

    def came_back(self) -> int:
        """Combine the levels."""
        return sum([level.came_back() for level in self._occupied()])

    def parts_count(self) -> int:
        """Combine the levels."""
        return sum([level.count for level in self.levels])

    def restores_rows(self) -> bool:
        """Return true: a queue with strict priorities may have rows."""
        return True

    def upcoming(self, count: int) -> list[QueueEntry]:
        """Return the next entries, level by level."""
        found: list[QueueEntry] = []
        for level in self._occupied():
            if len(found) >= count:
                break
            found += level.upcoming(count - len(found))
        return found

    def first_sequence(self) -> int:
        """Return the sequence of the next entry, on disk or not, 0 when nothing is pending."""
        for level in self._occupied():
            if level.count:
                return level.first_sequence()
        return 0

    def oldest_accepted_at(self) -> int:
        """Combine all levels: the oldest message may wait on the least important one."""
        times = [level.oldest_accepted_at() for level in self._occupied() if level.count]
        return min([at for at in times if at], default=0)

    def _occupied(self) -> list[FifoOrder]:
        """Return the levels that may have pending entries, the most important first."""
        return self.levels[: self._upto][::-1]

    def _level_gaining(self, entry: QueueEntry) -> FifoOrder:
        rank = entry.rank
        assert rank is not None
        number: int = -rank[0]
        if number >= self._upto:
            self._upto = number + 1
        self.count += 1
        return self.levels[number]
