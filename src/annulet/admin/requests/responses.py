"""JSON answers, and errors with remedies as problem details (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from annulet.core.base.errors import AccessRefused, InvalidArgument, NotFound
from annulet.core.configuration.arguments.values import shown
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"

STATUS_WORDS: Final = {
    400: "bad_request",
    401: "not_authorised",
    403: "access_refused",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    412: "precondition_failed",
    413: "too_large",
    429: "too_many_requests",
    503: "unavailable",
}
"""RabbitMQ's management interface names its errors this way; clients of either read both."""


CORE_STATUSES: Final = ((InvalidArgument, 400), (NotFound, 404), (AccessRefused, 403), (CatalogueError, 503))
"""The status of errors of the core and the catalogue; other refusals of the core are conflicts with existing
objects."""

BAD_REQUEST: Final = 400
CONFLICT: Final = 409


class ResourceError(Exception):
    """A request that cannot be answered. Becomes a problem with ``status`` and ``reason``, see :func:`problem`."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = dict(headers or {})


def bad_request(field: str, value: Any, remedy: str) -> ResourceError:
    """Return the error of one wrong field of a path, query or body: its name, its value, and what to give instead."""
    return ResourceError(BAD_REQUEST, f"field {field!r}: value {shown(value)}; {remedy}")


def missing_field(field: str, remedy: str) -> ResourceError:
    """Return the error of a field that the request has to have."""
    return ResourceError(BAD_REQUEST, f"field {field!r}: missing; {remedy}")


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode any type that msgspec supports: dictionaries, lists, structs, dataclasses."""
    return Response(msgspec.json.encode(content), status, headers, media_type=JSON)


def problem(status: int, reason: str, word: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as RFC 9457 has it; ``error`` and ``reason`` are what RabbitMQ's clients read."""
    content = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": reason,
        "error": word or STATUS_WORDS.get(status, "error"),
        "reason": reason,
    }
    return Response(msgspec.json.encode(content), status, headers, media_type=PROBLEM)


async def answer_resource_error(_request: Request, error: Exception) -> Response:
    """Exception handler of :class:`ResourceError`."""
    if not isinstance(error, ResourceError):
        raise error
    return problem(error.status, error.reason, headers=error.headers)


async def answer_refusal(_request: Request, error: Exception) -> Response:
    """Exception handler of ``CoreError`` and ``CatalogueError``: their text has the remedy."""
    status = next((status for kind, status in CORE_STATUSES if isinstance(error, kind)), CONFLICT)
    return problem(status, str(error))


async def answer_defect(_request: Request, _error: Exception) -> Response:
    """Exception handler of everything else: a defect of ours, which is in the log."""
    reason = "the broker met a defect of its own; its log says where"
    return problem(500, reason, "internal_error")


async def answer_http_exception(_request: Request, error: Exception) -> Response:
    """Exception handler of Starlette's own errors: no such path, no such method."""
    if not isinstance(error, HTTPException):
        raise error
    return problem(error.status_code, error.detail, headers=error.headers)
