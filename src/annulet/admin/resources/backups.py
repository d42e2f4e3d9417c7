"""``/api/v1/backups``: take a backup of the running broker, and how far it is.

Only for administrators on the broker's machine, because the broker writes files at the given place.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from annulet.admin.requests.access import ADMINISTRATOR, broker_of, require_user, require_writer
from annulet.admin.requests.bodies import TEXT, read_fields, required
from annulet.admin.requests.local_requests import is_local
from annulet.admin.requests.parameters import PAGE_PARAMETERS, read_page, read_parameters
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.broker.broker import DEFAULT_HOST
from annulet.core.model.audit_trail import AuditEntry
from annulet.store.files.errors import BackupError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

ADMINISTRATORS: Final = frozenset({ADMINISTRATOR})


METHODS: Final = ("GET", "POST")


async def answer(request: Request) -> Response:
    """Begin a backup, or list them."""
    return await (start_backup(request) if request.method == "POST" else list_backups(request))


async def start_backup(request: Request) -> Response:
    """Begin a backup into ``directory``: 202 with its number; 409 with the remedy when it cannot be taken.

    403 for users without the tag, and for requests from other machines.
    """
    user = await require_writer(request, ADMINISTRATORS)
    read_parameters(request, ())
    if not is_local(request):
        raise ResourceError(403, "backups are taken from the broker's own machine; run annulet backup there")
    given = await read_fields(request, {"directory": TEXT})
    directory = required(given, "directory", "an absolute path of a directory that is empty or not there")
    if "\0" in directory:
        raise ResourceError(400, f"field 'directory' must be a path, and no path has NUL in it: {directory!r}")
    broker = broker_of(request)
    try:
        backup = await broker.backups.start(Path(directory))
    except BackupError as error:
        raise ResourceError(409, str(error)) from error
    entry = AuditEntry(broker.clock(), DEFAULT_HOST, user.name, "backup", directory, outcome="started")
    broker.hosts[DEFAULT_HOST].effects.audited(entry)
    return json_response(backup.as_dict(), 202, {"Location": f"/api/v1/backups/{backup.number}"})


async def list_backups(request: Request) -> Response:
    """A page of the backups of this run that are remembered, the newest first."""
    await require_user(request, ADMINISTRATORS)
    page = read_page(read_parameters(request, PAGE_PARAMETERS))
    found = broker_of(request).backups.list()
    items = [backup.as_dict() for backup in page.take(found)]
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(found)))


async def get_backup(request: Request) -> Response:
    """One backup with its progress; 404 when it is not remembered."""
    await require_user(request, ADMINISTRATORS)
    read_parameters(request, ())
    number = request.path_params["number"]
    for backup in broker_of(request).backups.list():
        if backup.number == number:
            return json_response(backup.as_dict())
    raise ResourceError(404, f"no backup {number} is remembered; GET /api/v1/backups lists them")
