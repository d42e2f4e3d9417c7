"""Who may have the next message: consumers by priority, round robin among equals."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.consumer import Consumer


class CompetingDispatch:
    """Highest consumer priority first; inside a priority each message moves on to the next consumer (Artemis §6.3).

    A lower priority is served only when no higher one can take the message.
    """

    __slots__ = ("_levels", "_next", "count")

    def __init__(self) -> None:
        self._levels: list[list[Consumer]] = []  # one list per priority, highest first
        self._next: list[int] = []  # index of the consumer whose turn it is, per level
        self.count = 0

    def add(self, consumer: Consumer) -> None:
        """Admit a consumer at the end of its priority's turn."""
        self.count += 1
        for index, level in enumerate(self._levels):
            if level[0].priority == consumer.priority:
                level.append(consumer)
                return
            if level[0].priority < consumer.priority:
                self._levels.insert(index, [consumer])
                self._next.insert(index, 0)
                return
        self._levels.append([consumer])
        self._next.append(0)

    def remove(self, consumer: Consumer) -> None:
        """Dismiss a consumer; the turn of the others does not change."""
        for index, level in enumerate(self._levels):
            if consumer not in level:
                continue
            place = level.index(consumer)
            del level[place]
            self.count -= 1
            if not level:
                del self._levels[index]
                del self._next[index]
                return
            if place < self._next[index]:
                self._next[index] -= 1
            self._next[index] %= len(level)
            return
        raise ValueError(f"consumer {consumer.tag!r} is not attached")

    def choose(self, size: int) -> Consumer | None:
        """Return who gets a message of ``size`` body bytes, and advance the turn; ``None`` if nobody may."""
        for index in range(len(self._levels)):
            level = self._levels[index]
            length = len(level)
            turn = self._next[index]
            for step in range(length):
                place = turn + step
                if place >= length:
                    place -= length
                consumer = level[place]
                if consumer.allows(size):
                    self._next[index] = place + 1 if place + 1 < length else 0
                    return consumer
        return None

    def __iter__(self) -> Iterator[Consumer]:
        for level in self._levels:
            yield from level
