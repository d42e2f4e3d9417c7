"""Field tables whose numbers remember their field types, for conversion; beside :mod:`.values`, which is the fast path.

=========== ========================================================= ==============================================
field type  value                                                     written for
=========== ========================================================= ==============================================
``t``       bool                                                      bool
``b B s u`` ``Byte``, ``UnsignedByte``, ``Short``, ``UnsignedShort``  the same
``I i l L`` ``Int``, ``UnsignedInt``, int, int                        ``Int``, ``UnsignedInt``, int (as ``l``)
``f d``     ``Float32``, float                                        the same
``D``       ``Decimal64``                                             a ``Decimal64`` that is one of these
``T``       ``TimestampMilliseconds``                                 whole seconds of the years 1970 to 9999
``S x``     str (bytes when it is not UTF-8), bytes                   str and its subclasses, bytes and its subclasses
``A F V``   list, dict, None                                          the same
=========== ========================================================= ==============================================
"""

from __future__ import annotations

import struct
from typing import Any, Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from annulet.core.base.typed_values import (
    Byte,
    Decimal64,
    Float32,
    Int,
    Short,
    TimestampMilliseconds,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
)
from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.types.constants import MAX_SHORT_STRING_BYTES
from annulet.wire.amqp091.types.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.amqp091.types.values import (
    encode_long_string,
    encode_short_string,
    find_content_end,
    read_short_string,
    read_value,
    skip_value,
)

SECONDS_MAX: Final = 253_402_300_799
"""The last second of the year 9999: beyond it, clients fail to make a date of a timestamp, and lose the connection."""

_TIMESTAMP_SECONDS_MAX: Final = (2**63 - 1) // 1000
"""The largest time that fits 64 bits of milliseconds."""

DECIMAL_BIAS: Final = 398
"""IEEE 754-2008 §3.5.2: decimal64 in binary integer encoding has 53 bits of coefficient below ten of exponent."""
DECIMAL_COEFFICIENT_BITS: Final = 53
_COEFFICIENT_MAX: Final = 2**31 - 1
"""0-9-1 has 32 bits, signed to some clients and unsigned to others: up to here all read the same."""


def are_fields(octets: bytes) -> bool:
    """Return whether octets are the fields of a table, whose values end where they say; what is in these is left to
    the decoders, as when a message is published."""
    position = 0
    end = len(octets)
    try:
        while position < end:
            position = skip_value(octets, position + 1 + octets[position], end)
    except RemoteProtocolError:
        return False
    return True


def read_typed_table(data: bytes, offset: int, end: int) -> dict[str, PropertyValue]:
    """Return the field table at ``offset`` as far as it can be decoded, with typed values.

    Left out is what :func:`annulet.wire.amqp091.types.values.read_readable_table` leaves out.

    Raises:
        RemoteProtocolError: 502 when the table reaches beyond ``end``.
    """
    content_end = find_content_end(data, offset, end, 0, "field table")
    position = offset + 4
    table: dict[str, PropertyValue] = {}
    malformed: set[str] = set()
    while position < content_end:
        stop = position + 1 + data[position]
        try:
            following = skip_value(data, stop, content_end)
        except RemoteProtocolError:  # where the next field begins is unknown
            return table
        name = data[position + 1 : stop].decode("utf-8", "replace")
        if name.encode("utf-8") != data[position + 1 : stop]:
            malformed.add(name)
        try:
            if name not in table and name not in malformed:
                table[name] = read_typed_value(data, stop, content_end, 0)[0]
        except RemoteProtocolError:
            malformed.add(name)
        position = following
    return table


def read_typed_fields(data: bytes, offset: int, end: int, depth: int = 0) -> tuple[dict[str, PropertyValue], int]:
    """Return the field table at ``offset``, with typed values, and the offset behind it.

    Raises:
        RemoteProtocolError: 502 for a malformed, truncated or too deeply nested table.
    """
    content_end = find_content_end(data, offset, end, depth, "field table")
    position = offset + 4
    table: dict[str, PropertyValue] = {}
    while position < content_end:
        name, position = read_short_string(data, position, content_end, "field name")
        value, position = read_typed_value(data, position, content_end, depth)
        if name not in table:
            table[name] = value
    return table, content_end


def read_typed_array(data: bytes, offset: int, end: int, depth: int = 0) -> tuple[list[PropertyValue], int]:
    """Return the field array at ``offset``, with typed values, and the offset behind it.

    Raises:
        RemoteProtocolError: 502 for a malformed, truncated or too deeply nested array.
    """
    content_end = find_content_end(data, offset, end, depth, "field array")
    position = offset + 4
    values: list[PropertyValue] = []
    while position < content_end:
        value, position = read_typed_value(data, position, content_end, depth)
        values.append(value)
    return values, content_end


