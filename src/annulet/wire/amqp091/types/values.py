"""Field values, tables and arrays (§4.2.5.5), with the types RabbitMQ and its clients really use.

The published grammar and the deployed clients disagree; RabbitMQ's errata decide. Read are ``t b B s u I i l L f d D
S A T F V x``, of which ``s`` is a 16-bit integer and ``l`` and ``L`` are both signed 64-bit integers.
Written are only ``t I l d S x A F T V``: the subset every client reads alike.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_be,
    read_f64_be,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_f64_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i32, i64, mypyc_attr

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.types.constants import MAX_SHORT_STRING_BYTES, MAX_TABLE_DEPTH, MAX_TABLE_VALUES, SYNTAX_ERROR
from annulet.wire.amqp091.types.errors import LocalProtocolError, RemoteProtocolError


@mypyc_attr(native_class=False)
class Timestamp(int):
    """Seconds since 1970, UTC, read and written as type ``T``, so that a table survives a round trip."""

    __slots__ = ()


@mypyc_attr(native_class=False)
class Long(int):
    """A number that is written as type ``l`` however small: clients in typed languages cast it to 64 bits."""

    __slots__ = ()


_FIXED_SIZES: Final[dict[int, int]] = {
    ord("t"): 1,
    ord("b"): 1,
    ord("B"): 1,
    ord("s"): 2,
    ord("u"): 2,
    ord("I"): 4,
    ord("i"): 4,
    ord("l"): 8,
    ord("L"): 8,
    ord("f"): 4,
    ord("d"): 8,
    ord("D"): 5,
    ord("T"): 8,
    ord("V"): 0,
}
_STRING: Final = ord("S")
_BYTES: Final = ord("x")
_ARRAY: Final = ord("A")
_TABLE: Final = ord("F")
_TRUE: Final = b"t\x01"
_FALSE: Final = b"t\x00"


def _truncated(what: str, offset: int, size: int, end: int) -> RemoteProtocolError:
    return RemoteProtocolError(
        SYNTAX_ERROR, f"{what} at octet {offset} needs {size} octets, {end - offset} are left; send the whole value"
    )


def decode_text(data: bytes, what: str) -> str:
    """Decode UTF-8 (§4.2.5.3).

    Raises:
        RemoteProtocolError: 502 when ``data`` is not UTF-8.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(SYNTAX_ERROR, f"{what} {data[:32]!r} is not UTF-8; encode it so") from error


def read_short_string(data: bytes, offset: int, end: int, what: str = "short string") -> tuple[str, int]:
    """Return the short string at ``offset`` and the offset behind it.

    Raises:
        RemoteProtocolError: 502 when it reaches beyond ``end`` or is not UTF-8.
    """
    if offset >= end:
        raise _truncated(what, offset, 1, end)
    start = offset + 1
    stop = start + data[offset]
    if stop > end:
        raise _truncated(what, offset, stop - offset, end)
    return decode_text(data[start:stop], what), stop


def read_long_string(data: bytes, offset: int, end: int, what: str = "long string") -> tuple[bytes, int]:
    """Return the octets of the long string at ``offset`` and the offset behind it.

    Raises:
        RemoteProtocolError: 502 when it reaches beyond ``end``.
    """
    start = offset + 4
    if start > end:
        raise _truncated(what, offset, 4, end)
    at: i64 = offset
    stop = start + (int(read_i32_be(data, at)) & 0xFFFFFFFF)
    if stop > end:
        raise _truncated(what, offset, stop - offset, end)
    return data[start:stop], stop


def read_table(data: bytes, offset: int, end: int, depth: int = 0) -> tuple[dict[str, PropertyValue], int]:
    """Return the field table at ``offset`` and the offset behind it. Of two fields with one name the first counts.

    Raises:
        RemoteProtocolError: 502 for a malformed, truncated or too deeply nested table.
    """
    content_end = find_content_end(data, offset, end, depth, "field table")
    position = offset + 4
    if depth == 0:
        _refuse_many(data, position, content_end)
    table: dict[str, PropertyValue] = {}
    while position < content_end:
        name, position = read_short_string(data, position, content_end, "field name")
        value, position = read_value(data, position, content_end, depth)
        if name not in table:
            table[name] = value
    return table, content_end


