"""Hand-written streams of AMQP 0-8 and 0-9: the clients of 0-9 are gone, and pamqp knows 0-9-1 only.

Built from the argument lists of ``amqp0-8.xml`` and ``amqp0-9.xml`` with ``struct``, so that nothing of the code under
test takes part.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER_0_8 = b"AMQP\x01\x01\x08\x00"
HEADER_OF_AMQPLIB = b"AMQP\x01\x01\x09\x01"
HEADER_0_9 = b"AMQP\x01\x01\x00\x09"
HEADER_0_9_REVISED = b"AMQP\x00\x00\x09\x00"

CLOSE_IDS = {HEADER_0_8: (60, 61), HEADER_OF_AMQPLIB: (60, 61), HEADER_0_9: (50, 51), HEADER_0_9_REVISED: (50, 51)}
"""Method ids of connection.close and close-ok."""


class Received(NamedTuple):
    """A frame taken apart; ``method`` is (class, method) for a method frame, (0, 0) for others."""

    kind: int
    channel: int
    method: tuple[int, int]
    payload: bytes  # behind the ids


def short_string(text: str) -> bytes:
    return bytes([len(text.encode())]) + text.encode()


def long_string(octets: bytes) -> bytes:
    return struct.pack("!I", len(octets)) + octets


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack("!BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    return frame(1, channel, struct.pack("!HH", class_id, method_id) + arguments)


def take_apart(data: bytes) -> list[Received]:
    """Return the frames of a stream; what is not whole fails."""
    found = []
    while data:
        kind, channel, size = struct.unpack("!BHI", data[:7])
        payload, end, data = data[7 : 7 + size], data[7 + size], data[8 + size :]
        assert end == 0xCE
        identifiers = struct.unpack("!HH", payload[:4]) if kind == 1 else (0, 0)
        found.append(Received(kind, channel, identifiers, payload[4:] if kind == 1 else payload))
    return found


def start_ok(capabilities: bytes = b"") -> bytes:
    """Return start-ok as guest; ``capabilities`` is an encoded field of the client's properties."""
    properties = short_string("product") + b"S" + long_string(b"hand-written") + capabilities
    response = long_string(b"\0guest\0guest")
    return method(0, 10, 11, long_string(properties) + short_string("PLAIN") + response + short_string("en_US"))


def handshake(header: bytes, *, channels: int = 1, capabilities: bytes = b"") -> bytes:
    """Return everything up to open channels."""
    parts = [
        header,
        start_ok(capabilities),
        method(0, 10, 31, struct.pack("!HIH", 100, 131_072, 0)),
        method(0, 10, 40, short_string("/") + short_string("") + b"\x01"),  # capabilities, insist
    ]
    parts += [method(number, 20, 10, short_string("")) for number in range(1, channels + 1)]
    return b"".join(parts)


def publish(
    channel: int, exchange: str, key: str, body: bytes, *, flags: int = 0, properties: bytes = b"", bits: int = 0
) -> bytes:
    """Return basic.publish with its content, a ticket of 1 in front as after access.request."""
    arguments = struct.pack("!H", 1) + short_string(exchange) + short_string(key) + bytes([bits])
    content = frame(2, channel, struct.pack("!HHQH", 60, 0, len(body), flags) + properties)
    return method(channel, 60, 40, arguments) + content + (frame(3, channel, body) if body else b"")
