"""The event log as a queue: the events of each message of chosen queues become messages of ``amq.events``.

A message holds the events of one queue in one turn of the loop, up to ``EVENTS_MAX``: one for each event would cost ten
times as much, and they are read in large numbers. The queue is durable, so that it can be read by lease and archived;
its messages are not, so that they cost no disk until a lease holds them. It is bounded in bytes; the oldest go first,
which its own counters say and nothing else, as with ``amq.ledger``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from annulet.broker.durability.durable_declarations import DurableDeclarations
from annulet.broker.durability.fed_queue import FedQueue
from annulet.broker.durability.ledger_queue import LEDGER_QUEUE
from annulet.broker.settings.configuration import EVENT_QUEUE_BYTES
from annulet.core.base.reply_names import is_reply_name
from annulet.core.configuration.address_settings.patterns import AddressPattern
from annulet.core.message.message import Message, Origin
from annulet.core.model.events import QueueEvents
from annulet.core.model.forwarder import Forwarder
from annulet.core.model.loss_ledger import LossLedger
from annulet.core.queue.queue import as_queue
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties

if TYPE_CHECKING:
    import asyncio
    from collections import Counter
    from collections.abc import Sequence

    from annulet.broker.settings.clock import Clock
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState
    from annulet.core.queue.queue import Queue
    from annulet.store.database.catalogue import Catalogue

EVENT_QUEUE: Final = "amq.events"
"""A reserved name: no client can have declared it for something else."""

EVENTS_MAX: Final = 1000
"""Events of one message: about 100 KiB, a tenth of a millisecond to write as JSON."""

MESSAGE_TYPE: Final = "events"

ACCEPTED: Final = "accepted"
DELIVERED: Final = "delivered"
RETURNED: Final = "returned"
REPRIORITISED: Final = "reprioritised"
"""The kinds of events, beside the reasons for which a message leaves its queue."""


class Event(msgspec.Struct, omit_defaults=True):
    """One event as JSON. Times are milliseconds since 1970; defaults are left out."""

    event: str
    sequence: int  # of the message in its queue; 0 where many left at once
    at: int
    size: int = 0  # body bytes of accepted messages
    priority: int | None = None  # of accepted messages
    expires_at: int = 0  # of accepted messages, by their own time to live; 0: never
    consumer: str = ""  # the consumer of a delivery: session and tag; empty: fetched, or by lease
    count: int = 1  # how many messages left at once
    successor: int = 0  # of reprioritised messages: the sequence under which it goes on


class EventBatch(msgspec.Struct):
    """The body of a message: events of one queue in their order, and its content after the last."""

    vhost: str
    queue: str
    waiting: int
    delivering: int
    events: list[Event]


class EventSource(Protocol):
    """A listener of events for a whole virtual host: the log below, or the journal of a test."""

    def events_of(self, queue: QueueState, /) -> QueueEvents | None:
        """Return the listener of a queue, ``None`` if its events are not wanted."""


class QueueNotes(QueueEvents):
    """Takes notes of one queue."""

    def __init__(self, log: EventLog, queue: Queue, clock: Clock) -> None:
        self.queue = queue
        self.events: list[Event] = []
        self._log = log
        self._clock = clock

    def accepted(self, entry: QueueEntry, now: int) -> None:
        """Note it, with what a queue decides on."""
        message = entry.message
        self._note(Event(ACCEPTED, entry.sequence, now, message.size, message.priority, message.expires_at))

    def delivered(self, entry: QueueEntry, consumer: Consumer | None, now: int) -> None:
        """Note it, with its consumer."""
        name = "" if consumer is None else f"{consumer.session.name} {consumer.tag}"
        self._note(Event(DELIVERED, entry.sequence, now, consumer=name))

    def returned(self, entry: QueueEntry, now: int) -> None:
        """Note it."""
        self._note(Event(RETURNED, entry.sequence, now))

    def reprioritised(self, entry: QueueEntry, replacement: QueueEntry, now: int) -> None:
        """Note that the one number ends, and as which it goes on."""
        priority = replacement.message.priority
        self._note(Event(REPRIORITISED, entry.sequence, now, priority=priority, successor=replacement.sequence))

    def removed(self, entry: QueueEntry, reason: RemovalReason, now: int) -> None:
        """Note it under its reason. An acknowledgement comes without a time."""
        self._note(Event(reason.value, entry.sequence, now or self._clock()))

    def emptied(self, count: int, reason: RemovalReason, now: int) -> None:
        """Note how many. Damage is found without a time."""
        if count:
            self._note(Event(reason.value, 0, now or self._clock(), count=count))

    def take(self) -> list[Event]:
        """Return the notes, and begin anew."""
        events, self.events = self.events, []
        return events

    def _note(self, event: Event) -> None:
        if not self.events:
            self._log.wants_turn(self)
        self.events.append(event)


class EventLog:
    """Feeds ``amq.events`` of one virtual host, at the end of the loop turn in which something happened."""

    def __init__(
        self,
        patterns: Sequence[str],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        losses: Counter[str],
        queue_bytes: int = EVENT_QUEUE_BYTES,
    ) -> None:
        self._losses = losses
        self._patterns = [AddressPattern(text) for text in patterns]
        self._loop = loop
        self._clock = clock
        self._queue_bytes = queue_bytes
        self._origin = Origin("", EVENT_QUEUE, "", VIEW)
        self._noted: list[QueueNotes] = []
        self._host_name = ""
        self._fed: FedQueue | None = None  # not opened yet

    def events_of(self, queue: QueueState) -> QueueNotes | None:
        """Return the collector for the notes of a chosen queue.

        Never of those the broker feeds itself, nor of reply queues: readers of the events could answer in place of the
        server.
        """
        if queue.name in (EVENT_QUEUE, LEDGER_QUEUE) or is_reply_name(queue.name):
            return None
        if not any(one.matches(queue.name) for one in self._patterns):
            return None
        return QueueNotes(self, as_queue(queue), self._clock)

    def open(self, host: VirtualHost, catalogue: Catalogue) -> None:
        """Declare the queue, or take up that of an earlier run. Call it when definitions are restored."""
        declarations = DurableDeclarations(host, catalogue)
        self._host_name = host.name
        self._fed = FedQueue(
            EVENT_QUEUE, host.name, "events are lost", lambda: self._declare(declarations), self._losses
        )
        self._fed.open()
        if self._noted:
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Put no further events into the queue: its virtual host is being deleted."""
        self._fed = None

    def wants_turn(self, notes: QueueNotes) -> None:
        """A queue has its first note: put it into the queue soon."""
        if not self._noted and self._fed is not None:
            self._loop.call_soon(self._flush)
        self._noted.append(notes)

    def _flush(self) -> None:
        noted, self._noted = self._noted, []
        if self._fed is None:
            return
        taken = [(notes.queue, notes.take()) for notes in noted]  # first: the rest would never request a turn again
        target = self._fed.queue_for(sum([len(events) for _, events in taken]))
        if target is None:
            return
        now = self._clock()
        for queue, events in taken:
            for start in range(0, len(events), EVENTS_MAX):
                message = self._message(self._host_name, queue, events[start : start + EVENTS_MAX], now)
                target.enqueue(message, now)

    def _declare(self, declarations: DurableDeclarations) -> Queue:
        queue = declarations.host.queues.get(EVENT_QUEUE)
        if queue is None:
            queue = declarations.queue(
                EVENT_QUEUE, now=self._clock(), durable=True, auto_delete=False, server_named=True,
                arguments={"x-max-bytes": self._queue_bytes, "x-overflow": "ring"},
            )  # fmt: skip
        queue.ledger = LossLedger(0)  # or each event that falls out would be a loss
        queue.forwarder = Forwarder()  # nor a dead letter, which is accepted, an event, and makes the next one fall out
        return queue

    def _message(self, host_name: str, queue: Queue, events: list[Event], now: int) -> Message:
        properties = BasicProperties()
        properties.content_type = "application/json"
        properties.type = MESSAGE_TYPE
        properties.timestamp = now // 1000
        properties.headers = {"queue": queue.name, "events": len(events)}
        batch = EventBatch(host_name, queue.name, queue.order.count, len(queue.delivering), events)
        body = msgspec.json.encode(batch)
        return Message(encode_properties(properties), body, self._origin, accepted_at=now)
