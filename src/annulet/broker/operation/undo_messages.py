"""The messages of the undo queue: envelopes that keep a removed message, and notes of where messages were moved.

Both name their operation in headers, so a browser shows what is there. An envelope has the kept message as its sender
encoded it, so that an undo brings back the same octets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.broker.connections.views import VIEWS
from annulet.core.base.sealed_names import UNDO_QUEUE
from annulet.core.management.destination import Former, accepted_at
from annulet.core.management.keeping import NO_PRIORITY
from annulet.core.message.message import Message, Origin
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties

if TYPE_CHECKING:
    from annulet.core.message.message import PropertyValue
    from annulet.core.model.entry import QueueEntry

KEPT: Final = "kept"
MOVED: Final = "moved"
DEFINITION: Final = "definition"
"""Kinds of messages."""

KEPT_TYPE: Final = "application/x-annulet-kept"
MOVED_TYPE: Final = "application/json"
DEFINITION_TYPE: Final = "application/x-annulet-definition"

LENGTH_BYTES: Final = 4
"""Of the length before the facts of an envelope."""


@dataclass(frozen=True, slots=True)
class UndoFacts:
    """The operation that a message of the undo queue is of. ``at``: its start, milliseconds since 1970.

    ``queue_id``: of the queue in the catalogue, 0 for one that is not durable; ``run`` names that of the broker.
    """

    token: str
    operation: str
    queue: str
    user: str
    at: int
    queue_id: int = 0
    run: str = ""


class KeptBinding(msgspec.Struct, array_like=True):
    """A binding of a deleted queue."""

    source: str
    routing_key: str
    arguments: dict[str, Any]


class QueueDefinition(msgspec.Struct):
    """What a deleted queue was. ``settings``: those that operators changed; ``next_id``: of the next arrival."""

    durable: bool
    auto_delete: bool
    arguments: dict[str, Any]
    settings: dict[str, Any]
    bindings: list[KeptBinding]
    subscription: list[str] | None
    paused: bool
    next_id: int


class KeptFacts(msgspec.Struct, array_like=True):
    """What an envelope has beside the body."""

    view: str
    header: bytes
    exchange: str
    routing_key: str
    publisher: str
    priority: int
    accepted_at: int
    expires_at: int
    deliver_at: int
    durable: bool


class Run(msgspec.Struct, array_like=True):
    """Consecutive ids in one queue, which has this id in the catalogue; 0 for one that is not durable.

    ``priority``: of the messages before it was changed, ``NO_PRIORITY`` where it was not. ``former``: the first of
    their ids in the queue that they were taken from, consecutive as well; 0 where that is not known.
    """

    queue: str
    first: int
    count: int
    queue_id: int
    priority: int = NO_PRIORITY
    former: int = 0

    def take(self, sequence: int, former: int) -> bool:
        """Add the next message. Returns whether it is one."""
        if self.first + self.count != sequence or former != (self.former + self.count if self.former else 0):
            return False
        self.count += 1
        return True


def kept_message(entry: QueueEntry, facts: UndoFacts, now: int) -> Message:
    """Return an envelope with the message of an entry, durable if the message outlives a restart in its queue.

    Raises :class:`~annulet.core.base.errors.ContentUnavailable` when the body cannot be read.
    """
    message = entry.message
    encoded = _encoded_facts(message)
    body = b"".join((len(encoded).to_bytes(LENGTH_BYTES, "big"), encoded, message.body))
    header = _header(facts, KEPT, KEPT_TYPE, 1, entry.sequence)
    return Message(header, body, _ORIGIN, durable=message.durable and entry.queue.durable, accepted_at=now)


def kept_size(message: Message) -> int:
    """Return the bytes that the envelope of a message has; the body is not read."""
    return LENGTH_BYTES + len(_encoded_facts(message)) + message.size


def _encoded_facts(message: Message) -> bytes:
    origin = message.origin
    return msgspec.msgpack.encode(
        KeptFacts(
            origin.view.name,
            message.header,
            origin.exchange,
            origin.routing_key,
            origin.publisher,
            message.priority,
            message.accepted_at,
            message.expires_at,
            message.deliver_at,
            message.durable,
        )
    )


def moved_message(runs: list[Run], facts: UndoFacts, now: int, *, durable: bool) -> Message:
    """Return a note of messages that were moved, with their ids in the queues that they are in now.

    A note is as ``durable`` as its messages: after a restart others may have the ids of transient ones.
    """
    header = _header(facts, MOVED, MOVED_TYPE, sum(run.count for run in runs), 0)
    return Message(header, msgspec.json.encode(runs), _ORIGIN, durable=durable, accepted_at=now)


def definition_message(definition: QueueDefinition, facts: UndoFacts, now: int, *, durable: bool) -> Message:
    """Return a message that keeps the definition of a deleted queue."""
    header = _header(facts, DEFINITION, DEFINITION_TYPE, 0, 0)
    return Message(header, msgspec.msgpack.encode(definition), _ORIGIN, durable=durable, accepted_at=now)


def read_definition(message: Message) -> QueueDefinition:
    """Return the definition that a message keeps."""
    return msgspec.msgpack.decode(message.body, type=QueueDefinition)


class Unwrapping:
    """Returns kept messages. One for each undo: origins are shared, and one message is read once for all questions."""

    def __init__(self) -> None:
        self._origins: dict[tuple[str, str, str, str], Origin] = {}
        self._envelope: Message | None = None
        self._message: Message | None = None
        self._since = 0

    def former(self, envelope: Message, now: int) -> Former:
        """Return the id that the kept message had, and when it was accepted."""
        self(envelope, now)
        return Former(_number(envelope, "id"), self._since)

    def __call__(self, envelope: Message, now: int) -> Message:
        """Return the message that an envelope keeps. Times to live of its queue begin again at ``now``."""
        if self._envelope is envelope and self._message is not None:
            return self._message
        octets = envelope.body
        end = LENGTH_BYTES + int.from_bytes(octets[:LENGTH_BYTES], "big")
        kept = msgspec.msgpack.decode(octets[LENGTH_BYTES:end], type=KeptFacts)
        place = (kept.exchange, kept.routing_key, kept.publisher, kept.view)
        origin = self._origins.get(place)
        if origin is None:
            origin = self._origins[place] = Origin(*place[:3], VIEWS[kept.view])
        message = Message(
            kept.header,
            octets[end:],
            origin,
            durable=kept.durable,
            priority=kept.priority,
            accepted_at=kept.accepted_at,
            expires_at=kept.expires_at,
            deliver_at=kept.deliver_at,
        )
        self._since = kept.accepted_at
        message.accepted_at = accepted_at(message, now)
        self._envelope, self._message = envelope, message
        return message


def read_runs(message: Message) -> list[Run]:
    """Return what a note of moved messages says."""
    return msgspec.json.decode(message.body, type=list[Run])


def read_facts(message: Message) -> UndoFacts:
    """Return the operation that a message of the undo queue is of."""
    return UndoFacts(
        str(_property(message, "undo")),
        str(_property(message, "operation")),
        str(_property(message, "queue")),
        str(_property(message, "user")),
        _number(message, "at"),
        _number(message, "queue-id"),
        str(_property(message, "run") or ""),
    )


def kind_of(message: Message) -> str:
    """Return :data:`KEPT`, :data:`MOVED` or :data:`DEFINITION`."""
    return str(_property(message, "kind"))


def count_of(message: Message) -> int:
    """Return how many messages an undo brings back with it."""
    return _number(message, "messages")


def _header(facts: UndoFacts, kind: str, content_type: str, count: int, number: int) -> bytes:
    properties = BasicProperties()
    properties.content_type = content_type
    properties.headers = {
        "undo": facts.token,
        "kind": kind,
        "operation": facts.operation,
        "queue": facts.queue,
        "user": facts.user,
        "at": facts.at,
        "queue-id": facts.queue_id,
        "run": facts.run,
        "messages": count,
        "id": number,
    }
    return encode_properties(properties)


def _property(message: Message, name: str) -> PropertyValue:
    return VIEW.application_property(message, name)


def _number(message: Message, name: str) -> int:
    value = _property(message, name)
    return value if isinstance(value, int) else 0


_ORIGIN: Final = Origin("", UNDO_QUEUE, "", VIEW)