def read_typed_value(data: bytes, offset: int, end: int, depth: int) -> tuple[PropertyValue, int]:
    """Return the field value at ``offset``, typed, and the offset behind it.

    Raises:
        RemoteProtocolError: 502 for an unknown type or a truncated value.
    """
    kind = data[offset] if offset < end else 0
    start = offset + 1
    if kind == 70:  # F
        return read_typed_fields(data, start, end, depth + 1)
    if kind == 65:  # A
        return read_typed_array(data, start, end, depth + 1)
    value, stop = read_value(data, offset, end, depth)
    wrapper = _WRAPPERS.get(kind)
    if wrapper is not None:
        return wrapper(value), stop
    if kind == 84:  # T
        assert isinstance(value, int)
        seconds = int(value)
        if seconds <= _TIMESTAMP_SECONDS_MAX:
            return TimestampMilliseconds(seconds * 1000), stop
        return UnsignedLong(seconds), stop
    if kind == 68:  # D
        at: i64 = start + 1
        coefficient = int(read_i32_be(data, at)) & 0xFFFFFFFF
        bits = (DECIMAL_BIAS - data[start]) << DECIMAL_COEFFICIENT_BITS | coefficient
        return Decimal64(bits.to_bytes(8, "big")), stop
    return value, stop


_WRAPPERS: Final[dict[int, Any]] = {
    ord("b"): Byte,
    ord("B"): UnsignedByte,
    ord("s"): Short,
    ord("u"): UnsignedShort,
    ord("I"): Int,
    ord("i"): UnsignedInt,
    ord("f"): Float32,
}


def decimal_field(value: Decimal64) -> bytes | None:
    """Return a number as the five octets of field type ``D``; ``None`` when that has no place for it."""
    if len(value) != 8:
        return None
    at: i64 = 0
    bits = int(read_i64_be(value, at))
    scale = DECIMAL_BIAS - (bits >> DECIMAL_COEFFICIENT_BITS)
    coefficient = bits & ((1 << DECIMAL_COEFFICIENT_BITS) - 1)
    if bits < 0 or not 0 <= scale <= 255 or coefficient > _COEFFICIENT_MAX:
        return None
    return bytes((scale,)) + coefficient.to_bytes(4, "big")


def encode_typed_table(table: dict[str, Any]) -> bytes:
    """Encode a field table with the field types of its values, its four length octets first.

    Raises:
        LocalProtocolError: a name exceeds 255 octets, or a value has a type or range AMQP 0-9-1 cannot carry.
    """
    parts: list[bytes] = []
    for name, value in table.items():
        parts.append(encode_short_string(name))
        parts.append(encode_typed_value(value, name))
    return encode_long_string(b"".join(parts))


def encode_typed_array(values: list[Any], name: str = "") -> bytes:
    """Encode a field array with the field types of its values, its four length octets first. Raises as a table."""
    return encode_long_string(b"".join([encode_typed_value(value, name) for value in values]))


def encode_typed_value(value: Any, name: str = "") -> bytes:
    """Encode one value, type octet first. ``name`` is the field's, for the error.

    Raises:
        LocalProtocolError: a type or range AMQP 0-9-1 cannot carry.
    """
    if value is None:
        return b"V"
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, str):
        return b"S" + encode_long_string(value.encode("utf-8"))
    if isinstance(value, int):
        return _encode_integer(value, name)
    if isinstance(value, float):
        return struct.pack(">cf", b"f", value) if isinstance(value, Float32) else struct.pack(">cd", b"d", value)
    if isinstance(value, bytes):
        decimal = decimal_field(value) if isinstance(value, Decimal64) else None
        return b"x" + encode_long_string(value) if decimal is None else b"D" + decimal
    if isinstance(value, dict):
        return b"F" + encode_typed_table(value)
    if isinstance(value, list):
        return b"A" + encode_typed_array(value, name)
    raise LocalProtocolError(f"field {name!r} has type {type(value).__name__}, which AMQP 0-9-1 cannot carry")


_INTEGERS: Final[dict[type, tuple[str, int, int]]] = {
    Byte: (">cb", -0x80, 0x7F),
    UnsignedByte: (">cB", 0, 0xFF),
    Short: (">ch", -0x8000, 0x7FFF),
    UnsignedShort: (">cH", 0, 0xFFFF),
    Int: (">ci", -0x80000000, 0x7FFFFFFF),
    UnsignedInt: (">cI", 0, 0xFFFFFFFF),
}
_LETTERS: Final[dict[type, bytes]] = {
    Byte: b"b",
    UnsignedByte: b"B",
    Short: b"s",
    UnsignedShort: b"u",
    Int: b"I",
    UnsignedInt: b"i",
}


def _encode_integer(value: int, name: str) -> bytes:
    kind = type(value)
    if kind is TimestampMilliseconds:
        seconds, rest = divmod(int(value), 1000)
        if rest or not 0 <= seconds <= SECONDS_MAX:
            raise LocalProtocolError(f"field {name!r} is {int(value)} ms, a timestamp here has whole seconds from 1970")
        return struct.pack(">cQ", b"T", seconds)
    row = _INTEGERS.get(kind)
    if row is not None and row[1] <= value <= row[2]:
        return struct.pack(row[0], _LETTERS[kind], int(value))
    if not -(2**63) <= value < 2**63:
        raise LocalProtocolError(f"field {name!r} is {int(value)}, beyond 64 bits; send it as a string")
    return struct.pack(">cq", b"l", int(value))


def fits_name(name: str) -> bool:
    """Return whether a text can be the name of a field: at most 255 octets."""
    return len(name) <= MAX_SHORT_STRING_BYTES and len(name.encode("utf-8")) <= MAX_SHORT_STRING_BYTES
