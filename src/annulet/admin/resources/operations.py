"""Management of a queue over HTTP: operations on its messages, with preview and progress; pause, resume, groups."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from annulet.admin.interface.operations import Answer, Fields, Need, Resource
from annulet.admin.interface.operations import Operation as Method
from annulet.admin.interface.schemas import COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import PAGES, Value
from annulet.admin.requests.access import ADMINISTRATOR
from annulet.admin.requests.bodies import INTEGER, INTEGERS, SWITCH, TEXT, TEXTS, required
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.broker.operation.operation_requests import CHANGES, RATE_MAX, TAKES, TRANSFERS, OperationRequests
from annulet.core.base.errors import NotFound
from annulet.core.management import Operation, pause_queue, reset_groups, resume_queue

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call


async def start_operation(call: Call) -> Response:
    """Begin an operation on messages of the queue: 202 with its id; or return its expected effect (``preview``).

    400 for errors in the body, 409 for a conflict with the queue, or when too many operations are running.
    """
    host, queue, given = call.host(), call.queue_to_manage(), call.fields
    name = given["operation"]
    for field in given:
        if field not in {"operation", "preview", *TAKES[name]}:
            takes = ", ".join(TAKES[name])
            raise ResourceError(400, f"field {field!r} does not belong to operation {name!r}, which takes {takes}")
    if name == "change-priority":
        required(given, "priority", "an integer from 0 to 255")
    if name in TRANSFERS:
        required(given, "destination", "the name of a queue")
    requests, management, access = OperationRequests(host, call.broker.undo), call.broker.management, call.access()
    requests.require(access, queue, name, given)
    try:
        operation = requests.build(queue, name, given, user=call.user.name, now=call.now)
    except NotFound as error:  # the path was found, the body is wrong
        raise ResourceError(400, f"field 'destination': {error}") from error
    if given.get("preview", False):
        result = await management.preview(requests.preview(operation, given))
        expected = asdict(result) | {"undo": requests.expected_undo(operation, given, result)}
        del expected["kept"]  # a member of "undo"
        if not access.allowed("browse", queue.name):
            expected["sample"] = []
        return json_response(expected)
    requests.keep(operation, given)
    return started(call, management.start(operation), operation)


def started(call: Call, number: int, operation: Operation, **more: Any) -> Response:
    """Return the answer about an operation that has begun: 202 with its place."""
    host, queue = quote(operation.host.name, safe=""), quote(operation.target, safe="")
    place = f"/api/v1/queues/{host}/{queue}/operations/{number}"
    return json_response({**describe_operation(call, number, operation), **more}, 202, {"Location": place})


async def list_operations(call: Call) -> Response:
    """A page of the operations on the queue that are remembered, the newest first."""
    page = call.page
    found = call.broker.management.operations(call.host().name, call.queue().name)
    items = [describe_operation(call, number, operation) for number, operation in page.take(found)]
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(found)))


async def get_operation(call: Call) -> Response:
    """One operation with its progress and a page of changed messages: pairs of the id and the new id, 0 for none."""
    page, queue = call.page, call.queue()
    number = number_of(call)
    operation = call.broker.management.operation(number, call.host().name, queue.name)
    pairs = zip(page.take(operation.ids), page.take(operation.new_ids), strict=True)
    return json_response({**describe_operation(call, number, operation), "changed": [list(pair) for pair in pairs]})


async def cancel_operation(call: Call) -> Response:
    """Cancel an operation; its changes stay. A finished one is not affected."""
    queue = call.queue_to_manage()
    number = number_of(call)
    operation = call.broker.management.cancel(number, call.host().name, queue.name)
    return json_response(describe_operation(call, number, operation))


async def pause(call: Call) -> Response:
    """Stop dispatch. ``changed`` tells whether it was running."""
    queue = call.queue_to_manage()
    changed = pause_queue(call.host(), queue, user=call.user.name, now=call.now)
    return json_response({"paused": queue.paused, "changed": changed})


async def resume(call: Call) -> Response:
    """End a pause. ``changed`` tells whether the queue was paused."""
    queue = call.queue_to_manage()
    changed = resume_queue(call.host(), queue, user=call.user.name, now=call.now)
    return json_response({"paused": queue.paused, "changed": changed})


async def reset(call: Call) -> Response:
    """End the assignment of one message group, ``group``, or of all. ``count`` is the number of assigned ones."""
    queue, name = call.queue_to_manage(), call.fields.get("group", "")
    count = reset_groups(call.host(), queue, user=call.user.name, now=call.now, name=name)
    return json_response({"count": count})


def describe_operation(call: Call, number: int, operation: Operation) -> dict[str, Any]:
    """Return an operation's JSON: its kind, user and progress.

    The selection may tell of contents, and the token of the undo is a key to them: both are ``null`` for other users,
    but for administrators.
    """
    action, own = operation.action, operation.user == call.user.name or ADMINISTRATOR in call.user.tags
    return {
        "id": number,
        "vhost": operation.host.name,
        "queue": operation.target,
        "operation": action.name,
        "selection": str(operation.selection) if own else None,
        "arguments": action.arguments,
        "user": operation.user,
        **asdict(operation.progress),
        "undo": _undo(operation, own=own),
    }


def _undo(operation: Operation, *, own: bool) -> dict[str, Any] | None:
    """Return how an operation can be undone, ``None`` when it cannot be. Its token is shown to its user (``own``)."""
    keeper = operation.action.keeper
    if keeper is None:
        return None
    return {
        "undo": keeper.token if own else None,
        "until": keeper.until,
        "kept": keeper.kept,
        "unkept": keeper.unkept,
        "reason": keeper.reason,
    }


def number_of(call: Call) -> int:
    """Return the number of the operation that the path names; 404 for another text."""
    text = call.names["operation"]
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ResourceError(404, f"no operation {text!r}; operations have whole numbers")
    return int(text)


FIELDS: Final = (
    Value("operation", f"one of {', '.join(CHANGES)}", choices=CHANGES, required=True, example="delete"),
    Value("ids", "a list of ids of messages", INTEGERS),
    Value("selector", "a selector, for the messages that match it", TEXT),
    Value("everything", "true for all messages", SWITCH),
    Value("limit", "the most messages, or -1 for no limit", INTEGER, -1),
    Value("scheduled", "true for scheduled messages too", SWITCH),
    Value("key", "a key of a last-value queue"),
    Value("routing_key", "the routing key"),
    Value("since", "the earliest time of acceptance, milliseconds since 1970", INTEGER),
    Value("until", "the time before which messages were accepted, milliseconds since 1970", INTEGER),
    Value("first_id", "the least id", INTEGER),
    Value("last_id", "the largest id", INTEGER),
    Value("text", "a text in header, routing key or body"),
    Value("destination", "the name of a queue, for move and copy", TEXT),
    Value("priority", "an integer from 0 to 255, for change-priority", INTEGER, 0, 255),
    Value("strip", "a list of headers to leave out, for retry", TEXTS),
    Value("rate", "the most messages a second", INTEGER, 1, RATE_MAX),
    Value("undo", "false if nothing has to be kept for an undo", SWITCH),
    Value("preview", "true to return the effect without doing it", SWITCH),
)
MANAGE: Final = (Need("manage", "queue"),)
OPERATION_SCHEMA: Final = object_of(id=COUNT, vhost=TEXT_SCHEMA, queue=TEXT_SCHEMA, operation=TEXT_SCHEMA)
PAUSE_SCHEMA: Final = object_of(paused=SWITCH_SCHEMA, changed=SWITCH_SCHEMA)

RESOURCES: Final = (
    Resource(
        "queues/{vhost}/{queue}/operations",
        "messages",
        (
            Method(
                "GET",
                "list_operations",
                "Operations on messages of the queue, the newest first.",
                list_operations,
                parameters=PAGES,
                answers={200: Answer("A page of operations.", page_of(OPERATION_SCHEMA))},
            ),
            Method(
                "POST",
                "start_operation",
                "Begin an operation on messages of the queue, or preview it.",
                start_operation,
                needs=MANAGE,
                body=Fields(FIELDS),
                answers={
                    200: Answer("The effect that the operation would have."),
                    202: Answer("The operation has begun; Location has its path.", OPERATION_SCHEMA),
                },
                further=(
                    "move, copy, and a selector, text, key or routing_key: browse on the queue; move and copy: write "
                    "on the destination; retry: write on all queues"
                ),
            ),
        ),
    ),
    Resource(
        "queues/{vhost}/{queue}/operations/{operation}",
        "messages",
        (
            Method(
                "GET",
                "get_operation",
                "One operation with its progress and a page of its changed messages.",
                get_operation,
                parameters=PAGES,
                answers={200: Answer("The operation.", OPERATION_SCHEMA)},
            ),
            Method(
                "DELETE",
                "cancel_operation",
                "Cancel an operation; its changes stay.",
                cancel_operation,
                needs=MANAGE,
                answers={200: Answer("The operation as it ended.", OPERATION_SCHEMA)},
            ),
        ),
    ),
    Resource(
        "queues/{vhost}/{queue}/pause",
        "queues",
        (
            Method(
                "POST",
                "pause_queue",
                "Stop dispatch of a queue.",
                pause,
                needs=MANAGE,
                body=Fields(()),
                answers={200: Answer("The queue is paused.", PAUSE_SCHEMA)},
            ),
        ),
    ),
    Resource(
        "queues/{vhost}/{queue}/resume",
        "queues",
        (
            Method(
                "POST",
                "resume_queue",
                "End the pause of a queue.",
                resume,
                needs=MANAGE,
                body=Fields(()),
                answers={200: Answer("The queue delivers.", PAUSE_SCHEMA)},
            ),
        ),
    ),
    Resource(
        "queues/{vhost}/{queue}/reset-groups",
        "queues",
        (
            Method(
                "POST",
                "reset_groups",
                "End the assignment of message groups to consumers.",
                reset,
                needs=MANAGE,
                body=Fields((Value("group", "a group; none for all", TEXT),)),
                answers={200: Answer("How many groups were assigned.", object_of(count=COUNT))},
            ),
        ),
    ),
)
