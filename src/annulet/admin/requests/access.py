"""Access rules of the HTTP interface.

Health is open to all. Metrics are open on this machine, and need credentials from elsewhere. A request is local if its
peer and its ``Host`` are of this machine: see :mod:`annulet.admin.requests.local_requests`.

The API asks for HTTP Basic credentials of a user with one of :data:`API_TAGS`. Users whose only tag is ``management``
see the virtual hosts they have permissions for; ``monitoring`` and ``administrator`` see all (RabbitMQ's meaning of the
tags).

Changes require the tag ``administrator``, or ``management`` and the permissions required by AMQP: see
:func:`access_of`. Reading messages requires the tag ``administrator``, or the permission to read their queue. A page of
another site cannot make a browser change anything with its user's credentials.

In place of credentials a request may have the cookie of a session (:mod:`annulet.broker.security.web_sessions`), which
the web console has. It counts only for pages of the broker's own ``Host``, and changes have to repeat a text that no
other page knows.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from annulet.admin.requests.local_requests import (
    came_over_loopback,
    is_local,
    origin_authority,
    peer_address,
    refused_origin,
)
from annulet.admin.requests.responses import ResourceError
from annulet.broker.connections.access import Access
from annulet.broker.network.listening import PeerFacts
from annulet.broker.security.token_grants import looks_like_access_token
from annulet.broker.security.tokens import is_token

if TYPE_CHECKING:
    from starlette.requests import Request

    from annulet.broker.broker import Broker
    from annulet.broker.security.authentication import User
    from annulet.broker.security.web_sessions import WebSession
    from annulet.core.host.virtual_host import VirtualHost

API_TAGS: Final = frozenset({"administrator", "monitoring", "management"})
ALL_HOSTS_TAGS: Final = frozenset({"administrator", "monitoring"})
ADMINISTRATOR: Final = "administrator"
ADMINISTRATORS: Final = frozenset({ADMINISTRATOR})
WRITE_TAGS: Final = frozenset({ADMINISTRATOR, "management"})
HOST_CHARACTERS_MAX: Final = 100
"""Characters of a ``Host`` or ``Origin``, which the peer chooses, that are repeated in an answer."""

CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="Annulet", charset="UTF-8"'}

SESSION_CHALLENGE: Final = {"WWW-Authenticate": 'Session realm="Annulet"'}
"""Of requests of a page, for which a browser must not ask for Basic credentials: it does not know the scheme."""

SESSION_COOKIE: Final = "annulet_session"
SECURE_COOKIE: Final = "__Host-annulet_session"
"""The same over TLS: a browser takes it from this very host only, and never from a page without TLS (RFC 6265bis)."""

CSRF_HEADER: Final = "x-csrf-token"
UNCHANGING: Final = frozenset({"GET", "HEAD"})
OWN_FETCHES: Final = frozenset({"same-origin", "none"})
"""``Sec-Fetch-Site`` of requests that a page of the broker's own makes, or the user by the address bar."""


class TagMissing(ResourceError):
    """The user is logged in, and has none of the tags that the request takes."""


def broker_of(request: Request) -> Broker:
    """Return the broker this application belongs to."""
    broker: Broker = request.app.state.broker
    return broker


async def require_user(request: Request, tags: frozenset[str] = API_TAGS) -> User:
    """Return the user of the request's credentials or session; 401 without valid ones, 403 without one of ``tags``."""
    if "authorization" not in request.headers and session_text(request):
        user = require_session(request).user
    else:
        user = await log_in(request, *read_credentials(request), mechanism="HTTP Basic")
    require_tag(user, tags)
    request.state.user = user
    return user


async def log_in(request: Request, name: str, password: str, *, mechanism: str) -> User:
    """Return the user of a name and a password, or of a token; 401 when they are wrong."""
    user = await broker_of(request).authenticator.login(name, password, peer=_peer_of(request), mechanism=mechanism)
    if user is None:
        reason = "user name or password is wrong, or the user may not connect from there"
        if came_over_loopback(request) and not is_local(request):
            host = request.headers.get("host", "")[:HOST_CHARACTERS_MAX]
            reason += f": Host {host!r} is no name of this machine; use localhost, or list it in 'local_host_names'"
        raise ResourceError(401, reason, challenge_of(request))
    return user


