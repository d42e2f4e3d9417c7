"""``/api/v1/queues/{vhost}/{queue}/undo`` and ``.../undo/{token}``: what operations took away, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.admin.interface.call import QUEUE
from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import COUNT, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import PAGES, Value
from annulet.admin.requests.bodies import INTEGER, SWITCH
from annulet.admin.requests.responses import json_response
from annulet.admin.resources.audit import audit
from annulet.admin.resources.operations import MANAGE, OPERATION_SCHEMA, started
from annulet.broker.operation.operation_requests import RATE_MAX
from annulet.broker.operation.queue_removal import QueueRemoval
from annulet.broker.operation.undo_window import describe_undoable

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call


async def list_undoable(call: Call) -> Response:
    """A page of the operations on the queue that can be undone, the newest first.

    ``complete`` is false when more is kept than one look examines.
    """
    page, window, host = call.page, call.broker.undo, call.host()
    there = call.names[QUEUE] in host.queues
    found, complete = await window.operations(host, _managed(call))
    found = [item for item in found if item.count or not there]  # a queue is there again, or something comes back
    if not found and not there:
        call.queue()  # 404
    items = [describe_undoable(item, window) for item in page.take(found)]
    envelope = page.envelope(items, filtered_count=len(found), total_count=len(found))
    return json_response({**envelope, "complete": complete})


async def undo(call: Call) -> Response:
    """Undo an operation: 202 with the operation that does it; or say what it would do (``preview``)."""
    host, name, given, broker = call.host(), _managed(call), call.fields, call.broker
    plan = await broker.undo.plan(host, name, call.names["token"])
    access = call.access()
    queues = plan.elsewhere()
    access.require("manage", *queues)
    access.require("browse", *queues)
    if given.get("preview", False):
        return json_response({**describe_undoable(plan, broker.undo), "moved_to": queues})
    there = name in host.queues
    left = await QueueRemoval(broker, access, call.user.name).restore(plan)
    if not there and name in host.queues:
        audit(host, call.user, "create-queue", name, {"undo": plan.facts.token, "not_restored": left}, call.now)
    operation = broker.undo.operation(host, plan, call.user.name)
    operation.rate = given.get("rate", 0)
    return started(call, broker.management.start(operation), operation, not_restored=left)


def _managed(call: Call) -> str:
    """Return the name of the path's queue, which may be deleted, with permission for operations."""
    name = call.names[QUEUE]
    if name in call.host().queues:
        return call.queue_to_manage().name
    call.access().require("manage", name)
    return name


UNDOABLE_SCHEMA: Final = object_of(undo=TEXT_SCHEMA, operation=TEXT_SCHEMA, user=TEXT_SCHEMA, count=COUNT)

RESOURCES: Final = (
    Resource(
        "queues/{vhost}/{queue}/undo",
        "messages",
        (
            Operation(
                "GET",
                "list_undoable",
                "Operations on messages of the queue that can be undone, the newest first.",
                list_undoable,
                needs=MANAGE,
                parameters=PAGES,
                answers={200: Answer("A page of operations.", page_of(UNDOABLE_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "queues/{vhost}/{queue}/undo/{token}",
        "messages",
        (
            Operation(
                "POST",
                "undo_operation",
                "Bring back what an operation took away, or preview it.",
                undo,
                needs=MANAGE,
                body=Fields(
                    (
                        Value("rate", "the most messages a second", INTEGER, 1, RATE_MAX),
                        Value("preview", "true to return the effect without doing it", SWITCH),
                    )
                ),
                answers={
                    200: Answer("The effect that the undo would have.", UNDOABLE_SCHEMA),
                    202: Answer("The undo has begun; Location has its path.", OPERATION_SCHEMA),
                },
                further="of a move: manage and browse on the queues that messages were moved to; of a deleted queue: "
                "configure and write on it, and read on the exchanges that it was bound to",
            ),
        ),
    ),
)
