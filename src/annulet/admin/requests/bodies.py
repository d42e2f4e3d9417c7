"""Reading the JSON bodies of requests. Errors are refused (400) with name, value and allowed values.

A body is read after login and permissions of its sender are checked. While it arrives it counts as unfinished work, see
:mod:`annulet.broker.network.unfinished`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from annulet.admin.requests.access import broker_of, require_still
from annulet.admin.requests.responses import ResourceError
from annulet.broker.network.unfinished import LIMIT_UNFINISHED
from annulet.broker.settings.configuration import nearest_name
from annulet.core.configuration.arguments.values import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from annulet.broker.broker import Broker
    from annulet.core.configuration.arguments import Arguments
    from annulet.core.message.message import PropertyValue

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Largest body that may contain a list of integers: enough for the 100,000 ids one selection may name."""

MEMBERS_BYTES_MAX: Final = 64 * 1024
"""Limit of all members except lists of integers, and of any other body.

4 MiB of empty lists blocked the event loop for 2 s.
"""

PART_BYTES: Final = 64 * 1024
"""Bytes of small chunks of a body that are kept together: an object for each chunk would take far more memory."""

QUOTE: Final = ord('"')

INTEGERS_MAX: Final = 100_000
"""Integers of a list: the ids of one selection."""

PROTOCOL: Final = "HTTP"
"""Its name in the metrics of limits."""

LIMIT_BODY: Final = "http_body_bytes_max"
"""The name of both bounds of bodies there."""

TEXT: Final = "a text"
INTEGER: Final = "an integer"
SWITCH: Final = "true or false"
INTEGERS: Final = "a list of integers"
OBJECT: Final = "an object"
TEXTS: Final = "a list of texts"

TYPES: Final[dict[str, type]] = {TEXT: str, INTEGER: int, SWITCH: bool, INTEGERS: list, OBJECT: dict, TEXTS: list}


LENGTH_DIGITS: Final = 15
"""Of a length that is looked at as a number."""


class ArrivingBody:
    """The received octets of one request's body, counted with the unfinished work of all connections."""

    def __init__(self, broker: Broker, name: str, most: int) -> None:
        self.name = name
        self._parts: list[bytes] = []  # a growing buffer would be copied repeatedly, and leave holes
        self._last = bytearray()  # octets too few for a separate part
        self._size = 0
        self._broker = broker
        self._most = most
        self._refusal = ""

    def add(self, chunk: bytes) -> None:
        """Add received octets.

        Raises :class:`ResourceError`: 413 for too many, 503 if the body was refused in the meantime.
        """
        if not self._refusal:
            self._last += chunk
            if len(self._last) >= PART_BYTES:
                self._parts.append(bytes(self._last))
                self._last.clear()
            self._size += len(chunk)
            if self._size > self._most:
                self._refuse_long()
            self._broker.unfinished.note(self, self._size)
        if self._refusal:
            raise ResourceError(503, self._refusal)

    def expect(self, length: str) -> None:
        """Refuse a body before it comes that says it is too long (413): its sender may never send all of it."""
        if length.isascii() and length.isdigit() and (len(length) > LENGTH_DIGITS or int(length) > self._most):
            self._refuse_long()

    def _refuse_long(self) -> None:
        self._broker.admission.note_limits(PROTOCOL, {LIMIT_BODY: 1})
        raise ResourceError(413, f"the body has more than {self._most} bytes; make several requests")

    def whole(self) -> bytes:
        """Return all received octets and release the parts."""
        octets = b"".join([*self._parts, self._last])
        self._clear()
        return octets

    def _clear(self) -> None:
        self._parts.clear()
        self._last = bytearray()

    def end(self) -> None:
        """The body is complete, or no more of it follows."""
        self._broker.unfinished.forget(self)

    # ------------------------------------------------------------------ interface of the account of unfinished work

    def unfinished_bytes(self) -> int:
        """Return how many octets are kept."""
        return self._size

    def refuse_unfinished(self, text: str) -> None:
        """Release the received octets.

        The sender gets an error with the next octets, or is disconnected if these take too long.
        """
        self._broker.admission.note_limits(PROTOCOL, {LIMIT_UNFINISHED: 1})
        self._refusal = text
        self._clear()
        self._size = 0


