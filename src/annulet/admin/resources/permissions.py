"""``/api/v1/permissions`` and ``/api/v1/permissions/{vhost}/{user}``: permissions of users in virtual hosts.

For administrators.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.access import ADMINISTRATORS, broker_of, require_user, require_writer
from annulet.admin.requests.bodies import TEXT, read_fields, required
from annulet.admin.requests.parameters import PAGE_PARAMETERS, path_segments, read_page, read_parameters
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.access_changes import AccessChanges
from annulet.store.database.definitions import PermissionRecord

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

METHODS: Final = ("GET", "PUT", "DELETE")

DEPTH: Final = 5
"""api, v1, permissions, virtual host, user."""

KINDS: Final = ("configure", "write", "read")
FURTHER_KINDS: Final = ("browse", "manage")
"""Beside RabbitMQ's three; they allow nothing more where they are left out."""


async def list_permissions(request: Request) -> Response:
    """A page of permissions, by user and virtual host. Filters: ``vhost``, ``user``."""
    await require_user(request, ADMINISTRATORS)
    parameters = read_parameters(request, (*PAGE_PARAMETERS, "vhost", "user"))
    page = read_page(parameters)
    every = broker_of(request).access_directory.permissions()
    host, user = parameters.get("vhost"), parameters.get("user")
    found = [record for record in every if host in {None, record.virtual_host} and user in {None, record.user}]
    items = [_described(record) for record in page.take(found)]
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(every)))


async def answer(request: Request) -> Response:
    """Answer for one user in one virtual host."""
    reading = request.method in {"GET", "HEAD"}
    user = await (require_user if reading else require_writer)(request, ADMINISTRATORS)
    segments = path_segments(request)
    read_parameters(request, ())
    if len(segments) != DEPTH:
        raise ResourceError(404, "the path is /api/v1/permissions/VHOST/USER; write a slash within a name as %2F")
    host, name = segments[-2:]
    changes = AccessChanges(request, user)
    if request.method == "DELETE":
        changes.delete_permission(name, host)
        return json_response({"vhost": host, "user": name, "deleted": True})
    if request.method == "PUT":
        given = await read_fields(request, dict.fromkeys((*KINDS, *FURTHER_KINDS), TEXT))
        texts = [required(given, kind, "a regular expression for names; '' allows nothing") for kind in KINDS]
        further = {kind: given[kind] for kind in FURTHER_KINDS if kind in given}
        record = PermissionRecord(name, host, *texts, **further)
        return json_response(_described(record), 201 if changes.put_permission(record) else 200)
    return json_response(_described(broker_of(request).access_directory.permission(name, host)))


def _described(record: PermissionRecord) -> dict[str, Any]:
    item = {name: value for name, value in asdict(record).items() if value or name not in FURTHER_KINDS}
    item["vhost"] = item.pop("virtual_host")
    return item
