"""``GET /api/v1/console/stream``: the figures of open pages as server-sent events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from annulet.admin.console.streams import EventStream
from annulet.admin.console.topics import LOG, read_topics
from annulet.admin.interface.operations import Answer, Operation, Resource
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import require_all_hosts, session_of
from annulet.admin.requests.bodies import INTEGER

if TYPE_CHECKING:
    from annulet.admin.console.streams import ConsoleStreams
    from annulet.admin.interface.call import Call


async def stream(call: Call) -> Response:
    """Answer events with snapshots of the topics, once a second, for as long as the user may have them."""
    topics = read_topics(call.parameters["topics"])
    if call.request.method == "HEAD":
        return Response(media_type=EventStream.media_type)
    if LOG in {topic.kind for topic in topics}:
        require_all_hosts(call.user, "the log")
    streams: ConsoleStreams = call.request.app.state.streams
    viewer = streams.open(call.user, session_of(call.request), topics)
    return EventStream(streams, viewer, call.parameters["samples"])


RESOURCES: Final = (
    Resource(
        "console/stream",
        "broker",
        (
            Operation(
                "GET",
                "console_stream",
                "Figures of open pages once a second, as server-sent events.",
                stream,
                parameters=(
                    Value(
                        "topics",
                        "topics with commas between: overview, log, queues:VHOST, queue:VHOST/NAME",
                        required=True,
                        example="overview",
                    ),
                    Value("samples", "the samples after which the answer ends, 0 for no end", INTEGER, default=0),
                ),
                answers={200: Answer("Events without an end.", None)},
                further="a virtual host that the user does not see is answered as gone; the log takes one of the tags "
                "administrator and monitoring",
            ),
        ),
    ),
)
