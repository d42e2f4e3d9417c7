"""Typed values of other protocols as texts, because STOMP's headers are nothing else.

| value | text |
| --- | --- |
| truth value | ``true``, ``false`` |
| number | decimal digits; a fraction as its shortest text, ``nan``, ``inf``, ``-inf`` |
| octets, decimal number | hexadecimal digits |
| UUID | 8-4-4-4-12 hexadecimal digits |
| time | milliseconds since 1970 |
| list, array, map, described value | JSON, with the texts above for what JSON lacks |
| no value | empty |
"""

from __future__ import annotations

import json
import math
from typing import Any

from annulet.core.base.typed_values import Described, MapPairs, Uuid
from annulet.core.message.message_id_texts import uuid_text


def text_of(value: Any) -> str:
    """Return the text of a property value."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, bytes):
        return _octets(value)
    return json_of(value)


def json_of(value: Any) -> str:
    """Return any value as JSON, in as few characters as possible."""
    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def plain(value: Any) -> Any:
    """Return a value in JSON's types: other values become texts, a map with other keys a list of pairs."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, bytes):
        return _octets(value)
    if isinstance(value, Described):
        return {"descriptor": plain(value[0]), "value": plain(value[1])}
    if isinstance(value, MapPairs):
        return [[plain(value[at]), plain(value[at + 1])] for at in range(0, len(value), 2)]
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return value


def _octets(value: bytes) -> str:
    return uuid_text(value) if isinstance(value, Uuid) else value.hex()
