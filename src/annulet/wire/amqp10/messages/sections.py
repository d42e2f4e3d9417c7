"""The message format (§3.2): sections in their order, found without decoding them; header and properties decoded.

Decoders take the position of a section's value, :attr:`Section.content`, not that of its descriptor.
"""
# ruff: noqa: FBT002, PLR0913, PLR0917 - fields are positional in the order of the standard

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from annulet.core.base.typed_values import MapPairs, Symbol, UnsignedLong
from annulet.wire.amqp10.types.composite import (
    BINARY,
    BOOLEAN,
    MESSAGE_ID,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UNSIGNED_BYTE,
    UNSIGNED_INT,
    Composite,
    CompositeType,
    Field,
    decode_fields,
    define,
    definition_by_code,
    list_bounds,
    refuse_count,
    refuse_rest,
)
from annulet.wire.amqp10.types.composite_encoding import encode_composite, encode_symbol_map
from annulet.wire.amqp10.types.encoding import encode_map, encode_string, encode_value
from annulet.wire.amqp10.types.errors import DecodeError, LocalProtocolError, MessageTooComplex
from annulet.wire.amqp10.types.fields import read_boolean, read_unsigned_byte, read_unsigned_int, wrong_type
from annulet.wire.amqp10.types.values import compound_bounds, decode_value, skip_value, truncated, variable_bounds

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
SEQUENCE: Final = 0x76
VALUE: Final = 0x77
FOOTER: Final = 0x78

NO_BODY: Final = 0
"""``body_kind`` of a message without a body section: the standard wants one, but senders without are known."""

BODY_SECTIONS_MAX: Final = 16_384
"""Body sections of one message. Each is found on its own, which takes 1 to 2 µs in pure Python; those of the largest
message have 8 KiB each then. §3.2 has no bound."""

LIMIT_SECTIONS: Final = "body_sections_max"

LIMIT_HEADER: Final = "max_header_bytes"
"""The sections before the body together: the broker reads them again wherever the message goes."""

_NAMES: Final[dict[int, str]] = {
    HEADER: "header",
    DELIVERY_ANNOTATIONS: "delivery-annotations",
    MESSAGE_ANNOTATIONS: "message-annotations",
    PROPERTIES: "properties",
    APPLICATION_PROPERTIES: "application-properties",
    DATA: "data",
    SEQUENCE: "amqp-sequence",
    VALUE: "amqp-value",
    FOOTER: "footer",
}
_CODES_BY_SYMBOL: Final[dict[str, int]] = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": SEQUENCE,
    "amqp:amqp-value:*": VALUE,
    "amqp:footer:map": FOOTER,
}


class Section:
    """A section: its numeric descriptor, and where in the message it starts, its value starts, and it ends."""

    __slots__ = ("code", "content", "end", "start")

    def __init__(self, code: int, start: int, content: int, end: int) -> None:
        self.code = code
        self.start = start
        self.content = content
        self.end = end


class MessageSections:
    """Where the sections of a message are; ``None`` for those that are absent.

    ``body_kind`` is ``DATA``, ``SEQUENCE``, ``VALUE`` or ``NO_BODY``, ``body`` has its sections. The bare message
    (§3.2), which intermediaries must not change, is from ``bare_start`` to ``bare_end``.
    """

    __slots__ = (
        "application_properties",
        "bare_end",
        "bare_start",
        "body",
        "body_kind",
        "delivery_annotations",
        "footer",
        "header",
        "message_annotations",
        "properties",
    )

    def __init__(self) -> None:
        self.header: Section | None = None
        self.delivery_annotations: Section | None = None
        self.message_annotations: Section | None = None
        self.properties: Section | None = None
        self.application_properties: Section | None = None
        self.body_kind = NO_BODY
        self.body: list[Section] = []
        self.footer: Section | None = None
        self.bare_start = 0
        self.bare_end = 0


