"""Bounds of an AMQP 1.0 connection, each with its unit and the reason for its default.

Whenever a peer meets one of those that end something, the engine counts it under its name in ``limit_hits``.
"""

from __future__ import annotations

from typing import Final

DEFAULT_MAX_FRAME_SIZE: Final = 131072
"""Octets of the largest frame we accept: a message of 100 KiB fits into one frame, and a frame into one read of a
socket."""

MAX_SENT_FRAME_SIZE: Final = 1048576
"""Octets of the largest frame we send to a peer that would take more: other links need not wait longer for theirs."""

DEFAULT_CHANNEL_MAX: Final = 255
"""Largest channel number we take: 256 sessions; clients use one, or one per thread."""

DEFAULT_HANDLE_MAX: Final = 1023
"""Largest link handle we take in a session: 1024 links, each about a kilobyte while idle."""

DEFAULT_INCOMING_WINDOW: Final = 2048
"""Transfer frames a session may send before we renew (§2.5.6); credit limits messages, this limits frames."""

OUTGOING_WINDOW: Final = 0x7FFFFFFF
"""Our announced outgoing window in transfer frames. Sending is limited by the peer's window, never by ours."""

MAX_MESSAGE_SIZE: Final = 134217728
"""Octets of the largest message taken, as over 0-9-1; announced in each attach (§2.7.3)."""

MAX_ASSEMBLING_BYTES: Final = 268435456
"""Octets of messages whose transfers are still arriving, all links of a connection together: two of the largest."""

MAX_UNAUTHENTICATED_BYTES: Final = 65536
"""Octets a peer may send before it is authenticated: far above any SASL exchange, far below a relevant amount of
memory."""

MAX_UNSETTLED: Final = 65536
"""Unsettled deliveries remembered per session and direction. Incoming ones beyond it end the session, outgoing ones
make it not writable. Above any useful credit; 10 MB when a peer uses all of it."""

MAX_DESCRIPTION_OCTETS: Final = 300
"""Octets of an error's description that are sent: with its condition it fits the smallest frame."""

MIN_REMOTE_IDLE_TIME_OUT: Final = 100
"""Milliseconds. A peer that wants signs of life more often is refused (§2.4.5 leaves it to us)."""

FRAGMENTS_PER_PART: Final = 1024
"""Payloads of transfers joined at a time, so that a message in tiny frames does not cost an object per octet."""

MAX_LINK_BYTES: Final = 16777216
"""Octets of the attach frames of all links of a connection, since the links keep their contents, plus an overhead for
each: 16384 links with short frames, or 128 that fill the largest frame."""

LINK_OVERHEAD_BYTES: Final = 1024
"""Octets a link counts besides its attach frame; about the size of its objects."""

HELD_OUTPUT_BYTES: Final = 2097152
"""Octets of output above which input waits until they were taken: attach of 100 octets may be answered with 1 MiB."""

MAX_CREDIT: Final = 0x7FFFFFFF
"""Deliveries granted at a time: half of the serial numbers, so that they stay comparable (RFC 1982)."""