def _refuse_many(data: bytes, start: int, end: int) -> None:
    if has_more_fields(data, start, end, MAX_TABLE_VALUES):
        raise RemoteProtocolError(
            SYNTAX_ERROR, f"field table has more than {MAX_TABLE_VALUES} names and values; send fewer"
        )


def read_table_content(data: bytes) -> dict[str, PropertyValue]:
    """Return the fields of ``data``, a table without its leading length: the response of SASL ``AMQPLAIN``.

    Raises:
        RemoteProtocolError: 502 for malformed fields.
    """
    position = 0
    end = len(data)
    table: dict[str, PropertyValue] = {}
    while position < end:
        name, position = read_short_string(data, position, end, "field name")
        value, position = read_value(data, position, end, 0)
        if name not in table:
            table[name] = value
    return table


def find_content_end(data: bytes, offset: int, end: int, depth: int, what: str) -> int:
    """Return the offset behind the table or array at ``offset``; its fields start four octets after ``offset``.

    Raises:
        RemoteProtocolError: 502 when it reaches beyond ``end`` or is nested too deeply.
    """
    if depth >= MAX_TABLE_DEPTH:
        raise RemoteProtocolError(SYNTAX_ERROR, f"{what} is nested {depth} deep, at most {MAX_TABLE_DEPTH}; flatten it")
    if offset + 4 > end:
        raise _truncated(what, offset, 4, end)
    at: i64 = offset
    content_end = offset + 4 + (int(read_i32_be(data, at)) & 0xFFFFFFFF)
    if content_end > end:
        raise _truncated(what, offset, content_end - offset, end)
    return content_end


def _read_array(data: bytes, offset: int, end: int, depth: int) -> tuple[list[PropertyValue], int]:
    content_end = find_content_end(data, offset, end, depth, "field array")
    position = offset + 4
    values: list[PropertyValue] = []
    while position < content_end:
        value, position = read_value(data, position, content_end, depth)
        values.append(value)
    return values, content_end


def read_value(data: bytes, offset: int, end: int, depth: int) -> tuple[PropertyValue, int]:
    """Return the field value at ``offset``, type octet first, and the offset behind it.

    ``S`` that is not UTF-8 is returned as :class:`bytes`: clients put binary data there, and RabbitMQ allows it.

    Raises:
        RemoteProtocolError: 502 for an unknown type or a truncated value.
    """
    if offset >= end:
        raise _truncated("field value", offset, 1, end)
    kind = data[offset]
    start = offset + 1
    if kind == _STRING or kind == _BYTES:  # noqa: PLR1714, SIM109 - compiles better than a tuple
        octets, stop = read_long_string(data, start, end)
        if kind == _BYTES:
            return octets, stop
        try:
            return octets.decode("utf-8"), stop
        except UnicodeDecodeError:
            return octets, stop
    if kind == _TABLE:
        return read_table(data, start, end, depth + 1)
    if kind == _ARRAY:
        return _read_array(data, start, end, depth + 1)
    size = _FIXED_SIZES.get(kind, -1)
    if size < 0:
        raise RemoteProtocolError(
            SYNTAX_ERROR,
            f"unknown field type {chr(kind)!r} at octet {offset}; use one of t b B s u I i l f d D S A T F V x",
        )
    if start + size > end:
        raise _truncated(f"field value of type {chr(kind)}", start, size, end)
    return _read_fixed(data, kind, start), start + size


def _read_fixed(data: bytes, kind: int, start: int) -> PropertyValue:  # noqa: C901, PLR0911 - one row a type
    at: i64 = start
    if kind == 116:  # t
        return data[start] != 0
    if kind == 73:  # I
        return int(read_i32_be(data, at))
    if kind == 108 or kind == 76:  # noqa: PLR1714 - l and L, see the module docstring
        return int(read_i64_be(data, at))
    if kind == 98:  # b
        return data[start] - 256 if data[start] > 127 else data[start]
    if kind == 66:  # B
        return data[start]
    if kind == 115:  # s
        return int(read_i16_be(data, at))
    if kind == 117:  # u
        return int(read_i16_be(data, at)) & 0xFFFF
    if kind == 105:  # i
        return int(read_i32_be(data, at)) & 0xFFFFFFFF
    if kind == 84:  # T
        return Timestamp(int(read_i64_be(data, at)) & 0xFFFFFFFFFFFFFFFF)
    if kind == 100:  # d
        return read_f64_be(data, at)
    if kind == 102:  # f
        return read_f32_be(data, at)
    if kind == 68:  # D: the 32 bits are unsigned, as RabbitMQ reads them
        return float(int(read_i32_be(data, at + 1)) & 0xFFFFFFFF) * float(10.0 ** -float(data[start]))
    return None


