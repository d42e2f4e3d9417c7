"""Consumes the messages of a queue over AMQP 0-9-1 like an application, and records the order and the consumer of
each."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pika

from annulet.demo.topology import TAIL_NUMBER

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

PREFETCH: Final = 500
"""Prefetch of a consumer: enough that none waits for the network, few enough that all get their share."""

ACKNOWLEDGED_AT_ONCE: Final = 250
"""Messages of one acknowledgement: half of the prefetch, so that the next are in transit."""

SILENCE_SECONDS: Final = 60.0
"""Longest silence while messages are missing; the broker delivers within milliseconds."""


class Taken(NamedTuple):
    """One message that was delivered, in the order of delivery."""

    consumer: int  # from 0
    row: int
    tail_number: str | None


class QueueStalledError(RuntimeError):
    """Messages are in a queue and are not delivered; the text has their number."""


def take_all(
    parameters: pika.ConnectionParameters, queue: str, consumers: int = 1, *, look: Callable[[], None] = lambda: None
) -> list[Taken]:
    """Consume everything waiting in ``queue`` now with this many consumers, and acknowledge it.

    ``look`` is called between deliveries and may raise. Raises :class:`QueueStalledError` when nothing arrives for
    SILENCE_SECONDS, and pika's exceptions when the broker ends the connection.
    """
    connection = pika.BlockingConnection(parameters)
    try:
        channels = [connection.channel() for _ in range(consumers)]
        total = channels[0].queue_declare(queue, passive=True).method.message_count
        taken: list[Taken] = []
        held = [0] * consumers
        for number, channel in enumerate(channels):
            channel.basic_qos(prefetch_count=PREFETCH)
            channel.basic_consume(queue, partial(_note, taken, held, number))
        moved_at, before = time.monotonic(), 0
        while len(taken) < total:
            look()
            connection.process_data_events(time_limit=1.0)
            if len(taken) > before:
                moved_at, before = time.monotonic(), len(taken)
            elif time.monotonic() - moved_at > SILENCE_SECONDS:
                raise QueueStalledError(
                    f"{total - before} of {total} messages of queue {queue!r} do not come; "
                    f"GET /api/v1/queues/%2F/{queue}/why-not says why"
                )
        for channel in channels:
            channel.basic_ack(0, multiple=True)  # tag 0: everything delivered so far (AMQP 0-9-1 basic.ack)
            channel.close()
    finally:
        connection.close()
    return taken


def _note(
    taken: list[Taken],
    held: list[int],
    consumer: int,
    channel: BlockingChannel,
    method: Any,
    properties: pika.BasicProperties,
    _body: bytes,
) -> None:
    headers: dict[str, Any] = properties.headers or {}
    taken.append(Taken(consumer, int(properties.message_id or -1), headers.get(TAIL_NUMBER)))
    held[consumer] += 1
    if held[consumer] >= ACKNOWLEDGED_AT_ONCE:
        channel.basic_ack(method.delivery_tag, multiple=True)
        held[consumer] = 0
