"""Basic properties (§1.8, §4.2.6.1): decoding, encoding, and the view the core looks at messages through.

``header`` is always the content header payload from the property flags on: what a message keeps.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from annulet.core.message import ContentView, Message, PropertyValue, StandardProperties
from annulet.wire.amqp091.constants import SYNTAX_ERROR
from annulet.wire.amqp091.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.amqp091.values import (
    encode_short_string,
    encode_table,
    find_in_table,
    read_short_string,
    read_table,
)

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

_MILLISECONDS: Final = 1000
_GROUP_NAMES: Final = ("group-id", "JMSXGroupID")


class BasicProperties:
    """The fourteen properties of class basic; ``None`` is absent, which is not the same as empty."""

    __slots__ = (
        "app_id",
        "cluster_id",
        "content_encoding",
        "content_type",
        "correlation_id",
        "delivery_mode",
        "expiration",
        "headers",
        "message_id",
        "priority",
        "reply_to",
        "timestamp",
        "type",
        "user_id",
    )

    def __init__(self) -> None:
        self.content_type: str | None = None
        self.content_encoding: str | None = None
        self.headers: dict[str, PropertyValue] | None = None
        self.delivery_mode: int | None = None  # 1 transient, 2 persistent
        self.priority: int | None = None  # 0 to 9; RabbitMQ allows 255
        self.correlation_id: str | None = None
        self.reply_to: str | None = None
        self.expiration: str | None = None  # milliseconds, as decimal digits
        self.message_id: str | None = None
        self.timestamp: int | None = None  # seconds since 1970, UTC
        self.type: str | None = None
        self.user_id: str | None = None
        self.app_id: str | None = None
        self.cluster_id: str | None = None  # deprecated since 0-9-1, still sent by old clients


class _Reader:
    """Walks a property list in wire order."""

    __slots__ = ("data", "end", "flags", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
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
        if not self.flags & flag:
            return None
        value, self.position = read_short_string(self.data, self.position, self.end, name)
        return value

    def skip_text(self, flag: int, name: str) -> None:
        if self.flags & flag:
            if self.position >= self.end:
                raise self._cut(name)
            self.position += 1 + self.data[self.position]
            if self.position > self.end:
                raise self._cut(name)

    def octet(self, flag: int, name: str) -> int | None:
        if not self.flags & flag:
            return None
        if self.position >= self.end:
            raise self._cut(name)
        self.position += 1
        return self.data[self.position - 1]

    def timestamp(self) -> int | None:
        if not self.flags & FLAG_TIMESTAMP:
            return None
        if self.position + 8 > self.end:
            raise self._cut("timestamp")
        at: i64 = self.position
        self.position += 8
        return int(read_i64_be(self.data, at)) & 0xFFFFFFFFFFFFFFFF

    def table(self) -> dict[str, PropertyValue] | None:
        if not self.flags & FLAG_HEADERS:
            return None
        value, self.position = read_table(self.data, self.position, self.end)
        return value

    def skip_table(self) -> None:
        if self.flags & FLAG_HEADERS:
            if self.position + 4 > self.end:
                raise self._cut("headers")
            size = int.from_bytes(self.data[self.position : self.position + 4], "big")
            self.position += 4 + size
            if self.position > self.end:
                raise self._cut("headers")

    def _cut(self, name: str) -> RemoteProtocolError:
        return RemoteProtocolError(SYNTAX_ERROR, f"content header ends inside property {name}; send the whole property")


def decode_properties(header: bytes) -> BasicProperties:
    """Decode all properties.

    Raises:
        RemoteProtocolError: 502 for malformed properties, and for octets behind them.
    """
    reader = _Reader(header)
    properties = BasicProperties()
    properties.content_type = reader.text(FLAG_CONTENT_TYPE, "content-type")
    properties.content_encoding = reader.text(FLAG_CONTENT_ENCODING, "content-encoding")
    properties.headers = reader.table()
    properties.delivery_mode = reader.octet(FLAG_DELIVERY_MODE, "delivery-mode")
    properties.priority = reader.octet(FLAG_PRIORITY, "priority")
    properties.correlation_id = reader.text(FLAG_CORRELATION_ID, "correlation-id")
    properties.reply_to = reader.text(FLAG_REPLY_TO, "reply-to")
    properties.expiration = reader.text(FLAG_EXPIRATION, "expiration")
    properties.message_id = reader.text(FLAG_MESSAGE_ID, "message-id")
    properties.timestamp = reader.timestamp()
    properties.type = reader.text(FLAG_TYPE, "type")
    properties.user_id = reader.text(FLAG_USER_ID, "user-id")
    properties.app_id = reader.text(FLAG_APP_ID, "app-id")
    properties.cluster_id = reader.text(FLAG_CLUSTER_ID, "cluster-id")
    if reader.position != reader.end:
        raise RemoteProtocolError(
            SYNTAX_ERROR, f"content header has {reader.end - reader.position} octets behind its properties; remove them"
        )
    return properties


class PublishFacts:
    """What the broker must know of every published message, and nothing that costs more to find out."""

    __slots__ = ("delivery_mode", "expiration", "has_headers", "priority", "user_id")

    def __init__(
        self, delivery_mode: int, priority: int, expiration: str | None, user_id: str | None, *, has_headers: bool
    ) -> None:
        self.delivery_mode = delivery_mode  # 0 when absent
        self.priority = priority  # -1 when absent
        self.expiration = expiration
        self.user_id = user_id
        self.has_headers = has_headers  # only then can CC, BCC, x-delay and the like be there


def read_publish_facts(header: bytes) -> PublishFacts:
    """Read the properties that decide what happens to a message; headers are stepped over, not decoded.

    Callers may cache the result by ``header``: senders without message ids repeat the same octets.

    Raises:
        RemoteProtocolError: 502 for malformed properties, as far as they were read.
    """
    reader = _Reader(header)
    reader.skip_text(FLAG_CONTENT_TYPE, "content-type")
    reader.skip_text(FLAG_CONTENT_ENCODING, "content-encoding")
    reader.skip_table()
    mode = reader.octet(FLAG_DELIVERY_MODE, "delivery-mode")
    priority = reader.octet(FLAG_PRIORITY, "priority")
    expiration: str | None = None
    user_id: str | None = None
    if reader.flags & (FLAG_EXPIRATION | FLAG_USER_ID):
        reader.skip_text(FLAG_CORRELATION_ID, "correlation-id")
        reader.skip_text(FLAG_REPLY_TO, "reply-to")
        expiration = reader.text(FLAG_EXPIRATION, "expiration")
        reader.skip_text(FLAG_MESSAGE_ID, "message-id")
        reader.timestamp()
        reader.skip_text(FLAG_TYPE, "type")
        user_id = reader.text(FLAG_USER_ID, "user-id")
    return PublishFacts(
        0 if mode is None else mode,
        -1 if priority is None else priority,
        expiration,
        user_id,
        has_headers=reader.flags & FLAG_HEADERS != 0,
    )


def encode_properties(properties: BasicProperties) -> bytes:
    """Encode properties as a message keeps them: flags and property list.

    Raises:
        LocalProtocolError: a text exceeds 255 octets, or a number its field.
    """
    flags = 0
    parts: list[bytes] = []
    for flag, name in _TEXTS_BEFORE:
        flags |= _append_text(parts, getattr(properties, name), flag)
    if properties.headers is not None:
        flags |= FLAG_HEADERS
        parts.append(encode_table(properties.headers))
    flags |= _append_number(parts, properties.delivery_mode, FLAG_DELIVERY_MODE, 1)
    flags |= _append_number(parts, properties.priority, FLAG_PRIORITY, 1)
    for flag, name in _TEXTS_BETWEEN:
        flags |= _append_text(parts, getattr(properties, name), flag)
    flags |= _append_number(parts, properties.timestamp, FLAG_TIMESTAMP, 8)
    for flag, name in _TEXTS_AFTER:
        flags |= _append_text(parts, getattr(properties, name), flag)
    return flags.to_bytes(2, "big") + b"".join(parts)


_TEXTS_BEFORE: Final = ((FLAG_CONTENT_TYPE, "content_type"), (FLAG_CONTENT_ENCODING, "content_encoding"))
_TEXTS_BETWEEN: Final = (
    (FLAG_CORRELATION_ID, "correlation_id"),
    (FLAG_REPLY_TO, "reply_to"),
    (FLAG_EXPIRATION, "expiration"),
    (FLAG_MESSAGE_ID, "message_id"),
)
_TEXTS_AFTER: Final = (
    (FLAG_TYPE, "type"),
    (FLAG_USER_ID, "user_id"),
    (FLAG_APP_ID, "app_id"),
    (FLAG_CLUSTER_ID, "cluster_id"),
)


def _append_text(parts: list[bytes], value: str | None, flag: int) -> int:
    if value is None:
        return 0
    parts.append(encode_short_string(value))
    return flag


def _append_number(parts: list[bytes], value: int | None, flag: int, size: int) -> int:
    if value is None:
        return 0
    if not 0 <= value < 1 << (8 * size):
        raise LocalProtocolError(f"property value {value} does not fit {size} octets")
    parts.append(value.to_bytes(size, "big"))
    return flag


class Amqp091View(ContentView):
    """The content view of AMQP 0-9-1 messages; use the shared :data:`VIEW`."""

    name = "amqp-0-9-1"

    def properties(self, message: Message) -> StandardProperties:
        """Decode the standard properties: ``type`` becomes subject, ``headers`` the application properties.

        Raises:
            RemoteProtocolError: 502 for malformed properties.
        """
        basic = decode_properties(message.header)
        headers: dict[str, PropertyValue] = {} if basic.headers is None else basic.headers
        group_id = ""
        for name in _GROUP_NAMES:
            value = headers.get(name)
            if isinstance(value, str) and not group_id:
                group_id = value
        return StandardProperties(
            message_id=basic.message_id or "",
            correlation_id=basic.correlation_id or "",
            reply_to=basic.reply_to or "",
            subject=basic.type or "",
            content_type=basic.content_type or "",
            content_encoding=basic.content_encoding or "",
            group_id=group_id,
            user_id=basic.user_id or "",
            timestamp=(basic.timestamp or 0) * _MILLISECONDS,
            application=headers,
        )

    def application_property(self, message: Message, name: str) -> PropertyValue:
        """Return one entry of ``headers`` without decoding the others, ``None`` when it is absent.

        Raises:
            RemoteProtocolError: 502 for malformed properties, as far as they were read.
        """
        reader = _Reader(message.header)
        if not reader.flags & FLAG_HEADERS:
            return None
        reader.skip_text(FLAG_CONTENT_TYPE, "content-type")
        reader.skip_text(FLAG_CONTENT_ENCODING, "content-encoding")
        return find_in_table(message.header, reader.position, reader.end, name.encode("utf-8"))


VIEW: Final = Amqp091View()
"""The one instance: views have no state."""
