"""Frames that cannot be served: boundaries are lost, or the frame has to wait (§2.3.5, §4.2.3)."""

from __future__ import annotations

from typing import Final

from annulet.wire.amqp091.connection.output import FrameWriter
from annulet.wire.amqp091.types.constants import (
    FRAME_BODY,
    FRAME_ERROR,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    FRAME_SIZE_TOLERANCE,
    UNEXPECTED_FRAME,
)
from annulet.wire.amqp091.types.errors import ConnectionFault

_WITHOUT_ANSWER: Final = frozenset({60 << 16 | 40, 60 << 16 | 80, 60 << 16 | 90, 60 << 16 | 120})
"""basic.publish, ack, reject and nack."""


def head_fault(output: FrameWriter, kind: int, number: int, size: int, limit: int) -> str | None:
    """Return the fault of the head of a frame on channel ``number``, with ``size`` octets of payload."""
    if kind not in {FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT}:
        return f"unknown frame type {kind} on channel {number}; send 1, 2, 3 or 8"
    if size + FRAME_OVERHEAD > limit + FRAME_SIZE_TOLERANCE:
        output.count_hit("frame_max")
        return f"frame of {size + FRAME_OVERHEAD} octets on channel {number}, frame_max is {limit}"
    return None


def end_fault(number: int, octet: int) -> str:
    """Return the fault of a frame on channel ``number`` that ends with another octet."""
    return f"frame on channel {number} ends with octet {octet}, not with 206"


def has_answer(kind: int, data: bytes, position: int) -> bool:
    """Return whether a frame is a method that is answered on its channel."""
    return kind == FRAME_METHOD and int.from_bytes(data[position + 7 : position + 11], "big") not in _WITHOUT_ANSWER


def check_channel_zero(kind: int, payload: bytes) -> None:
    """Raise :class:`ConnectionFault` for a frame that channel 0 does not carry."""
    if kind == FRAME_HEARTBEAT:
        if payload:
            raise ConnectionFault(FRAME_ERROR, f"heartbeat frame with {len(payload)} octets of payload; send none")
    elif kind != FRAME_METHOD:
        raise ConnectionFault(UNEXPECTED_FRAME, "content frame on channel 0; open a channel for it")
