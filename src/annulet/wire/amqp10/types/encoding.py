"""Encoding of values (§1.6), each in the smallest format of its type. The types are those of ``values``."""

from __future__ import annotations

from typing import Any, Final

from librt.strings import BytesWriter, write_f32_be, write_f64_be, write_i32_be
from mypy_extensions import i32

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
from annulet.wire.amqp10.types.errors import LocalProtocolError
from annulet.wire.amqp10.types.format_codes import (
    ARRAY_8,
    BINARY_8,
    BOOLEAN_OCTET,
    FALSE,
    LIST_0,
    LIST_8,
    MAP_8,
    MAX_DEPTH,
    MAX_ZERO_WIDTH_ELEMENTS,
    NULL,
    STRING_8,
    SYMBOL_8,
    TRUE,
    UINT_0,
    UNKNOWN_WIDTH,
    WIDTHS,
)

ENCODED_NULL: Final[bytes] = b"\x40"
ENCODED_TRUE: Final[bytes] = b"\x41"
ENCODED_FALSE: Final[bytes] = b"\x42"
_MAX_SIZE: Final = 0xFFFFFFFF
_MAX_FLOAT: Final = (2 - 2**-24) * 2.0**127  # from here on rounding to 32 bits gives infinity
_INFINITY: Final = float("inf")
_WIDE: Final = 0x10  # difference of the format codes with four octets and one octet of size


class _IntegerFormat:
    """How an integer type is written: its range, its short forms and its full one."""

    __slots__ = ("code", "greatest", "least", "name", "short_code", "signed", "width", "zero_code")

    def __init__(
        self, name: str, code: int, width: int, *, signed: bool, short_code: int = 0, zero_code: int = 0
    ) -> None:
        bits = 8 * width
        self.name = name
        self.code = code
        self.width = width
        self.signed = signed
        self.least = -(1 << (bits - 1)) if signed else 0
        self.greatest = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
        self.short_code = short_code
        self.zero_code = zero_code


_LONG: Final = _IntegerFormat("long", 0x81, 8, signed=True, short_code=0x55)
_INTEGERS: Final[dict[type[Any], _IntegerFormat]] = {
    UnsignedByte: _IntegerFormat("ubyte", 0x50, 1, signed=False),
    UnsignedShort: _IntegerFormat("ushort", 0x60, 2, signed=False),
    UnsignedInt: _IntegerFormat("uint", 0x70, 4, signed=False, short_code=0x52, zero_code=0x43),
    UnsignedLong: _IntegerFormat("ulong", 0x80, 8, signed=False, short_code=0x53, zero_code=0x44),
    Byte: _IntegerFormat("byte", 0x51, 1, signed=True),
    Short: _IntegerFormat("short", 0x61, 2, signed=True),
    Int: _IntegerFormat("int", 0x71, 4, signed=True, short_code=0x54),
    TimestampMilliseconds: _IntegerFormat("timestamp", 0x83, 8, signed=True),
}
_OCTETS: Final[dict[type[Any], tuple[int, int]]] = {  # format code and number of octets
    Decimal32: (0x74, 4),
    Decimal64: (0x84, 8),
    Decimal128: (0x94, 16),
    Uuid: (0x98, 16),
}
_FULL_CODES: Final[dict[int, int]] = {
    # the format all values of a type can be written in, by the short formats of the type; arrays have one for all
    TRUE: BOOLEAN_OCTET,
    FALSE: BOOLEAN_OCTET,
    UINT_0: 0x70,
    0x52: 0x70,
    0x44: 0x80,
    0x53: 0x80,
    0x54: 0x71,
    0x55: 0x81,
    LIST_0: 0xD0,
}


def encode_value(value: Any) -> bytes:
    """Encode one value.

    Raises:
        LocalProtocolError: a type AMQP 1.0 has no value for, a number beyond its type's range, a text that is not
            Unicode, an array of mixed types, or nesting deeper than :data:`MAX_DEPTH`.
    """
    return _encode(value, 0)


def _encode(value: Any, depth: int) -> bytes:  # noqa: C901, PLR0911, PLR0912 - one row a type, the usual ones first
    kind = type(value)
    if kind is str:
        return encode_string(value)
    if value is None:
        return ENCODED_NULL
    if kind is bool:
        return ENCODED_TRUE if value else ENCODED_FALSE
    if kind is int:
        return encode_integer(value, _LONG)
    if kind is bytes:
        return encode_binary(value)
    if kind is Symbol:
        return encode_symbol(value)
    integer = _INTEGERS.get(kind)
    if integer is not None:
        return encode_integer(value, integer)
    if isinstance(value, Float32):
        return _encode_float(value)
    if isinstance(value, float):
        writer = BytesWriter()
        writer.append(0x82)
        write_f64_be(writer, value)
        return writer.getvalue()
    if isinstance(value, Character):
        return _encode_character(value)
    if isinstance(value, dict | list):
        return _encode_nested(value, depth)
    if isinstance(value, bytes):
        octets = _OCTETS.get(kind)
        return encode_binary(bytes(value)) if octets is None else _encode_octets(value, octets)
    if isinstance(value, int):  # enumerations
        return encode_integer(int(value), _LONG)
    if isinstance(value, str):
        return encode_string(str(value))
    raise LocalProtocolError(
        f"a value is of type {kind.__name__}, which AMQP 1.0 cannot carry; use one of annulet.core.base.typed_values"
    )


