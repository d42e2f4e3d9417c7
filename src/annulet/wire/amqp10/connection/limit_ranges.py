"""Ranges of the limits that an engine is made with; the standard's types, or values that serve nothing."""

from __future__ import annotations

from typing import Final

from annulet.wire.amqp10.types.errors import LocalProtocolError

_SIGNED_LONG_MAX: Final = 0x7FFFFFFFFFFFFFFF

LIMIT_RANGES: Final = {
    "max_frame_size": (512, 0x7FFFFFFF),
    "channel_max": (0, 0xFFFF),
    "handle_max": (0, 0xFFFFFFFF),
    "idle_time_out": (0, 0xFFFFFFFF),
    "max_message_size": (1, _SIGNED_LONG_MAX),
    "incoming_window": (1, 0x7FFFFFFF),
    "max_assembling_bytes": (1, _SIGNED_LONG_MAX),
    "max_unauthenticated_bytes": (1, _SIGNED_LONG_MAX),
    "max_unsettled": (1, _SIGNED_LONG_MAX),
    "max_link_bytes": (1, _SIGNED_LONG_MAX),
}
"""The least and the largest value of each limit of an engine."""


def check_limits(limits: dict[str, int]) -> None:
    """Check limits by their names. Raises :class:`LocalProtocolError` for one that is out of range."""
    for name, value in limits.items():
        least, most = LIMIT_RANGES[name]
        if not least <= value <= most:
            raise LocalProtocolError(f"{name} is {value}; give a number from {least} to {most}")
