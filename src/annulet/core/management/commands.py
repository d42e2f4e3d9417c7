"""The commands of operators on a queue and its messages: one function for each, checked before any change.

Functions on messages return an :class:`Operation` that has not started: get its preview, then step it, or give it to
:class:`~annulet.core.management.tasks.Tasks`. Messages in delivery are never changed. ``user`` is recorded in the audit
trail. All raise :class:`PreconditionFailed` for a deleted queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.core.base.errors import InvalidArgument, NotFound, PreconditionFailed
from annulet.core.base.nearest import nearest_name
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.management.actions import CancelScheduled, ChangePriority, DeliverNow, Remove
from annulet.core.management.operation import Operation
from annulet.core.management.selection import select
from annulet.core.management.transfer import Retry, Transfer
from annulet.core.management.whole_queue import WholeRemoval
from annulet.core.model.audit_trail import AuditEntry

if TYPE_CHECKING:
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.management.actions import Action
    from annulet.core.management.selection import Selection
    from annulet.core.queue.queue import Queue

PRIORITY_MAX: Final = 255
"""One octet in every protocol and in the log."""

# ------------------------------------------------------------------ messages


def delete_messages(
    host: VirtualHost, queue: Queue, selection: Selection, *, user: str, now: int, singly: bool = False
) -> Operation:
    """Remove messages, with reason *deleted* however they are selected.

    ``singly``: all of a deep queue one by one too, so that they can be kept.
    """
    action = Remove("delete", queue, RemovalReason.DELETED)
    if selection.whole and selection.scheduled and not singly:
        return _removal(host, action, selection, user, now)
    return _operation(host, action, selection, user, now)


def purge(host: VirtualHost, queue: Queue, *, user: str, now: int, singly: bool = False) -> Operation:
    """Remove all pending and scheduled messages, with reason *purged*; ``singly`` as in :func:`delete_messages`."""
    action = Remove("purge", queue, RemovalReason.PURGED, scheduled=True)
    if singly:
        return _operation(host, action, select(everything=True), user, now)
    return _removal(host, action, select(everything=True), user, now)


def expire_messages(host: VirtualHost, queue: Queue, selection: Selection, *, user: str, now: int) -> Operation:
    """End messages' time to live: to the expiry address if the queue has one, else they are removed."""
    return _operation(host, Remove("expire", queue, RemovalReason.EXPIRED), selection, user, now)


def send_to_dead_letters(host: VirtualHost, queue: Queue, selection: Selection, *, user: str, now: int) -> Operation:
    """Send messages to the queue's dead-letter target.

    Raises :class:`PreconditionFailed` when it has none; Artemis would drop them.
    """
    if not queue.forwarder.takes(queue, RemovalReason.DEAD_LETTERED):
        raise PreconditionFailed(
            f"queue '{queue.name}' in vhost '{host.name}' has no dead-letter target; set dead-letter-address or "
            "dead-letter-exchange, or delete the messages"
        )
    return _operation(host, Remove("dead-letter", queue, RemovalReason.DEAD_LETTERED), selection, user, now)


def move_messages(
    host: VirtualHost, queue: Queue, selection: Selection, destination: str, *, user: str, now: int
) -> Operation:
    """Move messages to another queue, with reason *moved*; stops when that is full.

    Raises :class:`NotFound` for an unknown destination, :class:`InvalidArgument` for the queue itself,
    :class:`ResourceLocked` for an exclusive queue.
    """
    action = Transfer("move", host, queue, _destination(host, queue, destination), keep=False)
    return _operation(host, action, selection, user, now)


def copy_messages(
    host: VirtualHost, queue: Queue, selection: Selection, destination: str, *, user: str, now: int
) -> Operation:
    """Copy messages to another queue; stops when that is full. Raises as :func:`move_messages`."""
    action = Transfer("copy", host, queue, _destination(host, queue, destination), keep=True)
    return _operation(host, action, selection, user, now)


def retry_messages(
    host: VirtualHost, queue: Queue, selection: Selection, *, user: str, now: int, strip: tuple[str, ...] = ()
) -> Operation:
    """Send dead letters back to the queue each first died in, with reason *moved*; those without one stay.

    ``strip``: headers and annotations that they go back without, such as ``x-death``.
    """
    return _operation(host, Retry("retry", host, queue, strip), selection, user, now)