def _encode_nested(value: Any, depth: int) -> bytes:
    if depth >= MAX_DEPTH:
        raise LocalProtocolError(f"a value is nested deeper than {MAX_DEPTH}; flatten it")
    depth += 1
    if isinstance(value, dict):
        parts: list[bytes] = []
        for key, item in value.items():
            parts.append(_encode(key, depth))
            parts.append(_encode(item, depth))
        return encode_map(parts)
    if isinstance(value, Described):
        if len(value) != 2:
            raise LocalProtocolError(f"a described value has {len(value)} parts, needed are descriptor and value")
        return b"\x00" + _encode(value[0], depth) + _encode(value[1], depth)
    if isinstance(value, Array):
        return _encode_array(value, depth)
    items = [_encode(item, depth) for item in value]
    if isinstance(value, MapPairs):
        if len(items) % 2:
            raise LocalProtocolError(f"map pairs have {len(items)} elements; each key needs a value")
        return encode_map(items)
    return encode_list(items)


def encode_integer(value: int, integer: _IntegerFormat) -> bytes:
    """Encode a number in the shortest form of its type.

    Raises:
        LocalProtocolError: it is beyond the type's range.
    """
    if not integer.least <= value <= integer.greatest:
        raise LocalProtocolError(
            f"a value of type {integer.name} is {int(value)}, allowed are {integer.least} to {integer.greatest}"
        )
    if value == 0 and integer.zero_code:
        return bytes((integer.zero_code,))
    if integer.short_code:
        if integer.signed:
            if -128 <= value <= 127:
                return bytes((integer.short_code, value & 0xFF))
        elif value <= 255:
            return bytes((integer.short_code, value))
    return bytes((integer.code,)) + value.to_bytes(integer.width, "big", signed=integer.signed)


def encode_unsigned_int(value: int) -> bytes:
    """Encode a number as ``uint``; raises LocalProtocolError for one beyond 32 bits."""
    return encode_integer(value, _INTEGERS[UnsignedInt])


def encode_unsigned(value: int, kind: type[Any]) -> bytes:
    """Encode a plain number as the integer type ``kind`` of ``typed_values``; raises LocalProtocolError beyond it."""
    return encode_integer(value, _INTEGERS[kind])


def _encode_float(value: float) -> bytes:
    if _MAX_FLOAT <= abs(value) < _INFINITY:
        raise LocalProtocolError(f"a value of type float is {float(value)}, too large for 32 bits; send a double")
    writer = BytesWriter()
    writer.append(0x72)
    write_f32_be(writer, value)
    return writer.getvalue()


def _encode_character(value: str) -> bytes:
    if len(value) != 1 or 0xD800 <= ord(value) <= 0xDFFF:
        raise LocalProtocolError(f"a value of type char is {value!r}, needed is one Unicode character")
    return b"\x73" + ord(value).to_bytes(4, "big")


def _encode_octets(value: bytes, octets: tuple[int, int]) -> bytes:
    code, size = octets
    if len(value) != size:
        raise LocalProtocolError(f"a value of format 0x{code:02x} has {len(value)} octets, needed are {size}")
    return bytes((code,)) + value


def _encode_variable(code: int, octets: bytes) -> bytes:
    size = len(octets)
    if size <= 255:
        return bytes((code, size)) + octets
    if size > _MAX_SIZE:
        raise LocalProtocolError(f"a value has {size} octets, at most {_MAX_SIZE} fit; split it")
    return bytes((code + _WIDE,)) + size.to_bytes(4, "big") + octets


def encode_binary(value: bytes) -> bytes:
    """Encode octets (§1.6.19)."""
    return _encode_variable(BINARY_8, value)


def encode_string(value: str) -> bytes:
    """Encode a text (§1.6.20); raises LocalProtocolError for lone surrogates."""
    try:
        return _encode_variable(STRING_8, value.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"string {value[:32]!r} has a lone surrogate, which UTF-8 cannot carry") from error


