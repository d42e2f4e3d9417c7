"""The places of the values of a large map, found once for selectors with many names."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from annulet.wire.amqp10.messages.sections import key_octets
from annulet.wire.amqp10.types.errors import DecodeError
from annulet.wire.amqp10.types.values import compound_bounds, decode_value, skip_value

INDEXED_BYTES: Final = 2048
"""Bytes of a stored header from which on its keys are remembered: a walk takes 500 µs there."""


class MapKeys:
    """The text keys of the latest map asked for, with the places of their values.

    One map is remembered, because a selector asks for all its names in one go. Without that, each name costs a
    walk over up to ``max_header_bytes``.
    """

    def __init__(self) -> None:
        self._header = b""
        self._content = -1
        self._places: dict[bytes, int] = {}

    def find(self, header: bytes, content: int, name: bytes) -> Any:
        """Return the value of a text key of the map at ``content``, ``None`` when absent; of two the first counts.

        Malformed octets end the map.

        Raises:
            DecodeError: the value is malformed.
        """
        if header is not self._header or content != self._content:
            self._places = _places_in(header, content)
            self._header, self._content = header, content
        place = self._places.get(name)
        return None if place is None else decode_value(header, place, len(header))[0]


def _places_in(header: bytes, content: int) -> dict[bytes, int]:
    places: dict[bytes, int] = {}
    try:
        code: i64 = header[content]
        _, at, stop = compound_bounds(header, code, i64(content) + 1, i64(len(header)), "map")
        while at < stop:
            key_end: i64 = skip_value(header, int(at), int(stop))
            key = key_octets(header, at, key_end)
            if key and key not in places:
                places[key] = int(key_end)
            at = skip_value(header, int(key_end), int(stop))
    except DecodeError:  # the place of the next key is unknown
        return places
    return places
