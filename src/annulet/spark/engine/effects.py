"""The effects of commands as rows, built from the core's calls of its effects interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.core.model.effects import Effects
from annulet.core.model.forwarder import Forwarder
from annulet.core.model.forwarding_targets import targets_for
from annulet.core.model.loss_ledger import LossListener, LossRecord
from annulet.core.sessions.session import Session
from annulet.spark.engine.content import connection_of, header_of

if TYPE_CHECKING:
    from annulet.core.base.removal_reasons import RemovalReason
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import QueueEntry
    from annulet.core.model.queue_state import QueueState

DELIVERY: Final = "delivery"
OUTCOME: Final = "outcome"
LOSS: Final = "loss"
FORWARD: Final = "forward"
CANCELLED: Final = "cancelled"
BLOCKED: Final = "blocked"
UNBLOCKED: Final = "unblocked"

DONE: Final = "done"
REFUSED: Final = "refused"
REPEATED: Final = "repeated"
FILTERED: Final = "filtered"
DUPLICATE: Final = "duplicate"


class Effect(msgspec.Struct, omit_defaults=True):
    """One row. ``queue``, ``sequence`` (of the command) and ``number`` (within it) name it, at every run again."""

    effect: str
    queue: str | None = None
    sequence: int = 0
    number: int = 0
    at: int = 0
    state: str | None = None  # of an outcome
    reason: str | None = None  # of a refusal, a loss, a forward
    session: str | None = None
    consumer: str | None = None
    tag: int | None = None
    message: int | None = None  # the message's sequence in its queue
    message_id: str | None = None
    messages: int | None = None  # how many an outcome is about
    group: str | None = None
    priority: int | None = None
    delivery_count: int | None = None
    redelivered: bool | None = None
    accepted_at: int | None = None
    expires_at: int | None = None
    properties: str | None = None  # a JSON object
    key: str | None = None
    size: int | None = None
    publisher: str | None = None
    replaced_by: int | None = None
    rule: str | None = None
    target: str | None = None
    body: bytes | None = None


class Output:
    """Rows of the current command, in the order of the effects."""

    def __init__(self) -> None:
        self.rows: list[Effect] = []
        self.now = 0  # the time of the effects

    def add(self, effect: str, **values: Any) -> None:
        """Add a row."""
        self.rows.append(Effect(effect, at=self.now, **values))

    def add_message(self, effect: str, entry: QueueEntry, **values: Any) -> None:
        """Add a row about a whole message."""
        message = entry.message
        header = header_of(message.header)
        properties = header.properties
        if entry.queue.settings.group_first_key and entry.queue.is_group_first(entry):
            properties = {**properties, entry.queue.settings.group_first_key: True}
        self.add(
            effect,
            message=entry.sequence,
            message_id=header.message_id or None,
            group=header.group or None,
            priority=message.priority if header.priority_given else None,
            delivery_count=entry.delivery_count,
            redelivered=entry.redelivered,
            accepted_at=message.accepted_at,
            expires_at=message.expires_at or None,
            properties=msgspec.json.encode(properties, order="sorted").decode() if properties else None,
            size=message.size,
            publisher=message.origin.publisher or None,
            body=message.body,
            **values,
        )

    def take(self) -> list[Effect]:
        """Hand out the rows."""
        rows, self.rows = self.rows, []
        return rows


class EngineEffects(Effects):
    """Records notifications for consumers and publishers."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self.output = output

    def consumer_cancelled(self, consumer: Consumer) -> None:
        """Record the unrequested end of a consumer."""
        self.output.add(CANCELLED, session=consumer.session.name, consumer=consumer.tag)
        consumer.session.consumer_cancelled(consumer)

    def publishers_blocked(self, queue: QueueState) -> None:
        """Note that publishers should wait, or go on."""
        self.output.add(BLOCKED if queue.blocked else UNBLOCKED)


class EngineForwarder(Forwarder):
    """Records forwards; the reader of the row sends it to the named queue or exchange."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self.output = output

    def takes(self, queue: QueueState, reason: RemovalReason) -> bool:
        """Return whether the queue's settings name a target."""
        return bool(targets_for(queue.settings, reason))

    def add(
        self, queue: QueueState, entry: QueueEntry, reason: RemovalReason, now: int, loss: LossRecord | None
    ) -> None:
        """Note a message with all its targets."""
        del now, loss
        for target in targets_for(queue.settings, reason):
            self.output.add_message(FORWARD, entry, reason=reason.value, target=str(target))


class EngineLosses(LossListener):
    """Notes every loss as the ledger words it."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self.output = output

    def lost(self, record: LossRecord) -> None:
        """Note a loss."""
        self.output.add(
            LOSS,
            reason=record.reason.value,
            message=record.sequence,
            key=record.key or None,
            size=record.size,
            priority=record.priority,
            accepted_at=record.accepted_at,
            publisher=record.publisher or None,
            replaced_by=record.replaced_by or None,
            rule=record.rule,
        )


class EngineSession(Session):
    """A session over one queue: its deliveries are rows."""

    def __init__(self, name: str, output: Output) -> None:
        super().__init__(name)
        self.output = output
        self.connection_identity = connection_of(name)

    def deliver(self, consumer: Consumer, entry: QueueEntry, tag: int) -> None:
        """Note a delivery."""
        self.output.add_message(DELIVERY, entry, session=self.name, consumer=consumer.tag, tag=tag)

    def deliver_settled(self, consumer: Consumer, entry: QueueEntry) -> bool:
        """Record a settled delivery; it uses up link credit as well."""
        taken = super().deliver_settled(consumer, entry)
        if consumer.window.binds_settled:
            consumer.window.take(entry.message.size)
        return taken
