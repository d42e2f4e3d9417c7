"""Retroactive addresses: a ring of the latest messages, copied to each queue that joins later (Artemis).

The ring is a queue like any other, so its messages are stored once with those of the other queues and survive with
them. An address that is both anycast and multicast has one for each, as its sends may name one of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.message import Message

if TYPE_CHECKING:
    from annulet.core.queue import Queue

RING_PREFIX: Final = "amq.retroactive."
"""Start of the names of rings: ``amq.retroactive.<routing type>.<address>``. Clients cannot give such a name."""


def ring_name(address: str, routing_type: str) -> str:
    """Return the name of the ring an address keeps for queues of a routing type."""
    return f"{RING_PREFIX}{routing_type}.{address}"


def is_ring_name(name: str) -> bool:
    """Say whether a queue of this name is the ring of a retroactive address."""
    return name.startswith(RING_PREFIX)


def is_ring(queue: Queue) -> bool:
    """Say whether a queue is the ring of a retroactive address."""
    return is_ring_name(queue.name)


def owner_of(ring: Queue) -> tuple[str, str]:
    """Return the address a ring belongs to, and the routing type it is kept for."""
    routing_type, _, address_name = ring.name.removeprefix(RING_PREFIX).partition(".")
    return address_name, routing_type


def newest(ring: Queue, count: int) -> list[Message]:
    """Return the latest ``count`` messages of a ring, oldest first."""
    held = [entry.message for entry in ring.order.entries()]
    return held[-count:] if count > 0 else []


def copy_of(message: Message) -> Message:
    """Return the same message for one more queue: it is stored by itself, as its record names the queues it had."""
    return Message(
        message.header,
        message.body,
        message.origin,
        durable=message.durable,
        priority=message.priority,
        accepted_at=message.accepted_at,
        expires_at=message.expires_at,
        deliver_at=message.deliver_at,
    )
