"""Life cycles of a connection, a session and a link, as tables, seen from the side that listens.

A listener answers at once, so of the states of §2.4.6 those in which only one header or only one open was exchanged do
not last; a peer that pipelines (OPEN PIPE, OC PIPE, CLOSE PIPE) gets the same answers in the same order. Input that is
not in a table is an error of the peer, except in states that discard.
"""

from __future__ import annotations

import enum
from typing import Final


class ConnectionState(enum.Enum):
    """Where a connection is. Names in brackets are those of §2.4.6."""

    AWAITING_HEADER = "nothing but a part of a protocol header has come [START]"
    AWAITING_SASL_INIT = "mechanisms were sent, sasl-init is awaited"
    AUTHENTICATING = "the login is being looked at; input waits"
    AWAITING_SASL_RESPONSE = "a challenge was sent, sasl-response is awaited"
    AWAITING_AMQP_HEADER = "the login succeeded, the AMQP header is awaited [START]"
    AWAITING_OPEN = "headers were exchanged, open is awaited [HDR EXCH]"
    OPENED = "both opens were exchanged [OPENED]"
    CLOSE_SENT = "close was sent, the peer's is awaited, all else is discarded [CLOSE SENT]"
    DISCARDING = "close was sent with an error, the peer's is awaited, all else is discarded [DISCARDING]"
    ENDED = "nothing is read or written any more [END]"


class SessionState(enum.Enum):
    """Where a session is. A channel without session is UNMAPPED; BEGIN SENT does not occur with a listener."""

    UNMAPPED = "the channel is free"
    MAPPED = "begins were exchanged"
    END_SENT = "end was sent, the peer's is awaited, all else is discarded"
    DISCARDING = "end was sent with an error, the peer's is awaited, all else is discarded"


class LinkState(enum.Enum):
    """Where a link is (§2.6.3 to §2.6.6)."""

    DETACHED = "the handle is free"
    ATTACH_RECEIVED = "the peer attached, the owner has not answered"
    ATTACHED = "attaches were exchanged"
    DETACH_SENT = "detach was sent, the peer's is awaited, all else is discarded"


CONNECTION_TRANSITIONS: Final[dict[tuple[ConnectionState, str], ConnectionState]] = {
    # §5.3.2: the SASL exchange, in this order and no other
    (ConnectionState.AWAITING_HEADER, "sasl header"): ConnectionState.AWAITING_SASL_INIT,
    (ConnectionState.AWAITING_SASL_INIT, "sasl-init"): ConnectionState.AUTHENTICATING,
    (ConnectionState.AWAITING_SASL_RESPONSE, "sasl-response"): ConnectionState.AUTHENTICATING,
    # §2.2: the AMQP header, first or after SASL
    (ConnectionState.AWAITING_HEADER, "amqp header"): ConnectionState.AWAITING_OPEN,
    (ConnectionState.AWAITING_AMQP_HEADER, "amqp header"): ConnectionState.AWAITING_OPEN,
    # §2.4.1: the first frame must be open
    (ConnectionState.AWAITING_OPEN, "open"): ConnectionState.OPENED,
    # §2.4.3 and §2.4.6: either peer may close; closes that cross end it too
    (ConnectionState.OPENED, "close"): ConnectionState.ENDED,
    (ConnectionState.CLOSE_SENT, "close"): ConnectionState.ENDED,
    (ConnectionState.DISCARDING, "close"): ConnectionState.ENDED,
}
"""The input a peer may send by state of the connection."""

SESSION_TRANSITIONS: Final[dict[tuple[SessionState, str], SessionState]] = {
    # §2.5.1
    (SessionState.UNMAPPED, "begin"): SessionState.MAPPED,
    # §2.5.2 to §2.5.5; ends that cross end it too
    (SessionState.MAPPED, "end"): SessionState.UNMAPPED,
    (SessionState.END_SENT, "end"): SessionState.UNMAPPED,
    (SessionState.DISCARDING, "end"): SessionState.UNMAPPED,
}
"""Input that changes the state of a session. All other input needs ``MAPPED``."""

LINK_TRANSITIONS: Final[dict[tuple[LinkState, str], LinkState]] = {
    # §2.6.3
    (LinkState.DETACHED, "attach"): LinkState.ATTACH_RECEIVED,
    # §2.6.5 and §2.6.6; a peer need not wait for our attach, and detaches may cross
    (LinkState.ATTACH_RECEIVED, "detach"): LinkState.DETACHED,
    (LinkState.ATTACHED, "detach"): LinkState.DETACHED,
    (LinkState.DETACH_SENT, "detach"): LinkState.DETACHED,
}
"""Input that changes the state of a link.

All other input needs ``ATTACHED``; flow is kept in ``ATTACH_RECEIVED`` (§2.6.7: credit may precede).
"""
