"""Groups and their owners, fair keys, kept keys and the definition of a queue, as operators see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from annulet.broker.connections.client_session import ClientSession
from annulet.broker.operation.undo_messages import QueueDefinition
from annulet.core.base.errors import PreconditionFailed
from annulet.core.policies.last_per_key import KeyTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from annulet.broker.operation.undo_messages import KeptBinding
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.model.consumer import Consumer
    from annulet.core.model.entry import Key
    from annulet.core.queue.queue import Queue


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One message group. ``owner``, ``former``: tags of consumers, empty for none."""

    group: str
    owner: str
    owner_connection: str
    former: str  # the consumer before, which has deliveries of the group still
    waits: bool  # no deliveries until the former owner has none
    pending: int
    unacknowledged: int


@dataclass(frozen=True, slots=True)
class FairKeyFacts:
    """One value of the property whose values take turns."""

    key: str | None  # None: of messages without it
    type: str  # of the property: 1, 1.0 and "1" are three keys
    pending: int
    unacknowledged: int
    turn: int  # the lowest of all keys with pending messages is served first
    budget_bytes: int  # left of this turn


@dataclass(frozen=True, slots=True)
class KeptKeyFacts:
    """One key of a queue that keeps the last messages of each. ``latest``: the id of its newest message."""

    key: str
    type: str  # of the property: 1, 1.0 and "1" are three keys
    messages: int
    latest: int


def is_exclusive(queue: Queue) -> bool:
    """Return whether a queue goes with its connection."""
    return queue.owner is not None


def definition_of(
    host: VirtualHost, queue: Queue, settings: dict[str, Any], bindings: list[KeptBinding]
) -> QueueDefinition:
    """Return the definition of a queue, with the ``settings`` that operators changed."""
    subscription = host.lifetime_of(queue).subscription
    return QueueDefinition(
        durable=queue.durable,
        auto_delete=queue.auto_delete,
        arguments=dict(host.resolved_for(queue).arguments),
        settings=settings,
        bindings=bindings,
        subscription=None if subscription is None else list(subscription),
        paused=queue.paused,
        next_id=queue.next_sequence,
    )


def groups_of(queue: Queue) -> Iterator[GroupFacts]:
    """Yield the groups that the queue knows. Raises :class:`PreconditionFailed` for a queue without groups."""
    groups = None if queue.lanes is None else queue.lanes.groups
    if groups is None:
        raise PreconditionFailed(f"queue '{queue.name}' does not group messages; group-mode is not set")
    for group in list(groups.groups.values()):
        parked = group.parked_sequences
        yield GroupFacts(
            group=group.name,
            owner=_tag(group.owner),
            owner_connection=_connection(group.owner),
            former=_tag(group.former),
            waits=group.parked,
            pending=group.pending + (0 if parked is None else parked.count),
            unacknowledged=group.in_delivery,
        )


def fair_keys_of(queue: Queue) -> Iterator[FairKeyFacts]:
    """Yield the fair keys of a queue. Raises :class:`PreconditionFailed` for a queue without a fair key."""
    fairness = None if queue.lanes is None else queue.lanes.fairness
    if fairness is None:
        raise PreconditionFailed(f"queue '{queue.name}' gives no turns to keys; fair-key is not set")
    for key in fairness.known():
        yield FairKeyFacts(
            key=None if key.key is None else key_text(key.key),
            type="" if key.key is None else str(key.key[0]),
            pending=key.pending,
            unacknowledged=key.in_delivery,
            turn=key.turn,
            budget_bytes=key.budget,
        )


def kept_keys_of(queue: Queue) -> Iterator[KeptKeyFacts]:
    """Yield the keys of a queue with last values. Raises :class:`PreconditionFailed` for a queue without them."""
    if not isinstance(queue.retention, KeyTable):
        raise PreconditionFailed(f"queue '{queue.name}' keeps no last values; last-value-key is not set")
    for record in queue.retention.records():
        yield KeptKeyFacts(record.text, str(record.key[0]), record.live, record.latest)


def key_text(key: Key) -> str:
    """Return the value of a key as text."""
    return str(key[1])


def _tag(consumer: Consumer | None) -> str:
    return "" if consumer is None else consumer.tag


def _connection(consumer: Consumer | None) -> str:
    session = None if consumer is None else consumer.session
    return session.connection.name if isinstance(session, ClientSession) else ""
