"""Versions, commands, header names and limits of STOMP 1.0, 1.1 and 1.2 (the specifications have no section numbers;
comments name their headings)."""

from __future__ import annotations

from typing import Final

VERSION_1_0: Final = "1.0"
VERSION_1_1: Final = "1.1"
VERSION_1_2: Final = "1.2"
VERSIONS: Final = (VERSION_1_2, VERSION_1_1, VERSION_1_0)
"""The versions served, the best first ("Protocol Negotiation")."""

MAX_HEADER_BYTES: Final = 65_536
"""Command and headers of one frame, in bytes: as much as a peer may send before it has logged in."""

MAX_HEADERS: Final = 1_000
"""Headers of one frame. Real ones have a dozen; 64 KiB of the shortest would be 20 000 objects."""

MAX_BODY_BYTES: Final = 134_217_728
"""Largest body, 128 MiB, as for AMQP 0-9-1 clients of this broker."""

MAX_UNAUTHENTICATED_BYTES: Final = 65_536
"""Limit of a peer's input before it is authenticated, in bytes: one frame of the largest headers."""

LEAST_HEARTBEAT: Final = 500
"""Milliseconds: the shortest interval offered and requested ("Heart-beating"). Each costs two timers an interval."""

MOST_HEARTBEAT: Final = 2**31 - 1
"""Milliseconds: the longest interval a peer may name, 24 days."""