def change_priority(
    host: VirtualHost, queue: Queue, selection: Selection, priority: int, *, user: str, now: int
) -> Operation:
    """Give pending messages another priority, 0 to 255; each goes to the tail of its new level under a new id.

    Raises :class:`InvalidArgument` for another number.
    """
    if type(priority) is not int or not 0 <= priority <= PRIORITY_MAX:
        raise InvalidArgument(f"priority={priority!r}: give an integer from 0 to {PRIORITY_MAX}")
    return _operation(host, ChangePriority("change-priority", queue, priority), selection, user, now)


def deliver_scheduled(host: VirtualHost, queue: Queue, selection: Selection, *, user: str, now: int) -> Operation:
    """Let scheduled messages fall due now, by their order in time."""
    return _operation(host, DeliverNow("deliver-now", queue), selection, user, now)


def cancel_scheduled(host: VirtualHost, queue: Queue, selection: Selection, *, user: str, now: int) -> Operation:
    """Remove scheduled messages before their time, with reason *deleted*."""
    action = CancelScheduled("cancel-scheduled", queue, RemovalReason.DELETED, scheduled=True)
    return _operation(host, action, selection, user, now)


# ------------------------------------------------------------------ the queue


def pause_queue(host: VirtualHost, queue: Queue, *, user: str, now: int) -> bool:
    """Stop dispatch, over restarts of a durable queue too. Returns whether it was running."""
    _check_there(host, queue)
    changed = not queue.paused
    queue.pause(now)
    _audit(host, queue, "pause", user, now, count=0, outcome="paused" if changed else "was paused already")
    return changed


def resume_queue(host: VirtualHost, queue: Queue, *, user: str, now: int) -> bool:
    """End :func:`pause_queue`. Returns whether it was paused."""
    _check_there(host, queue)
    changed = queue.paused
    queue.resume(now)
    _audit(host, queue, "resume", user, now, count=0, outcome="resumed" if changed else "was not paused")
    return changed


def reset_groups(host: VirtualHost, queue: Queue, *, user: str, now: int, name: str = "") -> int:
    """End the assignment of one message group, or of all. Returns how many were assigned.

    Raises :class:`PreconditionFailed` for a queue without groups.
    """
    _check_there(host, queue)
    if queue.lanes is None or queue.lanes.groups is None:
        raise PreconditionFailed(
            f"queue '{queue.name}' in vhost '{host.name}' does not group messages; group-mode is not set"
        )
    count = queue.reset_groups(now, name)
    _audit(
        host, queue, "reset-groups", user, now, arguments=f"group '{name}'" if name else "all groups",
        outcome=f"{count} were assigned",
    )  # fmt: skip
    return count


# ------------------------------------------------------------------ common parts


def _operation(host: VirtualHost, action: Action, selection: Selection, user: str, now: int) -> Operation:
    _check_there(host, action.queue)
    return Operation(host, action, selection, user=user, now=now)


def _removal(host: VirtualHost, action: Remove, selection: Selection, user: str, now: int) -> Operation:
    """Remove everything: one by one, each with its id in the report, where the queue is in memory."""
    _check_there(host, action.queue)
    if action.queue.order.paged_count():
        return WholeRemoval(host, action, selection, user=user, now=now)
    return Operation(host, action, selection, user=user, now=now)


def _check_there(host: VirtualHost, queue: Queue) -> None:
    if queue.deleted:
        raise PreconditionFailed(f"queue '{queue.name}' in vhost '{host.name}' was deleted")


def _destination(host: VirtualHost, queue: Queue, name: str) -> Queue:
    if name not in host.queues:
        near = nearest_name(name, [queue.name for queue in host.listed_queues()])
        hint = f"; did you mean '{near}'?" if near else ""
        raise NotFound(f"no queue '{name}' in vhost '{host.name}' to send messages to{hint}")
    destination = host.queue_for(name)
    if destination is queue:
        raise InvalidArgument(f"destination '{name}' is the queue the messages are in; name another one")
    return destination


def _audit(
    host: VirtualHost, queue: Queue, operation: str, user: str, now: int, *,
    arguments: str = "", count: int = 0, outcome: str = "",
) -> None:  # fmt: skip
    host.effects.audited(
        AuditEntry(
            at=now,
            virtual_host=host.name,
            user=user,
            operation=operation,
            target=queue.name,
            arguments=arguments,
            count=count,
            outcome=outcome,
        )
    )
