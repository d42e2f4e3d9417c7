"""What stands around the core in the model tests: a view with a table, a session and a forwarder that record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.message.message import ContentView, Message, PropertyValue, StandardProperties
from annulet.core.model.consumer import Consumer
from annulet.core.model.entry import QueueEntry
from annulet.core.model.forwarder import Forwarder
from annulet.core.model.loss_ledger import LossRecord
from annulet.core.queue.queue import Queue
from annulet.core.sessions.session import Session


def number_of(entry: QueueEntry) -> int:
    """The header of a test message is its number."""
    return int(entry.message.header)


@dataclass
class Facts:
    """What the view knows of one message."""

    priority: int | None = None
    deliver_at: int = 0
    group: str = ""
    properties: dict[str, PropertyValue] = field(default_factory=dict)


class ModelView(ContentView):
    """Looks a message's facts up by its number, and counts how often it was asked for a property."""

    def __init__(self) -> None:
        super().__init__("model")
        self.facts: dict[bytes, Facts] = {}
        self.lookups: dict[tuple[bytes, str], int] = {}

    def properties(self, message: Message) -> StandardProperties:
        facts = self.facts[message.header]
        return StandardProperties(application=facts.properties, group_id=facts.group)

    def application_property(self, message: Message, name: str) -> PropertyValue:
        asked = (message.header, name)
        self.lookups[asked] = self.lookups.get(asked, 0) + 1
        return self.facts[message.header].properties.get(name)

    def given_priority(self, message: Message) -> int:
        priority = self.facts[message.header].priority
        return -1 if priority is None else priority

    def deliver_at(self, message: Message) -> int:
        return self.facts[message.header].deliver_at

    def schedule_id(self, message: Message) -> str:
        return ""

    def duplicate_id(self, message: Message) -> str:
        return ""

    def annotated(self, message: Message, headers: dict[str, PropertyValue], **options: Any) -> bytes:
        return message.header


class ModelSession(Session):
    """Remembers what it was handed: (tag, consumer's tag, message number)."""

    def __init__(self, name: str, connection: object) -> None:
        super().__init__(name)
        self.connection_identity = connection
        self.received: list[tuple[int, str, int]] = []

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        self.received.append((tag, consumer.tag, number_of(entry)))


class ModelForwarder(Forwarder):
    """Takes over what the oracle says has a target and records it when it is flushed."""

    def __init__(self, targets: dict[str, str]) -> None:
        super().__init__()
        self.targets = targets  # reason -> target
        self.added: list[tuple[Queue, QueueEntry, RemovalReason]] = []
        self.sent: list[tuple[int, str, str]] = []

    def takes(self, queue: Queue, reason: RemovalReason) -> bool:
        return bool(self.targets.get(reason.value))

    def add(self, queue: Queue, entry: QueueEntry, reason: RemovalReason, now: int, loss: LossRecord | None) -> None:
        self.added.append((queue, entry, reason))
        self.waiting = True

    def flush(self, now: int) -> None:
        added, self.added, self.waiting = self.added, [], False
        for queue, entry, reason in added:
            self.sent.append((number_of(entry), reason.value, self.targets[reason.value]))
            queue.settle_record(entry)
