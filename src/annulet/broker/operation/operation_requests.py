"""Operations on messages as operators ask for them: by name, with a selection, checked before anything is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.broker.operation.undo_window import UNDONE_OPERATIONS
from annulet.core.base.errors import InvalidArgument
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.base.sealed_names import is_sealed_name
from annulet.core.management import (
    Find,
    Operation,
    cancel_scheduled,
    change_priority,
    copy_messages,
    delete_messages,
    deliver_scheduled,
    expire_messages,
    move_messages,
    purge,
    retry_messages,
    select,
    send_to_dead_letters,
)
from annulet.core.management.conditions import conditions
from annulet.core.management.whole_queue import TOO_MUCH, WholeRemoval

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from annulet.broker.connections.access import Access
    from annulet.broker.operation.undo_window import UndoWindow
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.management import Preview, PreviewResult
    from annulet.core.queue.queue import Queue

CONDITIONS: Final = ("key", "routing_key", "since", "until", "first_id", "last_id", "text")
SELECTION: Final = ("ids", "selector", "everything", "limit", "scheduled")

CONTENT: Final = ("selector", "key", "routing_key", "text")
"""Fields that compare the content of messages: a count of those that match tells of it."""

FIND: Final = "find"
PURGE: Final = "purge"
RETRY: Final = "retry"
DELETE: Final = "delete"

SELECTED: Final[dict[str, Callable[..., Operation]]] = {
    DELETE: delete_messages,
    "expire": expire_messages,
    "dead-letter": send_to_dead_letters,
    "deliver-now": deliver_scheduled,
    "cancel-scheduled": cancel_scheduled,
}
"""Operations that take a selection and nothing more."""

TRANSFERS: Final[dict[str, Callable[..., Operation]]] = {"move": move_messages, "copy": copy_messages}

_COMMON: Final = (*SELECTION, *CONDITIONS, "rate", "undo")

TAKES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(SELECTED, _COMMON),
    **dict.fromkeys(TRANSFERS, (*_COMMON, "destination")),
    RETRY: (*_COMMON, "strip"),
    "change-priority": (*_COMMON, "priority"),
    PURGE: ("rate", "undo"),
    FIND: (*SELECTION, *CONDITIONS),
}
"""Every operation with the fields it takes, under the names of the audit trail."""

CHANGES: Final = tuple(name for name in TAKES if name != FIND)
"""Operations that change something."""

RATE_MAX: Final = 1_000_000
"""Messages a second that a rate may name; no rate is as fast as slices allow."""


class OperationRequests:
    """Builds the operations of a virtual host; their start is the caller's."""

    def __init__(self, host: VirtualHost, undo: UndoWindow) -> None:
        self._host = host
        self._undo = undo

    def require(self, access: Access, queue: Queue, name: str, given: Mapping[str, Any]) -> None:
        """Require what an operation takes: ``manage``, and where content travels, to look at it and to write it.

        To find messages is to look at them, and so is to select them by their content, :data:`CONTENT`.
        """
        access.require("browse" if name == FIND else "manage", queue.name)
        if name in TRANSFERS or any(field in given for field in CONTENT):
            access.require("browse", queue.name)
        if name in TRANSFERS:
            access.require("write", given.get("destination", ""))
        if name == RETRY:  # each message has its own destination
            access.require("write", *(name for name in self._host.queues if not is_sealed_name(name)))

    def build(self, queue: Queue, name: str, given: Mapping[str, Any], *, user: str, now: int) -> Operation:
        """Return an operation that has not started.

        Raises :class:`InvalidArgument` for a field, and what the operation raises.
        """
        rate = given.get("rate", 0)
        if "rate" in given and not 1 <= rate <= RATE_MAX:
            raise InvalidArgument(f"rate={rate}: give messages a second, 1 to {RATE_MAX}, or leave it out")
        operation = self._operation(queue, name, given, user=user, now=now)
        operation.rate = rate
        return operation

    def keep(self, operation: Operation, given: Mapping[str, Any]) -> None:
        """Let an operation that is about to start be undone, if it can be and shall be."""
        action = operation.action
        if self._undoable(action.queue, action.name, given):
            action.keeper = self._undo.keeper(self._host, action.name, action.queue, operation.user)

    def preview(self, operation: Operation, given: Mapping[str, Any]) -> Preview:
        """Return a preview that also counts what an undo would bring back."""
        action = operation.action
        undoable = self._undoable(action.queue, action.name, given)
        return operation.preview(keeps=self._undo.keeps(action.name) if undoable else None)

    def expected_undo(
        self, operation: Operation, given: Mapping[str, Any], result: PreviewResult
    ) -> dict[str, Any] | None:
        """Return what could be undone of a previewed operation, and why not the rest; ``None``: nothing is kept."""
        if not self._undoable(operation.action.queue, operation.action.name, given):
            return None
        unkept = result.count - result.kept
        reason = TOO_MUCH if isinstance(operation, WholeRemoval) else self._undo.too_much()
        return {
            "seconds": self._undo.seconds,
            "kept": result.kept,
            "unkept": unkept,
            "reason": reason if unkept else "",
        }

    def _undoable(self, queue: Queue, name: str, given: Mapping[str, Any]) -> bool:
        """Return whether an operation can be and shall be undone. Of expired messages an expiry address has copies."""
        if not given.get("undo", True) or name not in UNDONE_OPERATIONS or self._undo.seconds <= 0:
            return False
        return name != "expire" or not queue.forwarder.takes(queue, RemovalReason.EXPIRED)

    def _operation(self, queue: Queue, name: str, given: Mapping[str, Any], *, user: str, now: int) -> Operation:
        host = self._host
        fits = self._undo.fits(queue.shown_bytes() + queue.shown_scheduled_bytes())
        singly = "rate" in given or (fits and self._undoable(queue, name, given))
        if name == PURGE:
            return purge(host, queue, user=user, now=now, singly=singly)
        narrowed = conditions(**{field: given[field] for field in CONDITIONS if field in given})
        selection = select(**{field: given[field] for field in SELECTION if field in given}, conditions=narrowed)
        if name == FIND:
            return Operation(host, Find(FIND, queue), selection, user=user, now=now)
        if name == DELETE:
            return delete_messages(host, queue, selection, user=user, now=now, singly=singly)
        if name in SELECTED:
            return SELECTED[name](host, queue, selection, user=user, now=now)
        if name == RETRY:
            return retry_messages(host, queue, selection, user=user, now=now, strip=tuple(given.get("strip", ())))
        if name == "change-priority":
            return change_priority(host, queue, selection, given["priority"], user=user, now=now)
        return TRANSFERS[name](host, queue, selection, given["destination"], user=user, now=now)
