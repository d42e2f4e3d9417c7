"""JSON answers, and errors with remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response

from annulet.core.base.errors import AccessRefused, InvalidArgument, NotFound
from annulet.store.files.errors import CatalogueError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

JSON: Final = "application/json"

STATUS_WORDS: Final = {
    400: "bad_request",
    401: "not_authorised",
    403: "access_refused",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "too_large",
    503: "unavailable",
}
"""RabbitMQ's management interface names its errors this way; clients of either read both."""


CORE_STATUSES: Final = ((InvalidArgument, 400), (NotFound, 404), (AccessRefused, 403), (CatalogueError, 503))
"""The status of errors of the core and the catalogue; other refusals of the core are conflicts with existing
objects."""

CONFLICT: Final = 409


class ResourceError(Exception):
    """A request that cannot be answered. Becomes ``{"error": word, "reason": text}`` with ``status``."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = dict(headers or {})


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Encode any type that msgspec supports: dictionaries, lists, structs, dataclasses."""
    return Response(msgspec.json.encode(content), status, headers, media_type=JSON)


async def answer_resource_error(_request: Request, error: Exception) -> Response:
    """Exception handler of :class:`ResourceError`."""
    if not isinstance(error, ResourceError):
        raise error
    word = STATUS_WORDS.get(error.status, "error")
    return json_response({"error": word, "reason": error.reason}, error.status, error.headers)


async def answer_refusal(_request: Request, error: Exception) -> Response:
    """Exception handler of ``CoreError`` and ``CatalogueError``: their text has the remedy."""
    status = next((status for kind, status in CORE_STATUSES if isinstance(error, kind)), CONFLICT)
    return json_response({"error": STATUS_WORDS[status], "reason": str(error)}, status)


async def answer_defect(_request: Request, _error: Exception) -> Response:
    """Exception handler of everything else: a defect of ours, which is in the log."""
    reason = "the broker met a defect of its own; its log says where"
    return json_response({"error": "internal_error", "reason": reason}, 500)


async def answer_http_exception(_request: Request, error: Exception) -> Response:
    """Exception handler of Starlette's own errors: no such path, no such method."""
    if not isinstance(error, HTTPException):
        raise error
    word = STATUS_WORDS.get(error.status_code, "error")
    return json_response({"error": word, "reason": error.detail}, error.status_code, error.headers)
