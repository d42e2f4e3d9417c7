"""A frame as one line, so that a debug log is a protocol trace. Secrets show as their length only."""

from __future__ import annotations

from typing import Final

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.connection.methods import MethodTable, decode_method
from annulet.wire.amqp091.messages.properties import BasicProperties, decode_readable_properties
from annulet.wire.amqp091.types.constants import (
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    PROTOCOL_HEADER,
)
from annulet.wire.amqp091.types.errors import RemoteProtocolError

MAX_PAYLOAD_OCTETS_SHOWN: Final = 16
"""How many octets of a body a line shows: enough to tell messages apart."""

MAX_CHARACTERS_SHOWN: Final = 120
"""Characters of one argument or property in a line; a table with more is cut."""

_HEADER_SIZE: Final = 12
_SECRETS: Final = frozenset({"response", "challenge", "new_secret"})
"""Arguments that carry passwords, or proofs of them (§1.4.2.2 to §1.4.2.4)."""

_PROPERTIES: Final = (
    "content_type",
    "content_encoding",
    "headers",
    "delivery_mode",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)


def describe_frame(kind: int, channel: int, payload: bytes, sender: str, methods: MethodTable) -> str:
    """Return a frame as a line like ``#1 basic.publish(exchange='e', routing_key='k', mandatory=True)``.

    Unset bits, empty tables and reserved arguments are left out. A malformed value is shown by the error and its size,
    without its octets, because they may contain a password.

    Args:
        kind: the frame's type (§4.2.3).
        channel: the channel of the frame.
        payload: the octets between the frame's head and its last octet.
        sender: ``"C"`` for a frame of the client, ``"S"`` for one of the server.
        methods: the methods of the connection's version.
    """
    if kind == FRAME_METHOD:
        return f"#{channel} {_method(payload, sender, methods)}"
    if kind == FRAME_HEADER:
        return f"#{channel} {_content_header(payload)}"
    if kind == FRAME_BODY:
        more = "..." if len(payload) > MAX_PAYLOAD_OCTETS_SHOWN else ""
        shown = f" {payload[:MAX_PAYLOAD_OCTETS_SHOWN].hex(' ')}{more}" if payload else ""
        return f"#{channel} body of {len(payload)} octets{shown}"
    if kind == FRAME_HEARTBEAT:
        return f"#{channel} heartbeat"
    return f"#{channel} frame of type {kind} with {len(payload)} octets"


def describe_output(output: list[bytes], methods: MethodTable) -> list[str]:
    """Return a line for each frame or protocol header in the server's output: complete ones, in any pieces."""
    data = b"".join(output)
    lines: list[str] = []
    position = 0
    while position < len(data):
        if data.startswith(PROTOCOL_HEADER[:4], position):  # no frame type is an A
            lines.append(f"protocol header {data[position : position + len(PROTOCOL_HEADER)]!r}")
            position += len(PROTOCOL_HEADER)
            continue
        channel = int.from_bytes(data[position + 1 : position + 3], "big")
        following = position + FRAME_OVERHEAD + int.from_bytes(data[position + 3 : position + 7], "big")
        lines.append(describe_frame(data[position], channel, data[position + 7 : following - 1], "S", methods))
        position = following
    return lines


def _method(payload: bytes, sender: str, methods: MethodTable) -> str:
    try:
        method = decode_method(payload, sender, methods)
    except RemoteProtocolError as error:
        return f"malformed method frame with {len(payload)} octets: {_shortened(error.text)}"
    shown = [
        f"{name}={_value(name, value)}"
        for name, value in method.arguments.items()
        if value is not False and value != {} and not name.startswith("reserved")
    ]
    return f"{method.specification.name}({', '.join(shown)})"


def _content_header(payload: bytes) -> str:
    if len(payload) < _HEADER_SIZE:
        return f"malformed content header with {len(payload)} octets"
    shown = [f"body_size={int.from_bytes(payload[4:_HEADER_SIZE], 'big')}"]
    properties: BasicProperties = decode_readable_properties(payload[_HEADER_SIZE:])
    for name in _PROPERTIES:
        value: PropertyValue = getattr(properties, name)
        if value is not None:
            shown.append(f"{name}={_value(name, value)}")
    return f"content header({', '.join(shown)})"


def _value(name: str, value: PropertyValue) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} octets>" if name in _SECRETS else _shortened(repr(value))
    return _shortened(repr(value))


def _shortened(text: str) -> str:
    text = text if text.isprintable() else ascii(text)
    return text if len(text) <= MAX_CHARACTERS_SHOWN else f"{text[:MAX_CHARACTERS_SHOWN]}...({len(text)})"