def split_message(data: bytes, body_sections_max: int = BODY_SECTIONS_MAX) -> MessageSections:
    """Find the sections of an encoded message, at most ``body_sections_max`` of its body.

    Header and properties have to be lists, annotations, application properties and footer maps, data binaries and
    sequences lists; their contents are left to the decoders.

    Raises:
        DecodeError: an unknown section, one out of order or twice, mixed bodies, a wrong type, or octets that are none.
        MessageTooComplex: the body has more sections.
    """
    sections = MessageSections()
    body = sections.body
    most: i64 = body_sections_max
    end: i64 = len(data)
    position: i64 = 0
    latest: i64 = 0
    while position < end:
        code, content = _read_section_code(data, position, end)
        if code <= latest and not (code == latest and (code == DATA or code == SEQUENCE)):  # noqa: PLR1714, SIM109 - compiles better than a tuple
            raise _out_of_order(int(code), int(latest), int(position))
        if code > DATA and code <= VALUE and latest >= DATA and code != latest:
            raise _out_of_order(int(code), int(latest), int(position))
        latest = code
        stop: i64 = skip_value(data, int(content), int(end))
        _check_type(data, code, content)
        _place(sections, Section(int(code), int(position), int(content), int(stop)))
        position = stop
        if len(body) > most:
            raise MessageTooComplex(
                f"message has more than {int(most)} body sections; send fewer and larger ones", LIMIT_SECTIONS
            )
    if sections.footer is None:
        sections.bare_end = int(end)
    if latest <= MESSAGE_ANNOTATIONS:
        sections.bare_start = int(end)
    return sections


def _out_of_order(code: int, latest: int, position: int) -> DecodeError:
    return DecodeError(
        f"section {_NAMES[code]} at octet {position} comes after {_NAMES[latest]}; send each section once in the order "
        "of §3.2, with one kind of body"
    )


