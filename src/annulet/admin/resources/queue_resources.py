"""Everything below ``/api/v1/queues/{vhost}/{name}``: which resource and method is answered by what.

Paths are taken apart before they are decoded, so that names may contain slashes; a router's patterns cannot do that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from annulet.admin.requests.parameters import path_segments
from annulet.admin.requests.responses import ResourceError
from annulet.admin.resources import messages, operations, queues, undo, why_not
from annulet.admin.resources.queues import PATH_DEPTH
from annulet.broker.settings.configuration import nearest_name

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

Handler: TypeAlias = "Callable[[Request], Awaitable[Response]]"

OPERATION: Final = "operations/ID"
MESSAGE: Final = "messages/ID"
UNDO: Final = "undo/TOKEN"
NAMED: Final = {"operations": OPERATION, "messages": MESSAGE, "undo": UNDO}

RESOURCES: Final[dict[str, dict[str, Handler]]] = {
    "": {"GET": queues.get_queue, "PATCH": queues.change_queue},
    "messages": {"GET": messages.list_messages},
    MESSAGE: {"GET": messages.get_message},
    "why-not": {"GET": why_not.explain_consumers},
    "operations": {"GET": operations.list_operations, "POST": operations.start_operation},
    OPERATION: {"GET": operations.get_operation, "DELETE": operations.cancel_operation},
    "undo": {"GET": undo.list_undoable},
    UNDO: {"POST": undo.undo},
    "pause": {"POST": operations.pause},
    "resume": {"POST": operations.resume},
    "reset-groups": {"POST": operations.reset},
}
"""By the path after the queue's name, and by method."""

METHODS: Final = ("GET", "POST", "PATCH", "DELETE")


async def answer(request: Request) -> Response:
    """Pass a request to its resource; 404 for an unknown path, 405 for a method it does not have."""
    segments = path_segments(request)
    resource = _resource(segments)
    handlers = RESOURCES[resource]
    handler = handlers.get("GET" if request.method == "HEAD" else request.method)
    if handler is None:
        allowed = ", ".join(handlers)
        raise ResourceError(
            405, f"{request.method} is not for {resource or 'a queue'}; use {allowed}", {"Allow": allowed}
        )
    return await handler(request)


def _resource(segments: list[str]) -> str:
    rest = segments[PATH_DEPTH:]
    if len(segments) < PATH_DEPTH:
        raise ResourceError(404, "the path is /api/v1/queues/VHOST/NAME; write a slash within a name as %2F")
    if len(rest) == 2 and rest[0] in NAMED:
        return NAMED[rest[0]]
    name = "/".join(rest)
    if name not in RESOURCES:
        hint = nearest_name(name, {known: None for known in RESOURCES if known})
        raise ResourceError(404, f"a queue has nothing called {name!r}{hint}; write a slash within a name as %2F")
    return name