def skip_value(data: bytes, offset: int, end: int) -> int:
    """Return the offset behind the field value at ``offset`` without decoding it.

    Raises:
        RemoteProtocolError: 502 for an unknown type or a truncated value.
    """
    if offset >= end:
        raise _truncated("field value", offset, 1, end)
    kind = data[offset]
    size = _FIXED_SIZES.get(kind, -1)
    if size < 0:
        if kind not in {_STRING, _BYTES, _TABLE, _ARRAY}:
            return read_value(data, offset, end, 0)[1]  # raises, with the text for an unknown type
        return find_content_end(data, offset + 1, end, 0, "field value")
    stop = offset + 1 + size
    if stop > end:
        raise _truncated("field value", offset, 1 + size, end)
    return stop


def has_more_fields(data: bytes, offset: int, end: int, most: int) -> bool:
    """Return whether the fields from ``offset`` to ``end`` have more than ``most`` names and values, without decoding
    them; those within tables and arrays count as well."""
    if end - offset <= most:  # each takes an octet
        return False
    return _FieldCount(data, offset, end).exceeds(most)


class _FieldCount:
    """A walk over the fields of a table. A malformed field ends only itself, as in :func:`read_readable_table`."""

    def __init__(self, data: bytes, offset: int, end: int) -> None:
        self.data = data
        self.position = offset
        self.end = end  # of the container at hand
        self.names = True  # it is a table
        self.outer: list[tuple[int, bool]] = []  # the containers around it: end, whether tables

    def exceeds(self, most: int) -> bool:
        """Return whether there are more than ``most``."""
        count = 0
        while count <= most:
            while self.position >= self.end and self.outer:
                self.end, self.names = self.outer.pop()
            if self.position >= self.end:
                return False
            try:
                count += self._step()
            except RemoteProtocolError:
                if not self.outer:
                    return False
                count += 2
                self.position = self.outer[1][0] if len(self.outer) > 1 else self.end
                self.end, self.names = self.outer[0]
                self.outer.clear()
        return True

    def _step(self) -> int:
        """Go over a name and its value, or a value, or into a container."""
        data, position = self.data, self.position
        if self.names:
            position += 1 + data[position]
        kind = data[position] if position < self.end else 0
        if kind == _TABLE or kind == _ARRAY:  # noqa: PLR1714, SIM109 - compiles better than a tuple
            stop = find_content_end(data, position + 1, self.end, len(self.outer), "field value")
            self.outer.append((self.end, self.names))
            count = 1 + self.names
            self.position, self.end, self.names = position + 5, stop, kind == _TABLE
            return count
        self.position = skip_value(data, position, self.end)
        return 1 + self.names


def find_in_table(data: bytes, offset: int, end: int, name: bytes) -> PropertyValue:
    """Return the value of field ``name`` of the table at ``offset``, ``None`` when absent; decodes nothing else.

    Raises:
        RemoteProtocolError: 502 for a malformed table, as far as it was read.
    """
    content_end = find_content_end(data, offset, end, 0, "field table")
    position = offset + 4
    while position < content_end:
        start = position + 1
        stop = start + data[position]
        if stop > content_end:
            raise _truncated("field name", position, stop - position, content_end)
        if data[start:stop] == name:
            return read_value(data, stop, content_end, 0)[0]
        position = skip_value(data, stop, content_end)
    return None


