"""``/api/v1/session``: signing in to the web console and out of it, and the user that is signed in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from annulet.admin.interface.operations import Answer, Fields, Operation, Resource
from annulet.admin.interface.schemas import ANY_OBJECT, COUNT, TEXT_SCHEMA, object_of
from annulet.admin.interface.values import Value
from annulet.admin.requests.access import (
    API_TAGS,
    cookie_name,
    log_in,
    require_own_page,
    require_session,
    session_of,
    session_text,
    visible_hosts,
)
from annulet.admin.requests.bodies import TEXT, read_fields, required
from annulet.admin.requests.responses import json_response
from annulet.broker.security.authentication import PERMISSION_KINDS
from annulet.broker.security.web_sessions import SESSION_SECONDS
from annulet.broker.turns.list_turns import Turns
from annulet.core.base.errors import NotFound

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from annulet.admin.interface.call import Call
    from annulet.broker.security.authentication import User
    from annulet.broker.security.web_sessions import WebSession

SIGN_IN_BYTES_MAX: Final = 20 * 1024
"""The body of a sign-in, which is read before the login: the longest access token, or the longest name and password
with each octet escaped."""

MECHANISM: Final = "HTTP session"
"""The name of a sign-in in the log."""

NO_STORE: Final = {"Cache-Control": "no-store"}

CREDENTIALS: Final = (
    Value("user", "the name of a user; empty with a token", TEXT, required=True),
    Value("password", "its password, or a token", TEXT, required=True),
)


async def sign_in(request: Request) -> User:
    """Return the user of the name and password in the body. Failures wait as those of every login do."""
    require_own_page(request)
    given = await read_fields(request, {value.name: value.kind for value in CREDENTIALS}, SIGN_IN_BYTES_MAX)
    name, password = required(given, "user", "the name of a user"), required(given, "password", "its password")
    user = await log_in(request, name, password, mechanism=MECHANISM)
    request.state.user = user
    return user


async def user_of_session(request: Request) -> User:
    """Return the user of the cookie: only a session can be ended, whatever its user may change."""
    return require_session(request).user


async def begin_session(call: Call) -> Response:
    """Begin a session. Its text is always a new one; a session that the browser had before ends."""
    sessions, request = call.broker.web_sessions, call.request
    host = request.headers.get("host", "").lower()
    sessions.end_text(session_text(request))
    text, session = sessions.begin(call.user, host)
    response = json_response(await _described(call, session), headers=NO_STORE)
    _set_cookie(request, response, text)
    return response


async def get_session(call: Call) -> Response:
    """The user of the request, with its permissions; ``csrf`` is empty without a session."""
    return json_response(await _described(call, session_of(call.request)), headers=NO_STORE)


async def end_session(call: Call) -> Response:
    """End the session."""
    session = session_of(call.request)
    if session is not None:
        call.broker.web_sessions.end(session)
    response = json_response({"user": call.user.name, "ended": True}, headers=NO_STORE)
    _set_cookie(call.request, response, "")
    return response


def _set_cookie(request: Request, response: Response, text: str) -> None:
    """Set the cookie, or delete it with an empty text. No script reads it, and no other site's page sends it."""
    response.set_cookie(
        cookie_name(request),
        text,
        max_age=None if text else 0,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


async def _described(call: Call, session: WebSession | None) -> dict[str, Any]:
    return {
        "user": call.user.name,
        "tags": sorted(call.user.tags),
        "token": call.user.token,
        "csrf": "" if session is None else session.csrf,
        "ends_at": 0 if session is None else _end_of(session),
        "permissions": await _permissions(call),
        "scope": _scope(call.user),
    }


def _end_of(session: WebSession) -> int:
    """Return when a session ends at the latest, milliseconds since 1970."""
    end = session.begun_at + SESSION_SECONDS * 1000
    return min(end, session.user.expires_at) if session.user.expires_at else end


def _scope(user: User) -> dict[str, list[str]] | None:
    """Return what a token leaves of the rights of its user; ``None`` without a token, which leaves all."""
    if user.scope is None:
        return None
    return {"operations": sorted(user.scope.operations), "virtual_hosts": sorted(user.scope.virtual_hosts)}


async def _permissions(call: Call) -> list[dict[str, str]]:
    """Return the user's permissions in the virtual hosts that it sees, as regular expressions of names."""
    turns, found = Turns(), []
    for host in visible_hosts(call.request, call.user):
        given = _patterns(call, host.name)
        if given:
            found.append({"vhost": host.name} | {kind: given.get(kind, "") for kind in PERMISSION_KINDS})
        await turns.look()
    return found


def _patterns(call: Call, host: str) -> dict[str, str]:
    """Return the expression of each kind of permission; empty without any permission in the virtual host."""
    if call.user.grants is not None:
        return call.user.grants.patterns(host)
    try:
        record = call.broker.access_directory.permission(call.user.name, host)
    except NotFound:
        return {}
    return {kind: getattr(record, kind) for kind in PERMISSION_KINDS}


SESSION_SCHEMA: Final = object_of(
    user=TEXT_SCHEMA,
    tags={"type": "array", "items": TEXT_SCHEMA},
    csrf=TEXT_SCHEMA,
    ends_at=COUNT,
    permissions={"type": "array", "items": ANY_OBJECT},
)

RESOURCES: Final = (
    Resource(
        "session",
        "access",
        (
            Operation(
                "POST",
                "begin_web_session",
                "Sign in with a name and a password, and get a cookie in place of credentials.",
                begin_session,
                tags=API_TAGS,
                body=Fields(CREDENTIALS),
                answers={200: Answer("The session.", SESSION_SCHEMA)},
                further="the credentials are in the body; pages of other origins are refused",
                login=sign_in,
            ),
            Operation(
                "GET",
                "get_web_session",
                "The user of the request, with its tags and permissions.",
                get_session,
                answers={200: Answer("The user, and its session if it has one.", SESSION_SCHEMA)},
            ),
            Operation(
                "DELETE",
                "end_web_session",
                "Sign out.",
                end_session,
                tags=API_TAGS,
                answers={200: Answer("The session has ended.", object_of(user=TEXT_SCHEMA))},
                further="the cookie of a session",
                login=user_of_session,
            ),
        ),
    ),
)
