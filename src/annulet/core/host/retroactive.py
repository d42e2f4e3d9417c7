"""Retroactive addresses: a ring of the latest messages, copied to each queue that joins later (Artemis).

The ring is a queue like any other, so its messages are stored once with those of the other queues and survive with
them. An address that is both anycast and multicast has one for each, as its sends may name one of the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import ContentUnavailable
from annulet.core.deliveries.bodies import DAMAGED, LOOK_MESSAGES, REFUSED
from annulet.core.message.message import Message
from annulet.core.queue.deep_queue_scan import scan_of

if TYPE_CHECKING:
    from annulet.core.model.entry import QueueEntry
    from annulet.core.queue.queue import Queue
    from annulet.core.queue.queue_scan import Scan

RING_PREFIX: Final = "amq.retroactive."
"""Start of the names of rings: ``amq.retroactive.<routing type>.<address>``. Clients cannot give such a name."""


def ring_name(address: str, routing_type: str) -> str:
    """Return the name of the ring an address keeps for queues of a routing type."""
    return f"{RING_PREFIX}{routing_type}.{address}"


def is_ring_name(name: str) -> bool:
    """Return whether a queue of this name is the ring of a retroactive address."""
    return name.startswith(RING_PREFIX)


def owner_of(name: str) -> tuple[str, str]:
    """Return the address a ring of this name belongs to, and the routing type it is kept for."""
    routing_type, _, address_name = name.removeprefix(RING_PREFIX).partition(".")
    return address_name, routing_type


def kept_messages(ring: Queue) -> list[Message]:
    """Return copies of what a ring keeps, oldest first, each with its body. Damaged messages are left out.

    Nothing of it comes into the ring's memory. Raises :class:`~annulet.core.base.errors.PreconditionFailed` when it is
    more than memory takes, and :class:`~annulet.core.base.errors.ContentUnavailable` when the disk does not give all of
    it now.
    """
    reader = "a queue that joins a retroactive address"
    ring.require_in_memory(reader)
    scan = scan_of(ring, pending=True, scheduled=False, chosen=None, reader=reader)
    copies: list[Message] = []
    met = _prepared(scan, ring.name)
    while met:
        for number, entry in enumerate(met):
            message = entry.message
            if message.absent and ring.bodies is not None:
                found = ring.bodies.look([other.message for other in met[number : number + LOOK_MESSAGES]])
                if found == REFUSED:
                    raise _refused(ring.name)
                if found == DAMAGED:
                    continue
            copies.append(copy_of(message))
        met = _prepared(scan, ring.name)
    return copies


def _prepared(scan: Scan, name: str) -> list[QueueEntry]:
    """Return the next entries of a scan; none behind the last."""
    met: list[QueueEntry] = []
    while not met:
        while not scan.prepare(LOOK_MESSAGES):
            if scan.waiting:
                raise _refused(name)
        while not scan.used_up and (entry := scan.following()) is not None:
            if scan.own(entry) is not None:
                met.append(entry)
        if not scan.used_up:
            break
    return met


def _refused(name: str) -> ContentUnavailable:
    address, _ = owner_of(name)
    return ContentUnavailable(
        f"address '{address}': the disk cannot read the messages kept for new queues; try again when the disk is well"
    )


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
