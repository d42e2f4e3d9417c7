"""Walking a property list (§4.2.6.1): the common part of decoding, publishing and annotating.

``header`` is always the content header payload from the property flags on.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.types.constants import SYNTAX_ERROR
from annulet.wire.amqp091.types.errors import RemoteProtocolError
from annulet.wire.amqp091.types.values import read_readable_table, read_short_string, read_table

FLAG_CONTENT_TYPE: Final = 1 << 15
FLAG_CONTENT_ENCODING: Final = 1 << 14
FLAG_HEADERS: Final = 1 << 13
FLAG_DELIVERY_MODE: Final = 1 << 12
FLAG_PRIORITY: Final = 1 << 11
FLAG_CORRELATION_ID: Final = 1 << 10
FLAG_REPLY_TO: Final = 1 << 9
FLAG_EXPIRATION: Final = 1 << 8
FLAG_MESSAGE_ID: Final = 1 << 7
FLAG_TIMESTAMP: Final = 1 << 6
FLAG_TYPE: Final = 1 << 5
FLAG_USER_ID: Final = 1 << 4
FLAG_APP_ID: Final = 1 << 3
FLAG_CLUSTER_ID: Final = 1 << 2
FLAGS_UNDEFINED: Final = 0b11
"""§4.2.6.1: bit 1 names no property, bit 0 announces more flags, of which class basic has none."""


class PropertyReader:
    """Walks a property list in wire order: read the properties in the order of their flags.

    Every method raises :class:`RemoteProtocolError` 502 for octets that are missing or malformed. With ``strict=False``
    a complete value that cannot be decoded counts as absent, and only missing octets raise.
    """

    __slots__ = ("data", "end", "flags", "position", "strict")

    def __init__(self, data: bytes, *, strict: bool = True) -> None:
        self.data = data
        self.strict = strict
        self.end = len(data)
        self.position = 2
        if self.end < 2:
            raise RemoteProtocolError(
                SYNTAX_ERROR, f"content header has {self.end} octets after the size, flags need 2"
            )
        self.flags = data[0] << 8 | data[1]
        if self.flags & FLAGS_UNDEFINED:
            raise RemoteProtocolError(
                SYNTAX_ERROR, f"property flags {self.flags:#06x} have bit 0 or 1 set, which name no property of basic"
            )

    def text(self, flag: int, name: str) -> str | None:
        """Decode a short string; ``None`` when its flag is not set."""
        if not self.flags & flag:
            return None
        if self.strict:
            value, self.position = read_short_string(self.data, self.position, self.end, name)
            return value
        start = self.position
        self.skip_text(flag, name)
        try:
            return read_short_string(self.data, start, self.end, name)[0]
        except RemoteProtocolError:  # not UTF-8
            return None

    def skip_text(self, flag: int, name: str) -> None:
        """Step over a short string without decoding it."""
        if self.flags & flag:
            if self.position >= self.end:
                raise self._cut(name)
            self.position += 1 + self.data[self.position]
            if self.position > self.end:
                raise self._cut(name)

    def octet(self, flag: int, name: str) -> int | None:
        """Read an octet; ``None`` when its flag is not set."""
        if not self.flags & flag:
            return None
        if self.position >= self.end:
            raise self._cut(name)
        self.position += 1
        return self.data[self.position - 1]

    def timestamp(self) -> int | None:
        """Read the timestamp property, seconds since 1970; ``None`` when its flag is not set."""
        if not self.flags & FLAG_TIMESTAMP:
            return None
        if self.position + 8 > self.end:
            raise self._cut("timestamp")
        at: i64 = self.position
        self.position += 8
        return int(read_i64_be(self.data, at)) & 0xFFFFFFFFFFFFFFFF

    def table(self) -> dict[str, PropertyValue] | None:
        """Decode ``headers``; ``None`` when its flag is not set."""
        if not self.flags & FLAG_HEADERS:
            return None
        if self.strict:
            value, self.position = read_table(self.data, self.position, self.end)
        else:
            value, self.position = read_readable_table(self.data, self.position, self.end)
        return value

    def skip_table(self) -> None:
        """Step over ``headers`` without decoding it."""
        if self.flags & FLAG_HEADERS:
            if self.position + 4 > self.end:
                raise self._cut("headers")
            size = int.from_bytes(self.data[self.position : self.position + 4], "big")
            self.position += 4 + size
            if self.position > self.end:
                raise self._cut("headers")

    def _cut(self, name: str) -> RemoteProtocolError:
        return RemoteProtocolError(SYNTAX_ERROR, f"content header ends inside property {name}; send the whole property")

    def to_headers(self) -> None:
        """Skip the properties before ``headers``."""
        self.skip_text(FLAG_CONTENT_TYPE, "content-type")
        self.skip_text(FLAG_CONTENT_ENCODING, "content-encoding")

    def to_reply_to(self) -> None:
        """Skip the properties between ``headers`` and ``reply-to``."""
        self.octet(FLAG_DELIVERY_MODE, "delivery-mode")
        self.octet(FLAG_PRIORITY, "priority")
        self.skip_text(FLAG_CORRELATION_ID, "correlation-id")

    def to_expiration(self) -> None:
        """Skip the properties between ``headers`` and ``expiration``."""
        self.to_reply_to()
        self.skip_text(FLAG_REPLY_TO, "reply-to")
