"""Wait until a broker has done everything that clients have asked it for.

A client's octets are in one of three places: in the system on their way to the broker's socket, in that socket, or in
work that the broker has put off. ``settle`` waits until all three are empty.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import socket
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from annulet.testing.kit_broker import KitBroker

SETTLE_SECONDS: Final = 10.0
"""How long ``settle`` waits, in real time: a broker that is busy for longer serves a client that never stops."""

SPIN_TURNS: Final = 200
"""Turns of the loop without a pause; then the wait is for a thread or a client, and pauses spare the processor."""

PAUSE_SECONDS: Final = 0.001

CALM_TURNS: Final = 3
"""Turns in a row in which nothing may be under way: input that was read in the first has its effect in the second, and
the output is written in the third."""

_TCP_TABLE: Final = Path("/proc/net/tcp")
_QUICK_ACKNOWLEDGEMENT: Final = getattr(socket, "TCP_QUICKACK", None)  # Linux


class NotSettledError(TimeoutError):
    """The broker was busy for too long. The text names the work."""


async def settle(broker: KitBroker) -> None:
    """Return when the broker has handled all that clients have sent, and all work that follows from it.

    Raises :class:`NotSettledError` after :data:`SETTLE_SECONDS`.
    """
    end = time.monotonic() + SETTLE_SECONDS
    calm = turns = 0
    while calm < CALM_TURNS:
        await asyncio.sleep(0 if turns < SPIN_TURNS else PAUSE_SECONDS)
        busy = busy_with(broker)
        if not busy and calm == CALM_TURNS - 1:
            busy = input_on_its_way(broker)
        calm = 0 if busy else calm + 1
        turns += 1
        if busy and time.monotonic() > end:
            raise NotSettledError(f"the broker was busy for {SETTLE_SECONDS:g} s: {busy}; stop the client first")


def busy_with(broker: KitBroker) -> str:
    """Return what the broker has still to do, empty when it is idle."""
    if broker.clocked is not None and not broker.clocked.idle:
        return "work that it has put off"
    if broker.ticking:
        return "messages that fall due"
    for connection, opened in broker.sockets():
        if connection.reading_paused or connection in broker.silent:
            continue  # the broker does not read it: its publishers are blocked, or a fault has it
        if unread_octets(opened):
            return f"input of {connection.name}"
    return ""


def unread_octets(opened: socket.socket) -> int:
    """Return how many octets wait in a socket."""
    count = array.array("i", [0])
    fcntl.ioctl(opened.fileno(), termios.FIONREAD, count)
    return count[0]


def input_on_its_way(broker: KitBroker) -> str:
    """Return which client has sent octets that the system has not brought to the broker's socket; empty for none.

    The system delivers octets on the loopback address within the call that sends them, as a rule. Where its table of
    sockets can be read, the sender's unacknowledged octets tell.
    """
    if _QUICK_ACKNOWLEDGEMENT is None or not _TCP_TABLE.exists():
        return ""
    peers: dict[tuple[int, int], str] = {}
    for connection, opened in broker.sockets():
        if connection.reading_paused or connection in broker.silent or opened.family != socket.AF_INET:
            continue
        opened.setsockopt(socket.IPPROTO_TCP, _QUICK_ACKNOWLEDGEMENT, 1)  # acknowledges received octets at once
        peers[opened.getpeername()[1], opened.getsockname()[1]] = connection.name
    if not peers:
        return ""
    for line in _TCP_TABLE.read_text().splitlines()[1:]:
        fields = line.split()
        ports = int(fields[1].rpartition(":")[2], 16), int(fields[2].rpartition(":")[2], 16)
        if ports in peers and int(fields[4].partition(":")[0], 16):
            return f"input of {peers[ports]}"
    return ""
