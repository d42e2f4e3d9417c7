"""Messages as tests see them: decoded, whatever protocol they came by."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from annulet.broker.connections.payloads import payload_of
from annulet.core.model.entry import STATE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from annulet.core.message.message import Message
    from annulet.core.model.entry import QueueEntry

BODY_CHARACTERS_SHOWN: Final = 60
"""Characters of a body in one line of a failure: enough to tell messages apart."""

PUBLISHED: Final = "published"


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """One message in a queue, or one that was in it. Times are milliseconds since 1970, 0 for none."""

    queue: str
    number: int  # of the message in the queue, from 1
    state: str  # pending, scheduled or delivering; published for one that may have left
    body: bytes
    headers: Mapping[str, Any]
    exchange: str
    routing_key: str
    message_id: str
    correlation_id: str
    content_type: str
    reply_to: str
    priority: int
    durable: bool
    published_at: int
    expires_at: int
    deliveries: int  # that came back
    message: Message = field(repr=False, compare=False)  # the broker's own object

    @property
    def json(self) -> Any:
        """The body as JSON. Raises ``ValueError`` where it is none."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ValueError(f"the body of {self.line()} is no JSON: {error}") from error

    @property
    def text(self) -> str:
        """The body as UTF-8. Raises ``UnicodeDecodeError``."""
        return self.body.decode()

    def line(self) -> str:
        """Return the message in one line, for people."""
        body = self.body.decode(errors="backslashreplace")
        if len(body) > BODY_CHARACTERS_SHOWN:
            body = f"{body[:BODY_CHARACTERS_SHOWN]}... ({len(self.body)} bytes)"
        parts = [f"{self.queue}#{self.number}", f"{body!r}"]
        if self.headers:
            parts.append(f"headers={dict(self.headers)!r}")
        if self.exchange:
            parts.append(f"by exchange {self.exchange!r} with key {self.routing_key!r}")
        return " ".join(parts)


def seen(queue: str, number: int, message: Message, *, state: str = PUBLISHED, deliveries: int = 0) -> SeenMessage:
    """Return a message of the broker as a test sees it."""
    view = message.origin.view
    properties = view.properties(message)
    payload = payload_of(message)
    return SeenMessage(
        queue=queue,
        number=number,
        state=state,
        body=message.body if payload is None else payload[0],
        headers=dict(properties.application),
        exchange=message.origin.exchange,
        routing_key=message.origin.routing_key,
        message_id=properties.message_id,
        correlation_id=properties.correlation_id,
        content_type=properties.content_type,
        reply_to=properties.reply_to,
        priority=message.priority,
        durable=message.durable,
        published_at=message.accepted_at,
        expires_at=message.expires_at,
        deliveries=deliveries,
        message=message,
    )


def seen_entry(queue: str, entry: QueueEntry) -> SeenMessage:
    """Return the message of an entry of a queue with its state."""
    state = STATE_NAMES[entry.state]
    return seen(queue, entry.sequence, entry.message, state=state, deliveries=entry.delivery_count)
