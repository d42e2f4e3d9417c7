"""Headers for clients of versions with fewer field types: 0-8 has ``S I D T F``, 0-9 also ``V`` (§4.2.5.5 of each).

Such a client fails on an unknown type, so tables sent to it must stay within its version. No field is left out:

=================  =====================================================================
``t``              ``I``, 1 or 0
``b B s u i l L``  ``I`` when 32 bits hold it, else ``S``: its decimal digits
``f d``            ``S``: the shortest decimal text that reads back as the same number
``x``              ``S``: the same octets
``A``              ``F``: the values under the names 0, 1, 2 and so on; ``A`` where that is allowed
``V``              in 0-8 ``S``, empty
=================  =====================================================================

Values of types the version has keep their octets.
"""

from __future__ import annotations

from typing import Final

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.messages.property_reader import FLAG_HEADERS, PropertyReader
from annulet.wire.amqp091.types.errors import RemoteProtocolError
from annulet.wire.amqp091.types.values import (
    encode_long_string,
    encode_short_string,
    find_content_end,
    read_value,
    skip_value,
)

_TABLE: Final = ord("F")
_ARRAY: Final = ord("A")


def limit_field_types(header: bytes, allowed: bytes) -> bytes:
    """Return ``header``, a content header from the property flags on, with only the ``allowed`` types in its table.

    Returns ``header`` itself if nothing changes. A value that is malformed inside its bounds becomes ``S`` with its
    octets.

    Raises:
        RemoteProtocolError: 502 when the table itself is malformed.
    """
    reader = PropertyReader(header)
    if not reader.flags & FLAG_HEADERS:
        return header
    reader.to_headers()
    start = reader.position
    end = find_content_end(header, start, reader.end, 0, "headers")
    content = _limited_table(header, start + 4, end, allowed, 0)
    if content == header[start + 4 : end]:
        return header
    return header[:start] + encode_long_string(content) + header[end:]


def _limited_table(data: bytes, position: int, end: int, allowed: bytes, depth: int) -> bytes:
    parts: list[bytes] = []
    while position < end:
        stop = position + 1 + data[position]
        following = skip_value(data, stop, end)
        parts.append(data[position:stop])
        parts.append(_limited_value(data, stop, following, allowed, depth))
        position = following
    return b"".join(parts)


def _limited_array(data: bytes, position: int, end: int, allowed: bytes, depth: int) -> bytes:
    """Return the values of an array, with their places as names where it becomes a table."""
    parts: list[bytes] = []
    named = _ARRAY not in allowed
    number = 0
    while position < end:
        following = skip_value(data, position, end)
        if named:
            parts.append(encode_short_string(str(number)))
        parts.append(_limited_value(data, position, following, allowed, depth))
        number += 1
        position = following
    return b"".join(parts)


def _limited_value(data: bytes, position: int, end: int, allowed: bytes, depth: int) -> bytes:
    """Return the value at ``position``, type octet first, which ends at ``end``."""
    kind = data[position]
    if kind in allowed and kind not in {_TABLE, _ARRAY}:
        return data[position:end]
    try:
        if kind in {_TABLE, _ARRAY}:
            find_content_end(data, position + 1, end, depth + 1, "nested value")  # raises when it is too deep
            limited = _limited_table if kind == _TABLE else _limited_array
            shown = b"A" if kind == _ARRAY and _ARRAY in allowed else b"F"
            return shown + encode_long_string(limited(data, position + 5, end, allowed, depth + 1))
        return _encoded(read_value(data, position, end, 0)[0])
    except RemoteProtocolError:  # publishing does not look into nested values: some are malformed
        return b"S" + encode_long_string(data[position + 1 : end])


def _encoded(value: PropertyValue) -> bytes:
    if isinstance(value, int) and -(2**31) <= value < 2**31:  # bool too
        return b"I" + int(value).to_bytes(4, "big", signed=True)
    if isinstance(value, bytes):
        return b"S" + encode_long_string(value)
    return b"S" + encode_long_string(b"" if value is None else str(value).encode())
