"""The core's refusals as error conditions of AMQP 1.0 (§2.8.15)."""

from __future__ import annotations

from typing import Final

from annulet.broker.connections.sending import DiskFull
from annulet.core.base import errors as core_errors
from annulet.wire.amqp10.frames.outcomes import Error
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.errors import LinkFault

CONDITIONS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (DiskFull, conditions.RESOURCE_LIMIT_EXCEEDED),
    (core_errors.LimitExceeded, conditions.RESOURCE_LIMIT_EXCEEDED),
    (core_errors.NotFound, conditions.NOT_FOUND),
    (core_errors.AccessRefused, conditions.UNAUTHORIZED_ACCESS),
    (core_errors.ResourceLocked, conditions.RESOURCE_LOCKED),
    (core_errors.InvalidArgument, conditions.INVALID_FIELD),
    (core_errors.PreconditionFailed, conditions.PRECONDITION_FAILED),
    (core_errors.TransactionRefused, conditions.PRECONDITION_FAILED),
)
"""Error of the core and the condition that tells it; the first that fits counts."""


def condition_for(error: Exception) -> str:
    """Return the condition that tells an error of the core or the store."""
    for kind, condition in CONDITIONS:
        if isinstance(error, kind):
            return condition
    return conditions.INTERNAL_ERROR


def detach_for(error: Exception) -> LinkFault:
    """Return the fault that ends a link because of an error of the core or the store."""
    return LinkFault(condition_for(error), str(error))


def error_for(error: Exception) -> Error:
    """Return an error of the core as one of an outcome ``rejected`` (§3.4.3)."""
    return Error(condition_for(error), str(error))