def _peer_of(request: Request) -> PeerFacts:
    port = 0 if request.client is None else request.client.port
    return PeerFacts(peer_address(request), port, is_local(request), request.url.scheme == "https")


def challenge_of(request: Request) -> dict[str, str]:
    """Return the header of a 401: pages sign in themselves, and no browser should ask for credentials over them."""
    is_page = "sec-fetch-mode" in request.headers and request.headers["sec-fetch-mode"] != "navigate"
    return SESSION_CHALLENGE if is_page or CSRF_HEADER in request.headers else CHALLENGE


def require_session(request: Request) -> WebSession:
    """Return the session of the request's cookie; 401 without one, 403 when it does not prove what a change takes."""
    require_own_page(request)
    host = request.headers.get("host", "").lower()
    session = broker_of(request).web_sessions.find(session_text(request), host, _peer_of(request))
    if session is None:
        raise ResourceError(401, "there is no session, or it has ended; sign in", SESSION_CHALLENGE)
    if request.method not in UNCHANGING and not session.proves(request.headers.get(CSRF_HEADER, "")):
        raise ResourceError(403, "header 'X-CSRF-Token' is not 'csrf' of the session; GET /api/v1/session has it")
    request.state.session = session
    return session


def cookie_name(request: Request) -> str:
    """Return the name of the session's cookie for the scheme of a request."""
    return SECURE_COOKIE if request.url.scheme == "https" else SESSION_COOKIE


def session_text(request: Request) -> str:
    """Return the text of the session's cookie, empty without one: the last of the name.

    Texts of sessions need no quotes. Python's reader undoes those of all cookies in a time in proportion to the square
    of their length: 15 KB of backslashes, before any login, blocked the event loop for 1.5 s.
    """
    text, wanted = "", cookie_name(request)
    for header in request.headers.getlist("cookie"):
        for cookie in header.split(";"):
            name, _, value = cookie.partition("=")
            if name.strip() == wanted:
                text = value.strip()
    return text


def session_of(request: Request) -> WebSession | None:
    """Return the session that let a request in; ``None`` for one with credentials."""
    session: WebSession | None = getattr(request.state, "session", None)
    return session


def require_own_page(request: Request) -> None:
    """Raise 403 for a request of a page that is not the broker's own, even if it is on this machine."""
    origin = refused_origin(request) or _other_origin(request)
    fetched = request.headers.get("sec-fetch-site", "none")
    if origin or fetched not in OWN_FETCHES:
        what = repr(origin[:HOST_CHARACTERS_MAX]) if origin else "another origin"
        raise ResourceError(403, f"requests from pages of {what} use no session here")


def require_tag(user: User, tags: frozenset[str]) -> None:
    """Raise 403 without one of ``tags``."""
    if not user.tags & tags:
        what = f"token {user.token!r} of user {user.name!r}" if user.token else f"user {user.name!r}"
        remedy = "make a token that has it" if user.token else "an administrator sets them with: annulet user tags"
        raise TagMissing(403, f"{what} needs one of the tags {', '.join(sorted(tags))}; {remedy}")


def require_still(request: Request) -> None:
    """Raise 401 when the user of a request has gone, or has lost a tag, since the request was let in."""
    user: User | None = getattr(request.state, "user", None)
    if user is None:
        return
    current = broker_of(request).authenticator.current(user)
    session = session_of(request)
    ended = session is not None and not broker_of(request).web_sessions.is_live(session)
    if ended or current is None or not user.tags <= current.tags:
        raise ResourceError(401, f"the rights of user {user.name!r} were taken away during the request", CHALLENGE)


