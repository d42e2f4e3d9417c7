"""``/api/v1/traces`` and ``/api/v1/traces/{connection}``: protocol traces of single connections, for administrators.

A trace shows no bodies unless ``bodies`` asks for them, and no passwords and tokens in any case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.access import ADMINISTRATORS, broker_of, require_still, require_user, require_writer
from annulet.admin.requests.bodies import INTEGER, SWITCH, read_fields
from annulet.admin.requests.parameters import PAGE_PARAMETERS, path_segments, read_integer, read_page, read_parameters
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.audit import audit_access
from annulet.broker.observing.traces import TRACE_BYTES, TRACE_SECONDS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.broker.broker import Broker
    from annulet.broker.connections.transport import AnyConnection
    from annulet.broker.observing.traces import Trace

METHODS: Final = ("GET", "PUT", "DELETE")

DEPTH: Final = 4
"""api, v1, traces, connection."""

LINES_MAX: Final = 500
"""Lines of one answer: 100 KiB."""


async def list_traces(request: Request) -> Response:
    """A page of the traces, without their lines."""
    await require_user(request, ADMINISTRATORS)
    page = read_page(read_parameters(request, PAGE_PARAMETERS))
    found = broker_of(request).traces.all()
    items = [_described(trace) for trace in page.take(found)]
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(found)))


async def answer(request: Request) -> Response:
    """Begin a trace (PUT), read its lines after number ``after`` (GET), or end it and drop its lines (DELETE)."""
    reading = request.method in {"GET", "HEAD"}
    user = await (require_user if reading else require_writer)(request, ADMINISTRATORS)
    segments = path_segments(request)
    if len(segments) != DEPTH:
        raise ResourceError(404, "the path is /api/v1/traces/CONNECTION; write a slash within a name as %2F")
    name, broker = segments[-1], broker_of(request)
    if request.method == "DELETE":
        read_parameters(request, ())
        trace = broker.traces.get(name)
        broker.traces.forget(name)
        audit_access(broker, user, "end-trace", name)
        return json_response(_described(trace))
    if request.method == "PUT":
        read_parameters(request, ())
        given = await read_fields(request, {"seconds": INTEGER, "bytes": INTEGER, "bodies": SWITCH})
        require_still(request)
        trace = broker.traces.start(
            _connection(broker, name),
            by=user.name,
            seconds=given.get("seconds", TRACE_SECONDS),
            bytes_max=given.get("bytes", TRACE_BYTES),
            bodies=given.get("bodies", False),
        )
        audit_access(broker, user, "trace", name, given)
        return json_response(_described(trace), 201)
    after = read_integer(read_parameters(request, ("after",)), "after", 0, 0)
    trace = broker.traces.get(name)
    lines = [{"number": line.number, "at": line.at, "text": line.text} for line in trace.lines(after, LINES_MAX)]
    return json_response({**_described(trace), "lines": lines})


def _connection(broker: Broker, name: str) -> AnyConnection:
    for connection in broker.connections:
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
