"""Messages to systemd (``sd_notify(3)``): ready, reloading, stopping, and that the event loop still runs.

A unit of ``Type=notify`` names a datagram socket in ``NOTIFY_SOCKET``; elsewhere nothing is sent.
"""

from __future__ import annotations

import os
import re
import socket
import time
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

logger = structlog.get_logger(__name__)

START_SECONDS: Final = 10.0
"""Between two requests for more time while the broker recovers: each grants :data:`START_GRACE_SECONDS` more."""

START_GRACE_SECONDS: Final = 60
"""systemd ends a service that is not ready in time, 90 seconds by default; ten million messages may take longer."""

MICROSECONDS: Final = 1_000_000


class ServiceManager:
    """Tells the service manager about one broker. All methods belong to its event loop; none waits or raises."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog_seconds = _watchdog_seconds(environment)
        self._timer: asyncio.TimerHandle | None = None
        self._socket: socket.socket | None = None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)

    def starting(self, loop: asyncio.AbstractEventLoop) -> None:
        """Ask for time until :meth:`ready`, as long as the loop runs."""
        self._repeat(
            loop,
            START_SECONDS,
            f"STATUS=recovering\nEXTEND_TIMEOUT_USEC={START_GRACE_SECONDS * MICROSECONDS}",
        )

    def ready(self, loop: asyncio.AbstractEventLoop) -> None:
        """Say that clients may connect. From now on the watchdog is fed by the loop: one that hangs is not."""
        self._cancel()
        self._send("READY=1\nSTATUS=serving")
        if self._watchdog_seconds:
            self._repeat(loop, self._watchdog_seconds / 2, "WATCHDOG=1")

    def reloading(self) -> None:
        """Say that the configuration is read again; :meth:`reloaded` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}\nSTATUS=reloading")

    def reloaded(self) -> None:
        """Say that the configuration was read again."""
        self._send("READY=1\nSTATUS=serving")

    def stopping(self, reason: str) -> None:
        """Say that the broker stops. The watchdog goes on being fed: a clean stop may take a while."""
        self._send(f"STOPPING=1\nSTATUS={reason}")

    def close(self) -> None:
        """Send nothing any more."""
        self._cancel()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _repeat(self, loop: asyncio.AbstractEventLoop, seconds: float, message: str) -> None:
        self._send(message)
        if self._socket is not None:
            self._timer = loop.call_later(seconds, self._repeat, loop, seconds, message)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self, message: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(message.encode(), self._address)
        except OSError as error:
            logger.warning(
                "the service manager cannot be told", message=message.split("\n", maxsplit=1)[0], error=str(error)
            )


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    """Return the time within which systemd wants to hear of this process; 0: it does not watch it."""
    text, own = environment.get("WATCHDOG_USEC", ""), str(os.getpid())
    if environment.get("WATCHDOG_PID", own) != own or not re.fullmatch("[0-9]+", text):
        return 0.0
    return int(text) / MICROSECONDS
