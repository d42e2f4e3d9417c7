"""What the core's tests share: a recording session, recording effects and messages with properties."""

from __future__ import annotations

from typing import Any

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.settings import UNLIMITED, ConsumerSettings, QueueSettings
from annulet.core.base.sliced_work import SlicedWork
from annulet.core.message.message import (
    DEFAULT_PRIORITY,
    ContentView,
    Message,
    Origin,
    PropertyValue,
    StandardProperties,
)
from annulet.core.model.compact_messages import CompactDelivery, SharedFields
from annulet.core.model.consumer import Consumer, CreditWindow
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from annulet.core.sessions.session import Session

NOW = 1_000_000


class TableView(ContentView):
    """Application properties by message identity: no codec takes part in the core's tests."""

    def __init__(self, application: dict[str, PropertyValue]) -> None:
        super().__init__("table")
        self.application = application

    def properties(self, message: Message) -> StandardProperties:
        return StandardProperties(application=self.application)

    def application_property(self, message: Message, name: str) -> PropertyValue:
        return self.application.get(name)

    def given_priority(self, message: Message) -> int:
        value = self.application.get("given_priority", -1)
        assert isinstance(value, int)
        return value

    def deliver_at(self, message: Message) -> int:
        return message.deliver_at

    def schedule_id(self, message: Message) -> str:
        return str(self.application.get("schedule_id", ""))

    def duplicate_id(self, message: Message) -> str:
        return str(self.application.get("duplicate_id", ""))

    def annotated(
        self,
        message: Message,
        headers: dict[str, PropertyValue],
        *,
        without: tuple[str, ...] = (),
        expires: bool = True,
    ) -> bytes:
        kept = {name: value for name, value in self.application.items() if name not in without}
        return repr({**kept, **headers}).encode()


def make_message(
    body: str | bytes = b"",
    *,
    durable: bool = False,
    accepted_at: int = NOW,
    expires_at: int = 0,
    deliver_at: int = 0,
    priority: int = DEFAULT_PRIORITY,
    publisher: str = "guest@test",
    connection: object | None = None,
    **application: PropertyValue,
) -> Message:
    """A message whose keyword arguments are its application properties."""
    content = body.encode() if isinstance(body, str) else body
    origin = Origin("", "", publisher, TableView(application), connection)
    return Message(
        b"",
        content,
        origin,
        durable=durable,
        priority=priority,
        accepted_at=accepted_at,
        expires_at=expires_at,
        deliver_at=deliver_at,
    )


class RecordingSession(Session):
    """Keeps what it was handed: bodies in order, and (tag, entry) pairs."""

    def __init__(self, name: str = "session") -> None:
        super().__init__(name)
        self.received: list[str] = []
        self.deliveries: list[tuple[int, QueueEntry]] = []
        self.by_consumer: dict[str, list[str]] = {}

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        body = entry.message.body.decode()
        self.received.append(body)
        self.deliveries.append((tag, entry))
        self.by_consumer.setdefault(consumer.tag, []).append(body)

    def consume(
        self,
        queue: Queue,
        tag: str = "c",
        *,
        messages: int = UNLIMITED,
        octets: int = UNLIMITED,
        auto_acknowledge: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        now: int = NOW,
        **settings: Any,
    ) -> Consumer:
        """Attach a consumer with its own window."""
        consumer = Consumer(
            self,
            queue,
            tag,
            window=CreditWindow(messages, octets),
            auto_acknowledge=auto_acknowledge,
            exclusive=exclusive,
            priority=priority,
            settings=ConsumerSettings(**settings),
        )
        self.attach(consumer, now)
        return consumer


