"""Clients of all protocols over plain blocking sockets, for tests that count what a connection leaves behind.

They run in a thread beside the broker's event loop, make no reference cycles, and can break off at any octet.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import struct
from types import TracebackType
from typing import Any, Self, TypeVar

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.connection.methods import Method, decode_method, encode_method
from annulet.wire.amqp091.types.constants import PROTOCOL_HEADER
from annulet.wire.amqp10.frames.frames import AMQP_HEADER, FRAME_AMQP, FRAME_SASL, SASL_HEADER, encode_frame, next_frame
from annulet.wire.amqp10.frames.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
    decode_performative,
    encode_performative,
)
from annulet.wire.amqp10.frames.sasl import SaslInit, SaslMechanisms, SaslOutcome
from annulet.wire.amqp10.frames.terminus import Coordinator, Source, Target
from annulet.wire.amqp10.types.composite import decode_composite

FRAME_MAX = 1 << 20
TIMEOUT_SECONDS = 10.0
TRANSFER_BYTES = 100_000
RESET = struct.pack("ii", 1, 0)
PLAIN = b"\0guest\0guest"

T = TypeVar("T")


class BlockingClient:
    """A socket with a buffer of what came."""

    def __init__(self, address: tuple[str, int], *, tls: ssl.SSLContext | None = None) -> None:
        plain = socket.create_connection(address, timeout=TIMEOUT_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket: socket.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname="localhost")
        self.received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, octets: bytes) -> None:
        """Send all of it."""
        self.socket.sendall(octets)

    def more(self) -> bool:
        """Wait for more octets; False at the end of the stream."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self.received += data
        return bool(data)

    def until(self, mark: bytes) -> bytes:
        """Return what came up to and with ``mark``; all there is where the stream ends before."""
        while mark not in self.received:
            if not self.more():
                taken, self.received = self.received, b""
                return taken
        end = self.received.index(mark) + len(mark)
        taken, self.received = self.received[:end], self.received[end:]
        return taken

    def wait_for_end(self) -> None:
        """Read until the broker has closed the connection."""
        while self.more():
            self.received = b""

    def reset(self) -> None:
        """Break the connection off with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.socket.close()


class Amqp091Client(BlockingClient):
    """AMQP 0-9-1, one call at a time."""

    def open(self, *, response: bytes = PLAIN, heartbeat: int = 0) -> Self:
        """Log in and open the virtual host ``/``."""
        self.send(PROTOCOL_HEADER)
        self.next_method()
        properties: dict[str, PropertyValue] = {"capabilities": {"authentication_failure_close": True}}
        arguments: dict[str, PropertyValue] = {"client_properties": properties, "mechanism": "PLAIN"}
        tune = self.call(0, "connection.start-ok", {**arguments, "response": response, "locale": "en_US"})
        if tune.specification.name == "connection.tune":
            self.method(0, "connection.tune-ok", {"channel_max": 100, "frame_max": 131072, "heartbeat": heartbeat})
            self.call(0, "connection.open", {"virtual_host": "/"})
        return self

    def method(self, channel: int, name: str, arguments: dict[str, PropertyValue] | None = None) -> None:
        """Send a method."""
        self.frame(1, channel, encode_method(name, arguments))

    def frame(self, kind: int, channel: int, payload: bytes) -> None:
        """Send a frame."""
        self.send(struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce")

    def call(self, channel: int, name: str, arguments: dict[str, PropertyValue] | None = None) -> Method:
        """Send a method and return the next one that comes."""
        self.method(channel, name, arguments)
        return self.next_method()

    def next_method(self) -> Method:
        """Return the next method; contents on the way are passed over. Raises ConnectionError at the end."""
        while True:
            while len(self.received) < 7 or len(self.received) < 8 + int.from_bytes(self.received[3:7], "big"):
                if not self.more():
                    raise ConnectionError("the broker closed the connection")
            kind, size = self.received[0], int.from_bytes(self.received[3:7], "big")
            payload, self.received = self.received[7 : 7 + size], self.received[8 + size :]
            if kind == 1:
                return decode_method(payload, "S")

    def publish(
        self,
        channel: int,
        routing_key: str,
        body: bytes,
        *,
        exchange: str = "",
        announced: int = -1,
        mode: int = 1,
        reply_to: str = "",
        mandatory: bool = False,
    ) -> None:
        """Publish; ``announced``: the size that the header says, where it is another one."""
        arguments: dict[str, PropertyValue] = {"exchange": exchange, "routing_key": routing_key, "mandatory": mandatory}
        self.method(channel, "basic.publish", arguments)
        size = len(body) if announced < 0 else announced
        flags, properties = 0x1000, bytes((mode,))
        if reply_to:
            flags, properties = 0x1200, bytes((mode, len(reply_to))) + reply_to.encode()
        self.frame(2, channel, struct.pack(">HHQH", 60, 0, size, flags) + properties)
        for start in range(0, len(body), 131064):
            self.frame(3, channel, body[start : start + 131064])

    def close(self) -> None:
        """Close the connection in agreement."""
        self.call(0, "connection.close", {"reply_code": 200})
        self.wait_for_end()
        self.socket.close()


class Amqp10Client(BlockingClient):
    """AMQP 1.0, one performative at a time."""

    def open(self, *, response: bytes = PLAIN, idle_time_out: int | None = None) -> Self:
        """Log in with PLAIN and open the connection."""
        self.send(SASL_HEADER)
        self.header()
        self.expect(SaslMechanisms)
        self.send(encode_frame(FRAME_SASL, 0, encode_performative(SaslInit("PLAIN", response))))
        if self.expect(SaslOutcome).code == 0:
            self.send(AMQP_HEADER)
            self.header()
            self.performative(Open("client", max_frame_size=FRAME_MAX, idle_time_out=idle_time_out))
            self.expect(Open)
        return self

    def header(self) -> None:
        """Take the broker's protocol header."""
        while len(self.received) < 8:
            if not self.more():
                raise ConnectionError("the broker closed the connection")
        self.received = self.received[8:]

    def performative(self, performative: object, payload: bytes = b"", *, channel: int = 0) -> None:
        """Send a frame."""
        self.send(encode_frame(FRAME_AMQP, channel, encode_performative(performative) + payload))

    def expect(self, kind: type[T]) -> T:
        """Return the next performative of a kind; others are passed over. Raises ConnectionError at the end."""
        while True:
            frame = next_frame(self.received, 0, len(self.received), FRAME_MAX)
            if frame is None:
                if not self.more():
                    raise ConnectionError(f"the broker closed the connection before {kind.__name__}")
                continue
            found: object = None
            if frame.start < frame.end:
                found, _ = decode_performative(self.received, frame.start, frame.end)
            self.received = self.received[frame.end :]
            if isinstance(found, kind):
                return found

    def begin(self, channel: int = 0) -> None:
        """Begin a session."""
        self.performative(Begin(None, 0, 1000, 1000), channel=channel)
        self.expect(Begin)

    def end(self, channel: int = 0) -> None:
        """End a session."""
        self.performative(End(), channel=channel)
        self.expect(End)

    def receiver(
        self, name: str, source: Source | None, *, handle: int = 0, channel: int = 0, credit: int = 10
    ) -> Attach:
        """Attach a receiver and grant credit."""
        self.performative(Attach(name, handle, True, source=source, target=Target("client")), channel=channel)
        answer = self.expect(Attach)
        if credit and answer.source is not None:
            flow = Flow(0, 1000, 0, 1000)
            flow.handle, flow.delivery_count, flow.link_credit = handle, 0, credit
            self.performative(flow, channel=channel)
        return answer

    def sender(self, name: str, target: Target | Coordinator, *, handle: int = 0, channel: int = 0) -> Attach:
        """Attach a sender; wait for credit where it is accepted."""
        attach = Attach(name, handle, False, source=Source("client"), target=target, initial_delivery_count=0)
        self.performative(attach, channel=channel)
        answer = self.expect(Attach)
        if answer.target is not None:
            self.expect(Flow)
        return answer

    def transfer(
        self,
        number: int,
        payload: bytes,
        *,
        handle: int = 0,
        channel: int = 0,
        more: bool = False,
        settled: bool = False,
        state: Any = None,
    ) -> None:
        """Send delivery ``number``, in as many transfers as it takes."""
        while len(payload) > TRANSFER_BYTES:
            part, payload = payload[:TRANSFER_BYTES], payload[TRANSFER_BYTES:]
            self.transfer(number, part, handle=handle, channel=channel, more=True, settled=settled, state=state)
        transfer = Transfer(handle, number, number.to_bytes(4, "big"), 0, settled, more, state=state)
        self.performative(transfer, payload, channel=channel)

    def outcome(self) -> Any:
        """Return the state of the next disposition."""
        return self.expect(Disposition).state

    def detach(self, handle: int = 0, *, closed: bool = True, channel: int = 0) -> None:
        """Detach a link."""
        self.performative(Detach(handle, closed), channel=channel)
        self.expect(Detach)

    def close(self) -> None:
        """Close the connection in agreement."""
        self.performative(Close())
        self.expect(Close)
        self.wait_for_end()
        self.socket.close()


