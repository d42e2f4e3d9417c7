"""Values of the AMQP 1.0 type system (ISO 19464, OASIS AMQP 1.0 part 1 §1.6): decoding and skipping.

Encoding is in :mod:`annulet.wire.amqp10.types.encoding` and can be imported from here as well. The Python type of each
AMQP type: :mod:`annulet.core.base.typed_values`; in addition, ``long`` is ``int``, ``double`` is ``float``, ``string``
is ``str``, ``binary`` is ``bytes``, ``list`` is ``list``, ``map`` with text keys is ``dict``, ``null`` is ``None``.

For any octets the time is linear in their number and the memory at most some dozens of octets for each.
"""

from __future__ import annotations

from typing import Any, Final

from librt.strings import read_f32_be, read_f64_be, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from annulet.core.base.typed_values import (
    Array,
    Byte,
    Character,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float32,
    Int,
    MapPairs,
    Short,
    Symbol,
    TimestampMilliseconds,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Uuid,
)
from annulet.wire.amqp10.types.encoding import encode_value
from annulet.wire.amqp10.types.errors import DecodeError
from annulet.wire.amqp10.types.format_codes import MAX_DEPTH, MAX_ZERO_WIDTH_ELEMENTS, SIZE_OCTET, SIZE_WORD, WIDTHS

__all__ = [
    "MAX_DEPTH",
    "MAX_ZERO_WIDTH_ELEMENTS",
    "compound_bounds",
    "decode_text",
    "decode_value",
    "encode_value",
    "has_more_values",
    "skip_value",
    "truncated",
    "unknown_format",
    "variable_bounds",
]

_UINT_ZERO: Final = UnsignedInt(0)
_ULONG_ZERO: Final = UnsignedLong(0)


def truncated(what: str, position: int, size: int, end: int) -> DecodeError:
    """Return the error for ``what`` that reaches beyond its end."""
    return DecodeError(
        f"{what} at octet {position} needs {size} octets, {max(end - position, 0)} are left; send the whole value"
    )


def unknown_format(what: str, code: int, position: int) -> DecodeError:
    """Return the error for a format code the standard does not define."""
    return DecodeError(
        f"{what} at octet {position} has format code 0x{code:02x}, which is none of §1.6; use one of them"
    )


def decode_text(octets: bytes, what: str, position: int) -> str:
    """Decode a string (§1.6.20).

    Raises:
        DecodeError: ``octets`` are not UTF-8.
    """
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DecodeError(f"{what} at octet {position} is {octets[:32]!r}, not UTF-8; encode it so") from error


def decode_symbol_text(octets: bytes, what: str, position: int) -> str:
    """Decode a symbol (§1.6.21).

    Raises:
        DecodeError: ``octets`` are not ASCII.
    """
    try:
        return octets.decode("ascii")
    except UnicodeDecodeError as error:
        raise DecodeError(
            f"{what} at octet {position} is {octets[:32]!r}; a symbol has ASCII characters only, send a string"
        ) from error


def variable_bounds(data: bytes, code: i64, position: i64, end: i64, what: str) -> tuple[i64, i64]:
    """Return where the octets of a binary, string or symbol start and end; ``position`` is behind the format code.

    Raises:
        DecodeError: they reach beyond ``end``.
    """
    width: i64 = 4 if code >= 0xB0 else 1
    start = position + width
    if start > end:
        raise truncated(what, int(position), int(width), int(end))
    size: i64 = i64(read_i32_be(data, position)) & 0xFFFFFFFF if width == 4 else data[position]
    if start + size > end:
        raise truncated(what, int(start), int(size), int(end))
    return start, start + size


def compound_bounds(data: bytes, code: i64, position: i64, end: i64, what: str) -> tuple[i64, i64, i64]:
    """Return the number of elements of a list, map or array, and where they start and end.

    ``position`` is behind the format code. The elements of an array start with their constructor.

    Raises:
        DecodeError: it reaches beyond ``end`` or is too small for its own count.
    """
    size: i64
    count: i64
    width: i64 = 1 if code < 0xD0 or code == 0xE0 else 4
    start = position + 2 * width
    if start > end:
        raise truncated(what, int(position), int(2 * width), int(end))
    if width == 1:
        size = data[position]
        count = data[position + 1]
    else:
        size = i64(read_i32_be(data, position)) & 0xFFFFFFFF
        count = i64(read_i32_be(data, position + 4)) & 0xFFFFFFFF
    stop = position + width + size
    if size < width or stop > end:
        raise DecodeError(
            f"{what} at octet {position} says it has {size} octets, {end - position - width} are left and its count "
            f"takes {width}; send the size of count and elements together"
        )
    return count, start, stop


