"""Bodies of AMQP 0-9-1, which are octets and a content type, as the kinds of body other protocols tell apart.

=============================================== =============================================
body and content type                           kind
=============================================== =============================================
``text/*``, no content encoding, octets valid   text
in its character set (default UTF-8)
``amqp/map``, octets are a map of AMQP 0-10     map
``amqp/list``, octets are a list of AMQP 0-10   list
``jms/map-message``, octets are one             map
``jms/stream-message``, octets are one          list
empty, no content type                          value (null)
``application/x-amqp-1.0``                      encoded: sections of AMQP 1.0
anything else                                   data
=============================================== =============================================

Writing is the reverse; other values are identified by a *note*, which is stored in the message. Bodies beyond the
bounds of :mod:`annulet.core.message.conversion_bounds` are data.
"""

from __future__ import annotations

from typing import Any, Final

from annulet.core.base.typed_values import (
    Byte,
    Character,
    Decimal32,
    Decimal64,
    Decimal128,
    Float32,
    Int,
    MapPairs,
    Short,
    Symbol,
    TimestampMilliseconds,
    UnsignedByte,
    UnsignedInt,
    UnsignedLong,
    UnsignedShort,
    Uuid,
)
from annulet.core.message.conversion_bounds import CONVERTED_BYTES_MAX, CONVERTED_VALUES_MAX, ENCODED_TYPE
from annulet.core.message.message import PropertyValue
from annulet.core.message.message_id_texts import uuid_of, uuid_text
from annulet.core.message.neutral_content import (
    BODY_DATA,
    BODY_ENCODED,
    BODY_LIST,
    BODY_MAP,
    BODY_SEQUENCE,
    BODY_TEXT,
    BODY_TEXT_OCTETS,
    BODY_VALUE,
)
from annulet.wire.amqp091.messages.amqp010 import decode_list, decode_map, encode_list, encode_map
from annulet.wire.amqp091.messages.jms_bodies import (
    JMS_MAP,
    JMS_STREAM,
    decode_jms_map,
    decode_jms_stream,
    encode_jms_map,
    encode_jms_stream,
)
from annulet.wire.amqp091.messages.type_tags import Tag, lower, restore

TEXT_PLAIN: Final = "text/plain"
AMQP_MAP: Final = "amqp/map"
AMQP_LIST: Final = "amqp/list"
CONTAINER_TYPES: Final = frozenset({AMQP_MAP, AMQP_LIST, JMS_MAP, JMS_STREAM})
"""Content types that say how a map or list is encoded, and so nothing once it is decoded."""

ENCODING_TYPES: Final = CONTAINER_TYPES | {ENCODED_TYPE}
"""Content types that say how the octets of a body are encoded, whatever the message's own is."""

_CONTAINER_BYTES_MAX: Final = CONVERTED_BYTES_MAX + 16 * CONVERTED_VALUES_MAX
"""Bytes of a map or list that is decoded. AMQP 0-10 takes up to nine octets more for a value than AMQP 1.0, and the
largest body of AMQP 1.0 that is converted has to be read on the way back."""

_MAP_READERS: Final = {AMQP_MAP: decode_map, JMS_MAP: decode_jms_map}
_LIST_READERS: Final = {AMQP_LIST: decode_list, JMS_STREAM: decode_jms_stream}

CHARACTER_SETS: Final = frozenset(
    {"utf-8", "utf8", "us-ascii", "ascii", "utf-16", "utf-16be", "utf-16le", "utf-32", "utf-32be", "utf-32le"}
    | {f"iso-8859-{part}" for part in range(1, 17) if part != 12}
    | {f"windows-125{part}" for part in range(9)}
)
"""Character sets of ``text/*`` that are decoded; a body in another one is octets."""

UTF_8: Final = "utf-8"

_NUMBERS: Final[tuple[tuple[str, Any], ...]] = (
    ("byte", Byte),
    ("ubyte", UnsignedByte),
    ("short", Short),
    ("ushort", UnsignedShort),
    ("int", Int),
    ("uint", UnsignedInt),
    ("ulong", UnsignedLong),
    ("timestamp", TimestampMilliseconds),
    ("long", int),
)
_NUMBER_TYPES: Final[dict[str, Any]] = dict(_NUMBERS)
_OCTETS: Final[tuple[tuple[str, Any, int], ...]] = (
    ("decimal32", Decimal32, 4),
    ("decimal64", Decimal64, 8),
    ("decimal128", Decimal128, 16),
)
_TEXTS: Final[dict[str, Any]] = {"symbol": Symbol, "char": Character}
_DIGITS_MAX: Final = 20