def data_message(body: bytes) -> bytes:
    """Return the sections of a message: one of data."""
    return b"\x00\x53\x75\xb0" + len(body).to_bytes(4, "big") + body


def value_message(value: object) -> bytes:
    """Return the sections of a message whose value is a composite: what a coordinator takes."""
    encoded = encode_performative(value)
    decode_composite(encoded, 0, len(encoded))
    return b"\x00\x53\x77" + encoded


class StompClient(BlockingClient):
    """STOMP 1.2."""

    def frame(self, command: str, body: bytes = b"", **headers: str) -> None:
        """Send a frame; ``_`` in names of headers stands for ``-``."""
        lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
        self.send(f"{command}\n{lines}\n".encode() + body + b"\0")

    def answer(self) -> bytes:
        """Return the next frame of the broker; what there is where the connection ends before."""
        return self.until(b"\0").lstrip()

    def open(self, *, passcode: str = "guest") -> Self:
        """Log in."""
        self.frame("CONNECT", accept_version="1.2", host="/", login="guest", passcode=passcode)
        self.answer()
        return self

    def disconnect(self) -> None:
        """End in agreement."""
        self.frame("DISCONNECT", receipt="bye")
        self.until(b"receipt-id:bye")
        self.wait_for_end()
        self.socket.close()