class RecordingEffects(NodeEffects):
    """Keeps every call; gives stored messages record numbers from 1."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []
        self.stored: list[tuple[Message, list[QueueEntry]]] = []
        self.settled: list[tuple[str, int]] = []
        self.losses: list[tuple[str, str, RemovalReason]] = []
        self.deleted_queues: list[str] = []
        self.deleted_exchanges: list[str] = []
        self.cancelled: list[str] = []
        self.wakes: list[int] = []
        self.blocked: list[tuple[str, bool]] = []
        self.paused: list[tuple[str, bool]] = []
        self.changed: list[tuple[str, int, int]] = []  # queue, sequence, delivery count

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        self.stored.append((message, entries))
        message.record = len(self.stored)
        self.calls.append(("store", message.body))

    def settle(self, queue: Queue, entry: QueueEntry) -> None:
        self.settled.append((queue.name, entry.message.record))
        self.calls.append(("settle", entry.message.body))

    def settle_records(self, queue: Queue, ranges: list[tuple[int, int]]) -> None:
        self.settled += [(queue.name, record) for first, last in ranges for record in range(first, last + 1)]

    def removed(self, queue: Queue, entry: QueueEntry, reason: RemovalReason) -> None:
        self.losses.append((queue.name, entry.message.body.decode(), reason))

    def entry_changed(self, queue: Queue, entry: QueueEntry) -> None:
        self.changed.append((queue.name, entry.sequence, entry.delivery_count))

    def folded_changed(self, queue: Queue, messages: list[CompactDelivery]) -> None:
        for held in messages:
            assert isinstance(held.link, SharedFields)
            self.changed.append((queue.name, held.sequence, held.link.delivery_count))

    def wake_at(self, at: int) -> None:
        self.wakes.append(at)

    def publishers_blocked(self, queue: Queue) -> None:
        self.blocked.append((queue.name, queue.blocked))

    def queue_paused(self, queue: Queue) -> None:
        self.paused.append((queue.name, queue.paused))

    def begin_transaction(self) -> None:
        self.calls.append(("begin", None))

    def end_transaction(self) -> None:
        self.calls.append(("end", None))

    def consumer_cancelled(self, consumer: Consumer) -> None:
        self.cancelled.append(consumer.tag)
        consumer.session.consumer_cancelled(consumer)

    def queue_deleted(self, queue: Queue) -> None:
        self.deleted_queues.append(queue.name)

    def name_taken(self, queue: Queue) -> None:
        self.calls.append(("name taken", queue.name))

    def exchange_deleted(self, name: str) -> None:
        self.deleted_exchanges.append(name)


class SlicingEffects(RecordingEffects):
    """Keeps sliced work for later turns, as a loop would."""

    def __init__(self) -> None:
        super().__init__()
        self.works: list[SlicedWork] = []

    def later(self, work: SlicedWork, now: int) -> None:
        self.works.append(work)

    def turn(self, now: int = NOW) -> None:
        """Do one slice of everything."""
        works, self.works = self.works, []
        self.works += [work for work in works if work.step(now)]

    def turns(self, now: int = NOW) -> int:
        """Do all of it; return how many turns it took."""
        count = 0
        while self.works:
            self.turn(now)
            count += 1
        return count


def make_queue(
    effects: NodeEffects | None = None,
    *,
    ring: int = UNLIMITED,
    key: str = "",
    keep: int = 1,
    ttl: int = UNLIMITED,
    trim_now: bool = False,
    name: str = "q",
    durable: bool = False,
) -> Queue:
    """A queue with these settings."""
    settings = QueueSettings(
        ring_size=ring, last_value_key=key, keep_per_key=keep, message_ttl=ttl, ring_trim_now=trim_now
    )
    return Queue(name, settings, RecordingEffects() if effects is None else effects, durable=durable)


def queue_of(effects: NodeEffects | None = None, **settings: Any) -> Queue:
    """A queue with any settings, by the names of ``QueueSettings``."""
    return Queue("q", QueueSettings(**settings), RecordingEffects() if effects is None else effects)


def send(queue: Queue, *bodies: str, now: int = NOW) -> list[QueueEntry]:
    """Enqueue one message per body; ``key=value`` bodies carry that property as ``k``."""
    entries = []
    for body in bodies:
        key = body[0]
        entries.append(queue.enqueue(make_message(body, accepted_at=now, k=key), now))
    return entries


def pending(queue: Queue) -> list[str]:
    """Bodies of the pending messages in order of dispatch."""
    return [entry.message.body.decode() for entry in queue.order.entries()]


def removed(queue: Queue, reason: RemovalReason) -> int:
    """How many messages left the queue for this reason."""
    return queue.counters.removed[reason]
