"""Selects the consumer of the next message: by priority, round robin among equals, with a limited number of live
ones."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from annulet.core.base.settings import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.core.base.settings import QueueSettings
    from annulet.core.model.consumer import Consumer

PASSED_ROUNDS: Final = 2
"""Unsuccessful rounds over all consumers in a dispatch before it determines those with room and uses only these, which
is more work, and wasted if an acknowledgement allows just one message."""


class ConsumerTurns:
    """Highest consumer priority first; inside a priority each message moves on to the next consumer (Artemis §6.3).

    A lower priority is served only when no higher one can take the message. With ``live_max`` only this many consumers
    are served (Broker-J ``maximumLiveConsumers``): the first by priority and attachment, each until it detaches. With
    one live consumer (exclusive, single active) the next is chosen only when the former's deliveries are settled or
    returned, so that the order of messages is kept. Browsers are attached, but take no part.
    """

    __slots__ = ("_browsers", "_former", "_levels", "_live", "_next", "count", "live_max", "passed", "selecting")

    def __init__(self, live_max: int = UNLIMITED) -> None:
        self._levels: list[list[Consumer]] = []  # one list per priority, highest first
        self._next: list[int] = []  # index of the consumer whose turn it is, per level
        self._browsers: list[Consumer] = []
        self._live: dict[Consumer, None] = {}
        self._former: list[Consumer] = []  # gone, but holding deliveries that a successor has to wait for
        self.live_max = live_max
        self.count = 0
        self.selecting = 0  # how many take not every message, browsers not among them
        self.passed = 0  # unsuccessful checks before the last chosen one

    def add(self, consumer: Consumer) -> None:
        """Admit a consumer at the end of its priority's turn."""
        self.count += 1
        if consumer.settings.browse:
            self._browsers.append(consumer)
            return
        self.selecting += consumer.required != 0
        for index, level in enumerate(self._levels):
            if level[0].priority == consumer.priority:
                level.append(consumer)
                break
            if level[0].priority < consumer.priority:
                self._levels.insert(index, [consumer])
                self._next.insert(index, 0)
                break
        else:
            self._levels.append([consumer])
            self._next.append(0)
        self.elect()

    def remove(self, consumer: Consumer) -> None:
        """Dismiss a consumer; the turn of the others does not change."""
        if consumer in self._browsers:
            self._browsers.remove(consumer)
            self.count -= 1
            return
        for index, level in enumerate(self._levels):
            if consumer in level:
                self._remove_from(index, level, consumer)
                self.count -= 1
                self.selecting -= consumer.required != 0
                if consumer in self._live:
                    del self._live[consumer]
                    if consumer.held:
                        self._former.append(consumer)
                    self.elect()
                return
        raise ValueError(f"consumer {consumer.tag!r} is not attached")

    def choose(self, size: int) -> Consumer | None:
        """Return the consumer for a message of ``size`` body bytes without restrictions, and advance the turn.

        ``None`` if there is none. Consumers with a condition are skipped: it is not evaluated yet.
        """
        if self.live_max >= 0:
            self.elect()
        passed = 0
        for index in range(len(self._levels)):
            level = self._levels[index]
            length = len(level)
            place: i64 = self._next[index]
            for step in range(length):
                consumer = level[place]
                place = place + 1 if place + 1 < length else 0
                window = consumer.window  # inlined instead of two calls: many may have used up their credit
                full = (
                    0 <= window.messages_max <= window.messages
                    or (window.bytes_max >= 0 and window.bytes > 0 and window.bytes + size > window.bytes_max)
                ) and not consumer.auto_acknowledge
                free = not full and not consumer.required
                if free and consumer.allows(size) and (self.live_max < 0 or consumer in self._live):
                    self._next[index] = place
                    self.passed = passed + step
                    return consumer
            passed += length
        return None

    def able(self, some: list[Consumer] | None = None) -> list[deque[int]]:
        """Return the consumers with room: places in their level, in turn, for each level.

        Of ``some``, or of all without a condition.
        """
        wanted = None if some is None else set(some)
        found: list[deque[int]] = []
        for index, level in enumerate(self._levels):
            turn = self._next[index]
            places: deque[int] = deque()
            for place in [*range(turn, len(level)), *range(turn)]:
                consumer = level[place]
                asked = not consumer.required if wanted is None else consumer in wanted
                if asked and consumer.ready and (self.live_max < 0 or consumer in self._live):
                    places.append(place)
            found.append(places)
        return found

    def choose_able(self, able: list[deque[int]], size: int, barred: set[Consumer] | None = None) -> Consumer | None:
        """Like :meth:`choose`, but check only those that were ``able``, while no consumer attaches, detaches or gains
        room.

        So a dispatch checks very many without room once, not for each message. ``barred``: the message is not for
        these, which keep their turn.
        """
        for index, places in enumerate(able):
            level = self._levels[index]
            for _ in range(len(places)):
                place = places.popleft()
                consumer = level[place]
                if barred is not None and consumer in barred:
                    places.append(place)
                    continue
                if consumer.allows(size):
                    places.append(place)
                    self._next[index] = place + 1 if place + 1 < len(level) else 0
                    return consumer
                if consumer.ready:  # for a smaller one
                    places.append(place)
        return None

    def has_free(self) -> bool:
        """Return whether a consumer without a condition has room now."""
        for level in self._levels:
            for consumer in level:
                if not consumer.required and consumer.ready:
                    return True
        return False

    def in_turn(self) -> list[Consumer]:
        """Return the live consumers in their order of service."""
        if self.live_max >= 0:
            self.elect()
        asked: list[Consumer] = []
        for index, level in enumerate(self._levels):
            turn = self._next[index]
            asked.extend(level[turn:])
            asked.extend(level[:turn])
        if self.live_max >= 0:
            return [consumer for consumer in asked if consumer in self._live]
        return asked

    def served(self, consumer: Consumer) -> None:
        """Advance the turn past a consumer that was given a message."""
        for index, level in enumerate(self._levels):
            if level[0].priority == consumer.priority:
                place = level.index(consumer) + 1
                self._next[index] = place if place < len(level) else 0
                return

    def is_live(self, consumer: Consumer) -> bool:
        """Return whether a consumer is served; browsers always are."""
        if self.live_max < 0 or consumer.settings.browse:
            return True
        self.elect()
        return consumer in self._live

    def outranks(self, consumer: Consumer) -> bool:
        """Return whether a consumer precedes others by its priority: they get messages that it cannot take."""
        return bool(self._levels) and self._levels[-1][0].priority < consumer.priority

    @property
    def live(self) -> list[Consumer]:
        """Those with a live place now, without an election; empty if all are served."""
        return list(self._live)

    @property
    def former(self) -> list[Consumer]:
        """Detached ones with unsettled deliveries for which a successor has to wait."""
        return [consumer for consumer in self._former if consumer.held]

    def readers(self) -> list[Consumer]:
        """Return those that read without taking, by priority and attachment, browsers last."""
        readers = [consumer for level in self._levels for consumer in level if consumer.copies]
        return [*readers, *self._browsers]

    def browsers(self) -> list[Consumer]:
        """Return those of :meth:`readers` that browse."""
        return self._browsers.copy()

    @property
    def takers(self) -> int:
        """How many of the consumers are no browsers."""
        return self.count - len(self._browsers)

    def __iter__(self) -> Iterator[Consumer]:
        for level in self._levels:
            yield from level
        yield from self._browsers

    def _remove_from(self, index: int, level: list[Consumer], consumer: Consumer) -> None:
        place = level.index(consumer)
        del level[place]
        if not level:
            del self._levels[index]
            del self._next[index]
            return
        if place < self._next[index]:
            self._next[index] -= 1
        self._next[index] %= len(level)

    def elect(self) -> None:
        """Fill the live places by priority, then attachment.

        Detached ones keep their place while they have deliveries.
        """
        if self.live_max < 0 or len(self._live) >= self.live_max:
            return
        self._former = [consumer for consumer in self._former if consumer.held]
        places = self.live_max - len(self._former)
        for level in self._levels:
            for consumer in level:
                if len(self._live) >= places:
                    return
                self._live[consumer] = None


def live_max_of(settings: QueueSettings) -> int:
    """Return how many consumers a queue serves at a time; -1 = all."""
    if settings.exclusive_consumer or settings.single_active_consumer:
        return 1
    return settings.live_consumers_max
