"""Qpid Proton's values as JSON and back: what has no JSON type of its own is an object with one key, its AMQP type."""

from __future__ import annotations

import base64
from typing import Any
from uuid import UUID

import proton

NUMBERS: dict[str, type[Any]] = {
    "ubyte": proton.ubyte, "ushort": proton.ushort, "uint": proton.uint, "ulong": proton.ulong, "byte": proton.byte,
    "short": proton.short, "int": proton.int32, "float": proton.float32, "timestamp": proton.timestamp,
    "decimal32": proton.decimal32, "decimal64": proton.decimal64,
}  # fmt: skip
TEXTS: dict[str, type[Any]] = {"symbol": proton.symbol, "char": proton.char}
NAMES = {made: name for name, made in {**NUMBERS, **TEXTS}.items()}


def to_json(value: Any) -> Any:
    """Return a value of Proton in the form that JSON can carry."""
    name = NAMES.get(type(value))
    if name is not None:
        return {name: float(value) if name == "float" else str(value) if name in TEXTS else int(value)}
    if isinstance(value, (bytes, memoryview)):
        kind = "decimal128" if isinstance(value, proton.decimal128) else "binary"
        return {kind: base64.b64encode(bytes(value)).decode()}
    if isinstance(value, UUID):
        return {"uuid": str(value)}
    if isinstance(value, proton.Described):
        return {"described": [to_json(value.descriptor), to_json(value.value)]}
    if isinstance(value, proton.Array):
        return {"array": [to_json(element) for element in value.elements]}
    if isinstance(value, dict):
        return {"map": [[to_json(key), to_json(entry)] for key, entry in value.items()]}
    if isinstance(value, (list, tuple)):
        return [to_json(entry) for entry in value]
    return value


def from_json(value: Any) -> Any:
    """Return the value of Proton that :func:`to_json` wrote."""
    if isinstance(value, list):
        return [from_json(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind in NUMBERS:
        return NUMBERS[kind](content if kind == "float" else int(content))
    if kind in TEXTS:
        return TEXTS[kind](content)
    return CONTAINERS[kind](content)


CONTAINERS = {
    "long": int,
    "double": float,
    "binary": base64.b64decode,
    "decimal128": lambda content: proton.decimal128(base64.b64decode(content)),
    "uuid": UUID,
    "map": lambda content: {from_json(key): from_json(entry) for key, entry in content},
    "described": lambda content: proton.Described(from_json(content[0]), from_json(content[1])),
    "array": lambda content: proton.Array(proton.UNDESCRIBED, ARRAY_TYPES[content[0]], *map(from_json, content[1])),
}
ARRAY_TYPES = {"string": proton.Data.STRING, "symbol": proton.Data.SYMBOL, "long": proton.Data.LONG}

# attribute of proton.Message: its name in the tests; all that is at its default is left out
FIELDS = {
    "id": "message_id", "user_id": "user_id", "address": "to", "subject": "subject", "reply_to": "reply_to",
    "correlation_id": "correlation_id", "content_type": "content_type", "content_encoding": "content_encoding",
    "group_id": "group_id", "group_sequence": "group_sequence", "reply_to_group_id": "reply_to_group_id",
    "durable": "durable", "first_acquirer": "first_acquirer", "delivery_count": "delivery_count",
}  # fmt: skip
IDENTIFIERS = (
    "message_id",
    "correlation_id",
)  # Proton gives a number without its type; only ulong is allowed (§3.2.11)
SECONDS = {"ttl": "ttl", "expiry_time": "absolute_expiry_time", "creation_time": "creation_time"}
DEFAULT_PRIORITY = 4


def message_to_json(message: proton.Message) -> dict[str, Any]:
    """Return a message as the tests write it; times in milliseconds."""
    written: dict[str, Any] = {}
    for attribute, name in FIELDS.items():
        value = getattr(message, attribute)
        if isinstance(value, proton.symbol):
            value = None if value == "None" else str(value)  # Proton's word for a symbol that is not given
        if value:
            written[name] = {"ulong": value} if name in IDENTIFIERS and isinstance(value, int) else to_json(value)
    for attribute, name in SECONDS.items():
        value = getattr(message, attribute)
        if value:
            written[name] = round(value * 1000)
    if message.priority != DEFAULT_PRIORITY:
        written["priority"] = int(message.priority)
    for attribute in ("properties", "annotations", "instructions"):
        value = getattr(message, attribute)
        if value:
            written[attribute] = {str(key): to_json(entry) for key, entry in value.items()}
    body = message.body
    written["body"] = to_json(body)
    sections = {bytes: "data", memoryview: "data", list: "sequence"}
    written["section"] = sections.get(type(body), "value") if message.inferred else "value"
    return written


def message_from_json(written: dict[str, Any]) -> proton.Message:
    """Return the message that the tests wrote."""
    message = proton.Message(body=from_json(written.get("body")))
    message.inferred = written.get("section", "value") != "value"
    for attribute, name in FIELDS.items():
        if name in written:
            value = from_json(written[name])
            symbol = attribute in {"content_type", "content_encoding"}
            setattr(message, attribute, proton.symbol(value) if symbol else value)
    for attribute, name in SECONDS.items():
        if name in written:
            setattr(message, attribute, written[name] / 1000)
    if "priority" in written:
        message.priority = written["priority"]
    for attribute in ("properties", "annotations", "instructions"):
        if attribute in written:
            setattr(message, attribute, {key: from_json(entry) for key, entry in written[attribute].items()})
    return message
