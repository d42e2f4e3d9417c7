"""Life cycles of a connection, a channel and a content, as tables.

All transitions a peer's methods cause live here; the engine looks them up and does the rest. The owner moves a
connection from ``CHECKING`` to ``SECURING`` or ``TUNING``. The server's own transitions are two: a hard error or an
orderly end makes any open state ``CLOSING`` (§1.5.2.7), a soft error makes an open channel ``CLOSING`` (§1.6.2.5). In
``CLOSING`` everything but close and close-ok is discarded (§2.2.4).
"""

from __future__ import annotations

import enum
from typing import Final

from annulet.wire.amqp091.connection.methods import method_identifier


class ConnectionState(enum.Enum):
    """Where a connection is, seen from the server."""

    AWAITING_HEADER = "nothing but a part of the protocol header has come"
    STARTING = "start was sent, start-ok is awaited"
    CHECKING = "the owner looks at a SASL response; further input waits"
    SECURING = "secure was sent with a challenge, secure-ok is awaited"
    TUNING = "the peer is authenticated, tune was sent, tune-ok is awaited"
    OPENING = "limits are negotiated, open is awaited"
    OPEN = "a virtual host is open, channels work"
    CLOSING = "close was sent, close-ok is awaited"
    CLOSED = "nothing is read or written any more"


class ChannelState(enum.Enum):
    """Where a channel is, seen from the server. A channel number without channel is ``CLOSED``."""

    CLOSED = "the number is free"
    OPEN = "methods and content are served"
    CLOSING = "the server sent close, close-ok is awaited"


class ContentState(enum.Enum):
    """Which frame a channel has to receive next (§4.2.6)."""

    METHOD = "a method frame"
    HEADER = "the content header of a basic.publish"
    BODY = "the rest of a body"


CONNECTION_TRANSITIONS: Final[dict[tuple[ConnectionState, int], ConnectionState]] = {
    # §2.2.4 and §1.4.2.1: the handshake, in this order and no other
    # secure and secure-ok as often as the mechanism needs (§1.4.2.3)
    (ConnectionState.STARTING, method_identifier("connection.start-ok")): ConnectionState.CHECKING,
    (ConnectionState.SECURING, method_identifier("connection.secure-ok")): ConnectionState.CHECKING,
    (ConnectionState.TUNING, method_identifier("connection.tune-ok")): ConnectionState.OPENING,
    (ConnectionState.OPENING, method_identifier("connection.open")): ConnectionState.OPEN,
    # RabbitMQ's extension: new credentials on an open connection
    (ConnectionState.OPEN, method_identifier("connection.update-secret")): ConnectionState.OPEN,
    # §1.4.2.8: either peer may close at any time after start
    (ConnectionState.STARTING, method_identifier("connection.close")): ConnectionState.CLOSED,
    (ConnectionState.SECURING, method_identifier("connection.close")): ConnectionState.CLOSED,
    (ConnectionState.TUNING, method_identifier("connection.close")): ConnectionState.CLOSED,
    (ConnectionState.OPENING, method_identifier("connection.close")): ConnectionState.CLOSED,
    (ConnectionState.OPEN, method_identifier("connection.close")): ConnectionState.CLOSED,
    # §1.4.2.9; when both close at once, each answers the other, and ours is answered by either
    (ConnectionState.CLOSING, method_identifier("connection.close")): ConnectionState.CLOSED,
    (ConnectionState.CLOSING, method_identifier("connection.close-ok")): ConnectionState.CLOSED,
}
"""Methods of class connection a client may send, by state. Others are 504; in ``CLOSING`` they are discarded."""

CHANNEL_TRANSITIONS: Final[dict[tuple[ChannelState, int], ChannelState]] = {
    # §1.5.2.1
    (ChannelState.CLOSED, method_identifier("channel.open")): ChannelState.OPEN,
    # §1.5.2.5
    (ChannelState.OPEN, method_identifier("channel.close")): ChannelState.CLOSED,
    # §1.5.2.6; crossing closes are answered, and our own close still has to be
    (ChannelState.CLOSING, method_identifier("channel.close")): ChannelState.CLOSING,
    (ChannelState.CLOSING, method_identifier("channel.close-ok")): ChannelState.CLOSED,
}
"""Methods that move a channel. Any other one needs ``OPEN``: 504 in ``CLOSED``, discarded in ``CLOSING``."""

CONTENT_TRANSITIONS: Final[dict[tuple[ContentState, str], ContentState]] = {
    # §4.2.6: method, header, then bodies until the announced size is reached
    (ContentState.METHOD, "method without content"): ContentState.METHOD,
    (ContentState.METHOD, "method with content"): ContentState.HEADER,
    (ContentState.HEADER, "header of an empty body"): ContentState.METHOD,
    (ContentState.HEADER, "header"): ContentState.BODY,
    (ContentState.BODY, "part of the body"): ContentState.BODY,
    (ContentState.BODY, "end of the body"): ContentState.METHOD,
}
"""Frames in sequence on one channel. Every other pair is 505 UNEXPECTED_FRAME."""
