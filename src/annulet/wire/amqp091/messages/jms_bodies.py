"""Bodies of the content types ``jms/map-message`` and ``jms/stream-message``, which Qpid's JMS client for AMQP 0-x has.

A stream message is values, each behind one octet for its type; a map message is the number of its entries (32 bits)
and for each a name that ends with a zero octet, and a value.

=== ================================================= ===============
1   one octet, 0 for false                            bool
2   one octet                                         Byte
3   length (32 bits, -1 for none), octets             bytes
4   16 bits                                           Short
5   16 bits, one unit of UTF-16                       Character
6 7 32 bits, 64 bits                                  Int, int
8 9 32 bits, 64 bits                                  Float32, float
10  UTF-8 up to a zero octet                          str
11  nothing                                           None
=== ================================================= ===============

Bodies of more values than are converted (:mod:`annulet.core.message.conversion_bounds`) are not decoded.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from annulet.core.base.typed_values import Byte, Character, Float32, Int, Short, Symbol
from annulet.core.message.conversion_bounds import CONVERTED_VALUES_MAX
from annulet.core.message.message import PropertyValue

JMS_MAP: Final = "jms/map-message"
JMS_STREAM: Final = "jms/stream-message"

_BOOLEAN: Final = 1
_OCTETS: Final = 3
_CHARACTER: Final = 5
_TEXT: Final = 10
_NOTHING: Final = 11

_NUMBERS: Final[dict[int, tuple[str, int, Any]]] = {
    2: (">b", 1, Byte),
    4: (">h", 2, Short),
    6: (">i", 4, Int),
    7: (">q", 8, int),
    8: (">f", 4, Float32),
    9: (">d", 8, float),
}
"""Layout, octets and type of the numbers."""


def decode_jms_map(octets: bytes) -> dict[str, PropertyValue] | None:
    """Decode a body as a map, empty for no octets; ``None`` for a body that is no map."""
    if not octets:
        return {}
    table: dict[str, PropertyValue] = {}
    try:
        (count,) = struct.unpack_from(">i", octets)
        position = 4
        if 2 * count > CONVERTED_VALUES_MAX:
            return None
        for _ in range(count):
            name, position = _read_text(octets, position)
            if name in table:
                return None
            table[name], position = _read_value(octets, position)
    except (ValueError, struct.error):
        return None
    return table if position == len(octets) and count >= 0 else None


def decode_jms_stream(octets: bytes) -> list[PropertyValue] | None:
    """Decode a body as a stream of values; return ``None`` for a body that is no stream."""
    values: list[PropertyValue] = []
    position = 0
    try:
        while position < len(octets):
            value, position = _read_value(octets, position)
            values.append(value)
            if len(values) > CONVERTED_VALUES_MAX:
                return None
    except (ValueError, struct.error):
        return None
    return values


def _read_text(octets: bytes, at: int) -> tuple[str, int]:
    end = octets.index(b"\0", at)
    return octets[at:end].decode("utf-8"), end + 1


def _read_value(octets: bytes, at: int) -> tuple[PropertyValue, int]:
    (kind,) = struct.unpack_from(">B", octets, at)
    at += 1
    number = _NUMBERS.get(kind)
    if number is not None:
        value: PropertyValue = number[2](struct.unpack_from(number[0], octets, at)[0])
        return value, at + number[1]
    if kind == _TEXT:
        return _read_text(octets, at)
    if kind == _NOTHING:
        return None, at
    if kind == _BOOLEAN:
        return struct.unpack_from(">?", octets, at)[0], at + 1
    if kind == _CHARACTER:
        return Character(struct.unpack_from(">2s", octets, at)[0].decode("utf-16-be")), at + 2
    if kind != _OCTETS:
        raise ValueError(f"type {kind} of a JMS body")
    (size,) = struct.unpack_from(">i", octets, at)
    if size == -1:
        return None, at + 4
    return struct.unpack_from(f">{size}s", octets, at + 4)[0], at + 4 + size


# ---------------------------------------------------------------------- writing


def encode_jms_map(table: dict[str, Any]) -> bytes | None:
    """Return a map as a body; ``None`` for one with names or values that JMS has not."""
    parts = [struct.pack(">i", len(table))]
    for name, value in table.items():
        octets = None if "\0" in name or isinstance(name, Symbol) else _encode_value(value)
        if octets is None:
            return None
        parts.append(name.encode("utf-8") + b"\0" + octets)
    return b"".join(parts)


def encode_jms_stream(values: list[Any]) -> bytes | None:
    """Return a list as a body; ``None`` for one with values that JMS has not."""
    parts = [_encode_value(value) for value in values]
    written = [part for part in parts if part is not None]
    return b"".join(written) if len(written) == len(parts) else None


def _encode_value(value: Any) -> bytes | None:
    """Return type octet and value; ``None`` for a value that would not be decoded to the same."""
    if value is None:
        return bytes((_NOTHING,))
    if isinstance(value, bool):
        return bytes((_BOOLEAN, value))
    kind = type(value)
    if kind is str:
        return None if "\0" in value else bytes((_TEXT,)) + value.encode("utf-8") + b"\0"
    if kind is bytes:
        return struct.pack(">Bi", _OCTETS, len(value)) + bytes(value)
    if kind is Character:
        unit = str(value).encode("utf-16-be")
        return bytes((_CHARACTER,)) + unit if len(unit) == 2 else None
    for code, (layout, _, number) in _NUMBERS.items():
        if kind is number:
            try:
                return bytes((code,)) + struct.pack(layout, value)
            except struct.error:  # beyond its type
                return None
    return None
