"""Reading the JSON bodies of requests. Errors are refused (400) with name, value and allowed values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.admin.responses import ResourceError
from annulet.broker.configuration import nearest_name
from annulet.core.arguments.values import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from annulet.core.arguments import Arguments
    from annulet.core.message import PropertyValue

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Enough for the 100,000 ids one selection may name; parsing it blocks the event loop for about 10 ms."""

TEXT: Final = "a text"
INTEGER: Final = "an integer"
SWITCH: Final = "true or false"
INTEGERS: Final = "a list of integers"
OBJECT: Final = "an object"

TYPES: Final[dict[str, type]] = {TEXT: str, INTEGER: int, SWITCH: bool, INTEGERS: list, OBJECT: dict}


async def read_fields(request: Request, known: Mapping[str, str]) -> dict[str, Any]:
    """Return the members of the body, an object; ``known`` has the allowed types of each. No body is an object without
    members.

    Refuses unknown members and those of another kind (400), and bodies beyond :data:`BODY_BYTES_MAX` (413).
    """
    members = await read_object(request)
    for name, value in members.items():
        if name not in known:
            raise ResourceError(400, f"unknown field {name!r}{nearest_name(name, known)}")
        if not _is_a(value, known[name]):
            raise ResourceError(400, f"field {name!r} must be {known[name]}, not {shown(value)}")
    return members


async def read_object(request: Request) -> dict[str, Any]:
    """Return the body, a JSON object; no body is an empty one."""
    octets = bytearray()
    async for chunk in request.stream():
        octets += chunk
        if len(octets) > BODY_BYTES_MAX:
            raise ResourceError(413, f"the body has more than {BODY_BYTES_MAX} bytes; make several requests")
    if not octets:
        return {}
    try:
        value = msgspec.json.decode(octets)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ResourceError(400, f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ResourceError(400, f"the body must be a JSON object, not {shown(value)}")
    return value


def required(members: Mapping[str, Any], name: str, kind: str) -> Any:
    """Return a required member; 400 if it is missing."""
    if name not in members:
        raise ResourceError(400, f"field {name!r} is missing; give {kind}")
    return members[name]


def arguments_of(field: str, members: dict[str, Any]) -> Arguments:
    """Return an object as arguments. Refuses ``null``, which no argument can be (400)."""
    return {name: _argument(field, name, value) for name, value in members.items()}


def _argument(field: str, name: str, value: Any) -> PropertyValue:
    if value is None:
        raise ResourceError(400, f"{field} {name!r} is null; give a value, or leave it out")
    if isinstance(value, list):
        return [_argument(field, name, item) for item in value]
    if isinstance(value, dict):
        return arguments_of(field, value)
    assert isinstance(value, str | int | float), "JSON has no other values"
    return value


def _is_a(value: Any, kind: str) -> bool:
    if kind == INTEGERS:
        return isinstance(value, list) and all(_is_a(item, INTEGER) for item in value)
    if isinstance(value, bool):
        return kind == SWITCH
    return isinstance(value, TYPES[kind])