class HttpClient(BlockingClient):
    """HTTP/1.1, one request a connection unless told otherwise."""

    def request(
        self, method: str, path: str, body: object = None, *, user: str = "guest:guest", keep: bool = False
    ) -> bytes:
        """Return the head and what came of the body."""
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(content)}"]
        lines.append(f"Authorization: Basic {base64.b64encode(user.encode()).decode()}")
        lines.append("Content-Type: application/json")
        if not keep:
            lines.append("Connection: close")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        if keep:
            return self.until(b"\r\n\r\n")
        while self.more():
            pass
        answer, self.received = self.received, b""
        return answer


class WebSocketClient(BlockingClient):
    """STOMP in the messages of a WebSocket."""

    def upgrade(self, path: str = "/ws", **headers: str) -> bytes:
        """Ask for the WebSocket; return the head of the answer."""
        lines = [f"GET {path} HTTP/1.1", "Host: localhost", "Connection: Upgrade", "Upgrade: websocket"]
        lines += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n")
        return self.until(b"\r\n\r\n")

    def message(self, octets: bytes, *, announced: int = -1, opcode: int = 0x82) -> None:
        """Send a message; ``announced``: the length its head says, where it is another one."""
        length = len(octets) if announced < 0 else announced
        if length < 126:
            head = bytes((opcode, 0x80 | length))
        elif length < 1 << 16:
            head = bytes((opcode, 0xFE)) + length.to_bytes(2, "big")
        else:
            head = bytes((opcode, 0xFF)) + length.to_bytes(8, "big")
        self.send(head + bytes(4) + octets)

    def open(self) -> Self:
        """Log in."""
        self.upgrade()
        self.message(b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0")
        assert b"CONNECTED" in self.until(b"\0")
        return self
