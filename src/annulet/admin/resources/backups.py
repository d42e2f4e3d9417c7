"""``/api/v1/backups``: take a backup of the running broker, and how far it is.

Only for administrators on the broker's machine, because the broker writes files at the given place.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import COUNT, object_of, page_of
from annulet.admin.interface.values import PAGES, Value
from annulet.admin.requests.access import ADMINISTRATORS
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.broker.broker import DEFAULT_HOST
from annulet.core.model.audit_trail import AuditEntry
from annulet.store.files.errors import BackupError

if TYPE_CHECKING:
    from starlette.responses import Response

    from annulet.admin.interface.call import Call


async def start_backup(call: Call) -> Response:
    """Begin a backup into ``directory``: 202 with its number; 409 with the remedy when it cannot be taken."""
    broker, directory = call.broker, call.fields["directory"]
    if "\0" in directory:
        raise ResourceError(400, f"field 'directory' must be a path, and no path has NUL in it: {directory!r}")
    try:
        backup = await broker.backups.start(Path(directory))
    except BackupError as error:
        raise ResourceError(409, str(error)) from error
    entry = AuditEntry(call.now, DEFAULT_HOST, call.user.name, "backup", directory, outcome="started")
    broker.hosts[DEFAULT_HOST].effects.audited(entry)
    return json_response(backup.as_dict(), 202, {"Location": f"/api/v1/backups/{backup.number}"})


async def list_backups(call: Call) -> Response:
    """A page of the backups of this run that are remembered, the newest first."""
    page = call.page
    found = call.broker.backups.list()
    items = [backup.as_dict() for backup in page.take(found)]
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(found)))


async def get_backup(call: Call) -> Response:
    """One backup with its progress; 404 when it is not remembered."""
    number = call.names["number"]
    for backup in call.broker.backups.list():
        if str(backup.number) == number:
            return json_response(backup.as_dict())
    raise ResourceError(404, f"no backup {number!r} is remembered; GET /api/v1/backups lists them")


BACKUP_SCHEMA: Final = object_of(number=COUNT)
DIRECTORY: Final = Value(
    "directory",
    "an absolute path of a directory that is empty or not there",
    required=True,
    example="/var/backups/annulet",
)

RESOURCES: Final = (
    Resource(
        "backups",
        "broker",
        (
            Operation(
                "GET",
                "list_backups",
                "Backups of this run that are remembered, the newest first.",
                list_backups,
                tags=ADMINISTRATORS,
                parameters=PAGES,
                answers={200: Answer("A page of backups.", page_of(BACKUP_SCHEMA))},
            ),
            Operation(
                "POST",
                "start_backup",
                "Begin a backup; the broker writes it at the given place.",
                start_backup,
                tags=ADMINISTRATORS,
                body=Fields((DIRECTORY,)),
                answers={202: Answer("The backup has begun; Location has its path.", BACKUP_SCHEMA)},
                local=True,
            ),
        ),
    ),
    Resource(
        "backups/{number}",
        "broker",
        (
            Operation(
                "GET",
                "get_backup",
                "One backup with its progress.",
                get_backup,
                tags=ADMINISTRATORS,
                answers={200: Answer("The backup.", BACKUP_SCHEMA)},
            ),
        ),
    ),
)
