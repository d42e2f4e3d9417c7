"""Whether the peer of a socket that is not read is still there: the system knows, where it tells (Linux).

asyncio notices an end only by reading. A publisher that is held back is not read, so its end, or its death, would stay
unnoticed with all it holds, for as long as publishers are held back.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

# The state of a peer: it is there, as far as known; it sent its end behind unread input; it is dead.
PEER_THERE: Final = 0
PEER_ENDED: Final = 1
PEER_GONE: Final = 2

LOOK_SECONDS: Final = 1.0
"""Between two looks at connections that are not read: one system call for each."""

KEEP_ALIVE_IDLE_SECONDS: Final = 60
"""Silence after which the system asks that of the peer whether it is there; no protocol is concerned."""

KEEP_ALIVE_INTERVAL_SECONDS: Final = 15
KEEP_ALIVE_PROBES: Final = 4
"""Probes without an answer after which the peer is dead: two minutes of silence altogether."""

RETRANSMISSIONS_MAX: Final = 8
"""Times the same octets were sent again without an answer, after which the peer is dead: 50 to 100 seconds. The system
itself goes on for a quarter of an hour."""

_TCP_CLOSED: Final = 7
_TCP_ENDED: Final = 8  # the peer's end has come, ours was not sent: CLOSE_WAIT
_RETRANSMISSIONS: Final = 2  # place of the octet in Linux's struct tcp_info; that of the state is 0


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Have the system find out when the peer's machine is gone."""
    watched = transport.get_extra_info("socket")
    if watched is None or watched.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    watched.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEP_ALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEP_ALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", KEEP_ALIVE_PROBES),
    ):
        option = getattr(socket, name, None)  # not every system has each
        if option is not None:
            watched.setsockopt(socket.IPPROTO_TCP, option, value)


def state_of_peer(transport: asyncio.BaseTransport) -> int:
    """Return what became of the peer, as far as the system tells."""
    watched = transport.get_extra_info("socket")
    option = getattr(socket, "TCP_INFO", None)
    if watched is None or option is None or watched.family not in {socket.AF_INET, socket.AF_INET6}:
        return PEER_THERE
    facts = watched.getsockopt(socket.IPPROTO_TCP, option, 8)
    if facts[0] == _TCP_CLOSED or facts[_RETRANSMISSIONS] >= RETRANSMISSIONS_MAX:
        return PEER_GONE
    return PEER_ENDED if facts[0] == _TCP_ENDED else PEER_THERE


class WatchedConnection(Protocol):
    """A connection that may not be read."""

    def look_for_end(self) -> None:
        """Find out whether the peer has ended, if it is not read."""


class PeerWatch:
    """Looks for the ends of peers now and then."""

    def __init__(self) -> None:
        self._looked_at = 0.0  # time of the loop

    def tick(self, connections: Iterable[WatchedConnection], now: float) -> None:
        """Look, unless that was done a short time ago."""
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            for connection in list(connections):
                connection.look_for_end()
