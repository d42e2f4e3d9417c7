"""AMQP 1.0 messages as content of no protocol, and such content as AMQP 1.0 messages: docs/conversion.md.

AMQP 1.0 can express nearly everything. The rest (nested values as application properties, content types beyond ASCII)
is recorded in one message annotation, ``x-opt-annulet-content``. Parts beyond the bounds of
:mod:`annulet.core.message.conversion_bounds` keep their octets.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from annulet.core.base.errors import LimitExceeded
from annulet.core.base.settings import UNLIMITED
from annulet.core.base.typed_values import Byte, MapPairs, UnsignedLong, Uuid
from annulet.core.message.content_differences import apply_differences, differences, same_value
from annulet.core.message.conversion_bounds import (
    ANNOTATIONS_OCTETS,
    APPLICATION_PROPERTIES_OCTETS,
    CONVERTED_BYTES_MAX,
    CONVERTED_FIELDS_MAX,
    CONVERTED_VALUES_MAX,
    ENCODED_TYPE,
)
from annulet.core.message.message import Message, PropertyValue
from annulet.core.message.neutral_content import (
    BODY_DATA,
    BODY_ENCODED,
    BODY_LIST,
    BODY_MAP,
    BODY_SEQUENCE,
    BODY_TEXT,
    BODY_TEXT_OCTETS,
    BODY_VALUE,
    MessageContent,
)
from annulet.wire.amqp10.messages.deaths import decode_deaths, encode_deaths
from annulet.wire.amqp10.messages.message import FORM_DATA, TIME_TO_LIVE_MAX, find_section, section_with
from annulet.wire.amqp10.messages.names import ANNOTATIONS, APP_ID, DATA_SECTIONS, DEATHS, HEADERS, JMS_TYPE, RECORD
from annulet.wire.amqp10.messages.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    NO_BODY,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    Header,
    MessageSections,
    Properties,
    decode_header,
    decode_properties,
    encode_header,
    encode_properties,
    encode_section,
    is_map,
    split_message,
)
from annulet.wire.amqp10.types.encoding import encode_value
from annulet.wire.amqp10.types.errors import DecodeError, LocalProtocolError
from annulet.wire.amqp10.types.values import decode_value, has_more_values, skip_value, variable_bounds

_EXCHANGES: Final = "/exchanges/"
_NUMBER_MIN: Final = -(2**63)
_NUMBER_MAX: Final = 2**63 - 1
_SEQUENCE_MAX: Final = 2**32 - 1

_JMS_TYPES: Final[dict[str, int]] = {
    BODY_MAP: 2,
    BODY_DATA: 3,
    BODY_LIST: 4,
    BODY_SEQUENCE: 4,
    BODY_TEXT: 5,
    BODY_TEXT_OCTETS: 5,
    BODY_ENCODED: -1,
}
_SYMBOL_LENGTH_MAX: Final = 65_535
_BINARY_8: Final = 0xA0
_BINARY_32: Final = 0xB0
_STRING_32: Final = 0xB1
_STRING_HEAD_BYTES: Final = 5
_TEXT_HEAD: Final = b"\x00\x53\x77\xb1"

SERIALIZED: Final = "application/x-java-serialized-object"
"""Content type of a serialised Java object (AMQP JMS mapping §3.2.5)."""


# ---------------------------------------------------------------------- reading a message


def to_content(message: Message) -> MessageContent:
    """Return a message decoded, without its malformed parts; a malformed body is returned as its octets."""
    content = MessageContent()
    header = message.header
    content.exchange = message.origin.exchange
    content.routing_key = message.origin.routing_key
    content.body_kind, content.body = BODY_DATA, message.body
    if header[:1] != bytes((FORM_DATA,)):
        try:
            _read_body(content, message.body)
        except DecodeError:  # stored unchecked: only its octets are known
            content.body_kind, content.body, content.footer = BODY_DATA, message.body, {}
        except LimitExceeded:
            content.body_kind, content.body = BODY_ENCODED, message.body
    given = _section(header, HEADER)
    if isinstance(given, Header):
        content.durable = given.durable
        content.priority = UNLIMITED if given.priority is None else given.priority
        content.time_to_live = given.ttl or UNLIMITED  # 0 is for ever here and at once elsewhere
    properties = _section(header, PROPERTIES)
    _interpret(
        content,
        _map_of(header, MESSAGE_ANNOTATIONS, ANNOTATIONS_OCTETS),
        properties if isinstance(properties, Properties) else Properties(),
        _map_of(header, APPLICATION_PROPERTIES, APPLICATION_PROPERTIES_OCTETS),
    )
    return content


def _map_of(header: bytes, code: int, name_of_octets: str) -> dict[str, PropertyValue]:
    """Return a section that is a map; one entry with its octets if they are too many to be decoded."""
    try:
        start = find_section(header, code)
        if start < 0:
            return {}
        end = skip_value(header, start, len(header))
        if end - start > CONVERTED_BYTES_MAX or has_more_values(header, start, end, CONVERTED_FIELDS_MAX + 1):
            return {name_of_octets: header[start:end]}
        return text_keys(decode_value(header, start, end)[0])
    except DecodeError:  # as absent
        return {}


def _section(header: bytes, code: int) -> Any:
    """Return a section of a stored header decoded, ``None`` when it is absent or malformed."""
    try:
        start = find_section(header, code)
        if start < 0:
            return None
        if code == HEADER:
            return decode_header(header, start, skip_value(header, start, len(header)))
        return decode_properties(header, start, skip_value(header, start, len(header)))
    except DecodeError:  # as absent
        return None


def text_keys(value: Any) -> dict[str, PropertyValue]:
    """Return a map with its keys as texts: an annotation's number 7 is ``ulong:7``. Other keys have no meaning here."""
    table: dict[str, PropertyValue] = {}
    if isinstance(value, dict):
        for key, item in value.items():
            table[str(key)] = item
    elif isinstance(value, MapPairs):
        for key, item in zip(value[::2], value[1::2], strict=True):
            if isinstance(key, str):
                table[str(key)] = item
            elif isinstance(key, UnsignedLong):
                table[f"ulong:{int(key)}"] = item
    return table