def encode_symbol(value: str) -> bytes:
    """Encode a symbol (§1.6.21); raises LocalProtocolError for characters beyond ASCII."""
    try:
        return _encode_variable(SYMBOL_8, value.encode("ascii"))
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"symbol {value[:32]!r} has characters beyond ASCII; send a string") from error


def encode_symbols(names: list[str]) -> bytes:
    """Encode names as an array of symbols; raises LocalProtocolError for characters beyond ASCII."""
    return _encode_array([Symbol(name) for name in names], 0, SYMBOL_8)


def encode_list(items: list[bytes]) -> bytes:
    """Encode a list of values that are encoded already."""
    if not items:
        return bytes((LIST_0,))
    return _encode_compound(LIST_8, len(items), b"".join(items))


def encode_map(items: list[bytes]) -> bytes:
    """Encode a map of keys and values that are encoded already: key, value, key, value."""
    return _encode_compound(MAP_8, len(items), b"".join(items))


def _encode_compound(code: int, count: int, octets: bytes) -> bytes:
    size = len(octets)
    if count <= 255 and size < 255:
        return bytes((code, size + 1, count)) + octets
    if size + 4 > _MAX_SIZE:
        raise LocalProtocolError(f"a value has {size} octets, at most {_MAX_SIZE - 4} fit; split it")
    writer = BytesWriter()
    writer.append(code + _WIDE)
    writer.write((size + 4).to_bytes(4, "big"))
    write_i32_be(writer, i32(count))
    return writer.getvalue() + octets


def _encode_array(values: list[Any], depth: int, constructor: int = NULL) -> bytes:
    """Encode an array (§1.6.24); ``constructor`` is written when it has neither elements nor a constructor."""
    if not values:
        if isinstance(values, Array) and values.constructor:
            constructor = values.constructor
        if not 0 < constructor <= 255 or WIDTHS[constructor] == UNKNOWN_WIDTH:
            raise LocalProtocolError(f"the constructor {constructor} of an empty array is no format code of §1.6")
        return _encode_compound(ARRAY_8, 0, bytes((constructor,)))
    return _encode_compound(ARRAY_8, len(values), _encode_elements(values, depth))


def _encode_elements(values: list[Any], depth: int) -> bytes:
    """Return the constructor all elements share and their octets without it."""
    if isinstance(values[0], Described):
        descriptor = _encode(values[0][0], depth)
        inner: list[Any] = []
        for value in values:
            if not isinstance(value, Described) or len(value) != 2 or _encode(value[0], depth) != descriptor:
                raise LocalProtocolError("an array holds values of different descriptors; send a list")
            inner.append(value[1])
        if depth >= MAX_DEPTH:
            raise LocalProtocolError(f"a value is nested deeper than {MAX_DEPTH}; flatten it")
        return b"\x00" + descriptor + _encode_elements(inner, depth + 1)
    encoded = [_encode(value, depth) for value in values]
    code = encoded[0][0]
    if (WIDTHS[code] == 0 and code != NULL) or any(octets[0] != code for octets in encoded):
        encoded = [_widened(octets) for octets in encoded]
        code = encoded[0][0]
        if any(octets[0] != code for octets in encoded):
            raise LocalProtocolError("an array holds values of different types; send a list")
    if code == NULL and len(values) > MAX_ZERO_WIDTH_ELEMENTS:
        raise LocalProtocolError(
            f"an array holds {len(values)} nulls, at most {MAX_ZERO_WIDTH_ELEMENTS} may be sent; send a list"
        )
    return bytes((code,)) + b"".join([octets[1:] for octets in encoded])


def _widened(octets: bytes) -> bytes:
    """Return an encoded value in the format that fits all values of its type."""
    code = octets[0]
    if code == 0:
        raise LocalProtocolError("an array holds described values and others; send a list")
    full = _FULL_CODES.get(code, 0)
    if WIDTHS[code] == 0 and full == BOOLEAN_OCTET:
        return bytes((full, code == TRUE))
    if code == LIST_0:
        return bytes((full,)) + b"\x00\x00\x00\x04\x00\x00\x00\x00"
    if full:
        signed = code >= 0x54  # smallint and smalllong; smalluint, smallulong and the zeros are below
        number = int.from_bytes(octets[1:], "big", signed=signed)
        return bytes((full,)) + number.to_bytes(WIDTHS[full], "big", signed=signed)
    if BINARY_8 <= code < 0xB0:
        return bytes((code + _WIDE,)) + (len(octets) - 2).to_bytes(4, "big") + octets[2:]
    if LIST_8 <= code < 0xD0 or ARRAY_8 <= code < 0xF0:
        return bytes((code + _WIDE,)) + (octets[1] + 3).to_bytes(4, "big") + octets[2].to_bytes(4, "big") + octets[3:]
    return octets
