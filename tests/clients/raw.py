"""A client that says exactly what a test tells it to, right or wrong, byte by byte."""

from __future__ import annotations

import socket
import struct
from types import TracebackType

from pika import frame as frames
from pika import spec

from tests.clients.support import PATIENCE_SECONDS, Peer

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = b"\xce"


def frame(kind: int, channel: int, payload: bytes, end: bytes = FRAME_END) -> bytes:
    """Return a frame (AMQP 0-9-1 §4.2.3)."""
    return struct.pack("!BHI", kind, channel, len(payload)) + payload + end


def method(channel: int, what: spec.amqp_object.Method) -> bytes:
    """Return a method frame of one of pika's methods."""
    return frames.Method(channel, what).marshal()


def publish(channel: int, routing_key: str) -> bytes:
    """Return basic.publish to the default exchange, without its content."""
    return method(channel, spec.Basic.Publish(exchange="", routing_key=routing_key))


def content_header(channel: int, size: int, class_id: int = 60, weight: int = 0) -> bytes:
    """Return a content header without properties."""
    return frame(HEADER, channel, struct.pack("!HHQH", class_id, weight, size, 0))


class RawClient:
    """A socket, the frames read from it, and the hand-shake in steps."""

    def __init__(self, peer: Peer) -> None:
        self.socket = socket.create_connection((peer.host, peer.port), timeout=PATIENCE_SECONDS)
        self._received = b""

    def send(self, *pieces: bytes) -> None:
        """Send; a peer that has gone already is found by the next read."""
        try:
            self.socket.sendall(b"".join(pieces))
        except (BrokenPipeError, ConnectionResetError):
            self._received += b""

    def read(self, kind: type | None = None) -> object:
        """Return the next method or frame, ``None`` at the end of the stream; heartbeats are left out."""
        while True:
            consumed, found = frames.decode_frame(self._received)
            if found is not None:
                self._received = self._received[consumed:]
                if isinstance(found, frames.Heartbeat):
                    continue
                what = found.method if isinstance(found, frames.Method) else found
                assert kind is None or isinstance(what, kind), what
                return what
            try:
                data = self.socket.recv(65_536)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._received += data

    def start(self) -> None:
        """Send the protocol header and read connection.start."""
        self.send(PROTOCOL_HEADER)
        self.read(spec.Connection.Start)

    def log_in(self) -> spec.Connection.Tune:
        """Go on to connection.tune as guest."""
        self.start()
        capabilities = {"authentication_failure_close": True, "consumer_cancel_notify": True}
        self.send(
            method(
                0,
                spec.Connection.StartOk(
                    client_properties={"capabilities": capabilities}, mechanism="PLAIN", response=b"\0guest\0guest"
                ),
            )
        )
        tune = self.read(spec.Connection.Tune)
        assert isinstance(tune, spec.Connection.Tune)
        return tune

    def open(self, *, channel_max: int = 100, frame_max: int = 8192, heartbeat: int = 0) -> RawClient:
        """Go on to an open connection."""
        self.log_in()
        self.send(
            method(0, spec.Connection.TuneOk(channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)),
            method(0, spec.Connection.Open(virtual_host="/")),
        )
        self.read(spec.Connection.OpenOk)
        return self

    def open_channel(self, channel: int = 1) -> None:
        """Open a channel."""
        self.send(method(channel, spec.Channel.Open()))
        self.read(spec.Channel.OpenOk)

    def expect_close(self, *codes: int) -> str:
        """Read up to connection.close, answer it, read the end of the stream; return the reason given."""
        while True:
            what = self.read()
            assert what is not None, f"the connection ended without connection.close; expected {codes}"
            if isinstance(what, spec.Connection.Close):
                break
        assert what.reply_code in codes, what
        self.send(method(0, spec.Connection.CloseOk()))
        assert self.read() is None
        return str(what.reply_text)

    def expect_end(self) -> None:
        """Read the end of the stream, and nothing before it."""
        assert self.read() is None

    def __enter__(self) -> RawClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()
