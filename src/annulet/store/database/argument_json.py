"""Arguments of exchanges, queues and bindings as JSON that restores exactly the encoded values."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from annulet.core.message.message import PropertyValue

BYTES_TAG: Final = "$bytes"
"""The only key of an object that represents octets, in base64."""

ESCAPE: Final = "$"
"""Keys of tables that begin with it get one more, so that no table can look like octets."""


def dump_arguments(arguments: dict[str, PropertyValue]) -> str:
    """Return canonical JSON: sorted keys, so that equal arguments give equal text."""
    return json.dumps(_outward(arguments), sort_keys=True, separators=(",", ":"))


def load_arguments(text: str) -> dict[str, PropertyValue]:
    """Undo :func:`dump_arguments`."""
    return cast("dict[str, PropertyValue]", _inward(json.loads(text)))


def _outward(value: PropertyValue) -> object:
    if isinstance(value, (bytes, bytearray)):
        return {BYTES_TAG: base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        return {_escaped(key): _outward(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_outward(item) for item in value]
    return value


def _inward(value: object) -> PropertyValue:
    if isinstance(value, dict):
        if set(value) == {BYTES_TAG}:
            return base64.b64decode(value[BYTES_TAG])
        return {
            key.removeprefix(ESCAPE) if key.startswith(ESCAPE) else key: _inward(item) for key, item in value.items()
        }
    if isinstance(value, list):
        return [_inward(item) for item in value]
    return cast("PropertyValue", value)


def _escaped(key: str) -> str:
    return ESCAPE + key if key.startswith(ESCAPE) else key