async def read_fields(request: Request, known: Mapping[str, str], bytes_max: int = 0) -> dict[str, Any]:
    """Return the members of the body, an object; ``known`` has the allowed types of each. No body is an object without
    members.

    Refuses unknown members and those of another kind (400), and bodies beyond :data:`BODY_BYTES_MAX` with a list of
    integers, beyond :data:`MEMBERS_BYTES_MAX` without one, or beyond ``bytes_max`` if it is given (413).
    """
    most = bytes_max or (BODY_BYTES_MAX if INTEGERS in known.values() else MEMBERS_BYTES_MAX)
    octets = await _octets(request, most)
    members: dict[str, Any] = {}
    room = MEMBERS_BYTES_MAX
    for name, raw in _object(octets, tuple(known)).items():
        if name not in known:
            raise ResourceError(400, f"unknown field {name!r}{nearest_name(name, known)}")
        size = len(memoryview(raw))
        if known[name] == INTEGERS and size > room:  # decoded as nothing else, however it is nested
            members[name] = _integers(name, raw)
            continue
        room -= size
        if room < 0:
            broker_of(request).admission.note_limits(PROTOCOL, {LIMIT_BODY: 1})
            raise ResourceError(413, f"the fields beside lists of integers have more than {MEMBERS_BYTES_MAX} bytes")
        value = members[name] = _value(raw)
        if not _is_a(value, known[name]):
            raise ResourceError(400, f"field {name!r} must be {known[name]}, not {shown(value)}")
    return members


async def read_object(request: Request, bytes_max: int = MEMBERS_BYTES_MAX) -> dict[str, Any]:
    """Return the body, a JSON object of ``bytes_max`` at most; no body is an empty one.

    Above :data:`MEMBERS_BYTES_MAX` a text may be as long as that, and all else together is bound by it (413).
    """
    members: dict[str, Any] = {}
    room = MEMBERS_BYTES_MAX
    for name, raw in _members(await _octets(request, bytes_max)).items():
        octets = memoryview(raw)
        if bytes_max > MEMBERS_BYTES_MAX and octets[0] == QUOTE:
            members[name] = _text(raw)
            room -= len(name)
        else:
            room -= len(octets) + len(name)
            if room >= 0:
                members[name] = _value(raw)
        if room < 0:
            broker_of(request).admission.note_limits(PROTOCOL, {LIMIT_BODY: 1})
            raise ResourceError(413, f"the fields beside texts have more than {MEMBERS_BYTES_MAX} bytes")
    return members


def _text(raw: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ResourceError(400, f"the body is not JSON: {error}") from error


async def read_octets(request: Request, bytes_max: int) -> bytes:
    """Return a body as it is, of ``bytes_max`` at most (413): for what is decoded in portions."""
    return await _octets(request, bytes_max)


async def _octets(request: Request, most: int) -> bytes:
    body = ArrivingBody(broker_of(request), "{}:{}".format(*request.client) if request.client else "?", most)
    try:
        body.expect(request.headers.get("content-length", ""))
        async for chunk in request.stream():
            body.add(chunk)
        require_still(request)
        return body.whole()
    finally:
        body.end()


def _object(octets: bytes, names: tuple[str, ...]) -> dict[str, msgspec.Raw]:
    """Return an object's members, of which nothing is decoded yet. Those of a long one have one of ``names``."""
    if not octets:
        return {}
    key: Any = str if len(octets) <= MEMBERS_BYTES_MAX else Literal.__getitem__(names)
    try:
        if octets.lstrip()[:1] == b"{":
            members: dict[str, msgspec.Raw] = msgspec.json.decode(octets, type=dict[key, msgspec.Raw])
            return members
        value = msgspec.json.decode(octets[:MEMBERS_BYTES_MAX])
    except msgspec.ValidationError as error:
        raise ResourceError(400, f"a field of the body is unknown, {error}; give {', '.join(names)}") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ResourceError(400, f"the body is not JSON: {error}") from error
    raise ResourceError(400, f"the body must be a JSON object, not {shown(value)}")


def _members(octets: bytes) -> dict[str, msgspec.Raw]:
    """Return the members of an object of any names, of which nothing is decoded yet."""
    if len(octets) <= MEMBERS_BYTES_MAX:
        return _object(octets, ())
    try:
        members: dict[str, msgspec.Raw] = msgspec.json.decode(octets, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ResourceError(400, f"the body is not a JSON object: {error}") from error
    return members


def _value(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ResourceError(400, f"the body is not JSON: {error}") from error


def _integers(name: str, raw: msgspec.Raw) -> list[int]:
    """Return a long list of integers. The first that is none ends it."""
    try:
        integers = msgspec.json.decode(raw, type=list[int])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ResourceError(400, f"field {name!r} must be {INTEGERS}: {error}") from error
    if len(integers) > INTEGERS_MAX:
        raise ResourceError(400, f"field {name!r} has {len(integers)} integers, {INTEGERS_MAX} are allowed")
    return integers


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
    if kind == TEXTS:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(value, bool):
        return kind == SWITCH
    return isinstance(value, TYPES[kind])