def _read_body(content: MessageContent, octets: bytes) -> None:
    """Decode body sections and footer.

    Raises:
        DecodeError: malformed octets.
        LimitExceeded: there is more in them than is converted.
    """
    sections = split_message(octets, CONVERTED_VALUES_MAX)
    plain = _plain_value(octets, sections)
    if plain is None and sections.body_kind != DATA and _values_exceed(octets, sections):
        raise LimitExceeded("body is too large to be converted")
    if sections.footer is not None:
        start, end = sections.footer.content, sections.footer.end
        if end - start > CONVERTED_BYTES_MAX or has_more_values(octets, start, end, CONVERTED_VALUES_MAX + 1):
            raise LimitExceeded("footer is too large to be converted")
        content.footer = text_keys(decode_value(octets, sections.footer.content, sections.footer.end)[0])
    if plain is not None:
        content.body_kind, content.body = plain
        return
    values = [decode_value(octets, section.content, section.end)[0] for section in sections.body]
    if sections.body_kind == DATA:
        content.body_kind, content.body = BODY_DATA, b"".join(values)
        if len(values) > 1:
            sizes: list[PropertyValue] = [len(value) for value in values]
            content.annotations[DATA_SECTIONS] = sizes
    elif sections.body_kind == SEQUENCE:
        content.body_kind, content.body = BODY_SEQUENCE, values
    elif sections.body_kind == NO_BODY:
        content.body_kind, content.body = BODY_VALUE, None
    else:
        content.body_kind, content.body = kind_of(values[0]), values[0]


