"""A small blocking AMQP 0-9-1 client: publishes prepared frames in windows, and parses deliveries in place.

A client library takes ten times as long for each message and would be what is measured.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from pamqp import body, commands, frame, header
from pamqp.base import Frame

from benchmarks.brokers import PROTOCOL_HEADER

BODY_BYTES: Final = 1024
DIGITS: Final = 12
"""Bodies begin with their number in so many digits."""

READ_BYTES: Final = 1 << 20
SILENCE_SECONDS_MAX: Final = 60.0
"""A broker that says nothing for so long while something is expected does not answer any more."""

CHANNELS_MAX: Final = 100
CLIENT_PROPERTIES: Final[dict[str, Any]] = {
    "capabilities": {"consumer_cancel_notify": True, "authentication_failure_close": True}
}
BATCH: Final = 250
UNCONFIRMED_MAX: Final = 5000
METHOD, HEADER, BODY = 1, 2, 3
DELIVER, ACKED, REFUSED, CANCELLED = (60, 60), (60, 80), (60, 120), (60, 30)
CHANNEL_CLOSE, CONNECTION_CLOSE = (20, 40), (10, 50)
_FRAME: Final = struct.Struct(">BHI")
_CODE: Final = struct.Struct(">HH")
_LONG: Final = struct.Struct(">Q")


class ClientError(RuntimeError):
    """The broker closed, refused, or fell silent."""


class Delivery(NamedTuple):
    """A message, or with an empty body the cancelling of the consumer by the broker."""

    tag: int
    redelivered: bool
    body: bytes

    @property
    def number(self) -> int:
        """What the body begins with."""
        return int(self.body[:DIGITS])

    @property
    def sequence(self) -> int:
        """The number that the load generator gave it."""
        return int.from_bytes(self.body[12:16], sys.byteorder)


class Client:
    """One connection with one channel."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), SILENCE_SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = bytearray()
        self._confirming = False
        self.published = 0
        self.confirmed = 0
        self._socket.sendall(PROTOCOL_HEADER)
        self._wait_for(commands.Connection.Start)
        self.send(commands.Connection.StartOk(dict(CLIENT_PROPERTIES), "PLAIN", "\0guest\0guest", "en_US"), 0)
        self._wait_for(commands.Connection.Tune)
        self.send(commands.Connection.TuneOk(CHANNELS_MAX, 131_072, 0), 0)
        self.send(commands.Connection.Open("/"), 0)
        self._wait_for(commands.Connection.OpenOk)
        self.ask(commands.Channel.Open(), commands.Channel.OpenOk)

    # ------------------------------------------------------------------ methods

    def send(self, method: Frame, channel: int = 1) -> None:
        """Send a method."""
        self._socket.sendall(frame.marshal(method, channel))

    def ask(self, method: Frame, answer: type[Frame], channel: int = 1) -> Any:
        """Send a method and return its answer; nothing else may be on its way. Raises ClientError."""
        self.send(method, channel)
        return self._wait_for(answer)

    def declare(self, queue: str, **arguments: Any) -> int:
        """Declare a durable queue and return how many messages are ready."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        answer = self.ask(commands.Queue.Declare(queue=queue, durable=True, arguments=named), commands.Queue.DeclareOk)
        return int(answer.message_count)

    def delete(self, queue: str) -> None:
        """Delete a queue with all that is in it."""
        self.ask(commands.Queue.Delete(queue=queue), commands.Queue.DeleteOk)

    def ready(self, queue: str) -> int:
        """Return how many messages of a queue are ready. It costs the broker next to nothing, unlike its metrics."""
        answer = self.ask(commands.Queue.Declare(queue=queue, passive=True), commands.Queue.DeclareOk)
        return int(answer.message_count)

    def consume(
        self,
        queue: str,
        prefetch: int,
        *,
        prefetch_bytes: int = 0,
        no_ack: bool = False,
        **arguments: Any,
    ) -> None:
        """Attach a consumer without waiting for the answer. 0 is no limit."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        window = commands.Basic.Qos(prefetch_count=prefetch, prefetch_size=prefetch_bytes)
        self.send(window)  # its answer is passed over
        self.send(commands.Basic.Consume(queue=queue, consumer_tag="c", no_ack=no_ack, arguments=named))

    def acknowledge(self, tag: int, *, multiple: bool = False) -> None:
        """Acknowledge one delivery, or all up to it."""
        self.send(commands.Basic.Ack(tag, multiple=multiple))

    def acknowledge_each(self, tags: list[int]) -> None:
        """Acknowledge deliveries that are not all that came before them."""
        self._socket.sendall(b"".join([frame.marshal(commands.Basic.Ack(tag), 1) for tag in tags]))

    def close(self) -> None:
        """Cut the connection; what is not settled comes back to its queue.

        The broker may not see what was sent last, where deliveries are still on their way: see :meth:`leave`.
        """
        self._socket.close()

    def leave(self) -> None:
        """Close the connection in order: all that was sent before is done; deliveries on their way are passed over.

        A socket that is closed with input unread is reset, and the broker loses what it has not read.
        """
        self.ask(commands.Connection.Close(200, "", 0, 0), commands.Connection.CloseOk, 0)
        self._socket.close()

    def abort(self) -> None:
        """Cut it with a reset, as a process that was killed does with unread input."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    # ------------------------------------------------------------------ publishing

    def publish(self, queue: str, numbers: range, header_of: Callable[[int], bytes], size: int = BODY_BYTES) -> None:
        """Publish numbered messages; return when all are confirmed. Raises ClientError."""
        self.want_confirms()
        for start in range(numbers.start, numbers.stop, BATCH):
            self.publish_some(queue, range(start, min(start + BATCH, numbers.stop)), header_of, size)
            while self.published - self.confirmed > UNCONFIRMED_MAX:
                self._read_confirms()
        while self.published > self.confirmed:
            self._read_confirms()

    def want_confirms(self) -> None:
        """Ask for confirms, before anything is consumed: what comes before the answer is passed over."""
        if not self._confirming:
            self.ask(commands.Confirm.Select(), commands.Confirm.SelectOk)
            self._confirming = True

    def publish_some(
        self, queue: str, numbers: range, header_of: Callable[[int], bytes], size: int = BODY_BYTES
    ) -> None:
        """Publish numbered messages without waiting; :meth:`deliveries` counts the confirms it comes upon."""
        method = frame.marshal(commands.Basic.Publish(0, "", queue), 1)
        self._socket.sendall(b"".join([method + header_of(number) + numbered(number, size) for number in numbers]))
        self.published += len(numbers)

    def _read_confirms(self) -> None:
        self._read()
        for kind, _, payload in self._frames():
            self._note_confirm(kind, payload)

    def _note_confirm(self, kind: int, payload: bytes) -> None:
        if kind != METHOD:
            return
        code = _CODE.unpack_from(payload)
        if code == ACKED:
            tag = _LONG.unpack_from(payload, 4)[0]
            self.confirmed = tag if payload[12] & 1 else self.confirmed + 1
        elif code == REFUSED:
            raise ClientError("a publish was refused")
        else:
            self._fail_on_close(kind, payload)

    # ------------------------------------------------------------------ deliveries

    def deliveries(self, seconds: float = SILENCE_SECONDS_MAX) -> Iterator[list[Delivery]]:
        """Yield what comes with each read; ends after ``seconds`` of silence. Raises ClientError on a close."""
        tag = left = 0
        redelivered = False
        parts: list[bytes] = []
        self._socket.settimeout(seconds)
        while True:
            found: list[Delivery] = []
            for kind, _, payload in self._frames():
                if kind == BODY:
                    parts.append(payload)
                    left -= len(payload)
                    if left <= 0:
                        found.append(Delivery(tag, redelivered, b"".join(parts)))
                elif kind == HEADER:
                    left = _LONG.unpack_from(payload, 4)[0]
                    parts = []
                elif kind == METHOD and (code := _CODE.unpack_from(payload)) in (DELIVER, CANCELLED):
                    if code == CANCELLED:
                        found.append(Delivery(0, False, b""))
                        continue
                    place = 5 + payload[4]
                    tag = _LONG.unpack_from(payload, place)[0]
                    redelivered = bool(payload[place + 8])
                else:
                    self._note_confirm(kind, payload)
            if found:
                yield found
            try:
                self._read()
            except TimeoutError:
                return

    def hold(self, queue: str, count: int, prefetch: int, prefetch_bytes: int = 0) -> None:
        """Attach a consumer whose window is for so many messages, and wait until it has them. Raises ClientError."""
        self.consume(queue, prefetch, prefetch_bytes=prefetch_bytes)
        held = 0
        for found in self.deliveries():
            held += len(found)
            if held == count:
                return
        raise ClientError(f"only {held} of {count} messages of {queue} came")

    # ------------------------------------------------------------------ frames

    def _read(self) -> None:
        data = self._socket.recv(READ_BYTES)
        if not data:
            raise ClientError("the broker cut the connection")
        self._input += data

    def _frames(self) -> list[tuple[int, int, bytes]]:
        """Take the whole frames out of the input: type, channel, payload."""
        data, offset, found = self._input, 0, []
        while len(data) - offset >= 8:
            kind, channel, size = _FRAME.unpack_from(data, offset)
            end = offset + 8 + size
            if end > len(data):
                break
            found.append((kind, channel, bytes(data[offset + 7 : end - 1])))
            offset = end
        del data[:offset]
        return found

    def _wait_for(self, answer: type[Frame]) -> Any:
        """Return the next method, which must be ``answer``; other frames stay out of the way of callers."""
        while True:
            for kind, channel, payload in self._frames():
                if kind == METHOD:
                    whole = _FRAME.pack(kind, channel, len(payload)) + payload + b"\xce"
                    _, _, method = frame.unmarshal(whole)
                    if isinstance(method, answer):
                        return method
                    self._fail_on_close(kind, payload)
            try:
                self._read()
            except TimeoutError as error:
                raise ClientError(f"no {answer.__name__} in {SILENCE_SECONDS_MAX:.0f} s") from error

    def _fail_on_close(self, kind: int, payload: bytes) -> None:
        if kind == METHOD and _CODE.unpack_from(payload) in (CHANNEL_CLOSE, CONNECTION_CLOSE):
            length = payload[6]
            raise ClientError(payload[7 : 7 + length].decode())


def numbered(number: int, size: int = BODY_BYTES) -> bytes:
    """Return the body frames of a numbered message."""
    if size <= 128_000:
        content = (b"%0*d" % (DIGITS, number)).ljust(size, b".")
        return _FRAME.pack(BODY, 1, size) + content + b"\xce"
    content = (b"%0*d" % (DIGITS, number)).ljust(size, b".")
    return b"".join([frame.marshal(body.ContentBody(content[at : at + 128_000]), 1) for at in range(0, size, 128_000)])


def content_header(size: int = BODY_BYTES, **properties: Any) -> bytes:
    """Return the header frame of a persistent message, unless ``delivery_mode`` says otherwise."""
    return frame.marshal(
        header.ContentHeader(0, size, commands.Basic.Properties(**{"delivery_mode": 2, **properties})), 1
    )


PLAIN: Final = content_header()


def plain(number: int) -> bytes:
    """Return the header of a persistent message with nothing special."""
    del number
    return PLAIN


def first_delivery(port: int, queue: str) -> float:
    """Return the seconds from subscribing, on a connection that is open, to the first message."""
    client = Client(port)
    try:
        began = time.monotonic()
        client.consume(queue, 1)
        for _ in client.deliveries():
            return time.monotonic() - began
    finally:
        client.close()
    raise ClientError("no message came")
