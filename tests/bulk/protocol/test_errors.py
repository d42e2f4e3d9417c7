"""Errors keep their kind and text over the wire."""

from __future__ import annotations

import pytest

from annulet.bulk.protocol import errors


@pytest.mark.parametrize(
    "kind",
    [
        errors.BulkError,
        errors.InvalidRequestError,
        errors.AuthenticationError,
        errors.TokenExpiredError,
        errors.PermissionDeniedError,
        errors.NotFoundError,
        errors.LeaseGoneError,
        errors.LeaseInUseError,
        errors.LeaseFencedError,
        errors.RefusedError,
        errors.UnavailableError,
    ],
)
def test_round_trip(kind: type[errors.BulkError]) -> None:
    decoded = errors.decode_error(errors.encode_error(kind("queue 'ü' is gone")))
    assert type(decoded) is kind
    assert str(decoded) == "queue 'ü' is gone"


@pytest.mark.parametrize("extra", [None, b"", b"grpc status", b"[]", b'{"text": "no code"}'])
def test_what_others_put_there_is_not_ours(extra: bytes | None) -> None:
    assert errors.decode_error(extra) is None


def test_an_unknown_code_is_still_an_error() -> None:
    decoded = errors.decode_error(b'{"code": "from-the-future", "text": "t"}')
    assert type(decoded) is errors.BulkError
