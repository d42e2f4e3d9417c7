"""``/api/v1/users`` and ``/api/v1/users/{name}``: users, their tags, passwords and limits. For administrators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.requests.access import ADMINISTRATORS, broker_of, require_user, require_writer
from annulet.admin.requests.bodies import OBJECT, TEXT, TEXTS, read_fields
from annulet.admin.requests.parameters import PAGE_PARAMETERS, path_segments, read_page, read_parameters, read_switch
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.access_changes import AccessChanges, limits_of
from annulet.broker.security.password_hashes import describe_hash
from annulet.broker.settings.configuration import TAGS, nearest_name
from annulet.store.database.definitions import OF_FILE, USER

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.store.database.definitions import UserRecord

METHODS: Final = ("GET", "PUT", "DELETE")

DEPTH: Final = 4
"""api, v1, users, name."""

RUN_TIME: Final = "run time"


async def list_users(request: Request) -> Response:
    """A page of users by name. Filters: ``name``, a part of it."""
    await require_user(request, ADMINISTRATORS)
    parameters = read_parameters(request, (*PAGE_PARAMETERS, "name"))
    page = read_page(parameters)
    users = broker_of(request).access_directory.users()
    found = [user for user in users if parameters.get("name", "") in user.name]
    items = [_described(request, user) for user in page.take(found)]
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(users)))


async def answer(request: Request) -> Response:
    """Answer for one user. ``force=true`` of a change: also if no administrator is left."""
    reading = request.method in {"GET", "HEAD"}
    user = await (require_user if reading else require_writer)(request, ADMINISTRATORS)
    segments = path_segments(request)
    if len(segments) != DEPTH:
        raise ResourceError(404, "the path is /api/v1/users/NAME; write a slash within a name as %2F")
    name = segments[-1]
    force = read_switch(read_parameters(request, () if reading else ("force",)), "force")
    directory = broker_of(request).access_directory
    changes = AccessChanges(request, user)
    if request.method == "DELETE":
        changes.delete_users([name], force=force)
        return json_response({"name": name, "deleted": True})
    if request.method == "PUT":
        return await _put(request, changes, name, force=force)
    return json_response(_described(request, directory.user(name)))


async def _put(request: Request, changes: AccessChanges, name: str, *, force: bool) -> Response:
    known = {"tags": TEXTS, "password": TEXT, "password_hash": TEXT, "hashing_algorithm": TEXT, "limits": OBJECT}
    given = await read_fields(request, known)
    directory = broker_of(request).access_directory
    former = {user.name: user.tags for user in directory.users()}
    tags = given.get("tags", former.get(name, ()))
    for tag in tags:
        if tag not in TAGS and tag not in former.get(name, ()):
            raise ResourceError(400, f"field 'tags': unknown tag {tag!r}{nearest_name(tag, dict.fromkeys(TAGS))}")
    made = await changes.put_user(
        name,
        tags,
        password=given.get("password"),
        password_hash=given.get("password_hash"),
        algorithm=given.get("hashing_algorithm"),
        force=force,
    )
    for limit, value in given.get("limits", {}).items():
        changes.set_limit(USER, name, limit, value)
    return json_response(_described(request, directory.user(name)), 201 if made else 200)


def _described(request: Request, user: UserRecord) -> dict[str, Any]:
    """Return a user without its hash. ``source`` says where it is changed: in the file, or here."""
    broker = broker_of(request)
    return {
        "name": user.name,
        "tags": list(user.tags),
        "has_password": bool(user.password_hash),
        "hashing_algorithm": describe_hash(user.password_hash)[1] if user.password_hash else None,
        "source": OF_FILE if user.source == OF_FILE else RUN_TIME,
        "limits": limits_of(request, USER, user.name),
        "connections": broker.admission.by_user[user.name],
    }
