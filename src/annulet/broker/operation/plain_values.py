"""Values of messages and arguments as JSON can say them."""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any, Final

from annulet.core.base.typed_values import MapPairs

if TYPE_CHECKING:
    from collections.abc import Mapping

DEPTH_MAX: Final = 32
"""How deeply values are nested that are shown; deeper ones are shown as text. Headers and properties come from
clients."""


def json_value(value: Any, depth: int = 0) -> Any:
    """Return a value that JSON can say: octets as text when they are UTF-8, else as base64; others as their text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _octets(bytes(value))
    if depth < DEPTH_MAX and isinstance(value, dict):
        return {str(name): json_value(item, depth + 1) for name, item in value.items()}
    if depth < DEPTH_MAX and isinstance(value, MapPairs):  # its keys are no texts, which JSON cannot say
        return [json_value(list(pair), depth + 1) for pair in zip(value[::2], value[1::2], strict=True)]
    if depth < DEPTH_MAX and isinstance(value, list | tuple):
        return [json_value(item, depth + 1) for item in value]
    return str(value)


def _number(value: float) -> int | float | str:
    """Return a plain number: a typed one of a protocol is of a class of its own."""
    if isinstance(value, int):
        return int(value)
    return float(value) if math.isfinite(value) else str(value)


def _octets(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return base64.b64encode(octets).decode("ascii")


def json_object(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table as a JSON object."""
    return {str(name): json_value(value) for name, value in values.items()}