class WrittenBody:
    """A body as AMQP 0-9-1 has it: octets, the content type that goes with them, and how to read them back."""

    __slots__ = ("content_type", "note", "octets")

    def __init__(self, octets: bytes, content_type: str | None = None, note: Tag = None) -> None:
        self.octets = octets
        self.content_type = content_type  # when the message has none of its own
        self.note = note  # beside the kind, for :func:`read_body`


def natural_body(octets: bytes, content_type: str | None, content_encoding: str | None) -> tuple[str, PropertyValue]:
    """Return kind and value of a body without a note. See the table of this module."""
    if content_encoding is None:
        if content_type is None:
            return (BODY_DATA, octets) if octets else (BODY_VALUE, None)
        if content_type == ENCODED_TYPE:
            return BODY_ENCODED, octets
        if content_type in CONTAINER_TYPES and len(octets) > _CONTAINER_BYTES_MAX:
            return BODY_DATA, octets
        if content_type in _MAP_READERS:
            table = _MAP_READERS[content_type](octets)
            if table is not None:
                return BODY_MAP, table
        elif content_type in _LIST_READERS:
            values = _LIST_READERS[content_type](octets)
            if values is not None:
                return BODY_LIST, values
        elif content_type[:5].lower() == "text/":
            text = _text(octets, character_set(content_type))
            if text is not None:
                return BODY_TEXT, text
    return BODY_DATA, octets


def read_body(kind: str, note: Tag, octets: bytes, content_type: str | None) -> tuple[str, PropertyValue] | None:
    """Return kind and value of a body declared as ``kind``; ``None`` if it no longer is of that kind."""
    if kind in (BODY_DATA, BODY_ENCODED) or (kind == BODY_TEXT_OCTETS and len(octets) > CONVERTED_BYTES_MAX):
        return kind, octets
    if kind == BODY_TEXT_OCTETS:
        kind, note = BODY_TEXT, UTF_8
    if kind == BODY_TEXT:
        text = _text(octets, UTF_8 if note == UTF_8 else character_set(content_type))
        return None if text is None else (kind, text)
    if kind == BODY_VALUE and (note is None or isinstance(note, str)):
        return _read_scalar(note, octets)
    return _read_container(kind, note, octets)


def _read_container(kind: str, note: Tag, octets: bytes) -> tuple[str, PropertyValue] | None:
    if len(octets) > _CONTAINER_BYTES_MAX:
        return None
    value: Any = decode_list(octets) if content_type_of(kind, note) == AMQP_LIST else decode_map(octets)
    if value is None:
        return None
    value = restore(value, note)
    if kind == BODY_MAP:
        return (kind, value) if isinstance(value, dict | MapPairs) else None
    if kind == BODY_LIST:
        return (kind, value) if type(value) is list else None
    if kind == BODY_SEQUENCE:
        return (kind, value) if type(value) is list and all(type(item) is list for item in value) else None
    return (kind, value) if kind == BODY_VALUE else None


def content_type_of(kind: str, note: Tag) -> str:
    """Return how the octets of a container are encoded: as the list or the map they were lowered to."""
    if kind != BODY_MAP:
        return AMQP_LIST
    return AMQP_LIST if isinstance(note, dict) and note.get("type") in ("map", "pairs") else AMQP_MAP


def write_body(kind: str, value: Any, content_type: str | None) -> WrittenBody:
    """Return a body for AMQP 0-9-1. ``content_type`` is the message's own, or one of :data:`CONTAINER_TYPES` it had."""
    if kind == BODY_DATA:
        return WrittenBody(value)
    if kind == BODY_ENCODED:
        return WrittenBody(value, ENCODED_TYPE)
    if kind == BODY_TEXT_OCTETS:
        return WrittenBody(value, TEXT_PLAIN)
    if kind == BODY_TEXT:
        return _write_text(value, content_type)
    if kind == BODY_VALUE and not isinstance(value, dict | list):
        return _write_scalar(value)
    if content_type in (JMS_MAP, JMS_STREAM):
        octets = _write_jms(kind, value, content_type)
        if octets is not None:
            return WrittenBody(octets, content_type)
    lowered, note = lower(value, wide=True)
    if isinstance(lowered, dict):
        return WrittenBody(encode_map(lowered), AMQP_MAP, note)
    assert isinstance(lowered, list), "containers are lowered to containers"
    return WrittenBody(encode_list(lowered), AMQP_LIST, note)


