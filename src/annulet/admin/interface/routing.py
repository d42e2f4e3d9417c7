"""The route table of ``/api/v1``: finds the operation of a request, and checks everything that can be known before it.

The order is the same for all operations: method, origin, login, tag, virtual host, permissions on names of the path,
query parameters, body, entity tags. A refusal for want of a permission comes before anything is looked up.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from annulet.admin.interface.call import Call
from annulet.admin.interface.entity_tags import entity_tag, is_known, require_match
from annulet.admin.interface.operations import VHOST_NAME, Fields, Members
from annulet.admin.requests.access import broker_of, require_tag, require_user, require_writer
from annulet.admin.requests.bodies import read_fields, read_object
from annulet.admin.requests.local_requests import is_local
from annulet.admin.requests.parameters import read_parameters
from annulet.admin.requests.paths import PathTable, decode_segment, raw_segments
from annulet.admin.requests.responses import ResourceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.requests import Request

    from annulet.admin.interface.operations import Operation, Resource
    from annulet.broker.security.authentication import User

PREFIX: Final = "/api/v1"
PREFIX_SEGMENTS: Final = 2

METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
"""Methods that come here; those that no operation has are refused with the ones that it has."""

DATA_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
}
"""Of all answers: bodies of messages are of strangers, and a browser with a session must not run them as a page."""

CONDITIONS: Final = ("if-match", "if-none-match")


class RouteTable:
    """All resources by their paths."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.resources = tuple(resources)
        self._paths = PathTable((resource.path, resource) for resource in self.resources)

    async def answer(self, request: Request) -> Response:
        """Answer a request. ``Server-Timing`` has the processor time of the loop until its answer is there."""
        begun = time.thread_time()
        resource, encoded = self._found(raw_segments(request)[PREFIX_SEGMENTS:])
        operation = resource.operation(request.method)
        if operation is None:
            allowed = resource.methods
            raise ResourceError(
                405, f"{request.method} is not for {PREFIX}/{resource.path}; use {allowed}", {"Allow": allowed}
            )
        user = await _user(request, operation)
        call = Call(request, broker_of(request), user, _names(encoded))
        _require_permissions(call, operation)
        call.parameters = _read_parameters(request, operation)
        call.fields = await _read_body(request, operation)
        _check_conditions(call, resource, operation)
        response = _tagged(call, resource, operation, await operation.handler(call))
        response.headers.update(DATA_HEADERS)
        response.headers["Server-Timing"] = f"loop;dur={(time.thread_time() - begun) * 1000:.2f}"
        return response

    def _found(self, segments: list[str]) -> tuple[Resource, dict[str, str]]:
        found = self._paths.match(segments)
        if found is None:
            hint = self._paths.nearest(segments)
            raise ResourceError(404, f"no resource at this path{hint}; write a slash within a name as %2F")
        return found


def _names(encoded: dict[str, str]) -> dict[str, str]:
    return {name: decode_segment(name, segment) for name, segment in encoded.items()}


async def _user(request: Request, operation: Operation) -> User:
    """Return the user; 401 without valid credentials, 403 without a tag of the operation or from elsewhere."""
    if operation.login is not None:
        user = await operation.login(request)
        require_tag(user, operation.allowed_tags)
        return user
    if not operation.changes:
        return await require_user(request, operation.allowed_tags)
    user = await require_writer(request, operation.allowed_tags)
    if operation.local and not is_local(request):
        raise ResourceError(403, f"{operation.name} is for requests from the broker's own machine; send it there")
    return user


def _require_permissions(call: Call, operation: Operation) -> None:
    if VHOST_NAME in call.names:
        host = call.host()
        access = call.access(host)
        for need in operation.needs:
            access.require(need.permission, call.names[need.name])


def _read_parameters(request: Request, operation: Operation) -> dict[str, Any]:
    """Return the query parameters with their defaults; one without a default that is not given is not there."""
    known = {value.name: value for value in operation.parameters}
    given = read_parameters(request, tuple(known))
    values = {name: value.default for name, value in known.items() if value.default is not None}
    for name, text in given.items():
        values[name] = known[name].read(text)
    for name, value in known.items():
        if value.required and name not in given:
            raise ResourceError(400, f"query parameter {name!r} is missing; give {value.text}")
    return values


async def _read_body(request: Request, operation: Operation) -> dict[str, Any]:
    if operation.login is not None:
        return {}
    if isinstance(operation.body, Members):
        return await read_object(request)
    if not isinstance(operation.body, Fields):
        return {}
    known = {value.name: value for value in operation.body.values}
    given = await read_fields(request, {name: value.kind for name, value in known.items()})
    for name, value in known.items():
        if value.required and name not in given:
            raise ResourceError(400, f"field {name!r} is missing; give {value.text}")
        if name in given:
            value.check(given[name])
    return given


def _check_conditions(call: Call, resource: Resource, operation: Operation) -> None:
    if not operation.changes or not any(name in call.request.headers for name in CONDITIONS):
        return
    if resource.revision is None:
        raise ResourceError(400, f"{PREFIX}/{resource.path} has no entity tags; leave If-Match and If-None-Match out")
    require_match(call.request, resource.revision(call))


def _tagged(call: Call, resource: Resource, operation: Operation, response: Response) -> Response:
    """Return an answer with its entity tag, or 304 for one that the client has."""
    if resource.revision is None or operation.method == "DELETE" or response.status_code >= 300:
        return response
    revision = resource.revision(call)
    if revision is None:
        return response
    tag = entity_tag(revision, bytes(response.body))
    if not operation.changes and is_known(call.request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return response
