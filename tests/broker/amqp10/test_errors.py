from __future__ import annotations

import pytest

from annulet.broker.amqp10.errors import condition_for, detach_for, error_for
from annulet.broker.connections.sending import DiskFull
from annulet.core.base import errors as core_errors
from annulet.core.base.errors import CoreError
from annulet.store.files.errors import StoreError
from annulet.wire.amqp10.types import conditions


@pytest.mark.parametrize(
    ("error", "condition"),
    [
        (DiskFull("full"), conditions.RESOURCE_LIMIT_EXCEEDED),
        (core_errors.LimitExceeded("full"), conditions.RESOURCE_LIMIT_EXCEEDED),
        (core_errors.NotFound("gone"), conditions.NOT_FOUND),
        (core_errors.AccessRefused("no"), conditions.UNAUTHORIZED_ACCESS),
        (core_errors.ResourceLocked("in use"), conditions.RESOURCE_LOCKED),
        (core_errors.InvalidArgument("odd"), conditions.INVALID_FIELD),
        (core_errors.PreconditionFailed("differs"), conditions.PRECONDITION_FAILED),
        (core_errors.TransactionRefused("again"), conditions.PRECONDITION_FAILED),
        (StoreError("disk"), conditions.INTERNAL_ERROR),
    ],
)
def test_each_error_of_the_core_has_its_condition(error: Exception, condition: str) -> None:
    assert condition_for(error) == condition
    fault = detach_for(error)
    assert (fault.condition, fault.description) == (condition, str(error))
    told = error_for(error)
    assert (told.condition, told.description) == (condition, str(error))


def test_no_error_of_the_core_is_forgotten() -> None:
    def descendants(kind: type[CoreError]) -> set[type[CoreError]]:
        return {kind}.union(*(descendants(child) for child in kind.__subclasses__()))

    named = {kind for kind in descendants(CoreError) - {CoreError} if kind.__module__.startswith("annulet.")}
    untold = {kind.__name__ for kind in named if condition_for(kind("x")) == conditions.INTERNAL_ERROR}
    assert untold == set()
