"""The events of all messages in order, from which the assertions of the test kit explain themselves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from annulet.core.model.events import QueueEvents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.broker.settings.clock import Clock
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.message.message import Message
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState

EVENTS_MAX: Final = 100_000
"""Events that a journal keeps by default, each with its message: more than a test has, and some 50 MB of small messages
at most. Then the oldest go, and failures say how many."""

PUBLISHED: Final = "published"
DELIVERED: Final = "delivered"
FETCHED: Final = "fetched"
RETURNED: Final = "returned"


@dataclass(frozen=True, slots=True)
class JournalEvent:
    """One event of one message in one queue. ``message`` is ``None`` where many left at once."""

    at: int  # milliseconds since 1970
    vhost: str
    queue: str
    kind: str  # published, delivered, fetched, returned, or the reason for which it left the queue
    sequence: int  # of the message in the queue; 0 where many left at once
    message: Message | None
    detail: str = ""  # the consumer; how many left


class Journal:
    """The events of all queues of a broker. ``dropped``: how many were forgotten because there were too many."""

    def __init__(self, clock: Clock, events_max: int = EVENTS_MAX) -> None:
        self.clock = clock
        self.dropped = 0
        self._events: deque[JournalEvent] = deque(maxlen=events_max)

    def note(self, event: JournalEvent) -> None:
        """Add an event."""
        if len(self._events) == self._events.maxlen:
            self.dropped += 1
        self._events.append(event)

    def events(self, queue: str | None = None, vhost: str = "/") -> Iterator[JournalEvent]:
        """Yield the events in order, all or those of one queue."""
        for event in self._events:
            if queue is None or (event.queue == queue and event.vhost == vhost):
                yield event

    def published(self, queue: str, vhost: str = "/") -> list[JournalEvent]:
        """Return the arrivals in a queue."""
        return [event for event in self.events(queue, vhost) if event.kind == PUBLISHED]


class HostJournal:
    """The journal as a virtual host uses it: gives each queue its listener."""

    def __init__(self, journal: Journal, vhost: str) -> None:
        self._journal = journal
        self._vhost = vhost

    def events_of(self, created: QueueState, /) -> QueueEvents:
        """Return the listener of a queue."""
        return QueueJournal(self._journal, self._vhost, created.name)


class QueueJournal(QueueEvents):
    """Writes the events of one queue into the journal."""

    def __init__(self, journal: Journal, vhost: str, queue: str) -> None:
        self._journal = journal
        self._vhost = vhost
        self._queue = queue

    def accepted(self, entry: QueueEntry, now: int) -> None:
        """A message arrived."""
        self._note(PUBLISHED, entry, now)

    def delivered(self, entry: QueueEntry, consumer: Consumer | None, now: int) -> None:
        """A consumer got it."""
        if consumer is None:
            self._note(FETCHED, entry, now)
        else:
            self._note(DELIVERED, entry, now, f"to {consumer.tag} of {consumer.session.name}")

    def returned(self, entry: QueueEntry, now: int) -> None:
        """It came back."""
        self._note(RETURNED, entry, now)

    def removed(self, entry: QueueEntry, reason: RemovalReason, now: int) -> None:
        """It left. An acknowledgement comes without a time."""
        self._note(reason.value, entry, now)

    def reprioritised(self, entry: QueueEntry, replacement: QueueEntry, now: int) -> None:
        """It goes on with another number."""
        self._note("reprioritised", entry, now, f"now number {replacement.sequence}")

    def emptied(self, count: int, reason: RemovalReason, now: int) -> None:
        """Many left at once."""
        if count:
            at = now or self._journal.clock()
            self._journal.note(JournalEvent(at, self._vhost, self._queue, reason.value, 0, None, f"{count} messages"))

    def _note(self, kind: str, entry: QueueEntry, now: int, detail: str = "") -> None:
        at = now or self._journal.clock()
        message = entry.message
        self._journal.note(JournalEvent(at, self._vhost, self._queue, kind, entry.sequence, message, detail))
