"""Frames and protocol headers (§2.2, §2.3 and §5.3.1): where a frame starts, ends and what kind it is."""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from annulet.wire.amqp10.types.conditions import CONNECTION_FRAMING_ERROR
from annulet.wire.amqp10.types.errors import ConnectionFault, LocalProtocolError

FRAME_AMQP: Final = 0x00
FRAME_SASL: Final = 0x01

FRAME_HEADER_OCTETS: Final = 8
"""§2.3.1: size, data offset, type and two octets the type defines, the channel in an AMQP frame."""

MIN_DATA_OFFSET: Final = 2
"""§2.3.1: the least data offset, in words of four octets."""

MIN_MAX_FRAME_SIZE: Final = 512
"""§2.7.1 and §5.3.1: octets of the largest frame each peer must take, and the largest of a SASL frame."""

PROTOCOL_AMQP: Final = 0
PROTOCOL_TLS: Final = 2
PROTOCOL_SASL: Final = 3

PROTOCOL_HEADER_OCTETS: Final = 8
AMQP_HEADER: Final[bytes] = b"AMQP\x00\x01\x00\x00"
TLS_HEADER: Final[bytes] = b"AMQP\x02\x01\x00\x00"
SASL_HEADER: Final[bytes] = b"AMQP\x03\x01\x00\x00"

HEARTBEAT_FRAME: Final[bytes] = b"\x00\x00\x00\x08\x02\x00\x00\x00"
"""§2.4.5: a frame without body on channel 0, sent so that the peer's idle time-out does not pass."""


class Frame:
    """A complete frame: its kind, its channel, and start and end of its body. No body is a heartbeat."""

    __slots__ = ("channel", "end", "kind", "start")

    def __init__(self, kind: int, channel: int, start: int, end: int) -> None:
        self.kind = kind
        self.channel = channel
        self.start = start
        self.end = end


def next_frame(data: bytes, position: int, end: int, max_frame_size: int) -> Frame | None:
    """Return the frame at ``position``, ``None`` when more octets are needed.

    The next frame starts where this one ends. An extended header (§2.3.2) is skipped. A frame that is too large is
    refused by its size, before its body arrives.

    Raises:
        ConnectionFault: ``amqp:connection:framing-error`` for a size, data offset or type that cannot be.
    """
    at: i64 = position
    if at + FRAME_HEADER_OCTETS > end:
        if at + 4 <= end:  # a frame that will be refused need not arrive completely
            _check_size(i64(read_i32_be(data, at)) & 0xFFFFFFFF, position, max_frame_size)
        return None
    size = i64(read_i32_be(data, at)) & 0xFFFFFFFF
    _check_size(size, position, max_frame_size)
    offset: i64 = data[at + 4]
    kind: i64 = data[at + 5]
    if kind > FRAME_SASL:
        raise ConnectionFault(
            CONNECTION_FRAMING_ERROR, f"frame at octet {position} has type {kind}, allowed are 0 (AMQP) and 1 (SASL)"
        )
    if offset < MIN_DATA_OFFSET or 4 * offset > size:
        raise ConnectionFault(
            CONNECTION_FRAMING_ERROR,
            f"frame at octet {position} has data offset {offset} and {size} octets; allowed are {MIN_DATA_OFFSET} to "
            f"{size // 4}",
        )
    if at + size > end:
        return None
    high: i64 = data[at + 6]
    low: i64 = data[at + 7]
    channel: i64 = high << 8 | low if kind == FRAME_AMQP else 0
    return Frame(int(kind), int(channel), int(at + 4 * offset), int(at + size))


def _check_size(size: i64, position: int, max_frame_size: int) -> None:
    if size < FRAME_HEADER_OCTETS or size > max_frame_size:
        raise ConnectionFault(
            CONNECTION_FRAMING_ERROR,
            f"frame at octet {position} has {size} octets, allowed are {FRAME_HEADER_OCTETS} to {max_frame_size} "
            "(max-frame-size)",
        )


def encode_frame_head(kind: int, channel: int, body_size: int) -> bytes:
    """Encode the header of a frame whose body has ``body_size`` octets.

    Raises:
        LocalProtocolError: a kind, channel or size that does not fit.
    """
    if kind not in {FRAME_AMQP, FRAME_SASL} or not 0 <= channel <= 0xFFFF:
        raise LocalProtocolError(
            f"frame type {kind} and channel {channel}: allowed are types 0 and 1, channels 0 to 65535"
        )
    size = FRAME_HEADER_OCTETS + body_size
    if not FRAME_HEADER_OCTETS <= size <= 0xFFFFFFFF:
        raise LocalProtocolError(f"a frame of {size} octets, allowed are {FRAME_HEADER_OCTETS} to {0xFFFFFFFF}")
    return (size << 32 | MIN_DATA_OFFSET << 24 | kind << 16 | channel).to_bytes(FRAME_HEADER_OCTETS, "big")


def encode_frame(kind: int, channel: int, body: bytes) -> bytes:
    """Encode a frame; an empty ``body`` makes a heartbeat. Raises LocalProtocolError as :func:`encode_frame_head`."""
    return encode_frame_head(kind, channel, len(body)) + body
