"""Messages of AMQP 0-9-1 as content of no protocol, and such content as messages of AMQP 0-9-1. See docs/conversion.md.

Anything that properties and headers cannot express is recorded in one header, :data:`RECORD`, a table:

================ =====================================================================================================
``types``        types of headers that AMQP 0-9-1 has not (:mod:`.type_tags`), by name
``body``         kind of the body, where octets and content type do not say it
``body-types``   how its octets are read (:mod:`.bodies`)
``fields``, ...  :mod:`annulet.core.message.content_differences`; what is in them is lowered, too
``record-types`` the tags of those
================ =====================================================================================================

Headers and bodies beyond the bounds of :mod:`annulet.core.message.conversion_bounds` keep their octets.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote, unquote

from annulet.core.base.death_trail import DeathRecord
from annulet.core.base.settings import UNLIMITED
from annulet.core.base.typed_values import Int, TimestampMilliseconds, UnsignedLong
from annulet.core.configuration.arguments.values import MILLISECONDS_MAX
from annulet.core.message.content_differences import apply_differences, differences, same_value
from annulet.core.message.conversion_bounds import CONVERTED_FIELDS_MAX, HEADERS_OCTETS
from annulet.core.message.message import Message, PropertyValue
from annulet.core.message.message_id_texts import identifier_of, identifier_text
from annulet.core.message.neutral_content import BODY_DATA, BODY_TEXT, BODY_TEXT_OCTETS, MessageContent
from annulet.core.routing.address_names import TO_EXCHANGE, parse_address_name
from annulet.core.routing.exchanges.address import MULTICAST
from annulet.wire.amqp091.messages.annotations import DEATHS, decode_deaths, encode_deaths
from annulet.wire.amqp091.messages.bodies import (
    CONTAINER_TYPES,
    ENCODING_TYPES,
    natural_body,
    read_body,
    write_body,
)
from annulet.wire.amqp091.messages.jms_bodies import JMS_MAP, JMS_STREAM
from annulet.wire.amqp091.messages.properties import BasicProperties, encode_properties
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
    FLAG_TYPE,
    FLAG_USER_ID,
    PropertyReader,
)
from annulet.wire.amqp091.messages.type_tags import lower, restore
from annulet.wire.amqp091.types.constants import DELIVERY_MODE_PERSISTENT
from annulet.wire.amqp091.types.errors import RemoteProtocolError
from annulet.wire.amqp091.types.typed_tables import (
    are_fields,
    encode_typed_table,
    fits_name,
    read_typed_table,
)
from annulet.wire.amqp091.types.values import Timestamp, encode_long_string, has_more_fields

RECORD: Final = "x-annulet-content"
"""The header that records properties of a message that AMQP 0-9-1 cannot express."""

GROUP_ID: Final = "JMSXGroupID"
GROUP_SEQUENCE: Final = "JMSXGroupSeq"
GROUP_NAMES: Final = (GROUP_ID, "group-id", "x-group-id")
SUBJECT: Final = "qpid.subject"
LONG_MESSAGE_ID: Final = "x-message-id"
LONG_CORRELATION_ID: Final = "x-correlation-id"
"""RabbitMQ's headers for ids of more than 255 octets."""

CLUSTER_ID: Final = "x-opt-cluster-id"
TYPE: Final = "x-opt-type"
REPLY_TO: Final = "x-opt-reply-to"
CONTENT_TYPE: Final = "x-opt-content-type"
SEQUENCE: Final = "x-opt-group-sequence"
TIMESTAMP: Final = "x-opt-timestamp"
"""Annotations for properties that only AMQP 0-9-1 has: cluster-id, a type beside ``qpid.subject``, a binding URL of
Qpid, a content type that was replaced by another one, the number of ``JMSXGroupSeq`` in its own type if that is not an
int, seconds beyond 64 bits of milliseconds."""

SERIALIZED: Final = "application/x-java-serialized-object"
SERIALIZED_HERE: Final = "application/java-object-stream"
"""Content types of a serialised Java object: the AMQP JMS mapping's, and that of Qpid's clients for AMQP 0-x."""

