"""``/api/v1/tokens`` and ``/api/v1/tokens/{user}/{name}``: tokens for automation, with a scope and an end.

Administrators manage the tokens of all users; other users of the API their own, after a login with their password.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.admin.requests.access import (
    ADMINISTRATOR,
    API_TAGS,
    broker_of,
    require_still,
    require_user,
    require_writer,
)
from annulet.admin.requests.bodies import INTEGER, TEXTS, read_fields
from annulet.admin.requests.parameters import (
    INTEGER_MAX,
    PAGE_PARAMETERS,
    path_segments,
    read_page,
    read_parameters,
)
from annulet.admin.requests.responses import ResourceError, json_response
from annulet.admin.resources.access_changes import AccessChanges
from annulet.broker.security.tokens import OPERATIONS, TokenScope

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.broker.security.authentication import User
    from annulet.store.database.definitions import TokenRecord

METHODS: Final = ("GET", "PUT", "DELETE")

DEPTH: Final = 5
"""api, v1, tokens, user, name."""

SECONDS_MOST: Final = 10 * 366 * 24 * 3600
"""The longest life of a token that ends: ten years."""


async def list_tokens(request: Request) -> Response:
    """A page of the tokens that the user may manage, without their texts. Filter: ``user``."""
    user = await require_user(request)
    parameters = read_parameters(request, (*PAGE_PARAMETERS, "user"))
    page = read_page(parameters)
    owner = parameters.get("user")
    every = [token for token in broker_of(request).access_directory.tokens() if _may_manage(user, token.user)]
    found = [token for token in every if owner in {None, token.user}]
    items = [_described(token) for token in page.take(found)]
    return json_response(page.envelope(items, filtered_count=len(found), total_count=len(every)))


async def answer(request: Request) -> Response:
    """Answer for one token. ``PUT`` makes it, or another text for it, and is the only answer that has the text."""
    reading = request.method in {"GET", "HEAD"}
    user = await (require_user if reading else require_writer)(request, API_TAGS)
    segments = path_segments(request)
    read_parameters(request, ())
    if len(segments) != DEPTH:
        raise ResourceError(404, "the path is /api/v1/tokens/USER/NAME; write a slash within a name as %2F")
    owner, name = segments[-2:]
    if not _may_manage(user, owner):
        raise ResourceError(403, f"the tokens of user {owner!r} are for administrators, and for it with its password")
    changes = AccessChanges(request, user)
    directory = broker_of(request).access_directory
    if request.method == "DELETE":
        changes.delete_token(owner, name)
        return json_response({"user": owner, "name": name, "deleted": True})
    if request.method == "PUT":
        scope, expires_at = await _read(request)
        text = changes.make_token(owner, name, scope, expires_at)
        return json_response({**_described(directory.token(owner, name)), "token": text}, 201)
    return json_response(_described(directory.token(owner, name)))


def _may_manage(user: User, owner: str) -> bool:
    """Return whether a user manages the tokens of ``owner``: a token makes no tokens that may more than itself."""
    if user.token:
        return False
    return ADMINISTRATOR in user.tags or user.name == owner


async def _read(request: Request) -> tuple[TokenScope, int]:
    """Return scope and end of a body. ``seconds``: the life from now, in place of ``expires_at``."""
    known = {"operations": TEXTS, "virtual_hosts": TEXTS, "tags": TEXTS, "expires_at": INTEGER, "seconds": INTEGER}
    given = await read_fields(request, known)
    require_still(request)
    expires_at = given.get("expires_at", 0)
    if not 0 <= expires_at <= INTEGER_MAX:
        raise ResourceError(400, f"field 'expires_at' is {expires_at}; give milliseconds since 1970, or 0 for never")
    if "seconds" in given:
        if "expires_at" in given or not 0 < given["seconds"] <= SECONDS_MOST:
            raise ResourceError(400, f"field 'seconds': give 1 to {SECONDS_MOST}, without 'expires_at'")
        expires_at = broker_of(request).clock() + given["seconds"] * 1000
    scope = TokenScope(
        tuple(given.get("operations", OPERATIONS)), tuple(given.get("virtual_hosts", ())), tuple(given.get("tags", ()))
    )
    return scope, expires_at


def _described(token: TokenRecord) -> dict[str, Any]:
    scope = msgspec.json.decode(token.scope, type=TokenScope)
    return {
        "user": token.user,
        "name": token.name,
        "operations": scope.operations,
        "virtual_hosts": scope.virtual_hosts,
        "tags": scope.tags,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
    }
