"""Management of a queue over HTTP: operations on its messages, with preview and progress; pause, resume, groups."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from annulet.admin.requests.access import access_of, broker_of, require_user, require_writer
from annulet.admin.requests.bodies import INTEGER, INTEGERS, SWITCH, TEXT, TEXTS, read_fields, required
from annulet.admin.requests.parameters import PAGE_PARAMETERS, path_segments, read_page, read_parameters
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.queues import chosen_queue, queue_to_manage, queue_to_operate_on
from annulet.broker.operation.operation_requests import TAKES, TRANSFERS, OperationRequests
from annulet.broker.settings.configuration import nearest_name
from annulet.core.base.errors import NotFound
from annulet.core.management import Operation, pause_queue, reset_groups, resume_queue

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.broker.security.authentication import User
    from annulet.core.host.virtual_host import VirtualHost
    from annulet.core.queue.queue import Queue

FIELDS: Final = {
    "operation": TEXT,
    "ids": INTEGERS,
    "selector": TEXT,
    "everything": SWITCH,
    "limit": INTEGER,
    "scheduled": SWITCH,
    "destination": TEXT,
    "priority": INTEGER,
    "strip": TEXTS,
    "preview": SWITCH,
    "key": TEXT,
    "routing_key": TEXT,
    "since": INTEGER,
    "until": INTEGER,
    "first_id": INTEGER,
    "last_id": INTEGER,
    "text": TEXT,
    "rate": INTEGER,
    "undo": SWITCH,
}


async def start_operation(request: Request) -> Response:
    """Begin an operation on messages of the queue: 202 with its id; or return its expected effect (``preview``).

    400 for errors in the body, 409 for a conflict with the queue, or when too many operations are running.
    """
    user = await require_writer(request)
    read_parameters(request, ())
    host, queue = queue_to_operate_on(request, user)
    given = await read_fields(request, FIELDS)
    name = required(given, "operation", f"one of {', '.join(TAKES)}")
    if name not in TAKES:
        raise ResourceError(400, f"unknown operation {name!r}{nearest_name(name, TAKES)}")
    for field in given:
        if field not in {"operation", "preview", *TAKES[name]}:
            takes = ", ".join(TAKES[name])
            raise ResourceError(400, f"field {field!r} does not belong to operation {name!r}, which takes {takes}")
    if name == "change-priority":
        required(given, "priority", "an integer from 0 to 255")
    if name in TRANSFERS:
        required(given, "destination", "the name of a queue")
    broker = broker_of(request)
    requests = OperationRequests(host, broker.undo)
    requests.require(access_of(request, user, host), queue, name, given)
    try:
        operation = requests.build(queue, name, given, user=user.name, now=broker.clock())
    except NotFound as error:  # the path was found, the body is wrong
        raise ResourceError(400, f"field 'destination': {error}") from error
    if given.get("preview", False):
        return json_response(asdict(await broker.management.preview(operation.preview())))
    requests.keep(operation, given)
    number = broker.management.start(operation)
    return started(number, operation)


def started(number: int, operation: Operation) -> Response:
    """Return the answer about an operation that has begun: 202 with its place."""
    host, queue = quote(operation.host.name, safe=""), quote(operation.target, safe="")
    place = f"/api/v1/queues/{host}/{queue}/operations/{number}"
    return json_response(describe_operation(number, operation), 202, {"Location": place})


async def list_operations(request: Request) -> Response:
    """A page of the operations on the queue that are remembered, the newest first."""
    user = await require_user(request)
    page = read_page(read_parameters(request, PAGE_PARAMETERS))
    host, queue = chosen_queue(request, user)
    found = broker_of(request).management.operations(host.name, queue.name)
    items = [describe_operation(number, operation) for number, operation in page.take(found)]
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(found)))


async def get_operation(request: Request) -> Response:
    """One operation with its progress and a page of changed messages: pairs of the id and the new id, 0 for none."""
    user = await require_user(request)
    page = read_page(read_parameters(request, PAGE_PARAMETERS))
    host, queue = chosen_queue(request, user)
    number = _number(request)
    operation = broker_of(request).management.operation(number, host.name, queue.name)
    pairs = zip(page.take(operation.ids), page.take(operation.new_ids), strict=True)
    return json_response({**describe_operation(number, operation), "changed": [list(pair) for pair in pairs]})


async def cancel_operation(request: Request) -> Response:
    """Cancel an operation; its changes stay. A finished one is not affected."""
    user = await require_writer(request)
    read_parameters(request, ())
    host, queue = queue_to_manage(request, user)
    number = _number(request)
    operation = broker_of(request).management.cancel(number, host.name, queue.name)
    return json_response(describe_operation(number, operation))


async def pause(request: Request) -> Response:
    """Stop dispatch. ``changed`` tells whether it was running."""
    host, queue, user, _ = await _command(request, {})
    changed = pause_queue(host, queue, user=user.name, now=broker_of(request).clock())
    return json_response({"paused": queue.paused, "changed": changed})


async def resume(request: Request) -> Response:
    """End a pause. ``changed`` tells whether the queue was paused."""
    host, queue, user, _ = await _command(request, {})
    changed = resume_queue(host, queue, user=user.name, now=broker_of(request).clock())
    return json_response({"paused": queue.paused, "changed": changed})


async def reset(request: Request) -> Response:
    """End the assignment of one message group, ``group``, or of all. ``count`` is the number of assigned ones."""
    host, queue, user, given = await _command(request, {"group": TEXT})
    count = reset_groups(host, queue, user=user.name, now=broker_of(request).clock(), name=given.get("group", ""))
    return json_response({"count": count})


def describe_operation(number: int, operation: Operation) -> dict[str, Any]:
    """Return an operation's JSON: its kind, user and progress."""
    action = operation.action
    return {
        "id": number,
        "vhost": operation.host.name,
        "queue": operation.target,
        "operation": action.name,
        "selection": str(operation.selection),
        "arguments": action.arguments,
        "user": operation.user,
        **asdict(operation.progress),
        "undo": _undo(operation),
    }


def _undo(operation: Operation) -> dict[str, Any] | None:
    """Return how an operation can be undone, ``None`` when it cannot be."""
    keeper = operation.action.keeper
    if keeper is None:
        return None
    return {
        "undo": keeper.token,
        "until": keeper.until,
        "kept": keeper.kept,
        "unkept": keeper.unkept,
        "reason": keeper.reason,
    }


# ------------------------------------------------------------------ common parts


async def _command(request: Request, fields: dict[str, str]) -> tuple[VirtualHost, Queue, User, dict[str, Any]]:
    user = await require_writer(request)
    read_parameters(request, ())
    host, queue = queue_to_manage(request, user)
    return host, queue, user, await read_fields(request, fields)


def _number(request: Request) -> int:
    text = path_segments(request)[-1]
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ResourceError(404, f"no operation {text!r}; operations have whole numbers")
    return int(text)
