"""The errors of bulk transfer, with a code that is sent to clients. Texts name the object and the remedy."""

from __future__ import annotations

import json
from typing import ClassVar


class BulkError(Exception):
    """Base of all errors of bulk transfer. ``code`` is sent beside the text."""

    code: ClassVar[str] = "failed"


class InvalidRequestError(BulkError):
    """A request, option or address is malformed."""

    code = "invalid"


class OverLimitError(InvalidRequestError):
    """A request is malformed in that it is too large; ``limit`` is the exceeded bound. Sent as its base class."""

    def __init__(self, text: str, limit: str) -> None:
        super().__init__(text)
        self.limit = limit


class AuthenticationError(BulkError):
    """User name or password is wrong, or may not be used from there."""

    code = "authentication"


class TokenExpiredError(BulkError):
    """The bearer token is unknown: it expired, or the broker was restarted. Log in again."""

    code = "token"


class PermissionDeniedError(BulkError):
    """The user may not do this."""

    code = "permission"


class NotFoundError(BulkError):
    """A virtual host, queue, exchange, stage or snapshot does not exist."""

    code = "not-found"


class LeaseGoneError(BulkError):
    """Positions that a query still needs are not kept for it any more."""

    code = "lease-gone"


class LeaseInUseError(BulkError):
    """The lease belongs to another checkpoint."""

    code = "lease-in-use"


class LeaseFencedError(BulkError):
    """A newer run of the query has taken the lease over: this one is a zombie and must stop."""

    code = "lease-fenced"


class RefusedError(BulkError):
    """The request is well-formed and cannot be fulfilled, even if repeated."""

    code = "refused"


class UnavailableError(BulkError):
    """The broker cannot be reached, or cannot take this now. Asking again later may help."""

    code = "unavailable"


class StageInterruptedError(UnavailableError):
    """A stage too large to be sent again was interrupted: its rows have to be computed again. Never travels."""


_CLASSES: dict[str, type[BulkError]] = {
    kind.code: kind
    for kind in (
        BulkError,
        InvalidRequestError,
        AuthenticationError,
        TokenExpiredError,
        PermissionDeniedError,
        NotFoundError,
        LeaseGoneError,
        LeaseInUseError,
        LeaseFencedError,
        RefusedError,
        UnavailableError,
    )
}


def encode_error(error: BulkError) -> bytes:
    """Make the extra information of a Flight error: code and text, intact."""
    return json.dumps({"code": error.code, "text": str(error)}).encode()


def decode_error(extra: bytes | None) -> BulkError | None:
    """Read :func:`encode_error`; ``None`` if the error was not sent by a broker's handler."""
    if not extra:
        return None
    try:
        fields = json.loads(extra)
        return _CLASSES.get(fields["code"], BulkError)(fields["text"])
    except (ValueError, KeyError, TypeError):  # another server's extra information, so not ours to read
        return None
