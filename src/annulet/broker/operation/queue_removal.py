"""The deletion of a queue by an operator, and its undo: the messages and the definition are kept in the undo window.

The messages leave first, in slices of an operation that consumers and publishers do not wait for. The messages that are
left and the definition get into the undo queue in the turn in which the queue goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from annulet.broker.operation.bindings import bindings_of_queue
from annulet.broker.operation.durable_changes import departure, durably
from annulet.broker.operation.queue_inspection import definition_of
from annulet.broker.operation.undo_messages import KeptBinding, QueueDefinition
from annulet.core.base.errors import CoreError
from annulet.core.base.removal_reasons import RemovalReason
from annulet.core.host.auto_created import SubscriptionMark
from annulet.core.management import Operation, select
from annulet.core.management.actions import Remove
from annulet.core.management.whole_queue import TOO_MUCH

if TYPE_CHECKING:
    from annulet.broker.connections.access import Access
    from annulet.broker.durability.definition_commits import DefinitionCommits
    from annulet.broker.operation.management import ManagementOperations
    from annulet.broker.operation.operator_settings import OperatorSettings
    from annulet.broker.operation.undo_window import HostKeeper, Undoable, UndoWindow
    from annulet.broker.settings.clock import Clock
    from annulet.core.queue.queue import Queue

DELETE_QUEUE: Final = "delete-queue"
LEFT: Final = "in delivery, or they came during the deletion"


class RemovalBroker(Protocol):
    """The part of a broker that the deletion of a queue needs."""

    clock: Clock
    definitions: DefinitionCommits
    management: ManagementOperations
    operator_settings: OperatorSettings
    undo: UndoWindow


class QueueRemoval:
    """Deletes and restores queues of one virtual host for one user. Belongs to the event loop."""

    def __init__(self, broker: RemovalBroker, access: Access, user: str) -> None:
        self._broker = broker
        self._access = access
        self._host = access.host
        self._user = user

    async def remove(self, queue: Queue, *, if_unused: bool, if_empty: bool, undo: bool) -> HostKeeper | None:
        """Delete a queue. Returns what keeps it for an undo; ``None``: nothing does.

        Raises what a deletion raises. One that is refused after all leaves the messages in the undo window, and the
        queue, into which their undo brings them back.
        """
        window, keeper = self._broker.undo, None
        refused = (if_unused and queue.users) or (if_empty and queue.message_count())
        if undo and window.keeps_queue(queue) and not refused:
            keeper = window.keeper(self._host, DELETE_QUEUE, queue, self._user)
            await self._keep_messages(queue, keeper)
        definition = self._definition_of(queue)

        def delete() -> None:
            now = self._broker.clock()
            if keeper is not None:
                if not keeper.reason:
                    self._keep_rest(queue, keeper, now)
                keeper.put_definition(definition, now)
                if left := queue.message_count():
                    keeper.not_kept(left, LEFT)
            self._access.delete_queue(queue.name, now, if_unused=if_unused, if_empty=if_empty)

        await durably(self._broker.definitions, delete)
        await departure(self._host, queue)
        return keeper

    async def _keep_messages(self, queue: Queue, keeper: HostKeeper) -> None:
        window = self._broker.undo
        if not window.fits(queue.shown_bytes() + queue.shown_scheduled_bytes()):
            keeper.reason = TOO_MUCH
            return
        if not queue.shown_count() + queue.shown_scheduled():
            return
        await self._broker.management.complete(self._operation(queue, keeper))

    def _keep_rest(self, queue: Queue, keeper: HostKeeper, now: int) -> None:
        """Keep the messages that came since the last slice, as many as one slice takes."""
        if queue.shown_count() + queue.shown_scheduled():
            operation = self._operation(queue, keeper)
            operation.step(now)
            operation.cancel(now)

    def _operation(self, queue: Queue, keeper: HostKeeper) -> Operation:
        action = Remove("delete", queue, RemovalReason.DELETED, scheduled=True)
        action.keeper = keeper
        wanted = select(everything=True, scheduled=True)
        return Operation(self._host, action, wanted, user=self._user, now=self._broker.clock())

    def _definition_of(self, queue: Queue) -> QueueDefinition:
        settings = self._broker.operator_settings.of_queue(self._host, queue.name)
        bindings = [
            KeptBinding(row.source, row.routing_key, dict(row.arguments))
            for row in bindings_of_queue(self._host, queue.name)
            if row.source
        ]
        return definition_of(self._host, queue, dict(settings), bindings)

    async def restore(self, plan: Undoable) -> list[str]:
        """Make a deleted queue again, if its name is free. Returns what of it could not be restored, and why.

        Raises what a declaration raises; then nothing has changed.
        """
        definition, host, name = plan.definition, self._host, plan.facts.queue
        if definition is None or name in host.queues:
            return []
        left: list[str] = []
        queue = await durably(self._broker.definitions, lambda: self._declare(plan, definition))
        for binding in definition.bindings:
            try:
                await durably(
                    self._broker.definitions,
                    lambda binding=binding: self._access.bind_queue(  # type: ignore[misc]
                        name, binding.source, binding.routing_key, binding.arguments
                    ),
                )
            except CoreError as error:
                left.append(f"binding from {binding.source!r} with {binding.routing_key!r}: {error}")
        if definition.paused:
            queue.pause(self._broker.clock())
        return left

    def _declare(self, plan: Undoable, definition: QueueDefinition) -> Queue:
        host, now = self._host, self._broker.clock()
        queue = self._access.declare_queue(
            plan.facts.queue,
            now=now,
            durable=definition.durable,
            auto_delete=definition.auto_delete,
            arguments=definition.arguments,
        )
        queue.continue_from(definition.next_id)  # so the messages can have their ids again
        plan.restored = queue
        if definition.settings:
            self._broker.operator_settings.change_queue(host, queue, definition.settings, now)
        if definition.subscription is not None:
            self._access.mark_subscription(queue, SubscriptionMark(*definition.subscription))
        return queue


def describe_keeper(keeper: HostKeeper | None) -> dict[str, Any] | None:
    """Return how a deletion can be undone as JSON; ``None``: it cannot."""
    if keeper is None:
        return None
    return {
        "undo": keeper.token,
        "until": keeper.until,
        "kept": keeper.kept,
        "unkept": keeper.unkept,
        "reason": keeper.reason,
    }
