"""When deliveries of a session are overdue: what their consumer has not settled within its time.

Nothing is noted per delivery. Tags of a session ascend, so a look now and then notes how far they have come
(:meth:`DeliveryDeadlines.mark`): what has a tag up to a mark was delivered before the mark. A delivery is never found
overdue early, and late by the time between two looks at most, as long as the marks are not thinned out.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from annulet.core.held_messages import consumer_of, queue_of

if TYPE_CHECKING:
    from annulet.core.consumer import Consumer
    from annulet.core.queue import Queue
    from annulet.core.session import Session

MARKS_MAX: Final = 64
"""Marks of one session. When there are more, every other one of the older half goes: what is that old is found overdue
later, by a share of its age."""

EXTENSIONS_MAX: Final = 10_000
"""Deliveries of one session whose time was extended and that may still be held: 1 MB. More are refused."""


class Overdue:
    """A delivery that was not settled in time. ``consumer`` is ``None`` for one that was pulled."""

    __slots__ = ("consumer", "queue", "tag", "timeout")

    def __init__(self, tag: int, consumer: Consumer | None, queue: Queue, timeout: int) -> None:
        self.tag = tag
        self.consumer = consumer
        self.queue = queue
        self.timeout = timeout  # milliseconds

    def __str__(self) -> str:
        """Say what is overdue, and what to do."""
        who = f"consumer '{self.consumer.tag}'" if self.consumer is not None else "what was pulled"
        return (
            f"delivery {self.tag} of {who} of queue '{self.queue.name}' was not settled within {self.timeout} ms; "
            "settle it or extend its time, or raise consumer-timeout"
        )


def timeout_of(consumer: Consumer | None, queue: Queue, default: int) -> int:
    """Return the milliseconds a delivery may be held; 0 for ever.

    The consumer's word counts, then the queue's (argument, policy, address setting), then ``default``, the server's.
    """
    if consumer is not None and consumer.settings.consumer_timeout >= 0:
        return consumer.settings.consumer_timeout
    timeout = queue.settings.consumer_timeout
    return timeout if timeout >= 0 else default


def shortest_timeout(session: Session, default: int) -> int:
    """Return the shortest time of a session's deliveries in milliseconds; 0 when they may all be held for ever."""
    shortest = 0
    for consumer in session.delivery_holders():
        timeout = timeout_of(consumer, consumer.queue, default)
        if timeout and (timeout < shortest or not shortest):
            shortest = timeout
    if session.pulls:
        for slot in session.unacknowledged.slots():
            if consumer_of(slot[1]) is None:
                timeout = timeout_of(None, queue_of(slot[1]), default)
                if timeout and (timeout < shortest or not shortest):
                    shortest = timeout
    return shortest


class DeliveryDeadlines:
    """The marks of one session, and what of its deliveries was extended."""

    def __init__(self) -> None:
        self._times: list[int] = []  # of the marks, ascending
        self._tags: list[int] = []  # the newest at each
        self._extended: dict[int, int] = {}  # by tag: when

    def mark(self, tag: int, now: int) -> None:
        """Note that tags have come so far."""
        if self._tags and self._tags[-1] >= tag:
            return
        if len(self._tags) >= MARKS_MAX:
            half = MARKS_MAX // 2
            self._times = self._times[1:half:2] + self._times[half:]
            self._tags = self._tags[1:half:2] + self._tags[half:]
        self._times.append(now)
        self._tags.append(tag)

    def delivered_by(self, at: int) -> int:
        """Return a tag up to which all were delivered by then; 0 when that is not known of any."""
        place = bisect_right(self._times, at)
        return self._tags[place - 1] if place else 0

    def extend(self, session: Session, tag: int, now: int) -> bool:
        """Let the time of a delivery begin anew. Returns whether the session holds it, and there is room to note it."""
        if tag not in session.unacknowledged:
            return False
        if tag not in self._extended and len(self._extended) >= EXTENSIONS_MAX:
            self._forget_settled(session)
            if len(self._extended) >= EXTENSIONS_MAX:
                return False
        self._extended[tag] = now
        return True

    def overdue(self, session: Session, now: int, default: int) -> Overdue | None:
        """Return a delivery that is overdue, ``None`` when none is. O(held, and delivered so long ago)."""
        shortest = shortest_timeout(session, default)
        if not shortest:
            return None
        self._forget_settled(session)
        known: dict[int, int] = {}  # by time: the tag up to which deliveries are older
        for tag, slot in session.unacknowledged.slots(self.delivered_by(now - shortest)):
            consumer, queue = consumer_of(slot), queue_of(slot)
            timeout = timeout_of(consumer, queue, default)
            if not timeout:
                continue
            since = self._extended.get(tag)
            if since is None:
                if timeout not in known:
                    known[timeout] = self.delivered_by(now - timeout)
                late = tag <= known[timeout]
            else:
                late = now - since >= timeout
            if late:
                return Overdue(tag, consumer, queue, timeout)
        return None

    def _forget_settled(self, session: Session) -> None:
        if self._extended:
            held = session.unacknowledged
            self._extended = {tag: at for tag, at in self._extended.items() if tag in held}
