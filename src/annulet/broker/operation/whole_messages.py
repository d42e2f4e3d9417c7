"""A whole message for an operator: properties, headers, annotations, deaths, and a byte range of the body."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from annulet.broker.connections.payloads import payload_of
from annulet.broker.operation.looking import describe_entry
from annulet.broker.operation.plain_values import json_object, json_value
from annulet.core.base.errors import ContentUnavailable, InvalidArgument
from annulet.core.message.message import Message
from annulet.core.message.neutral_content import BODY_LIST, BODY_MAP, BODY_SEQUENCE, BODY_VALUE

if TYPE_CHECKING:
    from annulet.core.base.death_trail import DeathRecord
    from annulet.core.message.neutral_content import MessageContent
    from annulet.core.model.entry import QueueEntry

BODY_RANGE_MAX: Final = 1024 * 1024
"""Bytes of a body in one answer, and its default: encoding them holds the event loop for some 5 ms. Ask for the next
range with the offset."""

JSON_BYTES_MAX: Final = 64 * 1024
"""Bytes of a body that is decoded as JSON: a MiB of empty lists holds the event loop for half a second."""

VALUE_KINDS: Final = frozenset({BODY_MAP, BODY_LIST, BODY_SEQUENCE, BODY_VALUE})
"""Bodies that are values rather than octets or a text: their senders' clients show them so."""

TEXT: Final = "text"
JSON: Final = "json"
BASE64: Final = "base64"
AUTO: Final = "auto"
NO_BODY: Final = "none"
FORMS: Final = (AUTO, TEXT, JSON, BASE64, NO_BODY)
"""``auto``: a text if the octets are UTF-8, else base64."""

PROPERTIES: Final = (
    "message_id",
    "correlation_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "content_type",
    "content_encoding",
    "absolute_expiry_time",
    "creation_time",
    "group_id",
    "group_sequence",
    "reply_to_group_id",
    "app_id",
)
"""Of the neutral content, by the names of AMQP 1.0; ``subject`` is AMQP 0-9-1's ``type``."""


@dataclass(frozen=True, slots=True)
class BodyRange:
    """Which octets of a body are wanted, and as what. ``length`` at most :data:`BODY_RANGE_MAX`."""

    form: str = AUTO
    offset: int = 0
    length: int = BODY_RANGE_MAX


def describe_whole(entry: QueueEntry, wanted: BodyRange) -> dict[str, Any]:
    """Return everything of a message. Nothing of it changes.

    ``malformed``: the part that cannot be decoded; the rest is there. Raises :class:`InvalidArgument` for a body of
    another form than the wanted one.
    """
    described = describe_entry(entry)
    described.update(_content(entry.message))
    described.update(_body(entry, wanted))
    if described.get("body") is not None and not described["malformed"]:
        described.update(_value(entry.message))
    return described


def deaths_of(message: Message) -> dict[str, Any]:
    """Return the deaths of a message, the latest first, as ``deaths``; none of one that cannot be decoded."""
    return {"deaths": _content(message)["deaths"]}


def _content(message: Message) -> dict[str, Any]:
    """Return properties, headers, annotations and deaths."""
    try:
        content = _decoded(message)
    except Exception as error:  # noqa: BLE001 - views raise errors of their protocols; the message is shown without
        malformed = str(error) or type(error).__name__
        return {"properties": {}, "headers": {}, "annotations": {}, "deaths": [], "malformed": malformed}
    given = {name: getattr(content, name) for name in PROPERTIES}
    return {
        "properties": json_object({name: value for name, value in given.items() if value is not None}),
        "headers": json_object(content.application),
        "annotations": json_object(content.annotations),
        "deaths": [_death(record) for record in content.deaths],
        "malformed": message.origin.view.properties(message).malformed,
    }


def _decoded(message: Message) -> MessageContent:
    """Decode the header only, where the body does not belong to it: a body may be large, and on disk."""
    view = message.origin.view
    alone = Message(message.header, b"", message.origin, durable=message.durable, accepted_at=message.accepted_at)
    if payload_of(alone) is None:
        return view.content(alone)
    return view.content(message)


def _death(record: DeathRecord) -> dict[str, Any]:
    return {
        "queue": record.queue,
        "reason": record.reason,
        "count": record.count,
        "exchange": record.exchange,
        "routing_keys": list(record.routing_keys),
        "at": record.at,
    }


def _body(entry: QueueEntry, wanted: BodyRange) -> dict[str, Any]:
    """Return the range of the body: ``body``, ``body_encoding``, ``body_offset``, ``body_length``, ``body_size``."""
    if wanted.form == NO_BODY:
        return {}
    message = entry.message
    try:
        payload = payload_of(message)
        octets = message.body if payload is None else payload[0]
    except ContentUnavailable as error:
        return {"body": None, "body_unavailable": str(error)}
    part = octets[wanted.offset : wanted.offset + min(wanted.length, BODY_RANGE_MAX)]
    body, encoding = _encoded(part, wanted.form, entry.sequence, whole=len(part) == len(octets))
    return {
        "body": body,
        "body_encoding": encoding,
        "body_offset": wanted.offset,
        "body_length": len(part),
        "body_size": len(octets),
        "body_complete": wanted.offset + len(part) >= len(octets),
    }


def _value(message: Message) -> dict[str, Any]:
    """Return a body that is a map, a list or another value as ``body_value``; nothing of a large one."""
    if len(message.body) > JSON_BYTES_MAX:
        return {}
    content = message.origin.view.content(message)
    if content.body_kind not in VALUE_KINDS or content.body is None:
        return {}
    return {"body_value": {"kind": content.body_kind, "value": json_value(content.body)}}


def _encoded(octets: bytes, form: str, number: int, *, whole: bool) -> tuple[Any, str]:
    if form == JSON:
        if not whole or len(octets) > JSON_BYTES_MAX:
            raise InvalidArgument(
                f"body='json': message {number} is shown as JSON only whole, up to {JSON_BYTES_MAX} bytes; ask for "
                "body=text"
            )
        try:
            return json_value(msgspec.json.decode(octets)), JSON
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgument(
                f"body='json': the body of message {number} is no JSON ({error}); ask for body=text or body=base64"
            ) from error
    if form in {AUTO, TEXT}:
        try:
            return octets.decode(), TEXT
        except UnicodeDecodeError:
            if form == TEXT:  # a range may begin and end within a character
                return octets.decode(errors="replace"), TEXT
    return base64.b64encode(octets).decode("ascii"), BASE64
