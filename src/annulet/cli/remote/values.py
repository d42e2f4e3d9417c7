"""Values of options: arguments of declarations as ``NAME=VALUE``, and counts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from annulet.cli.remote.failures import usage


def read_arguments(given: Iterable[str]) -> dict[str, Any]:
    """Return ``NAME=VALUE`` pairs as an object. A value that is JSON is that value, any other is a text.

    Raises :class:`~annulet.cli.remote.failures.Failure` (usage).
    """
    arguments: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise usage(f"argument {text!r}: give NAME=VALUE, such as x-max-length=100")
        if name in arguments:
            raise usage(f"argument {name!r} is given twice; give it once")
        arguments[name] = read_value(value)
    return arguments


def read_value(text: str) -> Any:
    """Return the JSON value of a text, or the text: ``5`` is an integer, ``"5"`` and ``five`` are texts."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text
    return text if value is None else value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
