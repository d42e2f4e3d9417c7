"""Reading the fields of composite types (§1.4): each reader takes every format of its type, and null.

``name`` is the name of the field in error texts, like ``transfer.handle``. Readers return the value and the position
behind it; for numbers and booleans null is -1.
"""

from __future__ import annotations

from typing import Any

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from annulet.core.base.typed_values import Array, Symbol
from annulet.wire.amqp10.types.errors import DecodeError
from annulet.wire.amqp10.types.values import (
    decode_symbol_text,
    decode_text,
    decode_value,
    truncated,
    variable_bounds,
)


def wrong_type(name: str, code: int, position: int, needed: str) -> DecodeError:
    """Return the error for a field with another type than in the standard."""
    return DecodeError(f"{name} at octet {position} has format code 0x{code:02x}, needed is {needed}; send one")


def read_boolean(data: bytes, position: i64, end: i64, name: str) -> tuple[i64, i64]:
    """Read a boolean (§1.6.2): 1 for true, 0 for false.

    Raises:
        DecodeError: it is none, or reaches beyond ``end``.
    """
    if position >= end:
        raise truncated(name, int(position), 1, int(end))
    code: i64 = data[position]
    following = position + 1
    if code == 0x41:
        return 1, following
    if code == 0x42:
        return 0, following
    if code == 0x40:
        return -1, following
    if code != 0x56:
        raise wrong_type(name, int(code), int(position), "a boolean")
    if following >= end:
        raise truncated(name, int(following), 1, int(end))
    octet: i64 = data[following]
    if octet > 1:
        raise DecodeError(f"{name} at octet {position} is a boolean of {octet}, allowed are 0 and 1")
    return octet, following + 1


def read_unsigned_int(data: bytes, position: i64, end: i64, name: str) -> tuple[i64, i64]:
    """Read a ``uint`` (§1.6.5).

    Raises:
        DecodeError: it is none, or reaches beyond ``end``.
    """
    if position >= end:
        raise truncated(name, int(position), 1, int(end))
    code: i64 = data[position]
    following = position + 1
    if code == 0x52:
        if following >= end:
            raise truncated(name, int(following), 1, int(end))
        octet: i64 = data[following]
        return octet, following + 1
    if code == 0x43:
        return 0, following
    if code == 0x40:
        return -1, following
    if code != 0x70:
        raise wrong_type(name, int(code), int(position), "a uint")
    if following + 4 > end:
        raise truncated(name, int(following), 4, int(end))
    return i64(read_i32_be(data, following)) & 0xFFFFFFFF, following + 4


def read_unsigned_byte(data: bytes, position: i64, end: i64, name: str) -> tuple[i64, i64]:
    """Read a ``ubyte`` (§1.6.3).

    Raises:
        DecodeError: it is none, or reaches beyond ``end``.
    """
    if position >= end:
        raise truncated(name, int(position), 1, int(end))
    code: i64 = data[position]
    if code == 0x40:
        return -1, position + 1
    if code != 0x50:
        raise wrong_type(name, int(code), int(position), "a ubyte")
    if position + 2 > end:
        raise truncated(name, int(position + 1), 1, int(end))
    octet: i64 = data[position + 1]
    return octet, position + 2


def read_unsigned_short(data: bytes, position: i64, end: i64, name: str) -> tuple[i64, i64]:
    """Read a ``ushort`` (§1.6.4).

    Raises:
        DecodeError: it is none, or reaches beyond ``end``.
    """
    if position >= end:
        raise truncated(name, int(position), 1, int(end))
    code: i64 = data[position]
    if code == 0x40:
        return -1, position + 1
    if code != 0x60:
        raise wrong_type(name, int(code), int(position), "a ushort")
    if position + 3 > end:
        raise truncated(name, int(position + 1), 2, int(end))
    high: i64 = data[position + 1]
    low: i64 = data[position + 2]
    return high << 8 | low, position + 3


def read_unsigned_long(data: bytes, position: i64, end: i64, name: str) -> tuple[int, i64]:
    """Read a ``ulong`` (§1.6.6).

    Raises:
        DecodeError: it is none, or reaches beyond ``end``.
    """
    if position >= end:
        raise truncated(name, int(position), 1, int(end))
    code: i64 = data[position]
    following = position + 1
    if code == 0x40:
        return -1, following
    if code == 0x44:
        return 0, following
    width: i64 = 1 if code == 0x53 else 8
    if width == 8 and code != 0x80:
        raise wrong_type(name, int(code), int(position), "a ulong")
    if following + width > end:
        raise truncated(name, int(following), int(width), int(end))
    if width == 1:
        return data[following], following + 1
    return int(read_i64_be(data, following)) & 0xFFFFFFFFFFFFFFFF, following + 8