def read_readable_table(data: bytes, offset: int, end: int) -> tuple[dict[str, PropertyValue], int]:
    """Return the decodable part of the field table at ``offset``, and the offset behind it.

    Left out are all fields of a table with more than :data:`MAX_TABLE_VALUES` names and values, fields whose name or
    value is malformed inside its bounds, and everything from a field on whose bounds cannot be found. Of two fields
    with one name the first counts, so a malformed first hides the second.

    Raises:
        RemoteProtocolError: 502 when the table reaches beyond ``end``.
    """
    content_end = find_content_end(data, offset, end, 0, "field table")
    position = offset + 4
    table: dict[str, PropertyValue] = {}
    if has_more_fields(data, position, content_end, MAX_TABLE_VALUES):
        return table, content_end
    malformed: set[str] = set()
    while position < content_end:
        stop = position + 1 + data[position]
        try:
            following = skip_value(data, stop, content_end)
        except RemoteProtocolError:  # where the next field begins is unknown
            return table, content_end
        name = data[position + 1 : stop].decode("utf-8", "replace")
        try:
            if name not in table and name not in malformed:
                value = read_value(data, stop, content_end, 0)[0]
                if decode_text(data[position + 1 : stop], "field name") == name:
                    table[name] = value
        except RemoteProtocolError:
            malformed.add(name)
        position = following
    return table, content_end


def encode_short_string(text: str) -> bytes:
    """Encode a short string, length octet first.

    Raises:
        LocalProtocolError: ``text`` takes more than 255 octets in UTF-8.
    """
    encoded = text.encode("utf-8")
    if len(encoded) > MAX_SHORT_STRING_BYTES:
        raise LocalProtocolError(f"short string {text[:40]!r}... has {len(encoded)} octets, at most 255; shorten it")
    return bytes((len(encoded),)) + encoded


def encode_long_string(octets: bytes) -> bytes:
    """Encode a long string, its four length octets first."""
    return len(octets).to_bytes(4, "big") + octets


def encode_table(table: dict[str, PropertyValue]) -> bytes:
    """Encode a field table, its four length octets first.

    Raises:
        LocalProtocolError: a name exceeds 255 octets, or a value has a type or range AMQP 0-9-1 cannot carry.
    """
    writer = BytesWriter()
    _write_table(writer, table)
    return writer.getvalue()


def _write_table(writer: BytesWriter, table: dict[str, PropertyValue]) -> None:
    content = BytesWriter()
    for name, value in table.items():
        content.write(encode_short_string(name))
        _write_value(content, value, name)
    encoded = content.getvalue()
    write_i32_be(writer, i32(len(encoded)))
    writer.write(encoded)


def _write_value(writer: BytesWriter, value: PropertyValue, name: str) -> None:
    if value is None:
        writer.append(86)  # V
    elif isinstance(value, bool):
        writer.write(_TRUE if value else _FALSE)
    elif isinstance(value, str):
        writer.append(83)  # S
        writer.write(encode_long_string(value.encode("utf-8")))
    elif isinstance(value, Timestamp):  # before int: compiled code keeps only the number of a value it narrows to int
        _write_timestamp(writer, value, name)
    elif isinstance(value, Long):
        _write_long(writer, value, name)
    elif isinstance(value, int):
        _write_integer(writer, value, name)
    elif isinstance(value, float):
        writer.append(100)  # d
        write_f64_be(writer, value)
    elif isinstance(value, bytes):
        writer.append(120)  # x
        writer.write(encode_long_string(value))
    elif isinstance(value, dict):
        writer.append(70)  # F
        _write_table(writer, value)
    elif isinstance(value, list):
        writer.append(65)  # A
        content = BytesWriter()
        for item in value:
            _write_value(content, item, name)
        writer.write(encode_long_string(content.getvalue()))
    else:
        raise LocalProtocolError(f"field {name!r} has type {type(value).__name__}, which AMQP 0-9-1 cannot carry")


def _write_timestamp(writer: BytesWriter, value: int, name: str) -> None:
    if not 0 <= value < 2**64:
        raise LocalProtocolError(f"field {name!r} is timestamp {value}, which needs 0 to 2^64-1")
    writer.append(84)  # T
    writer.write(value.to_bytes(8, "big"))


def _write_integer(writer: BytesWriter, value: int, name: str) -> None:
    if -(2**31) <= value < 2**31:
        writer.append(73)  # I
        write_i32_be(writer, i32(value))
    else:
        _write_long(writer, value, name)


def _write_long(writer: BytesWriter, value: int, name: str) -> None:
    if -(2**63) <= value < 2**63:
        writer.append(108)  # l
        write_i64_be(writer, i64(value))
    else:
        raise LocalProtocolError(f"field {name!r} is {value}, beyond 64 bits; send it as a string")
