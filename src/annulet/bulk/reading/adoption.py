"""Decides which checkpoint may use which lease. Pure decisions; the lease manager acts on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from annulet.bulk.protocol.errors import InvalidRequestError, LeaseGoneError, LeaseInUseError, RefusedError
from annulet.bulk.reading.lease import Lease

if TYPE_CHECKING:
    from annulet.core.queue.queue import Queue

LEASE_NAME_MAX: Final = 255
"""Characters of a lease's name: AMQP's limit for names."""


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """The identity of a source when it opens a lease.

    ``owner`` is generated with a checkpoint and kept in it. ``fresh``: the checkpoint has no offset yet. Otherwise
    ``position`` is the highest position in the checkpoint.
    """

    host: str
    name: str
    queue: str
    owner: str
    fresh: bool
    position: int = 0
    generated: bool = False
    on_existing: str = "fail"  # fail | resume | release
    fail_on_data_loss: bool = True


def check_request(request: LeaseRequest) -> None:
    """Refuse impossible requests. Raises :class:`InvalidRequestError`."""
    if not 0 < len(request.name) <= LEASE_NAME_MAX:
        raise InvalidRequestError(f"lease {request.name!r}: a name has 1 to {LEASE_NAME_MAX} characters")
    if request.on_existing not in ("fail", "resume", "release"):
        raise InvalidRequestError(f"onExistingLease {request.on_existing!r} is unknown: fail, resume or release")


def check_queue(queue: Queue) -> None:
    """Refuse a lease over a queue that cannot keep its promise, or whose own it would break.

    Raises :class:`RefusedError`.
    """
    if not queue.durable:
        raise RefusedError(
            f"queue {queue.name!r} is not durable, so a stream could not be repeated after a restart: "
            "declare it durable, or read it as a batch (spark.read) or with nonDestructive=true"
        )
    if queue.settings.non_destructive:
        raise RefusedError(
            f"queue {queue.name!r} is non-destructive: reading takes nothing out of it, so a stream would be given the "
            "same messages for ever; add nonDestructive=true, or read it as a batch (spark.read)"
        )
    if queue.settings.single_active_consumer:
        raise RefusedError(
            f"queue {queue.name!r} has single-active-consumer: one consumer at a time gets its messages, but a lease "
            "takes them beside it; read it with nonDestructive=true or as a batch (spark.read), or stream from a queue "
            "without that setting"
        )


def check_takeover(request: LeaseRequest, lease: Lease) -> None:
    """May a checkpoint without any offset have an existing lease? Raises :class:`LeaseInUseError`."""
    _check_queue(request, lease)
    if lease.owner not in ("", request.owner) and request.on_existing == "fail":
        raise LeaseInUseError(
            f"lease {lease.name!r} on queue {lease.queue_name!r} belongs to another checkpoint and holds "
            f"{len(lease.held)} messages: restart with that checkpoint, choose another lease name, or set "
            "onExistingLease=resume (read them with this checkpoint) or release (give them back to the queue first)"
        )


def continue_lease(request: LeaseRequest, lease: Lease) -> int:
    """Give a checkpoint its lease back, and return the gap.

    Raises :class:`LeaseInUseError`, :class:`LeaseGoneError`.
    """
    _check_queue(request, lease)
    holder = lease.owner or lease.opener  # unclaimed, it belongs to the last opener
    if holder not in ("", request.owner):
        raise LeaseInUseError(
            f"lease {lease.name!r} was taken over by another checkpoint; this one must not go on. "
            "Start with a new checkpoint and another lease name"
        )
    return _check_position(request, lease)


def continue_without(request: LeaseRequest, lease: Lease) -> None:
    """Refuse a returning checkpoint whose lease does not exist."""
    if request.fail_on_data_loss:
        raise LeaseGoneError(
            f"lease range gone: lease {request.name!r} on queue {request.queue!r}, which this checkpoint has "
            "read up to "
            f"position {request.position}, was released or expired or its queue was deleted; messages that "
            "were planned "
            "may be read by others. Start with a new checkpoint, or set failOnDataLoss=false to go on with "
            "the rest"
        )
    lease.acknowledged = lease.last = request.position  # positions planned above start are counted when they are read


def _check_queue(request: LeaseRequest, lease: Lease) -> None:
    if lease.queue_name != request.queue:
        raise LeaseInUseError(
            f"lease {lease.name!r} reads queue {lease.queue_name!r}, not {request.queue!r}: "
            "choose another lease name, and a new checkpoint for another queue"
        )


def _check_position(request: LeaseRequest, lease: Lease) -> int:
    if request.position <= lease.last:
        return 0
    if request.fail_on_data_loss:
        raise LeaseGoneError(
            f"lease range gone: the checkpoint knows position {request.position} of lease {lease.name!r}, the "
            "broker only "
            f"{lease.last}: the broker's data is older than the checkpoint. Start with a new checkpoint, or set "
            "failOnDataLoss=false to go on"
        )
    gap = request.position - lease.last
    lease.last = request.position
    return gap