_TRANSIENT: Final = 1
_SECONDS_MAX: Final = (2**63 - 1) // 1000
_SEQUENCE_MODULUS: Final = 2**32
_BINDING_URL: Final = re.compile(r"[a-z]+://([^/?]*)/([^/?]*)/([^/?]*)(?:\?(.*))?", re.DOTALL)
_ROUTING_KEY: Final = re.compile(r"routingkey='([^']*)'")
_EXCHANGES: Final = "/exchanges/"


class Reading:
    """Properties as they were read, before anything is made of them."""

    __slots__ = ("correlation_id", "headers", "message_id", "properties")

    def __init__(self) -> None:
        self.properties = BasicProperties()
        self.headers: dict[str, PropertyValue] = {}  # typed values
        self.message_id: str | bytes | None = None  # octets: not UTF-8
        self.correlation_id: str | bytes | None = None


def to_content(message: Message) -> MessageContent:
    """Return a message decoded, without its malformed parts."""
    content = _interpret(read_properties(message.header), message.body)
    content.exchange = message.origin.exchange
    content.routing_key = message.origin.routing_key
    return content


def read_properties(header: bytes) -> Reading:
    """Decode a property list as far as it can be decoded, headers with their field types."""
    reading = Reading()
    try:
        _read_into(reading, PropertyReader(header, strict=False))
    except RemoteProtocolError:  # octets are missing: the following fields cannot be found
        return reading
    return reading


def _read_into(reading: Reading, reader: PropertyReader) -> None:
    properties = reading.properties
    properties.content_type = reader.text(FLAG_CONTENT_TYPE, "content-type")
    properties.content_encoding = reader.text(FLAG_CONTENT_ENCODING, "content-encoding")
    if reader.flags & FLAG_HEADERS:
        start = reader.position
        reader.skip_table()
        if has_more_fields(reader.data, start + 4, reader.position, CONVERTED_FIELDS_MAX):
            reading.headers = {HEADERS_OCTETS: reader.data[start + 4 : reader.position]}
        else:
            reading.headers = read_typed_table(reader.data, start, reader.position)
    properties.delivery_mode = reader.octet(FLAG_DELIVERY_MODE, "delivery-mode")
    properties.priority = reader.octet(FLAG_PRIORITY, "priority")
    reading.correlation_id = _text_or_octets(reader, FLAG_CORRELATION_ID, "correlation-id")
    properties.reply_to = reader.text(FLAG_REPLY_TO, "reply-to")
    properties.expiration = reader.text(FLAG_EXPIRATION, "expiration")
    reading.message_id = _text_or_octets(reader, FLAG_MESSAGE_ID, "message-id")
    properties.timestamp = reader.timestamp()
    properties.type = reader.text(FLAG_TYPE, "type")
    properties.user_id = reader.text(FLAG_USER_ID, "user-id")
    properties.app_id = reader.text(FLAG_APP_ID, "app-id")
    properties.cluster_id = reader.text(FLAG_CLUSTER_ID, "cluster-id")


def _text_or_octets(reader: PropertyReader, flag: int, name: str) -> str | bytes | None:
    if not reader.flags & flag:
        return None
    start = reader.position + 1
    reader.skip_text(flag, name)
    octets = reader.data[start : reader.position]
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return octets


# ---------------------------------------------------------------------- reading a message


def _interpret(reading: Reading, body: bytes, told: tuple[str, PropertyValue] | None = None) -> MessageContent:
    """Return the content of properties and body, including the record. Takes over ``reading.headers``.

    ``told``: kind and value of the body, if known.
    """
    headers = reading.headers
    given = headers.pop(RECORD, None)
    record: dict[str, PropertyValue] = given if isinstance(given, dict) else {}
    types = record.get("types")
    if isinstance(types, dict):
        for name, tag in types.items():
            if name in headers:
                headers[name] = restore(headers[name], tag)
    content = MessageContent()
    _interpret_properties(content, reading)
    _interpret_headers(content, headers)
    content.application = headers
    properties = reading.properties
    kind = record.get("body")
    if told is None and isinstance(kind, str):
        told = read_body(kind, record.get("body-types"), body, properties.content_type)
    if told is None:
        told = natural_body(body, properties.content_type, properties.content_encoding)
    content.body_kind, content.body = told
    if content.content_type in ENCODING_TYPES and content.body_kind not in (BODY_DATA, BODY_TEXT, BODY_TEXT_OCTETS):
        if content.content_type in (JMS_MAP, JMS_STREAM):
            content.annotations[CONTENT_TYPE] = content.content_type
        content.content_type = None  # the kind determines it
    if record:
        names = ("fields", "properties", "without")
        carried = {name: record[name] for name in names if name in record}
        whole = restore(carried, record.get("record-types"))
        assert isinstance(whole, dict), "a table stays one"
        apply_differences(content, whole)
    return content


