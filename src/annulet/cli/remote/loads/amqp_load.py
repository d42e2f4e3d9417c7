"""A load client of AMQP 0-9-1 on a blocking socket: prepared frames out, deliveries parsed in place.

A client library takes ten times as long for each message, so the bench would measure the library.
"""

from __future__ import annotations

import struct
from typing import Final

from annulet.cli.remote.failures import EXIT_NOT_ALLOWED, EXIT_REFUSED_BY_BROKER, EXIT_UNREACHABLE, Failure
from annulet.cli.remote.options import Remote
from annulet.cli.remote.stomp_client import listener_of, open_socket, receive

PROTOCOLS: Final = {"http": "amqp", "https": "amqp/ssl"}
HEADER: Final = b"AMQP\x00\x00\x09\x01"
READ_BYTES: Final = 1 << 18
METHOD, CONTENT_HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END: Final = b"\xce"
FRAME_MAX: Final = 131_072
START, START_OK, TUNE, TUNE_OK, OPEN, OPEN_OK = (10, 10), (10, 11), (10, 30), (10, 31), (10, 40), (10, 41)
CLOSE, CLOSE_OK = (10, 50), (10, 51)
CHANNEL_OPEN, CHANNEL_OPEN_OK, CHANNEL_CLOSE = (20, 10), (20, 11), (20, 40)
QOS, QOS_OK, CONSUME, CONSUME_OK = (60, 10), (60, 11), (60, 20), (60, 21)
PUBLISH, DELIVER, ACK, NACK, CANCEL = (60, 40), (60, 60), (60, 80), (60, 120), (60, 30)
CONFIRM, CONFIRM_OK = (85, 10), (85, 11)
REFUSED_CODES: Final = frozenset({402, 403, 530})
"""Reply codes of a login or permission that is refused."""

_HEAD: Final = struct.Struct(">BHI")
_CODE: Final = struct.Struct(">HH")
_LONG_LONG: Final = struct.Struct(">Q")
PERSISTENT: Final = b"\x10\x00\x02"
"""Property flags with the delivery mode alone, and its value: the message survives a restart."""

NO_PROPERTIES: Final = b"\x00\x00"


def short(text: str) -> bytes:
    """Return a short string. Raises :class:`~annulet.cli.remote.failures.Failure` for one of more than 255 bytes."""
    octets = text.encode()
    if len(octets) > 255:
        raise Failure(EXIT_REFUSED_BY_BROKER, f"name {text[:40]!r}… has {len(octets)} bytes; 255 are allowed")
    return bytes([len(octets)]) + octets


