"""The declarations of the demonstration: one topic exchange and the queues bound to it, over AMQP 0-9-1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pika.adapters.blocking_connection import BlockingChannel

    from annulet.demo.broker_process import BrokerAddress

EXCHANGE: Final = "flights"
"""Topic exchange; the routing key of a departure is its origin."""

ORIGINS: Final = ("EWR", "JFK", "LGA")
"""The three airports of New York, as the data names them."""

BOARD_ROWS: Final = 100
"""Departures kept on each board: more than a wall shows, few enough to read in a terminal."""

AIRCRAFT: Final = "aircraft"
ARCHIVE: Final = "archive"
STATISTICS: Final = "statistics"
DELAYS: Final = "delays"
LATE: Final = "late"
SCHEDULE: Final = "schedule"
LEGS: Final = "legs"

VERY_LATE_MINUTES: Final = 60
"""Departures in ``late``: as late as this. Each hour is one priority."""

PRIORITIES: Final = 10
"""Priorities of ``late``: nine hours and more are one."""

SCHEDULE_CARRIER: Final = "AA"
LEGS_CARRIER: Final = "DL"
"""The carriers whose departures go to ``schedule`` and to ``legs``: a tenth and a seventh of all."""

LEGS_CONSUMERS: Final = 3
"""Consumers among which the aircraft of ``legs`` are shared out; it waits for all of them before it hands out any."""

DELAY: Final = "dep_delay"
"""Message property with the delay in minutes, missing when the flight did not leave."""

SCHEDULED: Final = "scheduled"
"""Message property that sorts ``schedule``: the scheduled departure, as the number YYYYMMDDhhmm."""

TAIL_NUMBER: Final = "tailnum"
"""Message property used as the key of ``aircraft``."""

SLOT: Final = "slot"
"""Message property used as the key of ``delays``: origin and scheduled hour, for example ``EWR-06``."""


def board(origin: str) -> str:
    """Return the name of an origin's board."""
    return f"board.{origin}"


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """One queue; ``binding_key`` is its pattern on the exchange, ``None`` when it is reached by its name only."""

    name: str
    kind: str
    binding_key: str | None
    arguments: dict[str, str | int] = field(default_factory=dict)


def declarations() -> list[QueueDeclaration]:
    """Return the queues of the demonstration in the order in which its tables show them."""
    boards = [QueueDeclaration(board(origin), "ring", origin, {"x-ring-size": BOARD_ROWS}) for origin in ORIGINS]
    return [
        *boards,
        QueueDeclaration(AIRCRAFT, "last value", "#", {"x-last-value-key": TAIL_NUMBER}),
        QueueDeclaration(ARCHIVE, "FIFO", "#"),
        QueueDeclaration(STATISTICS, "FIFO", "#"),
        QueueDeclaration(DELAYS, "last value", None, {"x-last-value-key": SLOT}),
        QueueDeclaration(
            LATE, "priority", "#", {"x-priorities": PRIORITIES, "x-selector": f"{DELAY} >= {VERY_LATE_MINUTES}"}
        ),
        QueueDeclaration(
            SCHEDULE, "sorted", "#", {"x-sort-key": SCHEDULED, "x-selector": f"carrier = '{SCHEDULE_CARRIER}'"}
        ),
        QueueDeclaration(
            LEGS,
            "grouped",
            "#",
            {
                "x-group-key": TAIL_NUMBER,
                "x-selector": f"carrier = '{LEGS_CARRIER}'",
                "x-consumers-before-dispatch": LEGS_CONSUMERS,
            },
        ),
    ]


def declare(address: BrokerAddress) -> None:
    """Declare exchange, queues and bindings, all durable. Raises pika's exceptions if the broker refuses."""
    import pika  # noqa: PLC0415  (of an extra: the small demonstration has the same queues without it)

    connection = pika.BlockingConnection(address.parameters())
    try:
        _declare_on(connection.channel())
    finally:
        connection.close()


def _declare_on(channel: BlockingChannel) -> None:
    channel.exchange_declare(EXCHANGE, exchange_type="topic", durable=True)
    for declaration in declarations():
        channel.queue_declare(declaration.name, durable=True, arguments=dict(declaration.arguments))
        if declaration.binding_key is not None:
            channel.queue_bind(declaration.name, EXCHANGE, declaration.binding_key)
