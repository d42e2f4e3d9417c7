"""Numbers of AMQP 0-9-1: frames (§4.2.3), reply codes (§1.1) and the limits this implementation adds.

A method is named by one integer, ``class id << 16 | method id``, which is how the first four bytes of a method
frame read. The table of all methods is in :mod:`annulet.wire.amqp091.connection.methods`.
"""

from __future__ import annotations

from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
"""§4.2.2: the first octets of a client, and the server's answer to any others."""

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8
FRAME_END: Final = 0xCE
FRAME_END_OCTET: Final = b"\xce"
FRAME_HEADER_SIZE: Final = 7  # type, channel, payload size
FRAME_OVERHEAD: Final = 8  # the header and the end octet
HEADER_OVERHEAD: Final = 12  # of a content header: class, weight and body size, before the property flags (§4.2.6.1)

FRAME_MIN_SIZE: Final = 4096
"""§1.1 ``frame-min-size``, in bytes: the minimum that may be negotiated."""

FRAME_SIZE_TOLERANCE: Final = 8
"""Bytes a frame may exceed frame-max: some clients count the payload only, RabbitMQ lets them (FRAME_SIZE_FUDGE)."""

INITIAL_FRAME_MAX: Final = 8192
"""Largest frame before tuning, in bytes. §2.3.5.2 says 4096; RabbitMQ 4.0 doubled it because OAuth tokens need more."""

DEFAULT_FRAME_MAX: Final = 131_072  # bytes; RabbitMQ's default, to which clients are tuned
DEFAULT_CHANNEL_MAX: Final = 2047  # channels of one connection; RabbitMQ's default
DEFAULT_HEARTBEAT: Final = 60  # seconds; RabbitMQ's default

MAX_MESSAGE_BYTES: Final = 134_217_728
"""Largest message body, 128 MiB: RabbitMQ's default up to 3.13 (4.0 has 16 MiB), so all that works there fits."""

MAX_ASSEMBLING_BYTES: Final = 2 * MAX_MESSAGE_BYTES
"""Bodies in arrival on all channels of one connection, in bytes: two of the largest messages may interleave."""

MAX_UNAUTHENTICATED_BYTES: Final = 65_536
"""Limit of a peer's input before it has authenticated, in bytes: eight frames, far beyond any known client's
start-ok."""

MAX_ROUTE_CACHE_ENTRIES: Final = 1024
"""Decoded basic.publish arguments kept per connection; at most about 0.5 KiB each. Emptied when full."""

MAX_TABLE_VALUES: Final = 16_384
"""Names and values of one field table that is decoded, nested ones as well: 128 KiB hold 130,000, which take 130 ms in
pure Python. Arguments with more are refused. Headers with more are delivered unchanged, but no exchange looks at them.
"""

MAX_TABLE_DEPTH: Final = 64
"""Nesting of field tables and arrays. Nothing real passes ten; without a bound a 64 KiB frame nests 10 000 deep."""

MAX_SHORT_STRING_BYTES: Final = 255  # §4.2.5.3

DELIVERY_MODE_PERSISTENT: Final = 2  # basic property delivery-mode (§1.8)

CLASS_CONNECTION: Final = 10
CLASS_CHANNEL: Final = 20
CLASS_BASIC: Final = 60

SUCCESS: Final = 200
CONTENT_TOO_LARGE: Final = 311
NO_ROUTE: Final = 312
NO_CONSUMERS: Final = 313
CONNECTION_FORCED: Final = 320
INVALID_PATH: Final = 402
ACCESS_REFUSED: Final = 403
NOT_FOUND: Final = 404
RESOURCE_LOCKED: Final = 405
PRECONDITION_FAILED: Final = 406
FRAME_ERROR: Final = 501
SYNTAX_ERROR: Final = 502
COMMAND_INVALID: Final = 503
CHANNEL_ERROR: Final = 504
UNEXPECTED_FRAME: Final = 505
RESOURCE_ERROR: Final = 506
NOT_ALLOWED: Final = 530
NOT_IMPLEMENTED: Final = 540
INTERNAL_ERROR: Final = 541

REPLY_NAMES: Final[dict[int, str]] = {
    SUCCESS: "REPLY_SUCCESS",
    CONTENT_TOO_LARGE: "CONTENT_TOO_LARGE",
    NO_ROUTE: "NO_ROUTE",  # RabbitMQ's errata: the published XML lost 312
    NO_CONSUMERS: "NO_CONSUMERS",
    CONNECTION_FORCED: "CONNECTION_FORCED",
    INVALID_PATH: "INVALID_PATH",
    ACCESS_REFUSED: "ACCESS_REFUSED",
    NOT_FOUND: "NOT_FOUND",
    RESOURCE_LOCKED: "RESOURCE_LOCKED",
    PRECONDITION_FAILED: "PRECONDITION_FAILED",
    FRAME_ERROR: "FRAME_ERROR",
    SYNTAX_ERROR: "SYNTAX_ERROR",
    COMMAND_INVALID: "COMMAND_INVALID",
    CHANNEL_ERROR: "CHANNEL_ERROR",
    UNEXPECTED_FRAME: "UNEXPECTED_FRAME",
    RESOURCE_ERROR: "RESOURCE_ERROR",
    NOT_ALLOWED: "NOT_ALLOWED",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
    INTERNAL_ERROR: "INTERNAL_ERROR",
}
"""Every reply code of §1.1 by the name RabbitMQ puts in front of a reply text."""

CHANNEL_CODES: Final = frozenset(
    {CONTENT_TOO_LARGE, NO_ROUTE, NO_CONSUMERS, ACCESS_REFUSED, NOT_FOUND, RESOURCE_LOCKED, PRECONDITION_FAILED}
)
"""Soft errors (§1.1): they close a channel. Every other code except 200 closes the connection."""


def reply_text(code: int, text: str) -> str:
    """Return ``text`` behind the name of ``code`` as RabbitMQ writes it, cut to the length of a short string.

    A text that already begins with the name, and a code outside §1.1, keep the text as it is.
    """
    name = REPLY_NAMES.get(code, "")
    if name and code != SUCCESS and not text.startswith(name):
        text = f"{name} - {text}" if text else name
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= MAX_SHORT_STRING_BYTES:
        return encoded.decode("utf-8")
    return encoded[: MAX_SHORT_STRING_BYTES - 3].decode("utf-8", "ignore") + "..."
