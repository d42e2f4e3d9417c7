"""Maps and lists as AMQP 0-10 encodes them (§3.3 Types): bodies of the content types ``amqp/map`` and ``amqp/list``.

Qpid's clients and Broker-J have these content types in every version of AMQP 0-x, and always in this encoding, never as
field tables of 0-9-1. A map is its size in octets and the number of its entries (32 bits each), then for each entry a
key (one octet of length), a type octet and the value; a list is the same without keys.

============================= ==================================================== =====================
type octet                    value                                                written for
============================= ==================================================== =====================
``01 02 11 12 21 22 31 32``   the integer types; ``31`` int, ``32`` UnsignedLong   the same
``08`` ``23`` ``33`` ``f0``   bool, Float32, float, None                           the same
``04`` ``27``                 Character, of one octet or of four                   Character
``38``                        TimestampMilliseconds; here it has seconds           whole seconds
``48``                        Uuid                                                 Uuid
``85`` ``95``                 str, its length in one octet or two                  str (as ``95``)
``84`` ``94``, ``86`` ``96``  str of ISO 8859-15, of UTF-16                        –
``80`` ``90`` ``a0``          bytes, their length in one octet, two or four        bytes (as ``a0``)
``00`` ``10`` ... ``70``      bytes of 1, 2 ... 128 octets; ``c0`` of 5, ``d0`` 9  –
``a8`` ``a9`` ``aa``          dict, list, list of one type                         dict, list
``c8``                        Decimal64                                            Decimal64 that is one
============================= ==================================================== =====================

Octets with anything else in them (structs, decimals of 64 bits), and with more values than are converted
(:mod:`annulet.core.message.conversion_bounds`), are refused by :func:`decode_map` and :func:`decode_list`: the body
then stays octets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from annulet.core.base.typed_values import (
    Byte,
    Character,
    Decimal64,
    Float32,
    Int,
    Short,
    TimestampMilliseconds,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Uuid,
)
from annulet.core.message.conversion_bounds import CONVERTED_VALUES_MAX
from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.types.errors import LocalProtocolError
from annulet.wire.amqp091.types.typed_tables import DECIMAL_BIAS, DECIMAL_COEFFICIENT_BITS, decimal_field

TEXT_OCTETS_MAX: Final = 0xFFFF
"""Of a text: its length has 16 bits."""

DEPTH_MAX: Final = 20
"""Levels of containers that are decoded, as in every other protocol. A body with more stays octets."""

_SECONDS_MAX: Final = (2**63 - 1) // 1000
_MAP: Final = 0xA8
_LIST: Final = 0xA9
_ARRAY: Final = 0xAA
_VOID: Final = 0xF0


class _NotEncodedSo(ValueError):
    """Octets that are no map or list of AMQP 0-10, or of types that nothing else here has."""


class _ValuesLeft:
    """How many more values may be decoded: keys and elements, those of nested containers as well."""

    def __init__(self) -> None:
        self.count = CONVERTED_VALUES_MAX

    def take(self, count: int) -> None:
        self.count -= count
        if self.count < 0:
            raise _NotEncodedSo(f"more than {CONVERTED_VALUES_MAX} values")


def _boolean(octets: bytes) -> PropertyValue:
    return octets[0] != 0


def _number(layout: str, kind: Callable[[Any], Any]) -> Callable[[bytes], PropertyValue]:
    def read(octets: bytes) -> PropertyValue:
        value: PropertyValue = kind(struct.unpack(layout, octets)[0])
        return value

    return read


def _seconds(octets: bytes) -> PropertyValue:
    seconds = int.from_bytes(octets, "big")
    if seconds > _SECONDS_MAX:
        raise _NotEncodedSo("a time beyond 64 bits of milliseconds")
    return TimestampMilliseconds(seconds * 1000)


def _decimal(octets: bytes) -> PropertyValue:
    coefficient = int.from_bytes(octets[1:], "big", signed=True)
    if coefficient < 0:
        raise _NotEncodedSo("a decimal below zero")
    return Decimal64(((DECIMAL_BIAS - octets[0]) << DECIMAL_COEFFICIENT_BITS | coefficient).to_bytes(8, "big"))


def _latin(octets: bytes) -> str:
    return octets.decode("iso-8859-15")


def _utf_16(octets: bytes) -> str:
    marked = octets[:2] in (b"\xff\xfe", b"\xfe\xff")
    return octets.decode("utf-16" if marked else "utf-16-be")


_FIXED: Final[dict[int, tuple[int, Callable[[bytes], PropertyValue]]]] = {
    0x01: (1, _number(">b", Byte)),
    0x02: (1, _number(">B", UnsignedByte)),
    0x04: (1, lambda octets: Character(_latin(octets))),
    0x08: (1, _boolean),
    0x11: (2, _number(">h", Short)),
    0x12: (2, _number(">H", UnsignedShort)),
    0x21: (4, _number(">i", Int)),
    0x22: (4, _number(">I", UnsignedInt)),
    0x23: (4, _number(">f", Float32)),
    0x27: (4, lambda octets: Character(octets.decode("utf-32-be"))),
    0x31: (8, _number(">q", int)),
    0x32: (8, _number(">Q", UnsignedLong)),
    0x33: (8, _number(">d", float)),
    0x38: (8, _seconds),
    0x48: (16, Uuid),
    0xC0: (5, bytes),
    0xC8: (5, _decimal),
    0xD0: (9, bytes),
    _VOID: (0, lambda _octets: None),
    **{width << 4: (1 << width, bytes) for width in range(8)},
}
"""Type octet, octets of a value, and the function that decodes them."""

_VARIABLE: Final[dict[int, tuple[int, Callable[[bytes], PropertyValue]]]] = {
    0x80: (1, bytes),
    0x90: (2, bytes),
    0xA0: (4, bytes),
    0x85: (1, bytes.decode),
    0x95: (2, bytes.decode),
    0x84: (1, _latin),
    0x94: (2, _latin),
    0x86: (1, _utf_16),
    0x96: (2, _utf_16),
}
"""Type octet, octets of the length before a value, and the function that decodes the value."""


def decode_map(octets: bytes) -> dict[str, PropertyValue] | None:
    """Decode a body as a map, empty for no octets (Broker-J); ``None`` for a body that is no map."""
    if not octets:
        return {}
    try:
        table, end = _read_map(octets, 0, 0, _ValuesLeft())
    except ValueError:
        return None
    return table if end == len(octets) else None


def decode_list(octets: bytes) -> list[PropertyValue] | None:
    """Decode a body as a list, empty for no octets (Broker-J); ``None`` for a body that is no list."""
    if not octets:
        return []
    try:
        values, end = _read_list(octets, 0, 0, _ValuesLeft())
    except ValueError:
        return None
    return values if end == len(octets) else None


def _take(octets: bytes, at: int, size: int) -> bytes:
    if at + size > len(octets):
        raise _NotEncodedSo(f"{size} octets wanted at {at}, there are {len(octets) - at}")
    return octets[at : at + size]


def _unsigned(octets: bytes, at: int, size: int) -> int:
    return int.from_bytes(_take(octets, at, size), "big")


def _bounds(octets: bytes, at: int, depth: int) -> int:
    """Return the end of the container whose size is at ``at``."""
    end = at + 4 + _unsigned(octets, at, 4)
    if end > len(octets) or depth >= DEPTH_MAX:
        raise _NotEncodedSo("a container beyond its octets, or nested too deeply")
    return end


def _read_map(octets: bytes, at: int, depth: int, left: _ValuesLeft) -> tuple[dict[str, PropertyValue], int]:
    end = _bounds(octets, at, depth)
    table: dict[str, PropertyValue] = {}
    if end == at + 4:  # no map, which Broker-J writes for null
        return table, end
    position = at + 8
    count = _unsigned(octets, at + 4, 4)
    left.take(2 * count)
    for _ in range(count):
        size = _unsigned(octets, position, 1)
        name = _take(octets, position + 1, size).decode()
        if name in table:
            raise _NotEncodedSo("a name stands twice")
        table[name], position = _read_value(octets, position + 1 + size, depth, left)
    _require_end(position, end)
    return table, end


def _read_list(octets: bytes, at: int, depth: int, left: _ValuesLeft) -> tuple[list[PropertyValue], int]:
    end = _bounds(octets, at, depth)
    values: list[PropertyValue] = []
    if end == at + 4:
        return values, end
    position = at + 8
    count = _unsigned(octets, at + 4, 4)
    left.take(count)
    for _ in range(count):
        value, position = _read_value(octets, position, depth, left)
        values.append(value)
    _require_end(position, end)
    return values, end


def _read_array(octets: bytes, at: int, depth: int, left: _ValuesLeft) -> tuple[list[PropertyValue], int]:
    end = _bounds(octets, at, depth)
    values: list[PropertyValue] = []
    if end == at + 4:
        return values, end
    kind = _unsigned(octets, at + 4, 1)
    count = _unsigned(octets, at + 5, 4)
    position = at + 9
    if count > end - position:  # of a type without octets there could be any number
        raise _NotEncodedSo("an array of more values than octets")
    left.take(count)
    for _ in range(count):
        value, position = _read_of_kind(octets, position, kind, depth, left)
        values.append(value)
    _require_end(position, end)
    return values, end


def _require_end(position: int, end: int) -> None:
    if position != end:
        raise _NotEncodedSo("the size of a container differs from its content")


def _read_value(octets: bytes, at: int, depth: int, left: _ValuesLeft) -> tuple[PropertyValue, int]:
    return _read_of_kind(octets, at + 1, _unsigned(octets, at, 1), depth, left)


def _read_of_kind(octets: bytes, at: int, kind: int, depth: int, left: _ValuesLeft) -> tuple[PropertyValue, int]:
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed[1](_take(octets, at, fixed[0])), at + fixed[0]
    variable = _VARIABLE.get(kind)
    if variable is not None:
        start = at + variable[0]
        size = _unsigned(octets, at, variable[0])
        return variable[1](_take(octets, start, size)), start + size
    if kind == _MAP:
        return _read_map(octets, at, depth + 1, left)
    if kind == _LIST:
        return _read_list(octets, at, depth + 1, left)
    if kind == _ARRAY:
        return _read_array(octets, at, depth + 1, left)
    raise _NotEncodedSo(f"type octet {kind:#04x}")


# ---------------------------------------------------------------------- writing


def encode_map(table: dict[str, Any]) -> bytes:
    """Encode a map whose values are of the types this module writes, see :func:`.type_tags.lower`.

    Raises:
        LocalProtocolError: a key or text that is too long, or a value of another type.
    """
    parts: list[bytes] = []
    for name, value in table.items():
        octets = name.encode("utf-8")
        if len(octets) > 0xFF:
            raise LocalProtocolError(f"key {name[:20]!r}... of a map has {len(octets)} octets, at most 255 are allowed")
        parts.append(bytes((len(octets),)) + octets)
        parts.append(_encode_value(value))
    return _container(len(table), parts)


def encode_list(values: list[Any]) -> bytes:
    """Encode a list, as :func:`encode_map` does a map."""
    return _container(len(values), [_encode_value(value) for value in values])


def _container(count: int, parts: list[bytes]) -> bytes:
    content = b"".join(parts)
    return struct.pack(">II", len(content) + 4, count) + content


_INTEGERS: Final[dict[type, tuple[str, int, int, int]]] = {
    Byte: (">Bb", 0x01, -0x80, 0x7F),
    UnsignedByte: (">BB", 0x02, 0, 0xFF),
    Short: (">Bh", 0x11, -0x8000, 0x7FFF),
    UnsignedShort: (">BH", 0x12, 0, 0xFFFF),
    Int: (">Bi", 0x21, -0x80000000, 0x7FFFFFFF),
    UnsignedInt: (">BI", 0x22, 0, 0xFFFFFFFF),
    UnsignedLong: (">BQ", 0x32, 0, 2**64 - 1),
}
"""Layout, type octet, least and greatest number."""

_ANY_INTEGER: Final = (">Bq", 0x31, -(2**63), 2**63 - 1)


def _encode_value(value: Any) -> bytes:
    if value is None:
        return bytes((_VOID,))
    if isinstance(value, bool):
        return b"\x08\x01" if value else b"\x08\x00"
    if isinstance(value, str):
        return _encode_text(value)
    if isinstance(value, int):
        return _encode_integer(value)
    if isinstance(value, float):
        single = isinstance(value, Float32)
        return struct.pack(">Bf", 0x23, value) if single else struct.pack(">Bd", 0x33, value)
    if isinstance(value, bytes):
        return _encode_octets(value)
    if isinstance(value, dict):
        return bytes((_MAP,)) + encode_map(value)
    if isinstance(value, list):
        return bytes((_LIST,)) + encode_list(value)
    raise LocalProtocolError(f"a body has a value of type {type(value).__name__}, which AMQP 0-10 cannot carry")


def _encode_text(text: str) -> bytes:
    if isinstance(text, Character) and len(text) == 1:
        return b"\x04" + text.encode() if text.isascii() else b"\x27" + text.encode("utf-32-be")
    octets = text.encode("utf-8")
    if len(octets) > TEXT_OCTETS_MAX:
        raise LocalProtocolError(f"a text in a body has {len(octets)} octets, at most {TEXT_OCTETS_MAX} are allowed")
    return struct.pack(">BH", 0x95, len(octets)) + octets


def _encode_integer(value: int) -> bytes:
    if isinstance(value, TimestampMilliseconds):
        seconds, rest = divmod(int(value), 1000)
        if rest or seconds < 0:
            raise LocalProtocolError(f"a time in a body is {int(value)} ms, here it has whole seconds from 1970")
        return struct.pack(">BQ", 0x38, seconds)
    layout, kind, least, most = _INTEGERS.get(type(value), _ANY_INTEGER)
    if not least <= value <= most:
        layout, kind, least, most = _ANY_INTEGER
    if not least <= value <= most:
        raise LocalProtocolError(f"a number in a body is {int(value)}, beyond 64 bits; send it as a string")
    return struct.pack(layout, kind, int(value))


def _encode_octets(value: bytes) -> bytes:
    if isinstance(value, Uuid) and len(value) == 16:
        return b"\x48" + value
    decimal = decimal_field(value) if isinstance(value, Decimal64) else None
    return struct.pack(">BI", 0xA0, len(value)) + value if decimal is None else b"\xc8" + decimal
