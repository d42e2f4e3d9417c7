"""Property values that remember the type they came with, so that conversion between protocols loses nothing.

A value of one of these classes is an ordinary number, text or octets for code that does not check: selectors, sort keys
and comparisons treat it like its base class. A plain ``int`` is a signed 64-bit integer, a plain ``float`` has 64 bits.
Types: AMQP 1.0 part 1 §1.6; the numbers of AMQP 0-9-1 tables are a subset.
"""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import mypyc_attr


@mypyc_attr(native_class=False)
class UnsignedByte(int):
    """0 to 255 (``ubyte``; 0-9-1 ``B``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class UnsignedShort(int):
    """0 to 65535 (``ushort``; 0-9-1 ``u``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class UnsignedInt(int):
    """0 to 2**32 - 1 (``uint``; 0-9-1 ``i``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class UnsignedLong(int):
    """0 to 2**64 - 1 (``ulong``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Byte(int):
    """-128 to 127 (``byte``; 0-9-1 ``b``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Short(int):
    """-32768 to 32767 (``short``; 0-9-1 ``s``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Int(int):
    """-2**31 to 2**31 - 1 (``int``; 0-9-1 ``I``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class TimestampMilliseconds(int):
    """Milliseconds since 1970, UTC (``timestamp``; 0-9-1 ``T`` has seconds)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Float32(float):
    """A number of single precision (``float``; 0-9-1 ``f``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Character(str):
    """One Unicode character (``char``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Symbol(str):
    """A name of ASCII characters from a constrained domain (``symbol``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Uuid(bytes):
    """The 16 octets of a universally unique identifier (``uuid``, RFC 4122 §4.1.2)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Decimal32(bytes):
    """4 octets of an IEEE 754-2008 decimal number (``decimal32``); carried, never calculated with."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Decimal64(bytes):
    """8 octets of an IEEE 754-2008 decimal number (``decimal64``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Decimal128(bytes):
    """16 octets of an IEEE 754-2008 decimal number (``decimal128``)."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Array(list[Any]):
    """Values of one type (``array``). ``constructor`` is the format code of an array without elements, else unused."""

    constructor: int = 0


@mypyc_attr(native_class=False)
class MapPairs(list[Any]):
    """A map whose keys are not all texts: key, value, key, value, ... in the order it came."""


@mypyc_attr(native_class=False)
class Described(list[Any]):
    """A described value: ``[descriptor, value]``."""


INTEGER_RANGES: Final[tuple[tuple[type[int], int, int], ...]] = (
    (UnsignedByte, 0, 0xFF),
    (UnsignedShort, 0, 0xFFFF),
    (UnsignedInt, 0, 0xFFFFFFFF),
    (UnsignedLong, 0, 0xFFFFFFFFFFFFFFFF),
    (Byte, -0x80, 0x7F),
    (Short, -0x8000, 0x7FFF),
    (Int, -0x80000000, 0x7FFFFFFF),
)
"""Each integer type with the least and the greatest number it holds."""
