"""Publishing one message for an operator: the rules of ``basic.publish``, and an answer when the message is safe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from annulet.broker.amqp091.publishing import publish_facts
from annulet.core.base.errors import InvalidArgument, LimitExceeded, PreconditionFailed
from annulet.core.base.reply_names import REPLY_QUEUE
from annulet.core.host.schedule_cancelling import cancel_scheduled
from annulet.core.message.message import DEFAULT_PRIORITY, Message, Origin
from annulet.store.files.errors import CatalogueError, StoreError
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from annulet.wire.amqp091.types.errors import ChannelError, LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from annulet.broker.broker import Broker
    from annulet.broker.connections.access import Access

RECORD_BYTES: Final = 1024
"""Bytes of the log that a message needs beside header and body, for the question whether there is room."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A message to be published. ``publisher``: who it comes from, for the loss ledger: user@peer."""

    exchange: str
    routing_key: str
    properties: BasicProperties
    body: bytes
    publisher: str


async def publish(broker: Broker, access: Access, submission: Submission) -> int:
    """Publish and return to how many queues the message went: 0 if none takes it. It is durable then if it asks for it.

    Raises :class:`~annulet.core.base.errors.AccessRefused`, ``NotFound`` for the exchange,
    :class:`~annulet.core.base.errors.InvalidArgument` for properties, :class:`~annulet.core.base.errors.LimitExceeded`
    when a queue is full or publishers are held back, :class:`~annulet.store.files.errors.CatalogueError` when the disk
    refuses.
    """
    access.require("write", submission.exchange)
    host, now = access.host, broker.clock()
    route = host.route(submission.exchange, submission.routing_key)
    most = broker.admission.limits.max_message_bytes
    if len(submission.body) > most:
        raise InvalidArgument(f"the message has {len(submission.body)} bytes; max_message_bytes is {most}")
    try:
        header = encode_properties(submission.properties)
        facts = publish_facts(header, access.user_name)
    except (ChannelError, LocalProtocolError, RemoteProtocolError) as error:
        raise InvalidArgument(f"field 'properties': {error}") from error
    asks = facts.asks
    if (asks is not None and asks.extends) or submission.properties.reply_to == REPLY_QUEUE:
        raise InvalidArgument("field 'properties': extending deliveries and direct reply-to need a channel of AMQP")
    message = Message(
        facts.header,
        submission.body,
        Origin(submission.exchange, submission.routing_key, submission.publisher, VIEW),
        durable=facts.durable,
        priority=DEFAULT_PRIORITY if facts.priority < 0 else facts.priority,
        accepted_at=now,
        expires_at=0 if facts.time_to_live < 0 else now + facts.time_to_live,
        deliver_at=0 if asks is None else asks.due_at(now),
    )
    if asks is not None and asks.cancels:
        cancel_scheduled(host, message, route, asks.schedule_id, now, further_keys=facts.further_keys)
        return len(route.queues)
    _require_room(broker, access, message, [target.name for target in broker.blocked[host.name].on_way(route)])
    routed = host.publisher.publish(
        message,
        route,
        now,
        duplicate_id="" if asks is None else asks.duplicate_id,
        further_keys=facts.further_keys,
    )
    if not routed:
        broker.unroutable += 1
    if message.record:
        try:
            await broker.commit.durable()
        except StoreError as error:
            raise CatalogueError(f"the message may not be durable: {error}") from error
    return routed


def _require_room(broker: Broker, access: Access, message: Message, blocked: list[str]) -> None:
    """Refuse what a connection would be held back for: a request cannot wait until there is room."""
    if broker.memory_blocked or broker.spill_pace.full:
        raise LimitExceeded("publishers are held back until messages are consumed: memory or disk is short; try later")
    if blocked:
        raise LimitExceeded(f"{', '.join(blocked)} of vhost '{access.host.name}' full; consume messages and try again")
    if message.durable and not broker.accepts_durable(
        len(message.body) + len(message.header) + RECORD_BYTES, message.accepted_at
    ):
        broker.refused_publishes += 1
        raise PreconditionFailed(
            f"message of {len(message.body)} bytes refused: the disk of the message log is full; free space, try again"
        )
