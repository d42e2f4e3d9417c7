"""A proxy between clients and a broker that can fall silent: the half-open connections of a broken network.

A silent proxy takes what either side sends and passes nothing on, the end of a connection neither. So each side learns
that the other is gone from missing heartbeats alone.
"""

from __future__ import annotations

import selectors
import socket
import threading

CHUNK = 65_536


class SilentProxy:
    """Listens on a port of its own for each port of the broker; passes everything on until :meth:`fall_silent`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, waker = socket.socketpair()
        self._selector.register(waker, selectors.EVENT_READ)
        self._sockets = [self._wake, waker]
        self._targets: dict[socket.socket, int] = {}
        self._others: dict[socket.socket, socket.socket] = {}
        self.silent = threading.Event()
        self._thread: threading.Thread | None = None

    def forward(self, port: int) -> int:
        """Return the port that leads to a port of the broker. Before :meth:`start` only."""
        listening = socket.create_server(("127.0.0.1", 0))
        self._targets[listening] = port
        self._keep(listening)
        return int(listening.getsockname()[1])

    def start(self) -> None:
        """Begin to pass octets on."""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def fall_silent(self) -> None:
        """Pass nothing on from now, and take no new connections: who tries is told so at once."""
        self.silent.set()

    def close(self) -> None:
        """End it, with all connections."""
        self._wake.close()
        assert self._thread is not None
        self._thread.join()
        self._selector.close()
        for held in self._sockets:
            held.close()

    def _keep(self, held: socket.socket) -> None:
        self._sockets.append(held)
        self._selector.register(held, selectors.EVENT_READ)

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                if ready in self._targets:
                    self._accept(ready)
                elif ready in self._others:
                    self._pass_on(ready)
                else:
                    return

    def _accept(self, listening: socket.socket) -> None:
        client, _ = listening.accept()
        if self.silent.is_set():
            client.close()
            return
        broker = socket.create_connection(("127.0.0.1", self._targets[listening]))
        for one, other in ((client, broker), (broker, client)):
            self._others[one] = other
            self._keep(one)

    def _pass_on(self, source: socket.socket) -> None:
        try:
            octets = source.recv(CHUNK)
        except ConnectionResetError:  # as good as the end of the stream
            octets = b""
        if not octets:
            self._selector.unregister(source)
        if self.silent.is_set():
            return
        try:
            if octets:
                self._others[source].sendall(octets)
            else:
                self._others[source].shutdown(socket.SHUT_WR)
        except OSError:  # that side is gone; its own end of the stream says so to the first one
            if octets:
                self._selector.unregister(source)
            source.close()
