"""The AMQP 0-9-1 connection engine of a server: bytes in, calls of a handler out, bytes out.

No socket, no event loop, no clock: the owner passes its input to :meth:`ConnectionEngine.receive` and writes the output
that :meth:`ConnectionEngine.take_output` returns. The two most frequent sequences, basic.publish with header and one
body frame, and basic.ack, are read in place; everything else takes the general path, frame by frame.
"""
# ruff: noqa: PLR0913 - limits are keyword-only

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.connection.channels import ChannelLifecycle
from annulet.wire.amqp091.connection.handler import ConnectionHandler
from annulet.wire.amqp091.connection.methods import decode_method
from annulet.wire.amqp091.connection.output import encode_destination
from annulet.wire.amqp091.connection.states import ConnectionState
from annulet.wire.amqp091.connection.trace import describe_frame
from annulet.wire.amqp091.connection.versions import VERSIONS_BY_HEADER, may_become_header
from annulet.wire.amqp091.types.constants import (
    CLASS_CONNECTION,
    COMMAND_INVALID,
    DEFAULT_CHANNEL_MAX,
    DEFAULT_FRAME_MAX,
    DEFAULT_HEARTBEAT,
    FRAME_BODY,
    FRAME_END,
    FRAME_ERROR,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    FRAME_MIN_SIZE,
    FRAME_OVERHEAD,
    FRAME_SIZE_TOLERANCE,
    MAX_ASSEMBLING_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_UNAUTHENTICATED_BYTES,
    PROTOCOL_HEADER,
    RESOURCE_ERROR,
    UNEXPECTED_FRAME,
)
from annulet.wire.amqp091.types.errors import ConnectionFault, LocalProtocolError, RemoteProtocolError
from annulet.wire.amqp091.types.values import encode_short_string

__all__ = ["ConnectionEngine", "encode_destination", "encode_short_string"]

_PUBLISH: Final = 60 << 16 | 40
_ACK: Final = 60 << 16 | 80
_CLASS_BASIC_NO_WEIGHT: Final = 60 << 16
_ACK_FRAME_SIZE: Final = 21
_ACK_PAYLOAD_SIZE: Final = 13
HELD_OUTPUT_BYTES: Final = 2097152
"""Octets of output above which input waits until the output is taken: a basic.get of 30 octets may ask for 128 MiB."""

_CHUNKS_JOINED: Final = 256  # chunks of an incomplete frame after which they are joined: bounds objects, not octets


