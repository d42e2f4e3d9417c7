"""``/api/v1/traces`` and ``/api/v1/traces/{connection}``: protocol traces of single connections, for administrators.

A trace shows no bodies unless ``bodies`` asks for them, and no passwords and tokens in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import COUNT, SWITCH_SCHEMA, TEXT_SCHEMA, object_of, page_of
from annulet.admin.interface.values import PAGES, Value
from annulet.admin.requests.access import ADMINISTRATORS
from annulet.admin.requests.bodies import INTEGER, SWITCH
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit_access
from annulet.broker.observing.traces import TRACE_BYTES, TRACE_BYTES_MAX, TRACE_SECONDS, TRACE_SECONDS_MAX

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.connections.transport import AnyConnection
    from annulet.broker.observing.traces import Trace

LINES_MAX: Final = 500
"""Lines of one answer: 100 KiB."""


async def list_traces(call: Call) -> Response:
    """A page of the traces, without their lines."""
    page, found = call.page, call.broker.traces.all()
    items = [_described(trace) for trace in page.take(found)]
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(found)))


async def get_trace(call: Call) -> Response:
    """The lines of a trace after the number ``after``."""
    trace = call.broker.traces.get(call.names["connection"])
    lines = trace.lines(call.parameters["after"], LINES_MAX)
    found = [{"number": line.number, "at": line.at, "text": line.text} for line in lines]
    return json_response({**_described(trace), "lines": found})


async def put_trace(call: Call) -> Response:
    """Begin a trace."""
    name, given = call.names["connection"], call.fields
    trace = call.broker.traces.start(
        _connection(call, name),
        by=call.user.name,
        seconds=given.get("seconds", TRACE_SECONDS),
        bytes_max=given.get("bytes", TRACE_BYTES),
        bodies=given.get("bodies", False),
    )
    audit_access(call.broker, call.user, "trace", name, given)
    return json_response(_described(trace), 201)


async def delete_trace(call: Call) -> Response:
    """End a trace and drop its lines."""
    name = call.names["connection"]
    trace = call.broker.traces.get(name)
    call.broker.traces.forget(name)
    audit_access(call.broker, call.user, "end-trace", name)
    return json_response(_described(trace))


def _connection(call: Call, name: str) -> AnyConnection:
    for connection in call.broker.connections:
        if connection.name == name and connection.opened and not connection.lost:
            return connection
    raise ResourceError(404, f"no connection {name!r} is open; GET /api/connections has the names")


def _described(trace: Trace) -> dict[str, Any]:
    return {
        "connection": trace.name,
        "user": trace.user,
        "started_by": trace.by,
        "bodies": trace.bodies,
        "began_at": trace.began_at,
        "until": trace.until,
        "running": trace.running,
        "frames": trace.frames,
        "dropped": trace.dropped,
        "bytes": trace.bytes,
        "bytes_max": trace.bytes_max,
    }


TRACE_SCHEMA: Final = object_of(connection=TEXT_SCHEMA, running=SWITCH_SCHEMA, frames=COUNT, dropped=COUNT)
LINES_SCHEMA: Final = object_of(
    connection=TEXT_SCHEMA,
    running=SWITCH_SCHEMA,
    lines={"type": "array", "items": object_of(number=COUNT, at=COUNT, text=TEXT_SCHEMA)},
)

RESOURCES: Final = (
    Resource(
        "traces",
        "broker",
        (
            Operation(
                "GET",
                "list_traces",
                "Protocol traces, without their lines.",
                list_traces,
                tags=ADMINISTRATORS,
                parameters=PAGES,
                answers={200: Answer("A page of traces.", page_of(TRACE_SCHEMA))},
            ),
        ),
    ),
    Resource(
        "traces/{connection}",
        "broker",
        (
            Operation(
                "GET",
                "get_trace",
                "A protocol trace with its lines, one for each frame.",
                get_trace,
                tags=ADMINISTRATORS,
                parameters=(Value("after", "the number of the last known line", INTEGER, default=0),),
                answers={200: Answer("The trace and its lines.", LINES_SCHEMA)},
            ),
            Operation(
                "PUT",
                "put_trace",
                "Trace the frames of a connection, for a time, without bodies unless they are asked for.",
                put_trace,
                tags=ADMINISTRATORS,
                body=Fields(
                    (
                        Value("seconds", "for how long", INTEGER, 1, TRACE_SECONDS_MAX),
                        Value("bytes", "the size of the lines that are kept", INTEGER, 1, TRACE_BYTES_MAX),
                        Value("bodies", "whether the first octets of bodies are shown", SWITCH),
                    )
                ),
                answers={201: Answer("The trace has begun.", TRACE_SCHEMA)},
            ),
            Operation(
                "DELETE",
                "delete_trace",
                "End a trace and drop its lines.",
                delete_trace,
                tags=ADMINISTRATORS,
                answers={200: Answer("The trace has ended.", TRACE_SCHEMA)},
            ),
        ),
    ),
)