def _read_section_code(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    if position + 3 <= end and data[position] == 0 and data[position + 1] == 0x53:
        code: i64 = data[position + 2]
        if HEADER <= code <= FOOTER:
            return code, position + 3
    if data[position] != 0:
        raise DecodeError(
            f"octet {position} of the message is 0x{data[position]:02x}, needed is a section, which starts with 0x00; "
            "nothing may follow the last section"
        )
    descriptor, start = decode_value(data, int(position) + 1, int(end))
    if isinstance(descriptor, UnsignedLong) and int(descriptor) in _NAMES:
        return int(descriptor), start
    if isinstance(descriptor, Symbol) and str(descriptor) in _CODES_BY_SYMBOL:
        return _CODES_BY_SYMBOL[str(descriptor)], start
    raise DecodeError(
        f"section at octet {position} has the descriptor {str(descriptor)[:64]!r}; sections are 0x70 to 0x78"
    )


def _check_type(data: bytes, code: i64, content: i64) -> None:
    found: i64 = data[content]
    if code == VALUE:
        return
    if code == HEADER or code == PROPERTIES or code == SEQUENCE:  # noqa: PLR1714, SIM109 - compiles better than a tuple
        if found != 0x45 and found != 0xC0 and found != 0xD0:  # noqa: PLR1714 - compiles better than a tuple
            raise wrong_type(f"section {_NAMES[int(code)]}", int(found), int(content), "a list")
    elif code == DATA:
        if found != 0xA0 and found != 0xB0:  # noqa: PLR1714 - compiles better than a tuple
            raise wrong_type("section data", int(found), int(content), "a binary")
    elif found != 0xC1 and found != 0xD1:  # noqa: PLR1714 - compiles better than a tuple
        raise wrong_type(f"section {_NAMES[int(code)]}", int(found), int(content), "a map")


def _place(sections: MessageSections, section: Section) -> None:
    code = section.code
    if code == HEADER:
        sections.header = section
    elif code == DELIVERY_ANNOTATIONS:
        sections.delivery_annotations = section
    elif code == MESSAGE_ANNOTATIONS:
        sections.message_annotations = section
    elif code == PROPERTIES:
        sections.properties = section
    elif code == APPLICATION_PROPERTIES:
        sections.application_properties = section
    elif code == FOOTER:
        sections.footer = section
        sections.bare_end = section.start
    else:
        sections.body_kind = code
        sections.body.append(section)
    if code <= MESSAGE_ANNOTATIONS:
        sections.bare_start = section.end


class Header(Composite):
    """How a message is delivered (§3.2.1).

    ``priority`` is ``None`` when the sender gave none, which means 4; ``ttl`` is in milliseconds, ``None`` for ever.
    """

    __slots__ = ("delivery_count", "durable", "first_acquirer", "priority", "ttl")

    def __init__(
        self,
        durable: bool = False,
        priority: int | None = None,
        ttl: int | None = None,
        first_acquirer: bool = False,
        delivery_count: int = 0,
    ) -> None:
        self.durable = durable
        self.priority = priority
        self.ttl = ttl
        self.first_acquirer = first_acquirer
        self.delivery_count = delivery_count


class Properties(Composite):
    """The immutable properties of a message (§3.2.4).

    Ids are ``str``, ``bytes``, ``UnsignedLong`` or ``Uuid``; times are milliseconds since 1970, UTC.
    """

    __slots__ = (
        "absolute_expiry_time",
        "content_encoding",
        "content_type",
        "correlation_id",
        "creation_time",
        "group_id",
        "group_sequence",
        "message_id",
        "reply_to",
        "reply_to_group_id",
        "subject",
        "to",
        "user_id",
    )

    def __init__(
        self,
        message_id: str | bytes | int | None = None,
        user_id: bytes | None = None,
        to: str | None = None,
        subject: str | None = None,
        reply_to: str | None = None,
        correlation_id: str | bytes | int | None = None,
        content_type: str | None = None,
        content_encoding: str | None = None,
        absolute_expiry_time: int | None = None,
        creation_time: int | None = None,
        group_id: str | None = None,
        group_sequence: int | None = None,
        reply_to_group_id: str | None = None,
    ) -> None:
        self.message_id = message_id
        self.user_id = user_id
        self.to = to
        self.subject = subject
        self.reply_to = reply_to
        self.correlation_id = correlation_id
        self.content_type = content_type
        self.content_encoding = content_encoding
        self.absolute_expiry_time = absolute_expiry_time
        self.creation_time = creation_time
        self.group_id = group_id
        self.group_sequence = group_sequence
        self.reply_to_group_id = reply_to_group_id


define(
    "header",
    HEADER,
    Header,
    (
        Field("durable", BOOLEAN, default=False),
        Field("priority", UNSIGNED_BYTE),
        Field("ttl", UNSIGNED_INT),
        Field("first_acquirer", BOOLEAN, default=False),
        Field("delivery_count", UNSIGNED_INT, default=0),
    ),
    trimmed=True,
)
define(
    "properties",
    PROPERTIES,
    Properties,
    (
        Field("message_id", MESSAGE_ID),
        Field("user_id", BINARY),
        Field("to", STRING),
        Field("subject", STRING),
        Field("reply_to", STRING),
        Field("correlation_id", MESSAGE_ID),
        Field("content_type", SYMBOL),
        Field("content_encoding", SYMBOL),
        Field("absolute_expiry_time", TIMESTAMP),
        Field("creation_time", TIMESTAMP),
        Field("group_id", STRING),
        Field("group_sequence", UNSIGNED_INT),
        Field("reply_to_group_id", STRING),
    ),
    trimmed=True,
)


def decode_header(data: bytes, content: int, end: int) -> Header:
    """Decode the value of a header section that ends at ``end``.

    Raises:
        DecodeError: a field of the wrong type, or one too many.
    """
    count, at, stop = list_bounds(data, content, end, "header")
    refuse_count("header", count, 5)
    header = Header()
    if count > 0:
        number, at = read_boolean(data, at, stop, "header.durable")
        header.durable = number == 1
    if count > 1:
        number, at = read_unsigned_byte(data, at, stop, "header.priority")
        if number >= 0:
            header.priority = int(number)
    if count > 2:
        number, at = read_unsigned_int(data, at, stop, "header.ttl")
        if number >= 0:
            header.ttl = int(number)
    if count > 3:
        number, at = read_boolean(data, at, stop, "header.first-acquirer")
        header.first_acquirer = number == 1
    if count > 4:
        number, at = read_unsigned_int(data, at, stop, "header.delivery-count")
        if number > 0:
            header.delivery_count = int(number)
    refuse_rest("header", at, stop)
    return header


def decode_properties(data: bytes, content: int, end: int) -> Properties:
    """Decode the value of a properties section that ends at ``end``.

    Raises:
        DecodeError: a field of the wrong type, or one too many.
    """
    definition: CompositeType | None = definition_by_code(PROPERTIES)
    assert definition is not None
    properties, _ = decode_fields(definition, data, content, end)
    assert isinstance(properties, Properties)
    return properties


def encode_header(header: Header) -> bytes:
    """Encode a header section with its descriptor; raises LocalProtocolError for a value beyond its type."""
    return encode_composite(header)


def encode_properties(properties: Properties) -> bytes:
    """Encode a properties section with its descriptor; raises LocalProtocolError for a value beyond its type."""
    return encode_composite(properties)


def encode_section(descriptor: int, value: Any) -> bytes:
    """Encode any other section with its descriptor.

    Plain texts as keys of annotations and the footer become symbols (§3.2.10), as keys of application properties
    strings (§3.2.5).

    Raises:
        LocalProtocolError: no such section, or a value the section cannot have.
    """
    if descriptor not in _NAMES or descriptor in {HEADER, PROPERTIES}:
        raise LocalProtocolError(f"section 0x{descriptor:02x} cannot be encoded here; use 0x71, 0x72 or 0x74 to 0x78")
    head = b"\x00\x53" + bytes((descriptor,))
    name = _NAMES[descriptor]
    if descriptor == VALUE:
        return head + (encode_composite(value) if isinstance(value, Composite) else encode_value(value))
    if descriptor == DATA:
        _need(name, value, type(value) is bytes, "octets")
        return head + encode_value(value)
    if descriptor == SEQUENCE:
        _need(name, value, type(value) is list, "a list")
        return head + encode_value(value)
    if descriptor != APPLICATION_PROPERTIES:
        _need(name, value, isinstance(value, dict | MapPairs), "a dictionary or MapPairs")
        return head + (encode_symbol_map(value) if isinstance(value, dict) else encode_value(value))
    _need(name, value, isinstance(value, dict), "a dictionary")
    items: list[bytes] = []
    for key, item in value.items():
        items.append(encode_string(str(key)))
        items.append(encode_value(item))
    return head + encode_map(items)


def _need(name: str, value: Any, fits: bool, needed: str) -> None:
    if not fits:
        raise LocalProtocolError(f"section {name} was given a {type(value).__name__}, needed is {needed}")


def find_in_map(data: bytes, start: int, end: int, name: bytes) -> Any:
    """Return the value of the text key ``name`` (UTF-8) of the map at ``start``, ``None`` when absent.

    No other value is decoded. A key may be a string or a symbol; of two the first counts.

    Raises:
        DecodeError: malformed octets, as far as they were read.
    """
    at: i64 = start
    stop: i64 = end
    if at >= stop:
        raise truncated("map", start, 1, end)
    code: i64 = data[at]
    if code != 0xC1 and code != 0xD1:  # noqa: PLR1714 - compiles better than a tuple
        raise wrong_type("map", int(code), start, "a map")
    _, at, stop = compound_bounds(data, code, at + 1, stop, "map")
    while at < stop:
        code = data[at]
        if code == 0xA1 or code == 0xA3 or code == 0xB1 or code == 0xB3:  # noqa: PLR1714 - compiles better than a tuple
            key_start, key_end = variable_bounds(data, code, at + 1, stop, "key")
            if key_end - key_start == len(name) and data[key_start:key_end] == name:
                return decode_value(data, int(key_end), int(stop))[0]
            at = skip_value(data, int(key_end), int(stop))
        else:
            at = skip_value(data, skip_value(data, int(at), int(stop)), int(stop))
    return None


def key_octets(data: bytes, at: i64, end: i64) -> bytes:
    """Return the octets of a key that is a string or symbol, nothing for others."""
    kind: i64 = data[at]
    if kind == 0xA1 or kind == 0xA3:  # noqa: PLR1714 - compiles better than a tuple
        return data[at + 2 : end]
    if kind == 0xB1 or kind == 0xB3:  # noqa: PLR1714 - as above
        return data[at + 5 : end]
    return b""


def has_key(data: bytes, start: int, end: int, names: frozenset[bytes]) -> bool:
    """Return whether the map at ``start`` has one of these text keys (UTF-8).

    Raises:
        DecodeError: malformed octets, as far as they were read.
    """
    code: i64 = data[start]
    _, at, stop = compound_bounds(data, code, i64(start) + 1, i64(end), "map")
    while at < stop:
        key_end: i64 = skip_value(data, int(at), int(stop))
        if key_octets(data, at, key_end) in names:
            return True
        at = skip_value(data, int(key_end), int(stop))
    return False


def is_map(octets: bytes) -> bool:
    """Return whether octets are one encoded map whose keys and values end where it says; nested ones are left to the
    decoders, as in :func:`split_message`."""
    end: i64 = len(octets)
    if end < 3 or octets[0] not in _MAP_CODES:
        return False
    try:
        code: i64 = octets[0]
        count, at, stop = compound_bounds(octets, code, 1, end, "map")
        found: i64 = 0
        while at < stop:
            at = skip_value(octets, int(at), int(stop))
            found += 1
    except DecodeError:
        return False
    return stop == end and found == count and not found & 1


_MAP_CODES: Final = frozenset((0xC1, 0xD1))
