"""A client of AMQP 1.0 that says exactly what a test tells it to, right or wrong, byte by byte."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, NamedTuple

from tests.clients.support import PATIENCE_SECONDS, Peer

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
SASL_MECHANISMS, SASL_INIT, SASL_CHALLENGE, SASL_RESPONSE, SASL_OUTCOME = range(0x40, 0x45)
SOURCE, TARGET, ACCEPTED = 0x28, 0x29, 0x24
SENDER, RECEIVER = False, True


class Uint(int):
    """A 32-bit number (§1.6.5)."""


class Symbol(str):
    """A symbol (§1.6.21)."""

    __slots__ = ()


class Composite(NamedTuple):
    """A described list (§1.4)."""

    code: int
    fields: list[Any]


def encode(value: Any) -> bytes:  # noqa: PLR0911 - one for each type
    """Return a value in its longest encoding (§1.6)."""
    match value:
        case None:
            return b"\x40"
        case bool():
            return b"\x41" if value else b"\x42"
        case Composite(code, fields):
            items = b"".join(map(encode, fields))
            return b"\x00\x53" + bytes([code]) + b"\xd0" + struct.pack("!II", len(items) + 4, len(fields)) + items
        case Uint():
            return b"\x70" + struct.pack("!I", value)
        case Symbol():
            return b"\xb3" + struct.pack("!I", len(value)) + value.encode()
        case str():
            return b"\xb1" + struct.pack("!I", len(value.encode())) + value.encode()
        case bytes():
            return b"\xb0" + struct.pack("!I", len(value)) + value
        case dict():
            items = b"".join(encode(part) for pair in value.items() for part in pair)
            return b"\xd1" + struct.pack("!II", len(items) + 4, 2 * len(value)) + items
        case int():
            return b"\x50" + bytes([value])  # ubyte
    raise TypeError(f"{value!r} has no encoding here")


def frame(body: bytes, channel: int = 0, kind: int = 0) -> bytes:
    """Return a frame (§2.3)."""
    return struct.pack("!IBBH", len(body) + 8, 2, kind, channel) + body


def performative(code: int, *fields: Any, payload: bytes = b"", channel: int = 0) -> bytes:
    """Return a frame with a performative."""
    return frame(encode(Composite(code, list(fields))) + payload, channel)


def begin(channel: int = 0, window: int = 2**31 - 1) -> bytes:
    """Return begin (§2.7.2)."""
    return performative(BEGIN, None, Uint(0), Uint(window), Uint(window), Uint(2**32 - 1), channel=channel)


def attach(name: str, handle: int, role: bool, address: str | None, channel: int = 0) -> bytes:
    """Return attach (§2.7.3) of a link to or from an address."""
    node = [address]
    source = Composite(SOURCE, node if role == RECEIVER else [])
    target = Composite(TARGET, node if role == SENDER else [])
    delivery_count = Uint(0) if role == SENDER else None
    fields = [name, Uint(handle), role, 2, 0, source, target, None, None, delivery_count]
    return performative(ATTACH, *fields, channel=channel)


def transfer(handle: int, number: int, payload: bytes, *, more: bool = False, settled: bool = True) -> bytes:
    """Return transfer (§2.7.5)."""
    tag = struct.pack("!I", number)
    return performative(TRANSFER, Uint(handle), Uint(number), tag, Uint(0), settled, more, payload=payload)


def continued(handle: int, payload: bytes, *, more: bool = True) -> bytes:
    """Return a further transfer of the same delivery."""
    return performative(TRANSFER, Uint(handle), None, None, None, None, more, payload=payload)


def link_flow(handle: int, credit: int, *, echo: bool = False, received: int = 0) -> bytes:
    """Return flow (§2.7.4) that grants credit."""
    window = Uint(2**31 - 1)
    return performative(
        FLOW, Uint(received), window, Uint(0), window, Uint(handle), Uint(received), Uint(credit), None, False, echo
    )  # fmt: skip


def data_message(body: bytes) -> bytes:
    """Return a message of one data section (§3.2.6)."""
    return b"\x00\x53\x75" + encode(body)


class Received(NamedTuple):
    """A frame that came: its channel, the code of its performative (-1: none), all of its body."""

    channel: int
    code: int
    body: bytes


class RawAmqp10:
    """A socket, the frames read from it, and the handshake in steps."""

    def __init__(self, peer: Peer, *, receive_buffer: int = 0) -> None:
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect((peer.host, peer.port))
        self._received = b""

    def send(self, *pieces: bytes) -> bool:
        """Send; ``False`` when the peer has gone already."""
        try:
            self.socket.sendall(b"".join(pieces))
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def _fill(self, octets: int) -> bool:
        while len(self._received) < octets:
            try:
                piece = self.socket.recv(65_536)
            except ConnectionResetError:
                return False
            if not piece:
                return False
            self._received += piece
        return True

    def _take(self, octets: int) -> bytes:
        taken, self._received = self._received[:octets], self._received[octets:]
        return taken

    def read_header(self) -> bytes:
        """Return a protocol header, what there is of it when the stream ends."""
        self._fill(8)
        return self._take(8)

    def read(self, *codes: int) -> Received | None:
        """Return the next frame, or the next with one of these codes; ``None`` at the end of the stream."""
        while self._fill(8):
            size, offset, _, channel = struct.unpack("!IBBH", self._received[:8])
            if not self._fill(size):
                return None
            body = self._take(size)[offset * 4 :]
            code = body[2] if body[:2] == b"\x00\x53" else -1
            if not codes or code in codes:
                return Received(channel, code, body)
        return None

    def log_in(self) -> None:
        """Go on to the AMQP header, as guest."""
        self.send(SASL_HEADER)
        assert self.read_header() == SASL_HEADER
        assert self.read(SASL_MECHANISMS)
        init = encode(Composite(SASL_INIT, [Symbol("PLAIN"), b"\0guest\0guest"]))
        self.send(frame(init, kind=1))
        outcome = self.read(SASL_OUTCOME)
        assert outcome is not None
        assert b"\x50\x00" in outcome.body, outcome
        self.send(AMQP_HEADER)
        assert self.read_header() == AMQP_HEADER

    def open(self, *, max_frame_size: int = 2**32 - 1) -> RawAmqp10:
        """Go on to an open connection."""
        self.log_in()
        self.send(performative(OPEN, "raw", "localhost", Uint(max_frame_size)))
        assert self.read(OPEN)
        return self

    def session(self, channel: int = 0) -> RawAmqp10:
        """Begin a session."""
        self.send(begin(channel))
        assert self.read(BEGIN)
        return self

    def link(self, handle: int, role: bool, address: str) -> None:
        """Attach a link and wait for the answer."""
        self.send(attach(f"link-{handle}", handle, role, address))
        assert self.read(ATTACH)

    def expect_close(self, *conditions: str) -> str:
        """Read up to close and the end of the stream; return the close's text. ``conditions``: one it has to have."""
        answer = self.read(CLOSE)
        assert answer is not None, f"the connection ended without a close; expected {conditions}"
        text = answer.body.decode("latin-1")
        assert any(condition in text for condition in conditions), text
        self.send(performative(CLOSE))
        while self.read() is not None:
            continue
        return text

    def expect_error(self, code: int, condition: str) -> None:
        """Read up to detach, end or close and expect a condition in it."""
        answer = self.read(code, CLOSE)
        assert answer is not None, f"the connection ended; expected {condition}"
        assert condition.encode() in answer.body, answer

    def expect_end(self) -> None:
        """Read the end of the stream, whatever comes before it."""
        while self.read() is not None:
            continue

    def __enter__(self) -> RawAmqp10:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()