def _plain_value(octets: bytes, sections: MessageSections) -> tuple[str, bytes] | None:
    """Return kind and octets of an amqp-value that is octets, or a text too long to be decoded; ``None`` for others."""
    if sections.body_kind != VALUE:
        return None
    section = sections.body[0]
    code = octets[section.content]
    text = code == _STRING_32 and section.end - section.content > CONVERTED_BYTES_MAX + _STRING_HEAD_BYTES
    if not text and code not in (_BINARY_8, _BINARY_32):
        return None
    start, end = variable_bounds(octets, code, section.content + 1, section.end, "body")
    return BODY_TEXT_OCTETS if text else BODY_VALUE, octets[int(start) : int(end)]


def _values_exceed(octets: bytes, sections: MessageSections) -> bool:
    """Return whether there is more in a body that is no data, nor one text, than is converted. Descriptors of
    sections do not count, nor does the outermost value."""
    if not sections.body:
        return False
    most = CONVERTED_VALUES_MAX + 2 * len(sections.body) + (sections.body_kind == VALUE)
    start, end = sections.body[0].start, sections.body[-1].end
    if octets[sections.body[0].content] == _STRING_32 and sections.body_kind == VALUE:
        return False
    return end - start > CONVERTED_BYTES_MAX or has_more_values(octets, start, end, most)


def kind_of(value: Any) -> str:
    """Return the kind of body an amqp-value section with this value is."""
    if type(value) is str:
        return BODY_TEXT
    if isinstance(value, dict | MapPairs):
        return BODY_MAP
    return BODY_LIST if type(value) is list else BODY_VALUE


def _interpret(
    content: MessageContent,
    annotations: dict[str, PropertyValue],
    properties: Properties,
    application: dict[str, PropertyValue],
) -> None:
    """Read annotations, properties and application properties, including the record. Takes over the dicts."""
    record = annotations.pop(RECORD, None)
    content.deaths = decode_deaths(annotations.get(DEATHS))
    if content.deaths and same_value(encode_deaths(content.deaths), annotations.get(DEATHS)):
        del annotations[DEATHS]
    app_id = annotations.get(APP_ID)
    if type(app_id) is str:
        content.app_id = app_id
        del annotations[APP_ID]
    jms_type = annotations.get(JMS_TYPE)
    if isinstance(jms_type, Byte) and jms_type == _jms_type(content, properties.content_type):
        del annotations[JMS_TYPE]
    for annotation, name in HEADERS.items():
        if annotation in annotations and name not in application:
            application[name] = annotations.pop(annotation)
    content.annotations.update(annotations)
    content.application = application
    content.message_id = properties.message_id
    content.correlation_id = properties.correlation_id
    content.user_id = properties.user_id
    content.to = properties.to
    if properties.to == address_of(content.exchange, content.routing_key):
        content.to = None  # it follows from the origin
    content.subject = properties.subject
    content.reply_to = properties.reply_to
    content.content_type = properties.content_type
    content.content_encoding = properties.content_encoding
    content.absolute_expiry_time = properties.absolute_expiry_time
    content.creation_time = properties.creation_time
    content.group_id = properties.group_id
    content.group_sequence = properties.group_sequence
    content.reply_to_group_id = properties.reply_to_group_id
    if isinstance(record, dict):
        apply_differences(content, record)


def _jms_type(content: MessageContent, content_type: str | None) -> int:
    """Return the type a JMS client makes of a body; -1 for one it has no word for."""
    if content.body_kind == BODY_VALUE:
        return 0 if content.body is None else -1
    if content.body_kind == BODY_DATA and content_type == SERIALIZED:
        return 1
    return _JMS_TYPES[content.body_kind]


def address_of(exchange: str, routing_key: str) -> str:
    """Return the address of a message sent to an exchange with a key: ``/exchanges/name/key``, a queue's or node's
    name.

    Characters with a meaning in addresses are written with percent signs (RabbitMQ 4).
    """
    if not exchange:
        return routing_key
    if not routing_key or routing_key == exchange:
        return exchange
    return f"{_EXCHANGES}{quote(exchange, safe='')}/{quote(routing_key, safe='')}"


# ---------------------------------------------------------------------- writing a content


