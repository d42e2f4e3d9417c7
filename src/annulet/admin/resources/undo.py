"""``/api/v1/queues/{vhost}/{name}/undo`` and ``.../undo/{token}``: what operations took away, and the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.admin.requests.access import access_of, broker_of, require_user, require_writer
from annulet.admin.requests.bodies import INTEGER, SWITCH, read_fields
from annulet.admin.requests.parameters import PAGE_PARAMETERS, path_segments, read_page, read_parameters
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.operations import started
from annulet.admin.resources.queues import queue_to_manage
from annulet.broker.operation.operation_requests import RATE_MAX
from annulet.broker.operation.undo_window import describe_undoable

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def list_undoable(request: Request) -> Response:
    """A page of the operations on the queue that can be undone, the newest first.

    ``complete`` is false when more is kept than one look examines. Needs permission to manage the queue.
    """
    user = await require_user(request)
    page = read_page(read_parameters(request, PAGE_PARAMETERS))
    host, queue = queue_to_manage(request, user)
    window = broker_of(request).undo
    found, complete = await window.operations(host, queue.name)
    items = [describe_undoable(item, window) for item in page.take(found)]
    envelope = page.envelope(items, filtered_count=len(found), total_count=len(found))
    return json_response({**envelope, "complete": complete})


async def undo(request: Request) -> Response:
    """Undo an operation: 202 with the operation that does it; or say what it would do (``preview``).

    Needs permission to manage the queue, and to manage and browse those that messages were moved to.
    """
    user = await require_writer(request)
    read_parameters(request, ())
    host, queue = queue_to_manage(request, user)
    given = await read_fields(request, {"preview": SWITCH, "rate": INTEGER})
    rate = given.get("rate", 0)
    if "rate" in given and not 1 <= rate <= RATE_MAX:
        raise ResourceError(400, f"rate={rate}: give messages a second, 1 to {RATE_MAX}, or leave it out")
    broker = broker_of(request)
    plan = await broker.undo.plan(host, queue.name, path_segments(request)[-1])
    access = access_of(request, user, host)
    access.require("manage", *plan.moved)
    access.require("browse", *plan.moved)
    if given.get("preview", False):
        queues = {name: sum(count for _, count in runs) for name, runs in plan.moved.items()}
        return json_response({**describe_undoable(plan, broker.undo), "moved_to": queues})
    operation = broker.undo.operation(host, plan, user.name)
    operation.rate = rate
    return started(broker.management.start(operation), operation)
