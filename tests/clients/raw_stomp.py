"""A STOMP client that says exactly what a test tells it to, right or wrong, byte by byte."""

from __future__ import annotations

import socket
from types import TracebackType

from annulet.wire.stomp.frames import Frame, FrameReader
from tests.clients.support import PATIENCE_SECONDS, Peer

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"


class RawStomp:
    """A socket, and the frames read from it."""

    def __init__(self, peer: Peer, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect((peer.host, peer.stomp_port))
        self._reader = FrameReader()
        self._reader.version = "1.2"

    def open(self, connect: bytes = CONNECT) -> RawStomp:
        """Log in as guest."""
        self.send(connect)
        self.expect("CONNECTED")
        return self

    def send(self, *pieces: bytes) -> bool:
        """Send; ``False`` when the peer has gone already."""
        try:
            self.socket.sendall(b"".join(pieces))
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def read(self) -> Frame | None:
        """Return the next frame, ``None`` at the end of the stream."""
        while True:
            frame = self._reader.next_frame()
            if frame is not None:
                return frame
            try:
                data = self.socket.recv(65_536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._reader.feed(data)

    def expect(self, command: str) -> Frame:
        """Return the next frame, which is of this command."""
        frame = self.read()
        assert frame is not None, f"the connection ended; expected {command}"
        assert frame.command == command, frame
        return frame

    def expect_error(self, *words: str) -> None:
        """Read up to ERROR, whose text has all ``words``, and the end of the stream."""
        while True:
            frame = self.read()
            assert frame is not None, f"the connection ended without ERROR; expected {words}"
            if frame.command == "ERROR":
                break
        for word in words:
            assert word in frame.headers["message"], frame
        self.expect_end()

    def expect_end(self) -> None:
        """Read the end of the stream, and nothing before it."""
        frame = self.read()
        assert frame is None, frame

    def __enter__(self) -> RawStomp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()
