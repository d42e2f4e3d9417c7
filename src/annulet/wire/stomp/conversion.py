"""STOMP messages as content of no protocol, and such content as STOMP messages: docs/stomp.md, docs/conversion.md.

STOMP has texts and octets and nothing else, so typed values arrive as texts (:mod:`.texts`). A STOMP message that
passed through any other protocol is unchanged; the other way round names, texts and structure stay, types do not. A
body beyond the bounds of :mod:`annulet.core.message.conversion_bounds` keeps its octets.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from annulet.core.base.settings import UNLIMITED
from annulet.core.base.typed_values import MapPairs, UnsignedLong
from annulet.core.message.conversion_bounds import CONVERTED_BYTES_MAX, CONVERTED_VALUES_MAX, ENCODED_TYPE
from annulet.core.message.message import Message, PropertyValue
from annulet.core.message.message_id_texts import identifier_of, identifier_text
from annulet.core.message.neutral_content import (
    BODY_DATA,
    BODY_ENCODED,
    BODY_KINDS,
    BODY_LIST,
    BODY_MAP,
    BODY_SEQUENCE,
    BODY_TEXT,
    BODY_TEXT_OCTETS,
    BODY_VALUE,
    MessageContent,
)
from annulet.wire.stomp import names
from annulet.wire.stomp.deaths import decode_deaths, encode_deaths
from annulet.wire.stomp.header_block import decode_block, encode_block
from annulet.wire.stomp.send_headers import PRIORITY_MAX, TIME_MAX
from annulet.wire.stomp.texts import json_of, plain, text_of

CHARACTER_SETS: Final = frozenset(
    {"utf-8", "utf8", "us-ascii", "ascii"}
    | {f"iso-8859-{part}" for part in range(1, 17) if part != 12}
    | {f"windows-125{part}" for part in range(9)}
)
"""Character sets of ``text/*`` bodies that are read as text; a body in another one is octets."""

JSON_TYPE: Final = "application/json"
JSON_DEPTH_MAX: Final = 20
"""Levels of a body that is read as JSON, as in every other protocol (docs/conversion.md)."""
TEXT_KIND: Final = "text"
BYTES_KIND: Final = "bytes"  # ActiveMQ's word for octets

_KINDS_OF_DATA: Final = frozenset({"", BYTES_KIND, BODY_DATA})
_SEQUENCE_MODULUS: Final = 2**32
_BINARY_USER: Final = "hex:"  # before a user id that is not a text


# ---------------------------------------------------------------------- reading a message


def to_content(message: Message) -> MessageContent:
    """Return a message decoded. A value that its header does not allow is not read as a field and stays a property."""
    headers = decode_block(message.header)
    content = _content_of(headers, message.body)
    content.exchange = message.origin.exchange
    content.routing_key = message.origin.routing_key
    return content


def _content_of(headers: dict[str, str], body: bytes) -> MessageContent:
    content = MessageContent()
    rest = dict(headers)
    rest.pop(names.DESTINATION, None)
    content.durable = rest.pop(names.PERSISTENT, "").strip().lower() in {"true", "1"}
    priority = _number(rest, (names.PRIORITY,), PRIORITY_MAX)
    content.priority = UNLIMITED if priority is None else priority
    lifetime = _number(rest, (names.TIME_TO_LIVE,), TIME_MAX)
    content.time_to_live = lifetime or UNLIMITED  # 0 is for ever here and at once elsewhere
    content.absolute_expiry_time = _number(rest, (names.EXPIRES,), TIME_MAX) or None
    message_id = _text(rest, names.SENDER_MESSAGE_ID_NAMES)
    content.message_id = None if message_id is None else identifier_of(message_id)
    correlation_id = _text(rest, names.CORRELATION_ID_NAMES)
    content.correlation_id = None if correlation_id is None else identifier_of(correlation_id)
    content.user_id = _user_id(_text(rest, names.USER_ID_NAMES))
    content.to = _text(rest, names.TO_NAMES)
    content.subject = _text(rest, names.SUBJECT_NAMES)
    content.reply_to = _text(rest, names.REPLY_TO_NAMES)
    content.content_type = _text(rest, names.CONTENT_TYPE_NAMES)
    content.content_encoding = _text(rest, names.CONTENT_ENCODING_NAMES)
    content.creation_time = _number(rest, names.TIMESTAMP_NAMES, TIME_MAX)
    content.group_id = _text(rest, names.GROUP_ID_NAMES)
    content.group_sequence = _group_sequence(rest)
    content.reply_to_group_id = _text(rest, names.REPLY_TO_GROUP_NAMES)
    content.app_id = _text(rest, names.APPLICATION_ID_NAMES)
    content.deaths = decode_deaths(rest.get(names.DEATHS))
    if content.deaths:
        del rest[names.DEATHS]
    kind = rest.pop(names.BODY_KIND, "")
    content.body_kind, content.body = read_body(body, kind, content)
    _sort_out(content, rest)
    if content.body_kind == BODY_ENCODED:
        content.content_type = _text_annotation(content, names.CONTENT_TYPE_ANNOTATION)
    elif content.body_kind == BODY_DATA and kind not in _KINDS_OF_DATA:
        content.annotations[names.BODY_KIND_ANNOTATION] = (
            kind  # the octets were not decoded, and still are of this kind
        )
    return content


def _text_annotation(content: MessageContent, name: str) -> str | None:
    """Take out an annotation, if it is a text."""
    value = content.annotations.get(name)
    if not isinstance(value, str):
        return None
    del content.annotations[name]
    return str(value)


def _sort_out(content: MessageContent, rest: dict[str, str]) -> None:
    """Distribute the remaining headers to annotations, footer and application properties."""
    for name, value in rest.items():
        if name.startswith(names.ANNOTATION_PREFIX):
            content.annotations[name] = value
        elif name.startswith(names.OTHER_ANNOTATION_PREFIX):
            content.annotations[name.removeprefix(names.OTHER_ANNOTATION_PREFIX)] = value
        elif name.startswith(names.FOOTER_PREFIX):
            content.footer[name.removeprefix(names.FOOTER_PREFIX)] = value
        else:
            content.application[name.removeprefix(names.APPLICATION_PREFIX)] = value


def _text(rest: dict[str, str], known: tuple[str, ...]) -> str | None:
    """Take out the first present one of several headers."""
    for name in known:
        if name in rest:
            return rest.pop(name)
    return None


def _number(rest: dict[str, str], known: tuple[str, ...], most: int) -> int | None:
    for name in known:
        text = rest.get(name, "").strip()  # "priority: 7": SEND takes it, too
        if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most:
            del rest[name]
            return int(text)
    return None


def _group_sequence(rest: dict[str, str]) -> int | None:
    for name in names.GROUP_SEQUENCE_NAMES:
        text = rest.get(name, "").strip()
        digits = text.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= 10:
            sequence = int(text)
            if -(2**31) <= sequence < _SEQUENCE_MODULUS:
                del rest[name]
                return sequence % _SEQUENCE_MODULUS
    return None


def _user_id(text: str | None) -> bytes | None:
    if text is None:
        return None
    if text.startswith(_BINARY_USER):
        try:
            return bytes.fromhex(text[len(_BINARY_USER) :])
        except ValueError:  # a name with this prefix
            return text.encode()
    return text.encode()


def read_body(body: bytes, kind: str, content: MessageContent) -> tuple[str, PropertyValue]:
    """Return kind and value of a body: as declared by ``amq-msg-type``, else a text if ``content-type`` is
    ``text/*``."""
    content_type = content.content_type
    if kind == BYTES_KIND:
        return BODY_DATA, body
    if content_type == ENCODED_TYPE and not content.content_encoding:
        return BODY_ENCODED, body
    if len(body) > CONVERTED_BYTES_MAX:
        return BODY_DATA, body
    if kind in BODY_KINDS and kind not in {BODY_DATA, BODY_TEXT}:
        value = _json(body, kind)
        return (BODY_DATA, body) if value is None else value
    named_text = content_type is not None and content_type[:5].lower() == "text/" and not content.content_encoding
    if kind == TEXT_KIND or named_text:
        text = _decoded(body, character_set(content_type))
        if text is not None:
            return BODY_TEXT, text
    return BODY_DATA, body


def _json(body: bytes, kind: str) -> tuple[str, PropertyValue] | None:
    """Return a body declared as a map, list, sequence or value; ``None`` if it is not, or too large to be decoded."""
    if sum(map(body.count, _BEFORE_VALUES)) > CONVERTED_VALUES_MAX:
        return None
    try:
        value: Any = json.loads(body, parse_int=_whole_number)
    except (ValueError, RecursionError):  # not JSON, although its sender declared it
        return None
    if not _is_carried(value, 0):
        return None
    if kind == BODY_MAP:
        return _map(value)
    if kind == BODY_LIST:
        return (kind, value) if isinstance(value, list) else None
    if kind == BODY_SEQUENCE:
        return (kind, value) if isinstance(value, list) and all(isinstance(item, list) for item in value) else None
    return None if isinstance(value, dict | list | str) else (kind, value)


_BEFORE_VALUES: Final = (b",", b":", b"[", b"{")
"""Octets of which one stands before each value but the outermost. In texts they count as well."""


def _whole_number(digits: str) -> int:
    """Return a number of JSON. Only ``ulong`` has those from 2**63 to 2**64."""
    number = int(digits)
    return UnsignedLong(number) if 2**63 <= number < 2**64 else number


def _is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair, which JSON may name and UTF-8 has not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_carried(value: Any, depth: int) -> bool:
    """Return whether the other protocols can express a JSON value: integers of 64 bits, texts of Unicode, few levels.

    A body with other values stays octets, so that nothing is lost.
    """
    if isinstance(value, str):
        return value.isascii() or _is_unicode(value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    if isinstance(value, float):  # 1e999, and NaN which JSON has not
        return math.isfinite(value)
    if depth >= JSON_DEPTH_MAX:
        return not isinstance(value, list | dict)
    if isinstance(value, list):
        return all(_is_carried(item, depth + 1) for item in value)
    if isinstance(value, dict):
        return all(_is_carried(name, 0) and _is_carried(item, depth + 1) for name, item in value.items())
    return True


def _map(value: Any) -> tuple[str, PropertyValue] | None:
    """Return a map, which may be a list of pairs where its keys are no texts."""
    if isinstance(value, dict):
        return BODY_MAP, value
    if isinstance(value, list) and all(isinstance(item, list) and len(item) == 2 for item in value):
        return BODY_MAP, MapPairs([part for item in value for part in item])
    return None


def character_set(content_type: str | None) -> str:
    """Return the ``charset`` parameter of a content type in small letters, UTF-8 when there is none."""
    for parameter in (content_type or "").split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"').lower()
    return "utf-8"


def _decoded(body: bytes, charset: str) -> str | None:
    if charset not in CHARACTER_SETS:
        return None
    try:
        return body.decode(charset)
    except ValueError:  # octets that are not a text, although their sender declared it
        return None


# ---------------------------------------------------------------------- writing a content


_TEXT_FIELDS: Final = (
    ("to", names.TO_NAMES[0]),
    ("subject", names.SUBJECT_NAMES[0]),
    ("reply_to", names.REPLY_TO_NAMES[0]),
    ("content_type", names.CONTENT_TYPE_NAMES[0]),
    ("content_encoding", names.CONTENT_ENCODING_NAMES[0]),
    ("group_id", names.GROUP_ID_NAMES[0]),
    ("reply_to_group_id", names.REPLY_TO_GROUP_NAMES[0]),
    ("app_id", names.APPLICATION_ID_NAMES[0]),
)
"""Fields whose header is their text."""

_TIME_FIELDS: Final = (
    ("absolute_expiry_time", names.EXPIRES, 1, "absolute-expiry-time"),
    ("creation_time", names.TIMESTAMP_NAMES[0], 0, "creation-time"),
)
"""Fields that are times: header, its smallest value, and the annotation's name for smaller ones."""


def from_content(content: MessageContent) -> tuple[bytes, bytes]:
    """Return header block and body of a message."""
    headers = _field_headers(content)
    body = _write_body(headers, content)
    _write_properties(headers, content)
    if content.deaths:
        known = f"{names.FIRST_DEATH}reason" in headers
        for name, text in encode_deaths(content.deaths, first_known=known).items():
            headers.setdefault(name, text)
    return encode_block(headers), body


def _field_headers(content: MessageContent) -> dict[str, str]:
    headers: dict[str, str] = {}
    if content.durable:
        headers[names.PERSISTENT] = "true"
    if content.priority >= 0:
        headers[names.PRIORITY] = str(content.priority)
    if content.time_to_live >= 0:
        headers[names.TIME_TO_LIVE] = str(content.time_to_live)
    if content.message_id is not None:
        headers[names.SENDER_MESSAGE_ID_NAMES[0]] = identifier_text(content.message_id)
    if content.correlation_id is not None:
        headers[names.CORRELATION_ID_NAMES[0]] = identifier_text(content.correlation_id)
    if content.user_id is not None:
        headers[names.USER_ID_NAMES[0]] = _user_text(content.user_id)
    for field, name in _TEXT_FIELDS:
        value = getattr(content, field)
        if value is not None:
            headers[name] = value
    if content.group_sequence is not None:
        headers[names.GROUP_SEQUENCE_NAMES[0]] = _signed(content.group_sequence)
    _write_times(headers, content)
    return headers


def _write_times(headers: dict[str, str], content: MessageContent) -> None:
    for field, name, least, otherwise in _TIME_FIELDS:
        time = getattr(content, field)
        if time is not None:
            headers[name if least <= time <= TIME_MAX else names.OTHER_ANNOTATION_PREFIX + otherwise] = str(time)


def _signed(sequence: int) -> str:
    return str(sequence - _SEQUENCE_MODULUS if sequence >= _SEQUENCE_MODULUS // 2 else sequence)


def _user_text(user_id: bytes) -> str:
    try:
        text = user_id.decode()
    except UnicodeDecodeError:
        return _BINARY_USER + user_id.hex()
    return _BINARY_USER + user_id.hex() if text.startswith(_BINARY_USER) or "\0" in text else text


def _write_properties(headers: dict[str, str], content: MessageContent) -> None:
    for name, value in content.annotations.items():
        if name == names.BODY_KIND_ANNOTATION and content.body_kind == BODY_DATA:
            continue
        known = name.startswith(names.ANNOTATION_PREFIX)
        headers.setdefault(name if known else names.OTHER_ANNOTATION_PREFIX + name, text_of(value))
    for name, value in content.footer.items():
        headers.setdefault(names.FOOTER_PREFIX + name, text_of(value))
    for name, value in content.application.items():
        headers.setdefault(_application_header(name), text_of(value))


_MARKED: Final = (
    names.APPLICATION_PREFIX,
    names.ANNOTATION_PREFIX,
    names.OTHER_ANNOTATION_PREFIX,
    names.FOOTER_PREFIX,
)


def _application_header(name: str) -> str:
    if not name or (name in names.STANDARD and name != names.DEATHS) or name.startswith(_MARKED):
        return names.APPLICATION_PREFIX + name
    return name


def _write_body(headers: dict[str, str], content: MessageContent) -> bytes:
    """Return the body as octets; ``amq-msg-type`` gives its kind if ``content-type`` does not."""
    kind = content.body_kind
    value: Any = content.body
    if kind == BODY_DATA:
        octets = bytes(value)
        given = content.annotations.get(names.BODY_KIND_ANNOTATION)
        if isinstance(given, str):
            headers[names.BODY_KIND] = str(given)
        elif read_body(octets, "", content)[0] != BODY_DATA:
            headers[names.BODY_KIND] = BYTES_KIND
        return octets
    if kind == BODY_ENCODED:
        if content.content_type is not None:
            headers[names.CONTENT_TYPE_ANNOTATION] = content.content_type
        headers[names.CONTENT_TYPE_NAMES[0]] = ENCODED_TYPE
        return bytes(value)
    if kind == BODY_VALUE and isinstance(value, bytes) and len(value) > CONVERTED_BYTES_MAX:
        headers[names.BODY_KIND] = BYTES_KIND
        return bytes(value)
    if kind in {BODY_TEXT, BODY_TEXT_OCTETS} or (kind == BODY_VALUE and isinstance(plain(value), str)):
        if kind == BODY_TEXT_OCTETS:
            octets, charset = value, "" if character_set(content.content_type) in {"utf-8", "utf8"} else "utf-8"
        else:
            octets, charset = _encoded(text_of(value), character_set(content.content_type))
        if charset:
            content_type = (content.content_type or "text/plain").partition(";")[0]
            headers[names.CONTENT_TYPE_NAMES[0]] = f"{content_type};charset={charset}"
        if content.content_encoding or not (content.content_type or "").lower().startswith("text/"):
            headers[names.BODY_KIND] = TEXT_KIND
        return octets
    if kind == BODY_VALUE:
        value = plain(value)
        kind = BODY_MAP if isinstance(value, dict) else BODY_LIST if isinstance(value, list) else kind
    headers[names.BODY_KIND] = kind
    headers.setdefault(names.CONTENT_TYPE_NAMES[0], JSON_TYPE)
    return json_of(value).encode("utf-8", "replace")


def _encoded(text: str, charset: str) -> tuple[bytes, str]:
    """Return a text as octets, and the character set to name when it is not the one that was given."""
    if charset in CHARACTER_SETS:
        try:
            return text.encode(charset), ""
        except ValueError:  # the text has characters that set has not
            return text.encode("utf-8", "replace"), "utf-8"
    return text.encode("utf-8", "replace"), "utf-8"
