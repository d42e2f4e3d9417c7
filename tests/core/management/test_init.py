"""What the package offers: every operation an operator has, and nothing of its inside."""

from __future__ import annotations

import inspect

from annulet.core import management


def test_the_names_of_the_package_are_there() -> None:
    for name in management.__all__:
        assert getattr(management, name).__module__.startswith("annulet.core.management.")


def test_every_operation_names_who_asked_and_when() -> None:
    operations = [getattr(management, name) for name in management.__all__ if name.islower() and name != "select"]
    assert len(operations) == 13
    for operation in operations:
        parameters = inspect.signature(operation).parameters
        assert {"user", "now"} <= set(parameters), operation.__name__
