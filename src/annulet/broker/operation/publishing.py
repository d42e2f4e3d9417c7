"""Publishing one message for an operator: the rules of ``basic.publish``, and an answer when the message is safe."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from annulet.broker.amqp091.publishing import publish_facts
from annulet.core.base.errors import InvalidArgument, LimitExceeded, PreconditionFailed
from annulet.core.base.reply_names import REPLY_QUEUE
from annulet.core.host.schedule_cancelling import cancel_scheduled
from annulet.core.host.sliced_commit import COMMIT_AT_ONCE_MAX, CommitWaiter, publish_in_turns
from annulet.core.host.transaction import Transaction
from annulet.core.message.message import DEFAULT_PRIORITY, Message, Origin
from annulet.core.sessions.session import Session
from annulet.store.files.errors import CatalogueError, StoreError
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties
from annulet.wire.amqp091.types.errors import ChannelError, LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from annulet.broker.amqp091.publishing import PublishFacts
    from annulet.broker.connections.access import Access
    from annulet.broker.durability.blocked import BlockedTargets
    from annulet.broker.durability.commit import CommitPipeline
    from annulet.broker.paging.spill_pace import SpillPace
    from annulet.broker.security.admission import Admission
    from annulet.broker.settings.clock import Clock
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.routing.routes import Route

RECORD_BYTES: Final = 1024
"""Bytes of the log that a message needs beside header and body, for the question whether there is room."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A message to be published. ``publisher``: its source in the loss ledger, user@peer."""

    exchange: str
    routing_key: str
    properties: BasicProperties
    body: bytes
    publisher: str


class PublishingBroker(Protocol):
    """The part of a broker that publishing needs."""

    clock: Clock
    admission: Admission
    blocked: dict[str, BlockedTargets]
    commit: CommitPipeline
    spill_pace: SpillPace
    memory_blocked: bool
    unroutable: int
    refused_publishes: int

    def accepts_durable(self, size: int, now: int) -> bool:
        """Return whether the message log takes another persistent message of ``size`` bytes."""


async def publish(broker: PublishingBroker, access: Access, submission: Submission) -> int:
    """Publish and return to how many queues the message went: 0 if none takes it. It is durable then if it asks for it.

    Raises :class:`~annulet.core.base.errors.AccessRefused`, ``NotFound`` for the exchange,
    :class:`~annulet.core.base.errors.InvalidArgument` for properties, :class:`~annulet.core.base.errors.LimitExceeded`
    when a queue is full or publishers are held back, :class:`~annulet.store.files.errors.CatalogueError` when the disk
    refuses.
    """
    access.require("write", submission.exchange)
    host, now = access.host, broker.clock()
    route = host.route(submission.exchange, submission.routing_key)
    message, facts = prepare(broker, access, submission, now)
    asks = facts.asks
    if asks is not None and asks.cancels:
        cancel_scheduled(host, message, route, asks.schedule_id, now, further_keys=facts.further_keys)
        return len(route.queues)
    _require_room(broker, access, message, [target.name for target in broker.blocked[host.name].on_way(route)])
    routed = await _publish(host, message, route, facts, now)
    if not routed:
        broker.unroutable += 1
    if message.record:
        try:
            await broker.commit.durable()
        except StoreError as error:
            raise CatalogueError(f"the message may not be durable: {error}") from error
    return routed


def prepare(broker: PublishingBroker, access: Access, submission: Submission, now: int) -> tuple[Message, PublishFacts]:
    """Return the message of a submission, and what its properties ask for. Raises ``InvalidArgument`` as publishing."""
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
    return message, facts


async def _publish(host: VirtualHost, message: Message, route: Route, facts: PublishFacts, now: int) -> int:
    """Publish; to very many queues in slices of work. Returns how many queues took it, or that some did."""
    duplicate_id = "" if facts.asks is None else facts.asks.duplicate_id
    queues_max = len(route.queues) if route.static else len(host.queues)
    if queues_max <= COMMIT_AT_ONCE_MAX:
        return host.publisher.publish(message, route, now, duplicate_id=duplicate_id, further_keys=facts.further_keys)
    one = Transaction(Session(f"publish of {message.origin.publisher}"))
    one.send(message, route, duplicate_id=duplicate_id, further_keys=facts.further_keys)
    waiter = _Committed(asyncio.get_running_loop())
    routed = publish_in_turns(one, host, now, waiter)
    return routed if routed >= 0 else await waiter.routed


class _Committed(CommitWaiter):
    """Waits for a message that goes to its queues in slices."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.routed: asyncio.Future[int] = loop.create_future()

    def committed(self, unroutable: list[Message]) -> None:
        """All queues have it, or none takes it."""
        if not self.routed.done():
            self.routed.set_result(0 if unroutable else 1)

    def commit_failed(self, error: Exception) -> None:
        """No queue has it."""
        if not self.routed.done():
            self.routed.set_exception(error)


def _require_room(broker: PublishingBroker, access: Access, message: Message, blocked: list[str]) -> None:
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
