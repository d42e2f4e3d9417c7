"""The output of a connection: frames into a list of buffers, deliveries as cheap as they get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.connection.methods import encode_method
from annulet.wire.amqp091.connection.states import ChannelState, ContentState
from annulet.wire.amqp091.connection.trace import describe_output
from annulet.wire.amqp091.connection.versions import AMQP_0_9_1
from annulet.wire.amqp091.types.constants import (
    DEFAULT_FRAME_MAX,
    FRAME_END_OCTET,
    FRAME_OVERHEAD,
    NO_ROUTE,
    reply_text,
)
from annulet.wire.amqp091.types.errors import LocalProtocolError
from annulet.wire.amqp091.types.values import encode_short_string
from annulet.wire.input_buffer import Octets

COPY_BODY_BYTES: Final = 256
"""Bodies up to this many bytes are copied behind their header; longer ones are queued as they are (measured)."""

FRAGMENTS_PER_PART: Final = 1024
"""Body frames joined at a time, so that a large body in tiny frames does not cost an object per octet."""

_DELIVER: Final = 60 << 16 | 60
_GET_OK: Final = 60 << 16 | 71
_RETURN: Final = 60 << 16 | 50
_CLASS_BASIC_NO_WEIGHT: Final = 60 << 16
_CHANNEL_ZERO: Final = b"\x01\x00\x00"
_HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
_ACK_HEAD: Final = b"\x00\x00\x00\x0d\x00\x3c\x00\x50"  # payload size and basic.ack
_NACK_HEAD: Final = b"\x00\x00\x00\x0d\x00\x3c\x00\x78"  # payload size and basic.nack


def encode_destination(exchange: str, routing_key: str) -> bytes:
    """Encode exchange and routing key as basic.deliver ends with them; callers keep the result.

    Raises:
        LocalProtocolError: one of them takes more than 255 octets.
    """
    return encode_short_string(exchange) + encode_short_string(routing_key)


class Route:
    """Decoded arguments of basic.publish, kept by their raw octets."""

    __slots__ = ("exchange", "immediate", "mandatory", "routing_key")

    def __init__(self, exchange: str, routing_key: str, mandatory: bool, immediate: bool) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.immediate = immediate


class Channel:
    """One channel of a connection: its state and the content arriving on it."""

    __slots__ = (
        "arrived",
        "body_prefix",
        "body_size",
        "content",
        "fragments",
        "header",
        "header_prefix",
        "method_prefix",
        "number",
        "open",
        "parts",
        "ready",
        "route",
        "state",
    )

    def __init__(self, number: int) -> None:
        octets = number.to_bytes(2, "big")
        self.number = number
        self.state = ChannelState.OPEN
        self.open = True  # state is OPEN, for the hot paths
        self.ready = True  # open, and the next frame may be a method
        self.content = ContentState.METHOD
        self.method_prefix = b"\x01" + octets
        self.header_prefix = b"\xce\x02" + octets  # with the end of the frame before
        self.body_prefix = b"\xce\x03" + octets
        self.route: Route | None = None  # of the basic.publish whose content arrives
        self.header = b""
        self.body_size = 0  # announced by the content header, in bytes
        self.arrived = 0  # of it, in bytes
        self.fragments: list[Octets] = []  # bodies of the latest frames, or parts of them
        self.parts: list[Octets] = []  # earlier fragments, joined

    def add_fragment(self, fragment: Octets) -> None:
        """Keep one more part of the body."""
        self.arrived += len(fragment)
        self.fragments.append(fragment)
        if len(self.fragments) >= FRAGMENTS_PER_PART:
            self.parts.append(b"".join(self.fragments))
            self.fragments.clear()

    def take_body(self) -> bytes:
        """Return the whole body and be ready for the next method."""
        parts = self.parts
        parts.extend(self.fragments)
        first = parts[0] if len(parts) == 1 else b""
        body = first if first and isinstance(first, bytes) else b"".join(parts)
        self.reset()
        return body

    def reset(self) -> None:
        """Discard the content that is arriving."""
        self.content = ContentState.METHOD
        self.ready = self.open
        self.parts = []
        self.fragments = []
        self.arrived = 0
        self.body_size = 0

    def shut(self) -> None:
        """Serve nothing more; the number stays taken until close-ok."""
        self.open = False
        self.state = ChannelState.CLOSING
        self.reset()


class FrameWriter:
    """Collects the output of a connection for its channels.

    Once the connection closes, and on a channel that closes, sending does nothing: the peer would discard it, and
    undelivered messages are returned when the handler's ``close_channel`` is called.
    """

    def __init__(self) -> None:
        self.size = 0  # bytes not yet taken by take_output
        self.trace: Callable[[str], None] | None = None  # called with each frame as a line
        self.error_sent: Callable[[str, str, str], None] | None = None  # called with where, code and text of each
        self.version = AMQP_0_9_1  # the version requested by the protocol header
        self.frame_max = DEFAULT_FRAME_MAX  # bytes of a frame; negotiated
        self.running = False  # the connection is open, neither negotiating nor closing
        self.channels: dict[int, Channel] = {}
        self.limit_hits: dict[str, int] = {}  # how often the peer met a limit that ended something, by its name
        self._output: list[bytes] = []

    def count_hit(self, limit: str) -> None:
        """Count that the peer met a limit that ended something."""
        self.limit_hits[limit] = self.limit_hits.get(limit, 0) + 1

    def take(self) -> list[bytes]:
        """Return the buffers to be written, in order, and forget them."""
        output = self._output
        self._output = []
        self.size = 0
        if self.trace is not None:
            for line in describe_output(output, self.version.methods):
                self.trace(f"-> {line}")
        return output

    def heartbeat(self) -> None:
        """Queue a heartbeat frame (§4.2.7)."""
        if self.running:
            self.append(_HEARTBEAT_FRAME)

    def send_method(self, channel: int, method: bytes) -> None:
        """Queue a method frame with an encoded method.

        Raises:
            LocalProtocolError: the channel was never opened.
        """
        sending = self._sending(channel)
        if sending is not None:
            self.append(b"".join((sending.method_prefix, len(method).to_bytes(4, "big"), method, FRAME_END_OCTET)))

    def send_on_zero(self, name: str, arguments: dict[str, PropertyValue]) -> None:
        """Queue a method of the connection, by its name in the version of the peer."""
        method = encode_method(name, arguments, self.version.methods)
        self.append(b"".join((_CHANNEL_ZERO, len(method).to_bytes(4, "big"), method, FRAME_END_OCTET)))

    def send_deliver(
        self,
        channel: int,
        consumer_tag: bytes,
        delivery_tag: int,
        redelivered: bool,
        destination: bytes,
        header: bytes,
        body: bytes,
    ) -> None:
        """Queue basic.deliver with its content.

        ``consumer_tag`` is an encoded short string, ``destination`` comes from :func:`encode_destination`.

        Raises:
            LocalProtocolError: the channel was never opened.
        """
        sending = self.channels.get(channel)
        if sending is None or not sending.open:
            self._sending(channel)
            return
        writer = BytesWriter()
        writer.write(sending.method_prefix)
        number: i64 = delivery_tag  # converts when compiled; calling i64() would be slow when not
        size: i64 = len(consumer_tag) + len(destination) + 13
        write_i64_be(writer, (size << 32) | _DELIVER)
        writer.write(consumer_tag)
        write_i64_be(writer, number)
        writer.append(1 if redelivered else 0)
        writer.write(destination)
        self._append_content(writer, sending, header, body)

    def send_get_ok(
        self,
        channel: int,
        delivery_tag: int,
        redelivered: bool,
        destination: bytes,
        message_count: int,
        header: bytes,
        body: bytes,
    ) -> None:
        """Queue basic.get-ok with its content; ``message_count`` is the number of messages left in the queue.

        Raises:
            LocalProtocolError: the channel was never opened.
        """
        sending = self._sending(channel)
        if sending is None:
            return
        writer = BytesWriter()
        writer.write(sending.method_prefix)
        number: i64 = delivery_tag
        size: i64 = len(destination) + 17
        write_i64_be(writer, (size << 32) | _GET_OK)
        write_i64_be(writer, number)
        writer.append(1 if redelivered else 0)
        writer.write(destination)
        writer.write(min(message_count, 0xFFFFFFFF).to_bytes(4, "big"))
        self._append_content(writer, sending, header, body)

    def send_return(
        self, channel: int, code: int, text: str, exchange: str, routing_key: str, header: bytes, body: bytes
    ) -> None:
        """Queue basic.return with its content, for a mandatory message without a queue.

        Raises:
            LocalProtocolError: the channel was never opened, or a string takes more than 255 octets.
        """
        sending = self._sending(channel)
        if sending is None:
            return
        reason = text if code == NO_ROUTE else reply_text(code, text)  # RabbitMQ: "NO_ROUTE" without more
        arguments = code.to_bytes(2, "big") + encode_short_string(reason) + encode_destination(exchange, routing_key)
        writer = BytesWriter()
        writer.write(sending.method_prefix)
        size: i64 = len(arguments) + 4
        write_i64_be(writer, (size << 32) | _RETURN)
        writer.write(arguments)
        self._append_content(writer, sending, header, body)

    def send_confirm(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        """Queue basic.ack for publishes (publisher confirms).

        Raises:
            LocalProtocolError: the channel was never opened.
        """
        self._send_settlement(channel, _ACK_HEAD, delivery_tag, multiple)

    def send_refusal(self, channel: int, delivery_tag: int, multiple: bool) -> None:
        """Queue basic.nack for publishes the broker could not take.

        Raises:
            LocalProtocolError: the channel was never opened.
        """
        self._send_settlement(channel, _NACK_HEAD, delivery_tag, multiple)

    def _send_settlement(self, channel: int, head: bytes, delivery_tag: int, multiple: bool) -> None:
        sending = self._sending(channel)
        if sending is None:
            return
        writer = BytesWriter()
        writer.write(sending.method_prefix)
        writer.write(head)
        number: i64 = delivery_tag
        write_i64_be(writer, number)
        writer.append(1 if multiple else 0)
        writer.append(0xCE)
        self.append(writer.getvalue())

    def _append_content(self, writer: BytesWriter, sending: Channel, header: bytes, body: bytes) -> None:
        """Finish a method frame and add header and body frames (§4.2.6)."""
        size: i64 = len(body)
        header_size: i64 = len(header) + 12
        writer.write(sending.header_prefix)
        write_i64_be(writer, (header_size << 32) | _CLASS_BASIC_NO_WEIGHT)
        write_i64_be(writer, size)
        writer.write(header)
        if size == 0:
            writer.append(0xCE)
            self.append(writer.getvalue())
            return
        if size > self.frame_max - FRAME_OVERHEAD:
            writer.append(0xCE)
            self.append(writer.getvalue())
            self._append_split_body(sending, body)
            return
        writer.write(sending.body_prefix)
        room: i32 = len(body)
        write_i32_be(writer, room)
        if size <= COPY_BODY_BYTES:
            writer.write(body)
            writer.append(0xCE)
            self.append(writer.getvalue())
            return
        head = writer.getvalue()
        output = self._output
        output.append(head)
        output.append(body)
        output.append(FRAME_END_OCTET)
        self.size += len(head) + len(body) + 1

    def _append_split_body(self, sending: Channel, body: bytes) -> None:
        prefix = sending.body_prefix[1:]
        room = self.frame_max - FRAME_OVERHEAD
        for start in range(0, len(body), room):
            fragment = body[start : start + room]
            self.append(prefix + len(fragment).to_bytes(4, "big"))
            self.append(fragment)
            self.append(FRAME_END_OCTET)

    def append(self, buffer: bytes) -> None:
        """Queue octets of whole frames."""
        self._output.append(buffer)
        self.size += len(buffer)

    def _sending(self, channel: int) -> Channel | None:
        """Return an open channel; ``None`` if output for it has to be dropped."""
        sending = self.channels.get(channel)
        if sending is None:
            if not self.running:
                return None
            raise LocalProtocolError(f"channel {channel} is not open; send on one the peer has opened")
        return sending if sending.open else None