async def require_writer(request: Request, tags: frozenset[str] = WRITE_TAGS) -> User:
    """As :func:`require_user`, of a request that changes something: 403 when a page of another site sent it.

    For browsers of this machine, sites whose names were pointed to this machine also count as other sites.
    """
    origin = refused_origin(request) or _other_origin(request)
    if origin:
        raise ResourceError(403, f"requests from pages of {origin[:HOST_CHARACTERS_MAX]!r} may change nothing here")
    user = await require_user(request, tags)
    needed = ("configure",) if tags == ADMINISTRATORS else ("configure", "manage", "write")
    if user.scope is not None and not set(needed) & set(user.scope.operations):
        words = " or ".join(needed)
        raise ResourceError(403, f"token {user.token!r} of user {user.name!r} has no operation {words} in its scope")
    return user


def _other_origin(request: Request) -> str:
    """Return the ``Origin`` of a page that is not the broker's own, even if it is on this machine."""
    origin = request.headers.get("origin")
    if origin is None or origin_authority(origin) == request.headers.get("host", "").lower():
        return ""
    return origin or "null"


def access_of(request: Request, user: User, host: VirtualHost) -> Access:
    """Return the access of a user to a virtual host: full for an administrator, except to exclusive queues of others.

    Those are all exclusive queues: a request belongs to no connection that could own one.
    """
    broker = broker_of(request)
    administrator = user if ADMINISTRATOR in user.tags else None
    return Access(broker.authenticator, broker.catalogue, host, user.name, administrator=administrator, user=user)


def read_credentials(request: Request) -> tuple[str, str]:
    """Return name and password of HTTP Basic authentication (RFC 7617), or no name and the token of Bearer (RFC 6750).

    401 when there are none.
    """
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    bearer = encoded.strip()
    if scheme.lower() == "bearer" and (is_token(bearer) or looks_like_access_token(bearer)):
        return "", bearer
    if scheme.lower() != "basic":
        raise ResourceError(
            401,
            "HTTP Basic credentials are needed, or a Bearer token of this broker or its issuer",
            challenge_of(request),
        )
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except ValueError as error:  # no base64, no UTF-8, or no ASCII to begin with
        raise ResourceError(401, "the Basic credentials are not base64 of UTF-8 text", CHALLENGE) from error
    if not colon:
        raise ResourceError(401, "the Basic credentials are not USER:PASSWORD", CHALLENGE)
    return name, password


def require_all_hosts(user: User, what: str, remedy: str = "ask an administrator for the tag monitoring") -> None:
    """Raise 403 unless the user sees every virtual host: ``what`` tells of all of them."""
    if not user.tags & ALL_HOSTS_TAGS or (user.scope is not None and user.scope.virtual_hosts):
        raise ResourceError(403, f"{what} is for users that see all virtual hosts; {remedy}")


def visible_hosts(request: Request, user: User) -> list[VirtualHost]:
    """Return the virtual hosts the user may see, by name."""
    return hosts_of(broker_of(request), user)


def hosts_of(broker: Broker, user: User) -> list[VirtualHost]:
    """Return the virtual hosts of a broker that a user may see, by name."""
    return [broker.hosts[name] for name in sorted(broker.hosts) if sees_host(broker, user, name)]


def sees_host(broker: Broker, user: User, name: str) -> bool:
    """Return whether the user may see a virtual host of this name."""
    if user.tags & ALL_HOSTS_TAGS:
        return user.scope is None or user.scope.enters(name)
    return broker.authenticator.admits(user, name)


def hosts_without_credentials(request: Request) -> list[VirtualHost]:
    """Return the virtual hosts that a request of this machine sees without credentials: those of the anonymous user."""
    broker = broker_of(request)
    name = broker.authenticator.anonymous_user
    return [broker.hosts[host] for host in sorted(broker.hosts) if name and broker.authenticator.may_enter(name, host)]


def chosen_hosts(request: Request, user: User, wanted: str | None) -> list[VirtualHost]:
    """Return the visible virtual hosts, or only the ``wanted`` one; 404 when it is not visible."""
    hosts = visible_hosts(request, user)
    if wanted is None:
        return hosts
    chosen = [host for host in hosts if host.name == wanted]
    if not chosen:
        raise ResourceError(404, f'no virtual host {wanted!r}; write "/" in a path as %2F')
    return chosen
