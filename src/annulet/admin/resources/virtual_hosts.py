"""``/api/v1/virtual-hosts`` and ``/api/v1/virtual-hosts/{name}``: virtual hosts and their limits.

Users of the API see those they may enter; administrators make, describe and delete them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.access import (
    ADMINISTRATORS,
    broker_of,
    chosen_hosts,
    require_user,
    require_writer,
    visible_hosts,
)
from annulet.admin.requests.bodies import OBJECT, TEXT, TEXTS, read_fields
from annulet.admin.requests.parameters import PAGE_PARAMETERS, path_segments, read_page, read_parameters
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.access_changes import AccessChanges, limits_of
from annulet.store.database.definitions import VIRTUAL_HOST

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.core.host.virtual_host import VirtualHost

METHODS: Final = ("GET", "PUT", "DELETE")

DEPTH: Final = 4
"""api, v1, virtual-hosts, name."""


async def list_virtual_hosts(request: Request) -> Response:
    """A page of the virtual hosts that the user may see. Filter: ``name``, a part of it."""
    user = await require_user(request)
    parameters = read_parameters(request, (*PAGE_PARAMETERS, "name"))
    page = read_page(parameters)
    every = visible_hosts(request, user)
    found = [host for host in every if parameters.get("name", "") in host.name]
    items = [_described(request, host) for host in page.take(found)]
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(every)))


async def answer(request: Request) -> Response:
    """Answer for one virtual host."""
    reading = request.method in {"GET", "HEAD"}
    user = await (require_user(request) if reading else require_writer(request, ADMINISTRATORS))
    segments = path_segments(request)
    read_parameters(request, ())
    if len(segments) != DEPTH:
        raise ResourceError(404, "the path is /api/v1/virtual-hosts/NAME; write a slash within a name as %2F")
    name = segments[-1]
    changes = AccessChanges(request, user)
    if request.method == "DELETE":
        done = await changes.delete_virtual_host(name)
        return json_response({"name": name, "deleted": done}, 200 if done else 202)
    if request.method == "PUT":
        return await _put(request, changes, name)
    return json_response(_described(request, chosen_hosts(request, user, name)[0]))


async def _put(request: Request, changes: AccessChanges, name: str) -> Response:
    given = await read_fields(request, {"description": TEXT, "tags": TEXTS, "limits": OBJECT})
    broker = broker_of(request)
    known = broker.virtual_hosts.record(name) if name in broker.hosts else None
    description = given.get("description", "" if known is None else known.description)
    tags = tuple(given.get("tags", () if known is None else known.tags))
    made = changes.put_virtual_host(name, description, tags)
    for limit, value in given.get("limits", {}).items():
        changes.set_limit(VIRTUAL_HOST, name, limit, value)
    return json_response(_described(request, broker.hosts[name]), 201 if made else 200)


def _described(request: Request, host: VirtualHost) -> dict[str, Any]:
    broker = broker_of(request)
    record = broker.virtual_hosts.records.get(host.name)
    return {
        "name": host.name,
        "description": "" if record is None else record.description,
        "tags": () if record is None else record.tags,
        "deleting": record is not None and record.deleting,
        "limits": limits_of(request, VIRTUAL_HOST, host.name),
        "queues": len(host.listed_queues()),
        "connections": broker.admission.by_host[host.name],
    }