def decode_value(data: bytes, position: int, end: int) -> tuple[Any, int]:
    """Return the value at ``position`` and the position behind it; ``end`` is where the octets of ``data`` end for it.

    Raises:
        DecodeError: the octets are malformed, end too early, or are nested deeper than :data:`MAX_DEPTH`.
    """
    value, stop = _read(data, position, end, 0)
    return value, int(stop)


def _read(data: bytes, position: i64, end: i64, depth: i64) -> tuple[Any, i64]:
    if position >= end:
        raise truncated("value", int(position), 1, int(end))
    code: i64 = data[position]
    if code == 0:
        _check_depth(depth, position, "described value")
        descriptor, start = _read(data, position + 1, end, depth + 1)
        value, stop = _read(data, start, end, depth + 1)
        return Described([descriptor, value]), stop
    return _read_content(data, code, position + 1, end, depth)


def _check_depth(depth: i64, position: i64, what: str) -> None:
    if depth >= MAX_DEPTH:
        raise DecodeError(f"{what} at octet {position} is nested {depth} deep, at most {MAX_DEPTH}; flatten it")


def _read_content(data: bytes, code: i64, position: i64, end: i64, depth: i64) -> tuple[Any, i64]:
    width: i64 = WIDTHS[code]
    if width <= 16:
        if position + width > end:
            raise truncated("value", int(position), int(width), int(end))
        return _read_fixed(data, code, position), position + width
    if width > SIZE_WORD:
        raise unknown_format("value", int(code), int(position - 1))
    if code < 0xC0:
        start, stop = variable_bounds(data, code, position, end, "value")
        kind = code & 0x0F
        if kind == 1:
            return decode_text(data[start:stop], "string", int(start)), stop
        if kind == 3:
            return Symbol(decode_symbol_text(data[start:stop], "symbol", int(start))), stop
        return data[start:stop], stop
    if code >= 0xE0:
        return _read_array(data, code, position, end, depth)
    if code & 1 == 0:
        return _read_list(data, code, position, end, depth)
    return _read_map(data, code, position, end, depth)


def _read_fixed(data: bytes, code: i64, at: i64) -> Any:  # noqa: C901, PLR0911, PLR0912 - one row a type
    if code == 0x40:
        return None
    if code == 0x41:
        return True
    if code == 0x42:
        return False
    if code == 0x43:
        return _UINT_ZERO
    if code == 0x44:
        return _ULONG_ZERO
    if code == 0x45:
        return []
    if code == 0x50:
        return UnsignedByte(data[at])
    if code == 0x51:
        return Byte(data[at] - 256 if data[at] > 127 else data[at])
    if code == 0x52:
        return UnsignedInt(data[at])
    if code == 0x53:
        return UnsignedLong(data[at])
    if code == 0x54:
        return Int(data[at] - 256 if data[at] > 127 else data[at])
    if code == 0x55:
        return data[at] - 256 if data[at] > 127 else data[at]
    if code == 0x56:
        if data[at] > 1:
            raise DecodeError(f"boolean at octet {at} is {data[at]}, allowed are 0 and 1")
        return data[at] == 1
    if code == 0x60:
        return UnsignedShort(int(read_i16_be(data, at)) & 0xFFFF)
    if code == 0x61:
        return Short(int(read_i16_be(data, at)))
    if code == 0x70:
        return UnsignedInt(int(read_i32_be(data, at)) & 0xFFFFFFFF)
    if code == 0x71:
        return Int(int(read_i32_be(data, at)))
    return _read_wide(data, code, at)


