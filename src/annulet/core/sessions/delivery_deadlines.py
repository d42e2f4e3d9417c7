"""Finds overdue deliveries of a session, not settled within their consumer's timeout.

There is no state per delivery. Tags of a session ascend, so periodic marks record the latest tag
(:meth:`DeliveryDeadlines.mark`): deliveries with a tag up to a mark were delivered before the mark. A delivery is never
found overdue early, and late by at most the time between two checks, unless marks are thinned out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from annulet.core.model.compact_messages import consumer_of, queue_of

if TYPE_CHECKING:
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.queue_state import QueueState
    from annulet.core.sessions.session import Session

MARKS_MAX: Final = 64
"""Marks of one session.

When there are more, every other one of the older half is dropped: old deliveries are then found overdue later, by a
part of their age.
"""

EXTENSIONS_MAX: Final = 10_000
"""Unsettled deliveries of one session whose timeout was extended: 1 MB. More are refused."""


class Overdue:
    """A delivery that was not settled in time. ``consumer`` is ``None`` for one that was pulled."""

    __slots__ = ("consumer", "queue", "tag", "timeout")

    def __init__(self, tag: int, consumer: Consumer | None, queue: QueueState, timeout: int) -> None:
        self.tag = tag
        self.consumer = consumer
        self.queue = queue
        self.timeout = timeout  # milliseconds

    def __str__(self) -> str:
        """The error text: the overdue delivery and the remedy."""
        who = f"consumer '{self.consumer.tag}'" if self.consumer is not None else "what was pulled"
        return (
            f"delivery {self.tag} of {who} of queue '{self.queue.name}' was not settled within {self.timeout} ms; "
            "settle it or extend its time, or raise consumer-timeout"
        )


def timeout_of(consumer: Consumer | None, queue: QueueState, default: int) -> int:
    """Return the milliseconds a delivery may stay unsettled; 0 without limit.

    The consumer's word counts, then the queue's (argument, policy, address setting), then ``default``, the server's.
    """
    if consumer is not None and consumer.settings.consumer_timeout >= 0:
        return consumer.settings.consumer_timeout
    timeout = queue.settings.consumer_timeout
    return timeout if timeout >= 0 else default


def shortest_timeout(session: Session, default: int) -> int:
    """Return the shortest time of a session's deliveries in milliseconds; 0 if all are unlimited."""
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
    """The marks of one session, and its extended deliveries."""

    def __init__(self) -> None:
        self._times: list[int] = []  # of the marks, ascending
        self._tags: list[int] = []  # the newest at each
        self._extended: dict[int, int] = {}  # by tag: when

    @property
    def marks(self) -> int:
        """How many marks there are, at most :data:`MARKS_MAX`."""
        return len(self._times)

    def mark(self, tag: int, now: int) -> None:
        """Record the latest tag."""
        if self._tags and self._tags[-1] >= tag:
            return
        if len(self._tags) >= MARKS_MAX:
            half = MARKS_MAX // 2
            self._times = self._times[1:half:2] + self._times[half:]
            self._tags = self._tags[1:half:2] + self._tags[half:]
        self._times.append(now)
        self._tags.append(tag)

    def delivered_by(self, at: int) -> int:
        """Return a tag up to which all were delivered by then; 0 if unknown."""
        place = bisect_right(self._times, at)
        return self._tags[place - 1] if place else 0

    def delivered_after(self, tag: int) -> int:
        """Return the latest known time before which a tag was not delivered, or its extension; 0 if unknown."""
        extended = self._extended.get(tag)
        if extended is not None:
            return extended
        place = bisect_left(self._tags, tag)
        return self._times[place] if place < len(self._times) else 0

    def extend(self, session: Session, tag: int, now: int) -> bool:
        """Restart the timeout of a delivery. Returns whether the session has it, and there is room to record it."""
        if tag not in session.unacknowledged:
            return False
        if tag not in self._extended and len(self._extended) >= EXTENSIONS_MAX:
            self._forget_settled(session)
            if len(self._extended) >= EXTENSIONS_MAX:
                return False
        self._extended[tag] = now
        return True

    def overdue(self, session: Session, now: int, default: int) -> Overdue | None:
        """Return an overdue delivery, ``None`` if there is none. O(unsettled deliveries of that age)."""
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
