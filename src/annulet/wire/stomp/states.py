"""The life cycle of a connection, and the requirements of each frame, as tables.

All transitions a peer's frames cause live here; the engine looks them up and does the rest. The server's own are three:
a successful login makes ``AUTHENTICATING`` ``CONNECTED``, the last receipt makes ``DISCONNECTING`` ``CLOSED``, and an
ERROR makes any state ``CLOSED`` (1.2 "ERROR": the server must close the connection just after it).
"""

from __future__ import annotations

import enum
from typing import Final

from annulet.wire.stomp.constants import VERSION_1_0, VERSION_1_1, VERSION_1_2


class ConnectionState(enum.Enum):
    """Where a connection is, seen from the server."""

    CONNECTING = "CONNECT or STOMP is awaited"
    AUTHENTICATING = "CONNECT was read and is being checked; further input waits"
    CONNECTED = "CONNECTED was sent, all frames are served"
    DISCONNECTING = "DISCONNECT was read, its receipt is awaited; nothing is read any more"
    CLOSED = "nothing is read or written any more"


TRANSITIONS: Final[dict[tuple[ConnectionState, str], ConnectionState]] = {
    # "Connecting": in this order and no other
    (ConnectionState.CONNECTING, "CONNECT"): ConnectionState.AUTHENTICATING,
    (ConnectionState.CONNECTING, "STOMP"): ConnectionState.AUTHENTICATING,
    # "Client Frames"
    (ConnectionState.CONNECTED, "SEND"): ConnectionState.CONNECTED,
    (ConnectionState.CONNECTED, "SUBSCRIBE"): ConnectionState.CONNECTED,
    (ConnectionState.CONNECTED, "UNSUBSCRIBE"): ConnectionState.CONNECTED,
    (ConnectionState.CONNECTED, "ACK"): ConnectionState.CONNECTED,
    (ConnectionState.CONNECTED, "NACK"): ConnectionState.CONNECTED,
    (ConnectionState.CONNECTED, "BEGIN"): ConnectionState.CONNECTED,
    (ConnectionState.CONNECTED, "COMMIT"): ConnectionState.CONNECTED,
    (ConnectionState.CONNECTED, "ABORT"): ConnectionState.CONNECTED,
    (ConnectionState.CONNECTED, "DISCONNECT"): ConnectionState.DISCONNECTING,
    # a client that changes its mind before it is answered
    (ConnectionState.CONNECTING, "DISCONNECT"): ConnectionState.DISCONNECTING,
}
"""Frames a client may send, by state. Others are answered with ERROR."""

REQUIRED_HEADERS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    # "SEND", "SUBSCRIBE", ... of each specification; 1.0 identifies a subscription by id or destination
    VERSION_1_0: {
        "SEND": ("destination",),
        "SUBSCRIBE": ("destination",),
        "ACK": ("message-id",),
        "BEGIN": ("transaction",),
        "COMMIT": ("transaction",),
        "ABORT": ("transaction",),
    },
    VERSION_1_1: {
        "SEND": ("destination",),
        "SUBSCRIBE": ("destination", "id"),
        "UNSUBSCRIBE": ("id",),
        "ACK": ("message-id", "subscription"),
        "NACK": ("message-id", "subscription"),
        "BEGIN": ("transaction",),
        "COMMIT": ("transaction",),
        "ABORT": ("transaction",),
    },
    VERSION_1_2: {
        "SEND": ("destination",),
        "SUBSCRIBE": ("destination", "id"),
        "UNSUBSCRIBE": ("id",),
        "ACK": ("id",),
        "NACK": ("id",),
        "BEGIN": ("transaction",),
        "COMMIT": ("transaction",),
        "ABORT": ("transaction",),
    },
}
"""Headers a frame must have, by version and command. A frame that is not in the table needs none."""

COMMANDS: Final[dict[str, frozenset[str]]] = {
    VERSION_1_0: frozenset(command for _, command in TRANSITIONS) - {"STOMP", "NACK"},
    VERSION_1_1: frozenset(command for _, command in TRANSITIONS),
    VERSION_1_2: frozenset(command for _, command in TRANSITIONS),
}
"""The frames that clients of a version may send: NACK and STOMP exist since 1.1."""

COMMANDS_WITH_BODY: Final = frozenset({"SEND", "MESSAGE", "ERROR"})
"""1.2 "Body": all other frames must not have one."""

ACKNOWLEDGE_MODES: Final = ("auto", "client", "client-individual")
"""Values of SUBSCRIBE's ``ack``. 1.0 has the first two; the third is served there too."""
