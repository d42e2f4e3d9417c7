"""Sends inputs to a running broker, several at once, and never takes part in what they mean."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from tests.hostile.mutations import Script, script
from tests.hostile.recording import Session

ANSWER_SECONDS = 0.03
"""How long a patient peer waits for an answer before its next piece."""

SILENCE_SECONDS = 0.15
"""How long a peer that falls silent stays connected."""

SEND_SECONDS = 2.0
"""How long a peer goes on sending into a connection the broker does not read."""


def send(script: Script, ports: Mapping[str, int], tls: ssl.SSLContext) -> str:
    """Carry one input out. Returns how it ended: ``sent``, ``refused`` (the broker ended it first), ``unread``."""
    try:
        peer = socket.create_connection(("127.0.0.1", ports[script.door]), timeout=SEND_SECONDS)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if script.tls:
            peer = tls.wrap_socket(peer, server_hostname="localhost")
    except OSError:
        return "not admitted"
    with peer:
        outcome = _send_pieces(peer, script)
        _end(peer, script)
    return outcome


def _send_pieces(peer: socket.socket, script: Script) -> str:
    for piece in script.pieces:
        try:
            peer.sendall(piece)
        except TimeoutError:
            return "unread"
        except OSError:
            return "refused"
        if not _read(peer, ANSWER_SECONDS if script.patient and len(piece) > 1 else 0.0):
            return "refused"
    return "sent"


def _read(peer: socket.socket, seconds: float) -> bool:
    """Read what is there, within ``seconds`` at the latest; ``False`` when the broker has ended the connection."""
    deadline = time.monotonic() + seconds
    decrypted = isinstance(peer, ssl.SSLSocket) and peer.pending()
    while decrypted or select.select([peer], [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            if not peer.recv(65_536):
                return False
        except OSError:
            return False
        deadline = 0.0  # an answer came: only what is there already is read with it
        decrypted = isinstance(peer, ssl.SSLSocket) and peer.pending()
    return True


def _end(peer: socket.socket, script: Script) -> None:
    match script.ending:
        case "reset":
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        case "half-close":
            try:
                peer.shutdown(socket.SHUT_WR)
            except OSError:
                return  # the broker was faster
            _read(peer, SILENCE_SECONDS)
        case "silence":
            _read(peer, SILENCE_SECONDS)
        case "close":
            return


class Assault:
    """Inputs ``first`` to ``first + count - 1`` over several threads; ``outcomes`` counts how they ended.

    ``pause``: seconds that each thread waits after an input, for runs of hours on a machine that others use.
    """

    def __init__(
        self,
        sessions: Sequence[Session],
        ports: Mapping[str, int],
        tls: ssl.SSLContext,
        first: int,
        count: int,
        *,
        at_once: int = 6,
        pause: float = 0.0,
    ) -> None:
        self._pause = pause
        self.outcomes: Counter[str] = Counter()
        self._sessions = sessions
        self._ports = ports
        self._tls = tls
        self._numbers = iter(range(first, first + count))
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._work) for _ in range(at_once)]

    def _work(self) -> None:
        while True:
            with self._lock:
                number = next(self._numbers, None)
            if number is None or self._failures:
                return
            try:
                outcome = send(script(number, self._sessions), self._ports, self._tls)
            except BaseException as failure:
                self._failures.append(failure)
                raise
            with self._lock:
                self.outcomes[outcome] += 1
            if self._pause:
                time.sleep(self._pause)

    def run(self) -> Counter[str]:
        """Send all and return how they ended."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]
        return self.outcomes
