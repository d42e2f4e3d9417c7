"""The format codes of primitive types (§1.6) and the bounds of their values."""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 32
"""How deep lists, maps, arrays and described values may be nested, in levels: filters and annotations use three."""

MAX_ZERO_WIDTH_ELEMENTS: Final = 16
"""How many elements an array may have whose elements take no octets. Four octets could announce 2**32 of them."""

UNKNOWN_WIDTH: Final = 255
"""In :data:`WIDTHS`, a format code the standard does not define."""

DESCRIBED: Final = 0x00
NULL: Final = 0x40
TRUE: Final = 0x41
FALSE: Final = 0x42
UINT_0: Final = 0x43
ULONG_0: Final = 0x44
LIST_0: Final = 0x45
UBYTE: Final = 0x50
BYTE: Final = 0x51
SMALL_UINT: Final = 0x52
SMALL_ULONG: Final = 0x53
SMALL_INT: Final = 0x54
SMALL_LONG: Final = 0x55
BOOLEAN_OCTET: Final = 0x56
USHORT: Final = 0x60
SHORT: Final = 0x61
UINT: Final = 0x70
INT: Final = 0x71
FLOAT: Final = 0x72
CHAR: Final = 0x73
DECIMAL32: Final = 0x74
ULONG: Final = 0x80
LONG: Final = 0x81
DOUBLE: Final = 0x82
TIMESTAMP: Final = 0x83
DECIMAL64: Final = 0x84
DECIMAL128: Final = 0x94
UUID: Final = 0x98
BINARY_8: Final = 0xA0
STRING_8: Final = 0xA1
SYMBOL_8: Final = 0xA3
BINARY_32: Final = 0xB0
STRING_32: Final = 0xB1
SYMBOL_32: Final = 0xB3
LIST_8: Final = 0xC0
MAP_8: Final = 0xC1
LIST_32: Final = 0xD0
MAP_32: Final = 0xD1
ARRAY_8: Final = 0xE0
ARRAY_32: Final = 0xF0

SIZE_OCTET: Final = 100
"""In :data:`WIDTHS`, a format whose octets begin with their number in one octet."""

SIZE_WORD: Final = 101
"""In :data:`WIDTHS`, a format whose octets begin with their number in four octets."""

_CODES_BY_WIDTH: Final[tuple[tuple[int, tuple[int, ...]], ...]] = (
    (0, (NULL, TRUE, FALSE, UINT_0, ULONG_0, LIST_0)),
    (1, (UBYTE, BYTE, SMALL_UINT, SMALL_ULONG, SMALL_INT, SMALL_LONG, BOOLEAN_OCTET)),
    (2, (USHORT, SHORT)),
    (4, (UINT, INT, FLOAT, CHAR, DECIMAL32)),
    (8, (ULONG, LONG, DOUBLE, TIMESTAMP, DECIMAL64)),
    (16, (DECIMAL128, UUID)),
    (SIZE_OCTET, (BINARY_8, STRING_8, SYMBOL_8, LIST_8, MAP_8, ARRAY_8)),
    (SIZE_WORD, (BINARY_32, STRING_32, SYMBOL_32, LIST_32, MAP_32, ARRAY_32)),
)


def _widths() -> bytes:
    table = bytearray([UNKNOWN_WIDTH]) * 256
    for width, codes in _CODES_BY_WIDTH:
        for code in codes:
            table[code] = width
    return bytes(table)


WIDTHS: Final[bytes] = _widths()
"""For each format code the octets that follow it, or one of the three constants above."""
