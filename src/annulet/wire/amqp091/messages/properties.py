"""Basic properties (§1.8, §4.2.6.1): decoding, encoding, and the core's view of messages.

``header`` is always the content header payload from the property flags on, as stored in a message.
"""

from __future__ import annotations

from typing import Final

from annulet.core.base.death_trail import GIVEN, DeathRecord
from annulet.core.message.message import ContentView, Message, PropertyValue, StandardProperties
from annulet.core.message.neutral_content import MessageContent
from annulet.wire.amqp091.messages.annotations import DEATHS, FIRST_DEATH, annotate, decode_deaths, encode_deaths
from annulet.wire.amqp091.messages.header_keys import INDEXED_BYTES, HeaderKeys
from annulet.wire.amqp091.messages.property_reader import (
    FLAG_APP_ID,
    FLAG_CLUSTER_ID,
    FLAG_CONTENT_ENCODING,
    FLAG_CONTENT_TYPE,
    FLAG_CORRELATION_ID,
    FLAG_DELIVERY_MODE,
    FLAG_EXPIRATION,
    FLAG_HEADERS,
    FLAG_MESSAGE_ID,
    FLAG_PRIORITY,
    FLAG_REPLY_TO,
    FLAG_TIMESTAMP,
    FLAG_TYPE,
    FLAG_USER_ID,
    PropertyReader,
)
from annulet.wire.amqp091.messages.publish_headers import NOTHING, SCHEDULE_NAMES, PublishHeaders, read_publish_headers
from annulet.wire.amqp091.types.constants import SYNTAX_ERROR
from annulet.wire.amqp091.types.errors import LocalProtocolError, RemoteProtocolError
from annulet.wire.amqp091.types.values import encode_short_string, encode_table, find_in_table

_MILLISECONDS: Final = 1000
_PRIORITY_BIT: Final = FLAG_PRIORITY >> 8  # in the first octet of the flags
_GROUP_NAMES: Final = ("group-id", "JMSXGroupID", "x-group-id")
_FIRST_DEATH_REASON: Final = f"{FIRST_DEATH}reason".encode()
_GIVEN: Final = GIVEN.encode()


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


def decode_properties(header: bytes) -> BasicProperties:
    """Decode all properties.

    Raises:
        RemoteProtocolError: 502 for malformed properties, and for octets behind them.
    """
    reader = PropertyReader(header)
    properties = BasicProperties()
    _read_into(properties, reader)
    if reader.position != reader.end:
        raise RemoteProtocolError(
            SYNTAX_ERROR, f"content header has {reader.end - reader.position} octets behind its properties; remove them"
        )
    return properties


def decode_readable_properties(header: bytes) -> BasicProperties:
    """Decode the valid part of malformed properties; the others are ``None``, as if they were absent."""
    properties = BasicProperties()
    try:
        _read_into(properties, PropertyReader(header, strict=False))
    except RemoteProtocolError:  # octets are missing: the following properties cannot be found
        return properties
    return properties


def _read_into(properties: BasicProperties, reader: PropertyReader) -> None:
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


class PublishFacts:
    """The facts the broker needs of every published message, without any that cost more to read."""

    __slots__ = ("delivery_mode", "expiration", "has_headers", "priority", "user_id")

    def __init__(
        self, delivery_mode: int, priority: int, expiration: str | None, user_id: str | None, *, has_headers: bool
    ) -> None:
        self.delivery_mode = delivery_mode  # 0 when absent
        self.priority = priority  # -1 when absent
        self.expiration = expiration
        self.user_id = user_id
        self.has_headers = has_headers  # only then can it contain CC, BCC, x-delay and the like


