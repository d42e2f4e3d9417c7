"""Errors as RabbitMQ's management API words them: ``{"error": word, "reason": text}``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from annulet.admin.requests.responses import BAD_REQUEST, ResourceError, json_response
from annulet.core.base.errors import AccessRefused, CoreError, NotFound
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from starlette.responses import Response

WORDS: Final = {
    400: "bad_request",
    401: "not_authorised",
    403: "access_refused",
    404: "Object Not Found",
    405: "method_not_allowed",
    413: "too_large",
    503: "service_unavailable",
}
"""RabbitMQ's words. Its command-line tool prints the reason; some clients compare the word of 404."""

STATUSES: Final = ((NotFound, 404), (AccessRefused, 401), (CatalogueError, 503))
"""The status of errors of the core and the catalogue, as RabbitMQ maps the errors of its channel.

All others, conflicts with existing objects included, are 400.
"""


def not_found(what: str, name: str) -> ResourceError:
    """Return the error of something that does not exist, or that the user does not see."""
    return ResourceError(404, f"no {what} {name!r}")


def not_authorised(reason: str) -> ResourceError:
    """Return the error of a user without the right; RabbitMQ says 401 here, not 403."""
    return ResourceError(401, reason)


def answer_error(error: ResourceError | CoreError | CatalogueError) -> Response:
    """Return the answer of a request that is refused."""
    if isinstance(error, ResourceError):
        status, reason, headers = error.status, error.reason, error.headers
    else:
        status = next((status for kind, status in STATUSES if isinstance(error, kind)), BAD_REQUEST)
        reason, headers = str(error), {}
    return json_response({"error": WORDS.get(status, "error"), "reason": reason}, status, headers)