def _interpret_properties(content: MessageContent, reading: Reading) -> None:
    properties = reading.properties
    content.durable = properties.delivery_mode == DELIVERY_MODE_PERSISTENT
    content.priority = UNLIMITED if properties.priority is None else properties.priority
    expiration = properties.expiration
    if expiration is not None and expiration.isascii() and expiration.isdigit() and len(expiration) <= 18:
        content.time_to_live = int(expiration)
    content.message_id = _identifier(reading.message_id, reading.headers, LONG_MESSAGE_ID)
    content.correlation_id = _identifier(reading.correlation_id, reading.headers, LONG_CORRELATION_ID)
    content.content_type = properties.content_type
    if properties.content_type == SERIALIZED_HERE:
        content.content_type = SERIALIZED
    elif properties.content_type == SERIALIZED:
        content.annotations[CONTENT_TYPE] = SERIALIZED
    content.content_encoding = properties.content_encoding
    if properties.timestamp is not None:
        if properties.timestamp <= _SECONDS_MAX:
            content.creation_time = properties.timestamp * 1000
        else:
            content.annotations[TIMESTAMP] = UnsignedLong(properties.timestamp)
    content.user_id = None if properties.user_id is None else properties.user_id.encode("utf-8")
    content.app_id = properties.app_id
    content.subject = properties.type
    if properties.reply_to is not None:
        content.reply_to = address_of_reply(properties.reply_to)
        if content.reply_to != properties.reply_to or reply_to_of(content.reply_to) != properties.reply_to:
            content.annotations[REPLY_TO] = properties.reply_to
    if properties.cluster_id is not None:
        content.annotations[CLUSTER_ID] = properties.cluster_id


def _identifier(
    given: str | bytes | None, headers: dict[str, PropertyValue], long_name: str
) -> str | int | bytes | None:
    if given is None:
        long = headers.get(long_name)
        if type(long) is str and not fits_name(long):
            del headers[long_name]
            return identifier_of(long)
        return None
    return given if isinstance(given, bytes) else identifier_of(given)


def _interpret_headers(content: MessageContent, headers: dict[str, PropertyValue]) -> None:
    """Take the headers that are properties of other protocols out of the headers."""
    deaths = headers.get(DEATHS)
    if isinstance(deaths, list):
        content.deaths = _deaths_in(deaths)
        if content.deaths and same_value(_deaths_header(content.deaths), deaths):
            del headers[DEATHS]
    for name in GROUP_NAMES:
        value = headers.get(name)
        if isinstance(value, str) and content.group_id is None:
            content.group_id = str(value)
            if name == GROUP_ID and type(value) is str:
                del headers[name]
    sequence = headers.get(GROUP_SEQUENCE)
    if isinstance(sequence, int) and not isinstance(sequence, bool) and -(2**31) <= sequence < _SEQUENCE_MODULUS:
        content.group_sequence = int(sequence) % _SEQUENCE_MODULUS
        if not isinstance(sequence, Int):
            content.annotations[SEQUENCE] = sequence
        del headers[GROUP_SEQUENCE]
    subject = headers.get(SUBJECT)
    if type(subject) is str and subject != content.subject:
        if content.subject is not None:
            content.annotations[TYPE] = content.subject
        content.subject = subject


def _deaths_in(header: PropertyValue) -> list[DeathRecord]:
    return decode_deaths([_plain_death(item) for item in header]) if isinstance(header, list) else []


