"""The loss ledger as a queue: each loss of a virtual host becomes a message in ``amq.ledger``.

The queue is a ring as long as the ledger, so it is bounded itself; its own losses are counted by the queue and recorded
nowhere, or each loss would make another one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.broker.durability.fed_queue import FedQueue
from annulet.core.message.message import Message, Origin
from annulet.core.model.loss_ledger import LEDGER_RECORDS_MAX, LossLedger, LossListener
from annulet.wire.amqp091.messages.properties import VIEW, BasicProperties, encode_properties

if TYPE_CHECKING:
    import asyncio
    from collections import Counter

    from annulet.broker.settings.clock import Clock
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.model.loss_ledger import LossRecord
    from annulet.core.queue.queue import Queue

LEDGER_QUEUE: Final = "amq.ledger"
"""A reserved name: no client can have declared it for something else."""

SLICE: Final = 500
"""Losses put into the queue before other tasks get a turn: about 5 ms."""

MESSAGE_TYPE: Final = "loss"


class LedgerQueue(LossListener):
    """Feeds ``amq.ledger`` of one virtual host, at the end of the loop turn in which the losses happened."""

    def __init__(self, host: VirtualHost, loop: asyncio.AbstractEventLoop, clock: Clock, losses: Counter[str]) -> None:
        self._host = host
        self._loop = loop
        self._clock = clock
        self._origin = Origin("", LEDGER_QUEUE, "", VIEW)
        self._waiting: deque[LossRecord] = deque(maxlen=LEDGER_RECORDS_MAX)
        self._scheduled = False
        self._fed = FedQueue(LEDGER_QUEUE, host.name, "losses are not put into amq.ledger", self._declare, losses)
        self._fed.open()
        host.ledger.listeners.append(self)

    def lost(self, record: LossRecord) -> None:
        """Put the loss into the queue soon: its own queue is in the middle of something."""
        self._waiting.append(record)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        queue = self._fed.queue_for(len(self._waiting))
        if queue is None:
            self._waiting.clear()
            return
        now = self._clock()
        for _ in range(min(SLICE, len(self._waiting))):
            queue.enqueue(self._message(self._waiting.popleft(), now), now)
        if self._waiting:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _declare(self) -> Queue:
        queue = self._host.declare_queue(
            LEDGER_QUEUE, now=self._clock(), arguments={"x-ring-size": LEDGER_RECORDS_MAX}, server_named=True
        )
        queue.ledger = LossLedger(0)
        return queue

    def _message(self, record: LossRecord, now: int) -> Message:
        properties = BasicProperties()
        properties.content_type = "application/json"
        properties.type = MESSAGE_TYPE
        properties.timestamp = record.at // 1000
        properties.headers = {
            "queue": record.queue,
            "reason": record.reason.value,
            "key": record.key,
            "publisher": record.publisher,
            "size": record.size,
        }
        body = msgspec.json.encode(describe_loss(self._host.name, record))
        return Message(encode_properties(properties), body, self._origin, accepted_at=now)


def describe_loss(host_name: str, record: LossRecord) -> dict[str, Any]:
    """Return a loss as JSON. Times are milliseconds since 1970, ``age`` milliseconds, ``size`` body bytes."""
    return {
        "vhost": host_name,
        "queue": record.queue,
        "sequence": record.sequence,
        "reason": record.reason.value,
        "rule": record.rule,
        "key": record.key,
        "size": record.size,
        "priority": record.priority,
        "publisher": record.publisher,
        "accepted_at": record.accepted_at,
        "at": record.at,
        "age": record.age,
        "replaced_by": record.replaced_by,
        "forwarded_to": record.forwarded_to,
    }
