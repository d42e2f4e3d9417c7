"""The places of the values of many headers, found once for selectors with many names."""

from __future__ import annotations

from typing import Final

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.types.errors import RemoteProtocolError
from annulet.wire.amqp091.types.values import find_content_end, read_value, skip_value

INDEXED_BYTES: Final = 2048
"""Bytes of a content header from which on its names are remembered: a walk takes 100 µs there."""


class HeaderKeys:
    """The names of the latest header table asked for, with the places of their values.

    One table is remembered, because a selector asks for all its names in one go. Without that, each name costs a
    walk over up to ``frame_max``.
    """

    def __init__(self) -> None:
        self._header = b""
        self._places: dict[bytes, int] = {}
        self._end = 0

    def find(self, header: bytes, offset: int, name: bytes) -> PropertyValue:
        """Return the value of a field of the table at ``offset``, ``None`` when absent; of two the first counts.

        A malformed field ends the table.

        Raises:
            RemoteProtocolError: 502 for a value that is malformed, and a table beyond the header.
        """
        if header is not self._header:
            end = find_content_end(header, offset, len(header), 0, "field table")
            self._places = _places_in(header, offset + 4, end)
            self._header, self._end = header, end
        place = self._places.get(name)
        return None if place is None else read_value(header, place, self._end, 0)[0]


def _places_in(header: bytes, start: int, end: int) -> dict[bytes, int]:
    places: dict[bytes, int] = {}
    position = start
    try:
        while position < end:
            stop = position + 1 + header[position]
            following = skip_value(header, stop, end)
            places.setdefault(header[position + 1 : stop], stop)
            position = following
    except RemoteProtocolError:  # the place of the next field is unknown
        return places
    return places
