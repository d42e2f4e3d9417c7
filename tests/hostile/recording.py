"""Sessions of real clients as octets: a proxy between client and broker that keeps what the client sent.

A recorded session is replayed by :mod:`tests.hostile.assault`, damaged by :mod:`tests.hostile.mutations`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

READ_BYTES = 65_536

DOORS = ("amqp", "stomp", "http", "bulk")
"""Listeners by their names in the configuration."""

SECURED_DOORS = tuple(f"{door}s" for door in DOORS)
"""The same over TLS."""

SETTLE_SECONDS = 3.0
"""How long the end of a recorded connection is waited for."""


@dataclass(frozen=True)
class Session:
    """What one client sent in one connection: ``pieces`` in order, a new one wherever the broker had answered.

    ``door``: the listener it was for, one of ``DOORS``, or one of ``SECURED_DOORS`` if the pieces are those of TLS.
    """

    name: str
    door: str
    pieces: tuple[bytes, ...]

    @property
    def octets(self) -> bytes:
        """Everything in one piece."""
        return b"".join(self.pieces)


class _Recorded:
    """One connection: two threads copy, one in each direction."""

    def __init__(self, client: socket.socket, broker: socket.socket) -> None:
        self.pieces: list[bytearray] = []
        self._answered = True
        self._client = client
        self._broker = broker
        self._threads = [
            threading.Thread(target=self._up, daemon=True),
            threading.Thread(target=self._down, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _up(self) -> None:
        while octets := _receive(self._client):
            if self._answered:
                self.pieces.append(bytearray())
                self._answered = False
            self.pieces[-1] += octets
            self._broker.sendall(octets)
        _end_of_stream(self._broker)

    def _down(self) -> None:
        while octets := _receive(self._broker):
            self._answered = True
            try:
                self._client.sendall(octets)
            except OSError:
                break  # the client has left without reading the rest, as some do after close-ok
        _end_of_stream(self._client)

    def finish(self) -> tuple[bytes, ...]:
        """Wait for the end and return what the client sent."""
        for thread in self._threads:
            thread.join(SETTLE_SECONDS)
        self._client.close()
        self._broker.close()
        return tuple(bytes(piece) for piece in self.pieces)


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(READ_BYTES)
    except OSError:
        return b""  # a reset ends the stream as well


def _end_of_stream(target: socket.socket) -> None:
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        target.close()  # the other side was faster


class RecordingProxy:
    """Listens while it is open; every connection made to ``port`` goes to the broker's and is recorded."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._connections: list[_Recorded] = []
        self.port = int(self._listening.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return  # closed: the recording is over
            self._connections.append(_Recorded(client, socket.create_connection(("127.0.0.1", self._broker_port))))

    def recorded(self) -> list[tuple[bytes, ...]]:
        """Return the pieces of each connection, the first one's first, when all have ended.

        After the block: a client may connect once more while it ends, and that socket is closed here too.
        """
        return [connection.finish() for connection in self._connections]

    def __enter__(self) -> RecordingProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(SETTLE_SECONDS)


def record(name: str, door: str, broker_port: int, work: Callable[[int], None]) -> list[Session]:
    """Let a client do its work through a proxy, whose port it is given; return a session for each connection."""
    with RecordingProxy(broker_port) as proxy:
        work(proxy.port)
    return [Session(name, door, one) for one in proxy.recorded() if one]