def _write_jms(kind: str, value: Any, content_type: str) -> bytes | None:
    """Return a map or stream message of JMS; ``None`` if the body does not match the content type."""
    if kind == BODY_MAP and content_type == JMS_MAP and isinstance(value, dict):
        return encode_jms_map(value)
    return encode_jms_stream(value) if kind == BODY_LIST and content_type == JMS_STREAM else None


def character_set(content_type: str | None) -> str:
    """Return the character set a content type names, UTF-8 when it names none; empty for one that is not decoded."""
    for parameter in (content_type or "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            named = value.strip().strip('"').lower()
            return named if named in CHARACTER_SETS else ""
    return UTF_8


def _text(octets: bytes, charset: str) -> str | None:
    """Decode a text that would be encoded to the very same octets; ``None`` for any other, and for a longer one."""
    if not charset or len(octets) > CONVERTED_BYTES_MAX:
        return None
    try:
        text = octets.decode(charset)
        return text if charset == UTF_8 or text.encode(charset) == octets else None
    except UnicodeError:
        return None


def _write_text(text: str, content_type: str | None) -> WrittenBody:
    charset = character_set(content_type)
    if charset:
        try:
            octets = text.encode(charset)
            if charset == UTF_8 or octets.decode(charset) == text:
                return WrittenBody(octets, TEXT_PLAIN)
        except UnicodeError:  # not all characters are in the set the sender named
            return WrittenBody(text.encode(UTF_8), TEXT_PLAIN, UTF_8)
    return WrittenBody(text.encode(UTF_8), TEXT_PLAIN, UTF_8)


def _write_scalar(value: Any) -> WrittenBody:
    if value is None:
        return WrittenBody(b"")
    if isinstance(value, bool):
        return WrittenBody(b"true" if value else b"false", TEXT_PLAIN, "boolean")
    if isinstance(value, int):
        for name, kind in _NUMBERS:
            if isinstance(value, kind):
                return WrittenBody(b"%d" % int(value), TEXT_PLAIN, name)
    if isinstance(value, float):
        return WrittenBody(repr(float(value)).encode(), TEXT_PLAIN, "float" if isinstance(value, Float32) else "double")
    if isinstance(value, bytes):
        if isinstance(value, Uuid):
            return WrittenBody(uuid_text(value).encode(), TEXT_PLAIN, "uuid")
        for name, kind, _ in _OCTETS:
            if isinstance(value, kind):
                return WrittenBody(bytes(value), None, name)
        return WrittenBody(value, None, "binary")
    note = "symbol" if isinstance(value, Symbol) else "char" if isinstance(value, Character) else "string"
    return WrittenBody(str(value).encode(UTF_8), TEXT_PLAIN, note)


def _read_scalar(note: str | None, octets: bytes) -> tuple[str, PropertyValue] | None:  # noqa: PLR0911 - as above
    if note is None:
        return None if octets else (BODY_VALUE, None)
    if note == "binary":
        return BODY_VALUE, octets
    for name, kind, size in _OCTETS:
        if note == name:
            return (BODY_VALUE, kind(octets)) if len(octets) == size else None
    text = _text(octets, UTF_8)
    if text is None:
        return None
    if note in _TEXTS:
        fits = text.isascii() if note == "symbol" else len(text) == 1
        return (BODY_VALUE, _TEXTS[note](text)) if fits else None
    if note == "uuid":
        uuid = uuid_of(text)
        return None if uuid is None else (BODY_VALUE, uuid)
    if note == "boolean":
        return (BODY_VALUE, text == "true") if text in ("true", "false") else None
    if note in {"double", "float"}:
        return _read_float(note, text)
    digits = text.removeprefix("-")
    if note in _NUMBER_TYPES and digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX:
        number: PropertyValue = _NUMBER_TYPES[note](int(text))
        return BODY_VALUE, number
    return (BODY_VALUE, text) if note == "string" else None


def _read_float(note: str, text: str) -> tuple[str, PropertyValue] | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return BODY_VALUE, Float32(number) if note == "float" else number
