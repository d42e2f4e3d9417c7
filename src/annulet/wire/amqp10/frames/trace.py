"""A frame as one line, so that a debug log is a protocol trace. Secrets show as their length only."""

from __future__ import annotations

from typing import Final

from annulet.wire.amqp10.frames.frames import FRAME_SASL

MAX_PAYLOAD_OCTETS_SHOWN: Final = 16
"""How many octets of a payload a line shows: enough to see its first section."""


def describe_frame(kind: int, channel: int, performative: object, payload_size: int, payload: bytes = b"") -> str:
    """Return a frame as a line like ``#0 attach(name='x', handle=0, role=receiver)``.

    Args:
        kind: ``FRAME_AMQP`` or ``FRAME_SASL``; the latter has ``sasl`` in place of a channel. channel: the channel of
        the frame. performative: what :func:`~annulet.wire.amqp10.frames.performatives.decode_performative` returned,
        ``None`` for an
            empty frame.
        payload_size: octets behind the performative; 0 shows nothing.
        payload: these octets, or the first of them; the line shows at most :data:`MAX_PAYLOAD_OCTETS_SHOWN`.
    """
    where = "sasl" if kind == FRAME_SASL else f"#{channel}"
    if performative is None:
        return f"{where} empty frame"
    line = f"{where} {performative!r}"
    if payload_size:
        line += f" + {payload_size} octets"
        if payload:
            more = "..." if payload_size > MAX_PAYLOAD_OCTETS_SHOWN else ""
            line += f" {payload[:MAX_PAYLOAD_OCTETS_SHOWN].hex(' ')}{more}"
    return line
