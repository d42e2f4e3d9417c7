"""Names and words of RabbitMQ's API for things that this broker has one of, or calls otherwise."""

from __future__ import annotations

import socket
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from annulet.core.message.message import PropertyValue
from annulet.core.routing.exchanges import EXCHANGE_TYPES

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue

CLASSIC: Final = "classic"
QUEUE_TYPE: Final = "x-queue-type"

PROTOCOL_NAMES: Final = {
    "amqp": "amqp",
    "amqps": "amqp/ssl",
    "stomp": "stomp",
    "stomps": "stomp/ssl",
    "http": "http",
    "https": "https",
    "bulk": "bulk",
}
"""RabbitMQ's names of protocols by our names of listeners; ``bulk`` is our own."""


@cache
def node_name() -> str:
    """Return the name of the only node: ``annulet@`` and the machine's name."""
    return f"annulet@{socket.gethostname()}"


def exchange_types() -> list[dict[str, Any]]:
    """Return the types of exchanges as the overview lists them."""
    return [{"name": name, "description": f"AMQP {name} exchange", "enabled": True} for name in EXCHANGE_TYPES]


def queue_type(arguments: dict[str, PropertyValue]) -> str:
    """Return the type that a queue was declared with; ``classic`` when it says none."""
    declared = arguments.get(QUEUE_TYPE)
    return declared if isinstance(declared, str) else CLASSIC


def queue_reference(host: str, queue: Queue) -> dict[str, str]:
    """Return how other items refer to a queue."""
    return {"name": queue.name, "vhost": host}