def read_publish_facts(header: bytes) -> PublishFacts:
    """Read the properties that affect the handling of a message; headers are skipped, not decoded.

    Callers may cache the result by ``header``: senders without message ids repeat the same octets.

    Raises:
        RemoteProtocolError: 502 for malformed properties, as far as they were read.
    """
    reader = PropertyReader(header)
    reader.to_headers()
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
    """The content view of AMQP 0-9-1 messages; use the shared :data:`VIEW`.

    Publishing checks the whole first level of the header table, but neither nested values nor the properties behind the
    last one that the broker uses. So malformed values may be stored, and count as absent here.
    """

    def __init__(self) -> None:
        super().__init__("amqp-0-9-1", verbatim_texts=True, names_beside=frozenset())

    def properties(self, message: Message) -> StandardProperties:
        """Decode the standard properties: ``type`` becomes subject, ``headers`` the application properties."""
        malformed = ""
        try:
            basic = decode_properties(message.header)
        except RemoteProtocolError as error:
            malformed = str(error)
            basic = decode_readable_properties(message.header)
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
            malformed=malformed,
        )

    def application_property(self, message: Message, name: str) -> PropertyValue:
        """Return one entry of ``headers`` without decoding the others, ``None`` when it is absent or malformed."""
        return _find_header(message.header, name.encode("utf-8"))

    def given_priority(self, message: Message) -> int:
        """Return the priority property, -1 when it is absent."""
        header = message.header
        if len(header) > 1 and not header[0] & _PRIORITY_BIT:  # most have none: nothing else has to be read
            return -1
        try:
            return read_publish_facts(header).priority
        except RemoteProtocolError:
            return -1

    def deliver_at(self, message: Message) -> int:
        """Return when ``x-deliver-at``, ``x-delay`` and their like let it be delivered, 0 for at once.

        Here and below a value of the wrong type counts as absent: the channel has refused such messages.

        Raises:
            RemoteProtocolError: 502 for malformed properties, as far as they were read.
        """
        return read_publish_headers(message.header, strict=False).due_at(message.accepted_at)

    def schedule_id(self, message: Message) -> str:
        """Return ``x-schedule-id``, empty when it is absent."""
        return _asked(message.header).schedule_id

    def duplicate_id(self, message: Message) -> str:
        """Return ``_AMQ_DUPL_ID`` or ``x-duplicate-id``, octets as hexadecimal digits, empty when both are absent.

        Raises:
            RemoteProtocolError: 502 for malformed properties, as far as they were read.
        """
        return read_publish_headers(message.header, strict=False).duplicate_id

    def annotated(
        self,
        message: Message,
        headers: dict[str, PropertyValue],
        *,
        without: tuple[str, ...] = (),
        expires: bool = True,
    ) -> bytes:
        """Return the message's header with the given changes; everything else keeps its octets.

        Raises:
            RemoteProtocolError: 502 for malformed properties, as far as they were read.
            LocalProtocolError: a value that AMQP 0-9-1 cannot carry.
        """
        return annotate(message.header, headers, without=without, expires=expires)

    def content(self, message: Message) -> MessageContent:
        """Return the whole message decoded, as :mod:`annulet.wire.amqp091.messages.conversion` describes."""
        # it writes properties, which are here
        from annulet.wire.amqp091.messages.conversion import to_content  # noqa: PLC0415

        return to_content(message)

    def routing_keys(self, message: Message) -> tuple[str, ...]:
        """Return the routing key and those of ``CC``. ``BCC`` left the message when it was published."""
        return (message.origin.routing_key, *_asked(message.header).cc)

    def deaths(self, message: Message) -> list[DeathRecord]:
        """Return the records of ``x-death``, latest first; none when it is malformed, or its publisher's."""
        if _find_header(message.header, _GIVEN) is not None:
            return []
        return decode_deaths(_find_header(message.header, DEATHS.encode()))

    def forwarded_header(
        self, message: Message, deaths: list[DeathRecord], headers: dict[str, PropertyValue], *, rerouted: bool
    ) -> bytes:
        """Return the header of a dead letter: RabbitMQ's ``x-death`` headers, ``headers``, no expiration, no delay.

        Raises:
            RemoteProtocolError: 502 for malformed properties, as far as they were read.
            LocalProtocolError: a value that AMQP 0-9-1 cannot carry.
        """
        header = message.header
        reader = PropertyReader(header)
        reader.to_headers()
        reader.skip_table()
        reader.to_expiration()
        given = _find_header(header, _GIVEN) is not None
        annotations = encode_deaths(
            deaths,
            first_known=not given and _find_header(header, _FIRST_DEATH_REASON) is not None,
            original_expiration=reader.text(FLAG_EXPIRATION, "expiration") or "",
        )
        annotations.update(headers)
        without = (*SCHEDULE_NAMES, GIVEN, "CC", "BCC") if rerouted else (*SCHEDULE_NAMES, GIVEN, "BCC")
        return annotate(header, annotations, without=without, expires=False)


def _find_header(header: bytes, name: bytes) -> PropertyValue:
    """Return one entry of the header table, ``None`` when it is absent or malformed."""
    if name not in header:  # most messages lack most of the requested names
        return None
    try:
        reader = PropertyReader(header)
        if not reader.flags & FLAG_HEADERS:
            return None
        reader.to_headers()
        if len(header) > INDEXED_BYTES:
            return _latest_keys.find(header, reader.position, name)
        return find_in_table(header, reader.position, reader.end, name)
    except RemoteProtocolError:
        return None


def _asked(header: bytes) -> PublishHeaders:
    """Return the requests in the headers of a message in the broker; none if they cannot be read."""
    try:
        return read_publish_headers(header, strict=False)
    except RemoteProtocolError:
        return NOTHING


_latest_keys: Final = HeaderKeys()

VIEW: Final = Amqp091View()
"""The one instance: views have no state."""