def _read_wide(data: bytes, code: i64, at: i64) -> Any:  # noqa: PLR0911 - one row a type
    if code == 0x81:
        return int(read_i64_be(data, at))
    if code == 0x82:
        return read_f64_be(data, at)
    if code == 0x80:
        return UnsignedLong(int(read_i64_be(data, at)) & 0xFFFFFFFFFFFFFFFF)
    if code == 0x83:
        return TimestampMilliseconds(int(read_i64_be(data, at)))
    if code == 0x72:
        return Float32(read_f32_be(data, at))
    if code == 0x73:
        return _read_character(data, at)
    if code == 0x74:
        return Decimal32(data[at : at + 4])
    if code == 0x84:
        return Decimal64(data[at : at + 8])
    return Decimal128(data[at : at + 16]) if code == 0x94 else Uuid(data[at : at + 16])


def _read_character(data: bytes, at: i64) -> Character:
    number = int(read_i32_be(data, at)) & 0xFFFFFFFF
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise DecodeError(
            f"char at octet {at} is 0x{number:x}, which is no Unicode character; allowed are up to 0x10ffff"
        )
    return Character(chr(number))


def _read_list(data: bytes, code: i64, position: i64, end: i64, depth: i64) -> tuple[Any, i64]:
    _check_depth(depth, position, "list")
    count, at, stop = compound_bounds(data, code, position, end, "list")
    values = _read_items(data, count, at, stop, depth, "list")
    return values, stop


def _read_items(data: bytes, count: i64, at: i64, stop: i64, depth: i64, what: str) -> list[Any]:
    if count > stop - at:  # each takes an octet at least: refused before anything is read
        raise DecodeError(f"{what} at octet {at} says it has {count} elements in {stop - at} octets; correct its count")
    values: list[Any] = []
    for _ in range(count):
        value, at = _read(data, at, stop, depth + 1)
        values.append(value)
    if at != stop:
        raise DecodeError(f"{what} has {stop - at} octets behind its last element at octet {at}; correct its count")
    return values


def _read_map(data: bytes, code: i64, position: i64, end: i64, depth: i64) -> tuple[Any, i64]:
    _check_depth(depth, position, "map")
    count, at, stop = compound_bounds(data, code, position, end, "map")
    if count & 1:
        raise DecodeError(f"map at octet {position} has {count} elements; each key needs a value (§1.6.23)")
    pairs = _read_items(data, count, at, stop, depth, "map")
    mapping: dict[str, Any] = {}
    for index in range(0, len(pairs), 2):
        key = pairs[index]
        if type(key) is not str and type(key) is not Symbol:
            break
        mapping[key] = pairs[index + 1]
    if 2 * len(mapping) == len(pairs):
        return mapping, stop
    # A symbol and a string of the same characters are different keys, so the octets decide.
    _refuse_equal_keys(data, at, stop)
    return MapPairs(pairs), stop


def _refuse_equal_keys(data: bytes, position: i64, end: i64) -> None:
    keys: set[bytes] = set()
    while position < end:
        stop: i64 = skip_value(data, int(position), int(end))
        key = data[position:stop]
        if key in keys:
            raise DecodeError(f"map has the key at octet {position} twice (§1.6.23); send each key once")
        keys.add(key)
        position = skip_value(data, int(stop), int(end))


def _read_array(data: bytes, code: i64, position: i64, end: i64, depth: i64) -> tuple[Any, i64]:
    _check_depth(depth, position, "array")
    count, at, stop = compound_bounds(data, code, position, end, "array")
    descriptors: list[Any] = []
    while at < stop and data[at] == 0:
        _check_depth(depth + len(descriptors), at, "array of described values")
        descriptor, at = _read(data, at + 1, stop, depth + 1)
        descriptors.append(descriptor)
    if at >= stop:
        raise truncated("constructor of an array", int(at), 1, int(stop))
    element: i64 = data[at]
    at += 1
    room: i64 = stop - at if WIDTHS[element] else MAX_ZERO_WIDTH_ELEMENTS
    if count > room:
        raise DecodeError(
            f"array at octet {position} says it has {count} elements of format 0x{element:02x}, at most {room} "
            "are possible; correct its count or send a list"
        )
    array = Array()
    if count == 0:
        if WIDTHS[element] > SIZE_WORD:
            raise unknown_format("constructor of an array", int(element), int(at - 1))
        array.constructor = int(element)
    level: i64 = depth + 1 + len(descriptors)
    for _ in range(count):
        value, at = _read_content(data, element, at, stop, level)
        for index in range(len(descriptors) - 1, -1, -1):
            value = Described([descriptors[index], value])
        array.append(value)
    if at != stop:
        raise DecodeError(f"array has {stop - at} octets behind its last element at octet {at}; correct its count")
    return array, stop