def read_timestamp(data: bytes, position: i64, end: i64, name: str) -> tuple[int | None, i64]:
    """Read a ``timestamp`` (§1.6.17): milliseconds since 1970, UTC; it may be before, so null is ``None``.

    Raises:
        DecodeError: it is none, or reaches beyond ``end``.
    """
    if position >= end:
        raise truncated(name, int(position), 1, int(end))
    code: i64 = data[position]
    if code == 0x40:
        return None, position + 1
    if code != 0x83:
        raise wrong_type(name, int(code), int(position), "a timestamp")
    if position + 9 > end:
        raise truncated(name, int(position + 1), 8, int(end))
    return int(read_i64_be(data, position + 1)), position + 9


def read_binary(data: bytes, position: i64, end: i64, name: str) -> tuple[bytes | None, i64]:
    """Read a ``binary`` (§1.6.19), ``None`` for null.

    Raises:
        DecodeError: it is none, or reaches beyond ``end``.
    """
    if position >= end:
        raise truncated(name, int(position), 1, int(end))
    code: i64 = data[position]
    if code == 0x40:
        return None, position + 1
    if code != 0xA0 and code != 0xB0:  # noqa: PLR1714 - compiles better than a tuple
        raise wrong_type(name, int(code), int(position), "a binary")
    start, stop = variable_bounds(data, code, position + 1, end, name)
    return data[start:stop], stop


def read_string(data: bytes, position: i64, end: i64, name: str) -> tuple[str | None, i64]:
    """Read a ``string`` (§1.6.20), ``None`` for null.

    Raises:
        DecodeError: it is none, is not UTF-8, or reaches beyond ``end``.
    """
    if position >= end:
        raise truncated(name, int(position), 1, int(end))
    code: i64 = data[position]
    if code == 0x40:
        return None, position + 1
    if code != 0xA1 and code != 0xB1:  # noqa: PLR1714 - compiles better than a tuple
        raise wrong_type(name, int(code), int(position), "a string")
    start, stop = variable_bounds(data, code, position + 1, end, name)
    return decode_text(data[start:stop], name, int(start)), stop


def read_symbol(data: bytes, position: i64, end: i64, name: str) -> tuple[str | None, i64]:
    """Read a ``symbol`` (§1.6.21) as a plain ``str``, ``None`` for null.

    Raises:
        DecodeError: it is none, is not ASCII, or reaches beyond ``end``.
    """
    if position >= end:
        raise truncated(name, int(position), 1, int(end))
    code: i64 = data[position]
    if code == 0x40:
        return None, position + 1
    if code != 0xA3 and code != 0xB3:  # noqa: PLR1714 - compiles better than a tuple
        raise wrong_type(name, int(code), int(position), "a symbol")
    start, stop = variable_bounds(data, code, position + 1, end, name)
    return decode_symbol_text(data[start:stop], name, int(start)), stop


def read_symbols(data: bytes, position: i64, end: i64, name: str) -> tuple[list[str], i64]:
    """Read a field with ``multiple`` (§1.4): one symbol or an array of them; null is the same as none.

    Raises:
        DecodeError: it is neither, or reaches beyond ``end``.
    """
    value, stop = decode_value(data, int(position), int(end))
    if value is None:
        return [], stop
    if isinstance(value, Symbol):
        return [str(value)], stop
    if not isinstance(value, Array):
        raise wrong_type(name, data[position], int(position), "a symbol or an array of symbols")
    names: list[str] = []
    for item in value:
        if not isinstance(item, Symbol):
            raise DecodeError(f"{name} at octet {position} is an array of {type(item).__name__}, needed are symbols")
        names.append(str(item))
    return names, stop


def read_fields(data: bytes, position: i64, end: i64, name: str) -> tuple[dict[str, Any], i64]:
    """Read a map from symbols (§2.8.12 fields, §3.5.8 filter-set); null is the same as an empty one.

    Strings as keys are let through: clients are known that send them.

    Raises:
        DecodeError: it is no map, has a key that is no text, or reaches beyond ``end``.
    """
    value, stop = decode_value(data, int(position), int(end))
    if value is None:
        return {}, stop
    if not isinstance(value, dict):
        raise wrong_type(name, data[position], int(position), "a map whose keys are symbols, each once")
    return value, stop