def from_content(content: MessageContent) -> tuple[bytes, bytes]:
    """Return stored header and body of a message, see :mod:`.message`. A body of octets is not copied."""
    if content.body_kind == BODY_ENCODED and not _is_body(content.body):  # a client says so of something else
        content.body_kind, content.content_type = BODY_DATA, content.content_type or ENCODED_TYPE
    annotations = _annotations_of(content)
    properties = _properties_of(content)
    application: dict[str, PropertyValue] = {}
    for name, value in content.application.items():
        annotation = ANNOTATIONS.get(name)
        if annotation is not None and annotation not in annotations:
            annotations[annotation] = carried(value)
        elif not isinstance(value, list | dict):  # §3.2.5: simple types only
            application[str(name)] = carried(value)
    natural = MessageContent()
    natural.exchange, natural.routing_key = content.exchange, content.routing_key
    natural.body_kind, natural.body = content.body_kind, content.body
    natural.footer = _footer_of(content)
    natural.priority = content.priority
    natural.time_to_live = content.time_to_live
    if not 0 < content.time_to_live <= TIME_TO_LIVE_MAX:
        natural.time_to_live = UNLIMITED
    sections = content.annotations.get(DATA_SECTIONS)
    if sections is not None:
        natural.annotations[DATA_SECTIONS] = sections
    _interpret(natural, dict(annotations), properties, dict(application))
    record = differences(content, natural)
    if record:
        annotations[RECORD] = _carried_record(record)
    form, body = _write_body(content)
    parts = [form]
    if content.durable or content.priority >= 0 or natural.time_to_live > 0:
        parts.append(_header_section(content.durable, content.priority, natural.time_to_live))
    if annotations:
        parts.append(_map_section(MESSAGE_ANNOTATIONS, annotations, ANNOTATIONS_OCTETS))
    if properties != Properties():
        parts.append(encode_properties(properties))
    if application:
        parts.append(_map_section(APPLICATION_PROPERTIES, application, APPLICATION_PROPERTIES_OCTETS))
    return b"".join(parts), body


def _map_section(code: int, values: dict[str, PropertyValue], name_of_octets: str) -> bytes:
    """Return a section that is a map. An encoded map of the sender becomes the section again, with the values that were
    added to it."""
    octets = values.get(name_of_octets)
    if not isinstance(octets, bytes) or not is_map(octets):
        return encode_section(code, values)
    added = {name: value for name, value in values.items() if name != name_of_octets}
    if not added:
        return b"\x00\x53" + bytes((code,)) + octets
    return section_with(octets, 0, len(octets), added, frozenset(), code)


def _is_body(octets: Any) -> bool:
    """Return whether octets are body sections and footer of a message and nothing else."""
    try:
        sections = split_message(octets)
    except (DecodeError, LimitExceeded):
        return False
    first = sections.body[0] if sections.body else sections.footer
    return first is not None and first.start == 0


def _header_section(durable: bool, priority: int, time_to_live: int) -> bytes:
    return encode_header(
        Header(durable, priority if 0 <= priority <= 255 else None, time_to_live if time_to_live > 0 else None)
    )


def _annotations_of(content: MessageContent) -> dict[str, PropertyValue]:
    annotations: dict[str, PropertyValue] = {}
    for name, value in content.annotations.items():
        if _is_symbol(name) and name not in (RECORD, DATA_SECTIONS):
            annotations[str(name)] = carried(value)
    if content.deaths:
        trail: list[PropertyValue] = [*encode_deaths(content.deaths)]
        if encode_deaths(decode_deaths(annotations.get(DEATHS))) != trail:  # else a client wrote it in its own way
            annotations[DEATHS] = trail
    if content.app_id is not None:
        annotations.setdefault(APP_ID, content.app_id)
    jms_type = _jms_type(content, content.content_type)
    if jms_type >= 0 and ANNOTATIONS_OCTETS not in annotations:
        annotations.setdefault(JMS_TYPE, Byte(jms_type))
    return annotations