class ConnectionEngine(ChannelLifecycle):
    """One connection. See the module docstring; errors of the peer never raise, they close with the right code.

    Args:
        handler: serves the connection.
        server_properties: sent in connection.start; ``capabilities`` are added.
        mechanisms: SASL mechanisms offered, separated by blanks; ``engine.mechanisms`` changes them before the header.
        locales: message locales offered, separated by blanks.
        channel_max: most channels, 1 to 65535.
        frame_max: largest frame in bytes, 4096 or more.
        heartbeat: proposed interval in seconds, 0 to 65535; 0 proposes none.
        max_message_size: largest body in bytes; larger ones close the channel with 406.
        max_assembling_bytes: announced bodies in arrival on all channels together; beyond it 506 closes the connection.
        max_unauthenticated_bytes: limit of a peer's input before it is authenticated.

    While ``holding``, input waits because too much output has not been taken: call :meth:`go_on` after ``take_output``.

    ``engine.look`` may be set to a function that returns how many frames may be served before its next call. When it
    returns 0, or when the owner calls :meth:`rest` or sets ``engine.resting`` between reads, input waits until the
    owner clears ``resting`` and calls :meth:`go_on`.

    ``engine.trace`` may be set to a function that takes each frame as a line (``<-`` from the peer, ``->`` to it); all
    frames then take the general path.

    Raises:
        LocalProtocolError: a limit is out of range.
    """

    def __init__(
        self,
        handler: ConnectionHandler,
        *,
        server_properties: dict[str, PropertyValue],
        mechanisms: str = "PLAIN AMQPLAIN",
        locales: str = "en_US",
        channel_max: int = DEFAULT_CHANNEL_MAX,
        frame_max: int = DEFAULT_FRAME_MAX,
        heartbeat: int = DEFAULT_HEARTBEAT,
        max_message_size: int = MAX_MESSAGE_BYTES,
        max_assembling_bytes: int = MAX_ASSEMBLING_BYTES,
        max_unauthenticated_bytes: int = MAX_UNAUTHENTICATED_BYTES,
    ) -> None:
        _check_limit("channel_max", channel_max, 1, 0xFFFF)
        _check_limit("frame_max", frame_max, FRAME_MIN_SIZE, 0x7FFFFFFF)
        _check_limit("heartbeat", heartbeat, 0, 0xFFFF)
        super().__init__(handler, server_properties, mechanisms, locales, (channel_max, frame_max, heartbeat))
        self.max_message_size = max_message_size
        self.max_assembling_bytes = max_assembling_bytes
        self.received_since_check = False  # set by every receive; the owner clears it when it checks for silence
        self.max_unauthenticated_bytes = max_unauthenticated_bytes
        self._unauthenticated_bytes = 0
        self.holding = False  # input waits for output to be taken
        self.look: Callable[[], int] | None = None
        self.resting = False
        self._steps = 1  # frames to be served before ``look`` is called again
        self._serving = False  # within _serve
        self._chunks: list[bytes] = []  # input that does not make a whole frame yet
        self._pending = 0  # bytes in it
        self._needed = len(PROTOCOL_HEADER)  # bytes needed to continue

    # ---- input

    def receive(self, data: bytes) -> None:
        """Take input from the socket and serve all complete frames.

        Raises:
            Exception: other exceptions of the handler than protocol errors, after closing with 541.
        """
        if self.closed or not data:
            return
        self.received_since_check = True
        if not self.authenticated:
            self._unauthenticated_bytes += len(data)
            if self.state is ConnectionState.CHECKING:
                self._hold(data)
                return
        if self.holding or self.resting:
            self._hold(data)
            self.go_on()
            return
        if self._chunks:
            self._chunks.append(data)
            self._pending += len(data)
            if self._pending < self._needed and self.state is not ConnectionState.AWAITING_HEADER:
                if len(self._chunks) >= _CHUNKS_JOINED:
                    self._chunks = [b"".join(self._chunks)]
                self._check_unauthenticated()
                return
            data = b"".join(self._chunks)
            self._chunks = []
        self._serve(data)

    def go_on(self) -> None:
        """Serve the input that waited for output to be taken, or rested; nothing while it has to wait.

        Raises:
            Exception: as :meth:`receive`.
        """
        if not self.holding or self.output_size < HELD_OUTPUT_BYTES:
            self.holding = False
            self._go_on()

    def _serve(self, data: bytes) -> None:
        """Serve all complete frames and keep the rest."""
        self._serving = True
        try:
            position = self._parse(data)
        except Exception as error:
            self._end_after_defect(error)
            raise
        finally:
            self._serving = False
        if self._is_closed():
            self._drop_input()
            return
        if position < len(data):
            self._chunks = [data[position:]]
        self._pending = len(data) - position
        self._check_unauthenticated()

    def _go_on(self) -> None:
        # When answered within the call, the rest is served after it anyway.
        if self._chunks and not self._serving and not self.resting:
            data = b"".join(self._chunks)
            self._chunks = []
            self._serve(data)

    def _hold(self, data: bytes) -> None:
        """Keep input while a response is checked, or output waits."""
        self._chunks.append(data)
        self._pending += len(data)
        if len(self._chunks) >= _CHUNKS_JOINED:
            self._chunks = [b"".join(self._chunks)]
        self._check_unauthenticated()

    @property
    def unfinished_bytes(self) -> int:
        """Octets of incomplete messages and frames."""
        return self._assembling_bytes + self._pending

    def _drop_input(self) -> None:
        self._chunks = []
        self._pending = 0

    def _is_closed(self) -> bool:
        return self.closed  # asked through a call because serving a frame changes it

    def _check_unauthenticated(self) -> None:
        if self.authenticated or self._is_closed():
            return
        if self._unauthenticated_bytes > self.max_unauthenticated_bytes:
            self._count_hit("max_unauthenticated_bytes")
            self.close_connection(
                RESOURCE_ERROR, f"more than {self.max_unauthenticated_bytes} octets before authentication; log in first"
            )

    def _parse(self, data: bytes) -> int:
        position = 0
        if self.state is ConnectionState.AWAITING_HEADER:
            position = self._receive_protocol_header(data)
            if position == 0:
                return 0
        end = len(data)
        self._steps = 1
        while self._serves:
            if self._steps <= 0 and position < end and self._must_rest():
                break
            if self.running and end - position >= _ACK_FRAME_SIZE and self.trace is None:
                if data[position + 10] == 40:
                    position = self._receive_publishes(data, position)
                elif data[position + 10] == 80:
                    position = self._receive_acknowledgements(data, position)
                if self._steps <= 0:
                    continue
            following = self._receive_frame(data, position, end)
            if following == position:
                break
            position = following
            self._steps -= 4  # frames that are not read in place take longer, a declaration a hundred times as long
            if self.output_size >= HELD_OUTPUT_BYTES:
                self.holding = True
                self._count_hit("held_output_bytes")
                break
        return position

    def look_soon(self) -> None:
        """Ask the owner before the next frame whether there is time: the one being served takes longer than most."""
        self._steps = 0

    def rest(self) -> None:
        """Serve no more input from the next frame on, until the owner clears ``resting`` and calls :meth:`go_on`."""
        self.resting = True
        self._steps = 0

    def _must_rest(self) -> bool:
        """Return whether input has to wait; ask the owner how many frames it allows now."""
        if not self.resting:
            self._steps = 1 if self.look is None else self.look()
            self.resting = self._steps <= 0
        return self.resting

    def _receive_protocol_header(self, data: bytes) -> int:
        received = data[: len(PROTOCOL_HEADER)]
        version = VERSIONS_BY_HEADER.get(received)
        if version is None:
            if may_become_header(received):
                return 0
            self._trace_header(received)
            self._append(PROTOCOL_HEADER)  # §2.2.4: the header of the newest version served, then close
            self._enter(ConnectionState.CLOSED)
            self._end(0, f"not a protocol header of AMQP 0-9-1, 0-9 or 0-8: {received!r}", by_peer=False)
            return 0
        self._trace_header(received)
        self.version = version
        self._start()
        return len(PROTOCOL_HEADER)

    def _trace_header(self, received: bytes) -> None:
        if self.trace is not None:
            self.trace(f"<- protocol header {received!r}")

    # ---- hot paths; both return where the general path has to go on

    def _receive_publishes(self, data: bytes, start: int) -> int:
        """Serve basic.publish with header and exactly one body frame while complete ones with known routes follow."""
        end: i64 = len(data)  # annotations convert when compiled; calling i64() would be slow when not
        limit: i64 = self.frame_limit
        most: i64 = self.max_message_size
        position: i64 = start
        channels = self.channels
        routes = self._routes
        handler = self.handler
        while position + 40 <= end and self.running and self._steps > 0:
            head = read_i64_be(data, position)  # type, channel, payload size and the octet behind
            content = position + ((head >> 8) & 0xFFFFFFFF) + 8  # header frame
            if (
                head >> 56 != 1
                or content < position + 17  # the shortest publish; a slice of negative length is an error when compiled
                or content + 31 > end
                or read_i32_be(data, position + 7) != _PUBLISH
            ):
                break
            route = routes.get(data[position + 11 : content - 1])
            number: int = (head >> 40) & 0xFFFF
            channel = channels.get(number)
            if route is None or channel is None or not channel.ready or data[content - 1] != FRAME_END:
                break
            header_head = read_i64_be(data, content)
            header_size = (header_head >> 8) & 0xFFFFFFFF
            body = content + header_size + 8  # body frame
            if (
                header_head >> 40 != (head >> 40) + 0x10000
                or header_size < 14
                or header_size > limit
                or body + 8 > end
                or data[body - 1] != FRAME_END
                or read_i32_be(data, content + 7) != _CLASS_BASIC_NO_WEIGHT
            ):
                break
            body_head = read_i64_be(data, body)
            size = (body_head >> 8) & 0xFFFFFFFF
            following = body + size + 8
            if (
                body_head >> 40 != (head >> 40) + 0x20000
                or read_i64_be(data, content + 11) != size
                or size == 0
                or size + FRAME_OVERHEAD > limit
                or size > most
                or following > end
                or data[following - 1] != FRAME_END
            ):
                break
            header = data[content + 19 : body - 1]
            octets = data[body + 7 : following - 1]
            position = following
            self._steps -= 1
            try:
                handler.publish(
                    number, route.exchange, route.routing_key, route.mandatory, route.immediate, header, octets
                )
            except RemoteProtocolError as error:
                self._blame(number, _PUBLISH, error)
        return position

    def _receive_acknowledgements(self, data: bytes, start: int) -> int:
        """Serve basic.ack frames while complete ones follow."""
        end: i64 = len(data)
        position: i64 = start
        channels = self.channels
        handler = self.handler
        while position + _ACK_FRAME_SIZE <= end and self.running and self._steps > 0:
            head = read_i64_be(data, position)
            tag = read_i64_be(data, position + 11)
            if (
                head >> 56 != 1
                or (head >> 8) & 0xFFFFFFFF != _ACK_PAYLOAD_SIZE
                or read_i32_be(data, position + 7) != _ACK
                or data[position + 20] != FRAME_END
                or tag < 0
            ):
                break
            number: int = (head >> 40) & 0xFFFF
            channel = channels.get(number)
            if channel is None or not channel.ready:
                break
            multiple = data[position + 19] & 1 != 0
            position += _ACK_FRAME_SIZE
            self._steps -= 1
            try:
                handler.acknowledge(number, tag, multiple)
            except RemoteProtocolError as error:
                self._blame(number, _ACK, error)
        return position

    # ---- the general path

    def _receive_frame(self, data: bytes, position: int, end: int) -> int:
        """Serve one frame; returns ``position`` again when it is not complete."""
        if end - position < FRAME_OVERHEAD:
            self._needed = FRAME_OVERHEAD
            return position
        kind = data[position]
        at: i64 = position
        head: int = read_i64_be(data, at)
        number = (head >> 40) & 0xFFFF
        size = (head >> 8) & 0xFFFFFFFF
        following = position + size + FRAME_OVERHEAD
        fault = self._frame_fault(kind, number, size)
        if fault is None and following > end:
            self._needed = size + FRAME_OVERHEAD
            return position
        if fault is None and data[following - 1] != FRAME_END:
            fault = f"frame on channel {number} ends with octet {data[following - 1]}, not with 206"
        if fault is not None:
            self.close_connection(FRAME_ERROR, fault)
            self._enter(ConnectionState.CLOSED)  # frame boundaries are lost: a close-ok could not be found
            return following
        self._identifier = 0
        if self.trace is not None:
            payload = data[position + 7 : following - 1]
            self.trace(f"<- {describe_frame(kind, number, payload, 'C', self.version.methods)}")
        try:
            self._serve_frame(kind, number, data[position + 7 : following - 1])
        except RemoteProtocolError as error:
            self._blame(number, self._identifier, error)
        return following

    def _frame_fault(self, kind: int, number: int, size: int) -> str | None:
        if kind not in {FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT}:
            return f"unknown frame type {kind} on channel {number}; send 1, 2, 3 or 8"
        if size + FRAME_OVERHEAD > self.frame_limit + FRAME_SIZE_TOLERANCE:
            self._count_hit("frame_max")
            return f"frame of {size + FRAME_OVERHEAD} octets on channel {number}, frame_max is {self.frame_limit}"
        return None

    def _serve_frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind == FRAME_METHOD:
            self._identifier = int.from_bytes(payload[:4], "big")
        if self.state is ConnectionState.CLOSING and (number != 0 or kind != FRAME_METHOD):
            return
        if number == 0:
            self._serve_channel_zero(kind, payload)
        elif not self.running or kind == FRAME_HEARTBEAT:
            what = "heartbeat" if kind == FRAME_HEARTBEAT else "frame before the connection is open"
            raise ConnectionFault(UNEXPECTED_FRAME, f"{what} on channel {number}; only channel 0 may carry it")
        elif kind == FRAME_METHOD:
            self._receive_method(number, payload, self._identifier)
        elif kind == FRAME_HEADER:
            self._receive_header(number, payload)
        else:
            self._receive_body(number, payload)

    def _serve_channel_zero(self, kind: int, payload: bytes) -> None:
        if kind == FRAME_HEARTBEAT:
            if payload:
                raise ConnectionFault(FRAME_ERROR, f"heartbeat frame with {len(payload)} octets of payload; send none")
            return
        if kind != FRAME_METHOD:
            raise ConnectionFault(UNEXPECTED_FRAME, "content frame on channel 0; open a channel for it")
        if self.running and self._identifier >> 16 != CLASS_CONNECTION:
            name = decode_method(payload, "C", self.version.methods).specification.name
            raise ConnectionFault(COMMAND_INVALID, f"{name} on channel 0; open a channel for it")
        self._receive_connection_method(payload, self._identifier)


def _check_limit(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise LocalProtocolError(f"{name} is {value}; give a number from {least} to {most}")