def _plain_death(item: PropertyValue) -> PropertyValue:
    """Return a death record with its time as the codec of ``x-death`` reads and writes it."""
    if not isinstance(item, dict):
        return item
    return {
        name: Timestamp(value // 1000) if isinstance(value, TimestampMilliseconds) else value
        for name, value in item.items()
    }


def address_of_reply(text: str) -> str:
    """Return a binding URL of Qpid's clients as an address: a queue's name or ``/exchanges/name/key``.

    Any other text, a queue's name above all, stays as it is.
    """
    match = _BINDING_URL.fullmatch(text)
    if match is None:
        return text
    exchange, destination, queue, options = (unquote(part or "") for part in match.groups())
    key = _ROUTING_KEY.search(options)
    routing_key = key.group(1) if key is not None else destination or queue
    if not exchange:
        return queue or routing_key or text
    if not routing_key:
        return f"{_EXCHANGES}{quote(exchange, safe='')}"
    return f"{_EXCHANGES}{quote(exchange, safe='')}/{quote(routing_key, safe='')}"


def reply_to_of(address: str) -> str:
    """Return an address as reply-to: the bare name of a queue, since that is the routing key replies are sent with."""
    parsed = parse_address_name(address)
    if parsed.kind == TO_EXCHANGE or parsed.routing_type == MULTICAST or parsed.address:
        return address
    return parsed.name


# ---------------------------------------------------------------------- writing a content


def from_content(content: MessageContent) -> tuple[bytes, bytes]:
    """Return header (property flags and list) and body of a message. The body of octets is not copied."""
    reading = Reading()
    record: dict[str, PropertyValue] = {}
    _write_properties(reading, content)
    types = _write_headers(reading, content)
    if types:
        record["types"] = types
    properties = reading.properties
    written = write_body(content.body_kind, content.body, _body_type(content))
    if content.content_type is None or written.content_type in ENCODING_TYPES:
        properties.content_type = written.content_type
    kind, value = natural_body(written.octets, properties.content_type, properties.content_encoding)
    if kind != content.body_kind or not same_value(value, content.body):
        record["body"] = content.body_kind
        if written.note is not None:
            record["body-types"] = written.note
    natural = _interpret(_as_read(reading, record), written.octets, (content.body_kind, content.body))
    lacking, tag = lower(differences(content, natural))
    if isinstance(lacking, dict) and lacking:
        record.update(lacking)
        if tag is not None:
            record["record-types"] = tag
    if record:
        reading.headers[RECORD] = record
    encoded = encode_properties(properties)
    if not reading.headers:
        return encoded, written.octets
    return _with_headers(encoded, properties, _table_of(reading.headers)), written.octets


def _table_of(headers: dict[str, PropertyValue]) -> bytes:
    """Encode headers. An encoded table of the sender follows the headers that were added to it."""
    octets = headers.get(HEADERS_OCTETS)
    if not isinstance(octets, bytes) or not are_fields(octets):
        return encode_typed_table(headers)
    added = encode_typed_table({name: value for name, value in headers.items() if name != HEADERS_OCTETS})
    return encode_long_string(added[4:] + octets)


def _body_type(content: MessageContent) -> str | None:
    """Return the content type a body is written for: the message's own, or how a map or list was encoded."""
    formerly = content.annotations.get(CONTENT_TYPE)
    if content.content_encoding is not None:  # then none of them describes the octets
        return None if content.content_type in CONTAINER_TYPES else content.content_type
    return formerly if isinstance(formerly, str) and formerly in CONTAINER_TYPES else content.content_type


def _with_headers(encoded: bytes, properties: BasicProperties, table: bytes) -> bytes:
    """Put an encoded header table into a property list without one."""
    flags = (encoded[0] << 8 | encoded[1]) | FLAG_HEADERS
    position = 2
    for text in (properties.content_type, properties.content_encoding):
        if text is not None:
            position += 1 + encoded[position]
    return flags.to_bytes(2, "big") + encoded[2:position] + table + encoded[position:]


def _as_read(reading: Reading, record: dict[str, PropertyValue]) -> Reading:
    """Return the content as a reader of the message will decode it, so far."""
    found = Reading()
    found.properties = reading.properties
    found.message_id = reading.properties.message_id
    found.correlation_id = reading.properties.correlation_id
    found.headers = dict(reading.headers)
    if record:
        found.headers[RECORD] = record
    return found


def _write_properties(reading: Reading, content: MessageContent) -> None:
    properties = reading.properties
    annotations = content.annotations
    properties.delivery_mode = DELIVERY_MODE_PERSISTENT if content.durable else _TRANSIENT
    if 0 <= content.priority <= 255:
        properties.priority = content.priority
    if 0 <= content.time_to_live <= MILLISECONDS_MAX:
        properties.expiration = str(content.time_to_live)
    properties.message_id = _write_identifier(reading, content.message_id, LONG_MESSAGE_ID)
    properties.correlation_id = _write_identifier(reading, content.correlation_id, LONG_CORRELATION_ID)
    properties.content_type = _fitting(content.content_type)
    if content.content_type == SERIALIZED and annotations.get(CONTENT_TYPE) != SERIALIZED:
        properties.content_type = SERIALIZED_HERE
    properties.content_encoding = _fitting(content.content_encoding)
    if content.creation_time is not None and content.creation_time >= 0:
        properties.timestamp = content.creation_time // 1000
    beyond = annotations.get(TIMESTAMP)
    if content.creation_time is None and isinstance(beyond, UnsignedLong) and beyond > _SECONDS_MAX:
        properties.timestamp = int(beyond)
    properties.app_id = _fitting(content.app_id)
    properties.cluster_id = _fitting(annotations.get(CLUSTER_ID))
    properties.type = _fitting(content.subject)
    if content.application.get(SUBJECT) == content.subject:
        properties.type = _fitting(annotations.get(TYPE)) or properties.type
    if content.reply_to is not None:
        properties.reply_to = _fitting(reply_to_of(content.reply_to))
        original = _fitting(annotations.get(REPLY_TO))
        if original is not None and address_of_reply(original) == content.reply_to:
            properties.reply_to = original
    if content.user_id is not None and len(content.user_id) <= 255:
        try:
            properties.user_id = content.user_id.decode("utf-8")
        except UnicodeDecodeError:  # no user of this broker: names are texts
            properties.user_id = None


def _fitting(text: PropertyValue) -> str | None:
    return str(text) if isinstance(text, str) and fits_name(text) else None


def _write_identifier(reading: Reading, identifier: str | int | bytes | None, long_name: str) -> str | None:
    if identifier is None:
        return None
    text = identifier_text(identifier)
    if fits_name(text):
        return text
    reading.headers[long_name] = text
    return None


def _write_headers(reading: Reading, content: MessageContent) -> dict[str, PropertyValue]:
    """Write application properties, group and trail as headers. Returns the tags of those that need one."""
    headers = reading.headers
    types: dict[str, PropertyValue] = {}
    deaths = _deaths_header(content.deaths) if content.deaths else []
    known = _deaths_in(content.application.get(DEATHS))  # written by a client in its own way
    taken = {RECORD, DEATHS} if deaths and (not known or _deaths_header(known) != deaths) else {RECORD}
    for name, value in content.application.items():
        if name not in taken and name not in headers and fits_name(name):
            headers[str(name)], tag = lower(value)
            if tag is not None:
                types[str(name)] = tag
    if deaths:
        headers.setdefault(DEATHS, deaths)
    if content.group_id is not None and not any(headers.get(name) == content.group_id for name in GROUP_NAMES):
        headers.setdefault(GROUP_ID, content.group_id)
    if content.group_sequence is not None:
        headers.setdefault(GROUP_SEQUENCE, _sequence_header(content.group_sequence, content.annotations.get(SEQUENCE)))
    return types


def _sequence_header(sequence: int, original: PropertyValue) -> int:
    """Return the number in the type it had, if it is still the same, else as the int of JMS."""
    if isinstance(original, int) and not isinstance(original, bool) and lower(original)[1] is None:
        in_range = -(2**31) <= original < _SEQUENCE_MODULUS
        if in_range and original % _SEQUENCE_MODULUS == sequence:
            return original
    return Int(sequence - _SEQUENCE_MODULUS if sequence >= 2**31 else sequence)


def _deaths_header(deaths: list[DeathRecord]) -> list[PropertyValue]:
    """Return ``x-death`` with the field types it has when AMQP 0-9-1 itself writes it."""
    written: Any = encode_deaths(deaths, first_known=True)[DEATHS]
    for fields in written:
        fields["count"] = int(fields["count"])
        fields["time"] = TimestampMilliseconds(int(fields["time"]) * 1000)
    return [*written]
