"""Errors that end a query."""

from __future__ import annotations

from annulet.spark.engine import EngineError
from annulet.spark.engine.errors import EngineStateError


def test_what_a_user_gave_is_a_value_error_and_state_is_not() -> None:
    assert issubclass(EngineError, ValueError)
    assert not issubclass(EngineStateError, ValueError)