def long_text(octets: bytes) -> bytes:
    """Return a long string."""
    return struct.pack(">I", len(octets)) + octets


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Return a frame."""
    return _HEAD.pack(kind, channel, len(payload)) + payload + FRAME_END


class AmqpLoad:
    """One connection with channel 1. Methods raise :class:`~annulet.cli.remote.failures.Failure`."""

    def __init__(self, remote: Remote) -> None:
        self.confirmed = 0  # publishes, all up to this number
        self._sent = 0
        self._publish = b""  # the frame before each message
        self._socket = open_socket(remote, listener_of(remote, PROTOCOLS))
        self._input = bytearray()
        self._tag = 0  # of the delivery whose body is on its way
        try:
            self._open(remote)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> AmqpLoad:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Cut the connection, if it is still there."""
        self._socket.close()

    def _open(self, remote: Remote) -> None:
        target = remote.target
        self._socket.sendall(HEADER)
        self._wait_for(START)
        login = b"\0".join([b"", target.user.encode(), target.password.encode()])
        capability = short("authentication_failure_close") + b"t\x01"
        properties = long_text(short("capabilities") + b"F" + long_text(capability))
        self._method(0, START_OK, properties + short("PLAIN") + long_text(login) + short("en_US"))
        self._wait_for(TUNE)
        self._method(0, TUNE_OK, struct.pack(">HIH", 1, FRAME_MAX, 0))
        self._method(0, OPEN, short(remote.vhost) + short("") + b"\0")
        self._wait_for(OPEN_OK)
        self._method(1, CHANNEL_OPEN, short(""))
        self._wait_for(CHANNEL_OPEN_OK)

    def prepare(self, queue: str) -> None:
        """Ask for confirms of what will be published to a queue."""
        self._publish = frame(METHOD, 1, _CODE.pack(*PUBLISH) + b"\0\0" + short("") + short(queue) + b"\0")
        self._method(1, CONFIRM, b"\0")
        self._wait_for(CONFIRM_OK)

    def consume(self, queue: str, prefetch: int) -> None:
        """Attach a consumer that acknowledges."""
        self._method(1, QOS, struct.pack(">IHB", 0, prefetch, 0))
        self._wait_for(QOS_OK)
        self._method(1, CONSUME, b"\0\0" + short(queue) + short("bench") + b"\0" + long_text(b""))
        self._wait_for(CONSUME_OK)

    def room(self, most: int) -> int:
        """Return how many messages may be sent now, with at most ``most`` unconfirmed."""
        return most - (self._sent - self.confirmed)

    def publish(self, bodies: list[bytes], *, persistent: bool) -> None:
        """Publish to the queue without waiting; bodies fit into one frame."""
        properties = PERSISTENT if persistent else NO_PROPERTIES
        parts: list[bytes] = []
        for body in bodies:
            parts += [self._publish, frame(CONTENT_HEADER, 1, struct.pack(">HHQ", 60, 0, len(body)) + properties)]
            parts.append(frame(BODY, 1, body))
        self._sent += len(bodies)
        self._socket.sendall(b"".join(parts))

    def acknowledge(self, tag: int) -> None:
        """Acknowledge all deliveries up to this one."""
        self._method(1, ACK, _LONG_LONG.pack(tag) + b"\x01")

    def read(self, seconds: float) -> list[tuple[int, bytes]]:
        """Read once, count confirms, and return deliveries, each its tag and its body; empty after ``seconds``."""
        found = self._take()  # deliveries in one read with the answer to the last method
        if found:
            return found
        self._socket.settimeout(seconds)
        try:
            self._input += receive(self._socket, READ_BYTES)
        except TimeoutError:
            return []
        finally:
            self._socket.settimeout(None)
        return self._take()

    def _take(self) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        for kind, payload in self._frames():
            if kind == BODY:
                found.append((self._tag, payload))
            elif kind == METHOD:
                self._note(payload)
        return found

    def close(self) -> None:
        """Close in order."""
        self._method(0, CLOSE, struct.pack(">H", 200) + short("") + b"\0\0\0\0")
        self._wait_for(CLOSE_OK)
        self._socket.close()

    def _note(self, payload: bytes) -> None:
        code = _CODE.unpack_from(payload)
        if code == DELIVER:
            self._tag = _LONG_LONG.unpack_from(payload, 5 + payload[4])[0]
        elif code == ACK:
            tag = _LONG_LONG.unpack_from(payload, 4)[0]
            self.confirmed = max(self.confirmed, tag) if payload[12] & 1 else self.confirmed + 1
        elif code == NACK:
            raise Failure(EXIT_REFUSED_BY_BROKER, "a publish was refused: the queue is full, or the disk")
        elif code == CANCEL:
            raise Failure(EXIT_REFUSED_BY_BROKER, "the consumer was cancelled: its queue is gone")
        elif code in {CLOSE, CHANNEL_CLOSE}:
            number = struct.unpack_from(">H", payload, 4)[0]
            text = payload[7 : 7 + payload[6]].decode(errors="replace")
            raise Failure(EXIT_NOT_ALLOWED if number in REFUSED_CODES else EXIT_REFUSED_BY_BROKER, text)

    def _method(self, channel: int, code: tuple[int, int], arguments: bytes) -> None:
        self._socket.sendall(frame(METHOD, channel, _CODE.pack(*code) + arguments))

    def _wait_for(self, wanted: tuple[int, int]) -> None:
        """Read until a method comes; frames before it are passed over, frames after it stay."""
        while True:
            for kind, payload in self._frames(until=wanted):
                if kind == METHOD and _CODE.unpack_from(payload) == wanted:
                    return
                if kind == METHOD:
                    self._note(payload)
            try:
                octets = self._socket.recv(READ_BYTES)
            except OSError as error:
                raise Failure(EXIT_UNREACHABLE, f"the connection ended: {error}") from error
            if not octets:
                raise Failure(EXIT_UNREACHABLE, "the broker closed the connection")
            self._input += octets

    def _frames(self, until: tuple[int, int] = (0, 0)) -> list[tuple[int, bytes]]:
        """Take the complete frames out of the input, up to the method ``until``."""
        found: list[tuple[int, bytes]] = []
        octets, position = bytes(self._input), 0
        while len(octets) - position >= _HEAD.size:
            kind, _, size = _HEAD.unpack_from(octets, position)
            end = position + _HEAD.size + size + 1
            if len(octets) < end:
                break
            payload = octets[position + _HEAD.size : end - 1]
            found.append((kind, payload))
            position = end
            if kind == METHOD and _CODE.unpack_from(payload) == until:
                break
        del self._input[:position]
        return found
