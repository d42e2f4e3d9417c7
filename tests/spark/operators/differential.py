"""Random traffic, and what the broker's core makes of it: what operators are compared with."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from annulet.core.base.settings import OVERFLOW_NONE, OVERFLOW_REJECT, OVERFLOW_RING, QueueSettings
from annulet.core.host.duplicate_ids import DuplicateCache
from annulet.core.message.message import DEFAULT_PRIORITY, ContentView, Message, Origin, PropertyValue
from annulet.core.queue.queue import Queue
from annulet.core.routing.node_effects import NodeEffects
from annulet.spark.operators import Columns, Operator

START = 1_700_000_000_000
"""When the first message is accepted, milliseconds since 1970."""

MICROSECONDS = pa.timestamp("us", tz="UTC")

FAR = 10**10
"""Milliseconds that no traffic lasts."""


@dataclass(frozen=True)
class Sent:
    """One message of the traffic. ``None``: its sender gave none."""

    number: int
    queue: str
    key: str | None
    identifier: str | None
    priority: int | None
    size: int
    accepted_at: int
    expires_at: int | None


def traffic(seed: int, count: int, queues: int = 3, keys: int = 8) -> list[Sent]:
    """Return messages in the order in which they are sent."""
    chance = random.Random(seed)
    sent = []
    now = START
    for number in range(1, count + 1):
        now += chance.choice((0, 0, 1, 7, 40))
        sent.append(
            Sent(
                number=number,
                queue=f"q{chance.randrange(queues)}",
                key=None if chance.random() < 0.1 else f"k{chance.randrange(keys)}",
                identifier=None if chance.random() < 0.1 else f"i{chance.randrange(count)}",
                priority=None if chance.random() < 0.2 else chance.randrange(11),
                size=chance.choice((0, 1, 5, 5, 10, 60)),
                accepted_at=now,
                expires_at=None if chance.random() < 0.5 else now + chance.choice((0, 5, 30, 200, 3000)),
            )
        )
    return sent


class SentView(ContentView):
    """Properties of one message of the traffic."""

    def __init__(self, sent: Sent) -> None:
        super().__init__("sent")
        self._sent = sent

    def application_property(self, message: Message, name: str) -> PropertyValue:
        return getattr(self._sent, name)  # type: ignore[no-any-return]

    def given_priority(self, message: Message) -> int:
        return -1 if self._sent.priority is None else self._sent.priority

    def schedule_id(self, message: Message) -> str:
        return ""


def settings_of(operator: Operator) -> QueueSettings:
    """Return the settings of a queue with the rules of an operator."""
    rules = operator.rules
    given: dict[str, Any] = {
        name: getattr(rules, name)
        for name in (
            "ring_size",
            "max_length",
            "max_bytes",
            "evict",
            "max_priority",
            "message_ttl",
            "min_ttl",
            "max_ttl",
        )
    }
    overflow = OVERFLOW_NONE
    if rules.limited:
        overflow = OVERFLOW_REJECT if rules.refuses else OVERFLOW_RING
    return QueueSettings(
        **given,
        overflow=overflow,
        last_value_key=rules.key,
        keep_per_key=rules.keep,
        priorities=max(rules.priorities, 0),
        sort_key=rules.sort_key,
        priority_discipline="ageing" if rules.priority_age >= 0 else "strict",
        priority_age=max(rules.priority_age, 1),
    )


def core_survivors(operator: Operator, messages: list[Sent]) -> dict[str, list[int]]:
    """Return the numbers that are left in each queue of the broker's core, in the order of dispatch."""
    rules = operator.rules
    queues: dict[str, Queue] = {}
    caches: dict[str, DuplicateCache] = {}
    for sent in messages:
        queue = queues.get(sent.queue)
        if queue is None:
            queue = queues[sent.queue] = Queue(sent.queue, settings_of(operator), NodeEffects())
            caches[sent.queue] = DuplicateCache(rules.window if rules.window >= 0 else len(messages))
        now = sent.accepted_at
        expires_at = sent.expires_at or 0
        if expires_at and not rules.expires:
            expires_at += FAR  # the core expires whether asked to or not; eviction compares the times only
        message = Message(
            b"",
            bytes(sent.size),
            Origin("", sent.queue, str(sent.number), SentView(sent)),
            priority=DEFAULT_PRIORITY if sent.priority is None else sent.priority,
            accepted_at=now,
            expires_at=expires_at if rules.needs_expiry else 0,
        )
        if rules.expires:
            queue.expire_due(now)
        identifier = sent.identifier if rules.deduplicates else None
        if identifier is not None and identifier in caches[sent.queue]:
            continue
        if queue.refusal(message):
            continue
        if identifier is not None:
            caches[sent.queue].add(identifier)
        queue.enqueue(message, now)
    return {
        name: [int(entry.message.origin.publisher) for entry in queue.order.entries()] for name, queue in queues.items()
    }


def table_of(messages: list[Sent]) -> pa.Table:
    """Return the traffic as the columns of a table."""
    milliseconds = pa.timestamp("ms", tz="UTC")
    return pa.table(
        {
            "number": pa.array([sent.number for sent in messages], pa.int64()),
            "queue": pa.array([sent.queue for sent in messages], pa.string()),
            "key": pa.array([sent.key for sent in messages], pa.string()),
            "identifier": pa.array([sent.identifier for sent in messages], pa.string()),
            "priority": pa.array([sent.priority for sent in messages], pa.int32()),
            "body": pa.array([bytes(sent.size) for sent in messages], pa.binary()),
            "accepted_at": pa.array([sent.accepted_at for sent in messages], milliseconds).cast(MICROSECONDS),
            "expires_at": pa.array([sent.expires_at for sent in messages], milliseconds).cast(MICROSECONDS),
        }
    )


COLUMNS = Columns(sequence="number", message_id="identifier", accepted_at="accepted_at")
"""What the columns of :func:`table_of` are."""
