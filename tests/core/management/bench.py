"""What the tests of management share: a virtual host that records, and operations run to their end."""

from __future__ import annotations

from typing import Any

from annulet.core.host.virtual_host import VirtualHost
from annulet.core.management import Operation, Preview
from annulet.core.message.message import Message, Origin, PropertyValue
from annulet.core.model.audit_trail import AuditEntry
from annulet.core.model.entry import QueueEntry
from annulet.core.queue.queue import Queue
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from tests.core.helpers import NOW, RecordingEffects, make_message


class AuditingEffects(RecordingEffects):
    """Keeps what was audited."""

    def __init__(self) -> None:
        super().__init__()
        self.audit: list[AuditEntry] = []
        self.refuse_store_of = b""
        self.refuse_commits = False

    def audited(self, entry: AuditEntry) -> None:
        self.audit.append(entry)

    def store(self, message: Message, entries: list[QueueEntry]) -> None:
        if message.body == self.refuse_store_of:
            raise OSError("no space left on device")
        super().store(message, entries)

    def end_transaction(self) -> None:
        if self.refuse_commits:
            self.calls.append(("abort", None))  # as the broker's does
            raise OSError("no room for the commit")
        super().end_transaction()

    def abort_transaction(self) -> None:
        self.calls.append(("abort", None))


class Bench:
    """A virtual host; queues by name, messages by body."""

    def __init__(self) -> None:
        self.effects = AuditingEffects()
        self.host = VirtualHost("/", self.effects)

    def queue(self, name: str = "q", *, durable: bool = False, **settings: Any) -> Queue:
        """Declare a queue; settings by their canonical names with underscores."""
        arguments: dict[str, PropertyValue] = {f"x-{key.replace('_', '-')}": settings[key] for key in settings}
        return self.host.declare_queue(name, now=NOW, durable=durable, arguments=arguments)

    def send(self, queue: Queue, *bodies: str, durable: bool = False, **options: Any) -> list[QueueEntry]:
        """Publish one message per body; its first letter is the property ``k``."""
        entries = []
        for body in bodies:
            properties = {"k": body[:1], **options}
            sequence = queue.next_sequence
            message = make_message(body, durable=durable, **properties)
            self.host.publisher.publish(message, self.host.route("", queue.name), NOW)
            entries += [entry for entry in everything(queue) if entry.sequence == sequence]
        return entries


def everything(queue: Queue) -> list[QueueEntry]:
    return [*queue.order.entries(), *queue.schedule.entries(), *queue.delivering]


def letter(
    body: str, *, durable: bool = False, priority: int = 4, headers: dict[str, PropertyValue] | None = None
) -> Message:
    """An AMQP 0-9-1 message to the default exchange with these headers."""
    properties = BasicProperties()
    properties.headers = headers
    origin = Origin("", "q", "guest@test", VIEW)
    return Message(
        encode_properties(properties), body.encode(), origin, durable=durable, priority=priority, accepted_at=NOW
    )


def run(work: Operation | Preview, now: int = NOW, budget: int = 3) -> int:
    """Step to the end. Returns how many slices it took."""
    slices = 1
    while not work.step(now, budget):
        slices += 1
        assert slices < 10_000, "it does not end"
    return slices


def bodies(queue: Queue) -> str:
    """Bodies of the pending messages in order of dispatch, put together."""
    return "".join(entry.message.body.decode() for entry in queue.order.entries())