def skip_value(data: bytes, position: int, end: int) -> int:
    """Return the position behind the value at ``position`` without decoding it.

    Only its outermost format and size are read, so the contents of a list, map or array may still be malformed.

    Raises:
        DecodeError: an unknown format code, or the value reaches beyond ``end``.
    """
    return int(_skip(data, position, end, 0))


def _skip(data: bytes, position: i64, end: i64, depth: i64) -> i64:
    while True:
        if position >= end:
            raise truncated("value", int(position), 1, int(end))
        code: i64 = data[position]
        if code != 0:
            break
        _check_depth(depth, position, "described value")
        depth += 1
        position = _skip(data, position + 1, end, depth)
    start = position + 1
    width: i64 = WIDTHS[code]
    if width == SIZE_OCTET or width == SIZE_WORD:  # noqa: PLR1714, SIM109 - compiles better than a tuple
        octets: i64 = 1 if width == SIZE_OCTET else 4
        if start + octets > end:
            raise truncated("value", int(start), int(octets), int(end))
        size: i64 = data[start] if octets == 1 else i64(read_i32_be(data, start)) & 0xFFFFFFFF
        stop = start + octets + size
    elif width > SIZE_WORD:
        raise unknown_format("value", int(code), int(position))
    else:
        stop = start + width
    if stop > end:
        raise truncated("value", int(start), int(stop - start), int(end))
    return stop


def has_more_values(data: bytes, position: int, end: int, most: int) -> bool:
    """Return whether the values from ``position`` to ``end`` are more than ``most``, without decoding them.

    Keys, elements, descriptors and described values count, nested ones as well. Malformed octets end the count: no
    decoder gets beyond them either.
    """
    if (end - position) * _VALUES_OF_AN_OCTET <= most:
        return False
    try:
        return _count_values(data, position, end, most, 0) > most
    except DecodeError:  # which the decoder will raise, too
        return False


_VALUES_OF_AN_OCTET: Final = 5
"""Values that an octet can stand for at most: an array of 16 elements without octets takes 4."""


def _count_values(data: bytes, start: i64, end: i64, most: i64, depth: i64) -> i64:
    """Count values, a few more than ``most`` at most. Lists and maps need no recursion: their elements follow."""
    count: i64 = 0
    position: i64 = start
    while position < end and count <= most:
        code: i64 = data[position]
        position += 1
        count += 1
        width: i64 = WIDTHS[code]
        if code == 0:
            continue  # descriptor and value follow
        if width <= 16:
            position += width
        elif width > SIZE_WORD:
            raise unknown_format("value", int(code), int(position - 1))
        elif code < 0xC0:
            _, position = variable_bounds(data, code, position, end, "value")
        else:
            elements, at, stop = compound_bounds(data, code, position, end, "value")
            position = at
            if code >= 0xE0:
                count += _count_elements(data, elements, at, stop, most - count, depth)
                position = stop
    return count


def _count_elements(data: bytes, elements: i64, start: i64, stop: i64, most: i64, depth: i64) -> i64:
    """Count the elements of an array and the values within them. They share the constructor at ``start``."""
    _check_depth(depth, start, "array")
    at: i64 = start
    each: i64 = 1
    while at < stop and data[at] == 0:
        at = skip_value(data, int(at) + 1, int(stop))
        each += 2
        _check_depth(depth + each, at, "array of described values")
    if at >= stop:
        raise truncated("constructor of an array", int(at), 1, int(stop))
    code: i64 = data[at]
    at += 1
    count: i64 = elements * each
    if code < 0xC0 or WIDTHS[code] > SIZE_WORD:
        return count
    for _ in range(elements):
        if count > most:
            break
        inner, content, following = compound_bounds(data, code, at, stop, "element of an array")
        if code < 0xE0:
            count += _count_values(data, content, following, most - count, depth + 1)
        else:
            count += _count_elements(data, inner, content, following, most - count, depth + 1)
        at = following
    return count