def _properties_of(content: MessageContent) -> Properties:
    return Properties(
        message_id=_identifier(content.message_id),
        user_id=content.user_id,
        to=content.to or address_of(content.exchange, content.routing_key) or None,
        subject=content.subject,
        reply_to=content.reply_to,
        correlation_id=_identifier(content.correlation_id),
        content_type=_symbol(content.content_type),
        content_encoding=_symbol(content.content_encoding),
        absolute_expiry_time=_time(content.absolute_expiry_time),
        creation_time=_time(content.creation_time),
        group_id=content.group_id,
        group_sequence=content.group_sequence if 0 <= (content.group_sequence or 0) <= _SEQUENCE_MAX else None,
        reply_to_group_id=content.reply_to_group_id,
    )


def _identifier(identifier: str | int | bytes | None) -> str | bytes | int | None:
    if isinstance(identifier, int):
        return UnsignedLong(identifier) if 0 <= identifier < 2**64 else str(int(identifier))
    if isinstance(identifier, Uuid):
        return identifier if len(identifier) == 16 else bytes(identifier)
    return identifier


def _symbol(text: str | None) -> str | None:
    return text if text is not None and _is_symbol(text) else None


def _is_symbol(text: str) -> bool:
    return text.isascii() and len(text) <= _SYMBOL_LENGTH_MAX


def _time(milliseconds: int | None) -> int | None:
    return milliseconds if milliseconds is not None and _NUMBER_MIN <= milliseconds <= _NUMBER_MAX else None


def _carried_record(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record with only values that can be encoded in their places."""
    made = dict(record)
    if "fields" in made:
        made["fields"] = {name: [carried(item, 3) for item in change] for name, change in made["fields"].items()}
    if "properties" in made:
        made["properties"] = {name: carried(value, 2) for name, value in made["properties"].items()}
    return made


def carried(value: Any, depth: int = 0) -> Any:
    """Return a value, or its text where AMQP 1.0 cannot carry it: nested too deeply, or beyond its type.

    ``depth``: the depth of its enclosing containers.
    """
    wrapped = value
    for _ in range(depth):
        wrapped = [wrapped]
    try:
        encode_value(wrapped)
    except (LocalProtocolError, UnicodeError):
        return str(value).encode("utf-8", "backslashreplace").decode("utf-8")
    return value


def _footer_of(content: MessageContent) -> dict[str, PropertyValue]:
    return {str(name): carried(item) for name, item in content.footer.items() if _is_symbol(name)}


def _write_body(content: MessageContent) -> tuple[bytes, bytes]:
    """Return the octet of the form, and the body as it is stored."""
    value: Any = content.body
    footer = _footer_of(content)
    kind = content.body_kind
    if kind == BODY_DATA:
        sizes = content.annotations.get(DATA_SECTIONS)
        pieces = _pieces(value, sizes) if isinstance(sizes, list) else [value]
        if len(pieces) == 1 and not footer:
            return b"\x01", value
        parts = [encode_section(DATA, piece) for piece in pieces]
    elif kind == BODY_ENCODED:
        return b"\x00", value
    elif kind == BODY_TEXT_OCTETS:
        parts = [_TEXT_HEAD + len(value).to_bytes(4, "big"), value]
    elif kind == BODY_SEQUENCE:
        parts = [encode_section(SEQUENCE, [carried(part) for part in item]) for item in value]
    else:
        parts = [encode_section(VALUE, carried(value))]
    if footer:
        parts.append(encode_section(FOOTER, footer))
    return b"\x00", b"".join(parts)


def _pieces(octets: bytes, sizes: list[Any]) -> list[bytes]:
    """Split a body into its original data sections; one piece if its size has changed."""
    whole = all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in sizes)
    if not whole or not sizes or sum(sizes) != len(octets):
        return [octets]
    pieces: list[bytes] = []
    start = 0
    for size in sizes:
        pieces.append(octets[start : start + size])
        start += size
    return pieces
