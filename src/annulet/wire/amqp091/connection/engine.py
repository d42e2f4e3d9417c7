"""The AMQP 0-9-1 connection engine of a server: bytes in, calls of a handler out, bytes out.

No socket, no event loop, no clock: the owner passes its input to :meth:`ConnectionEngine.receive` and writes the output
that :meth:`ConnectionEngine.take_output` returns. The engine holds its parts: ``output`` writes frames and messages,
``replies`` and ``notices`` methods, and ``channel_table`` serves the channels. The two most frequent sequences,
basic.publish with header and one body frame, and basic.ack, are read in place; everything else takes the general path.
"""
# ruff: noqa: PLR0913 - limits are keyword-only

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.connection.body_frame import BodyFrame
from annulet.wire.amqp091.connection.channels import ChannelTable
from annulet.wire.amqp091.connection.frame_faults import check_channel_zero, end_fault, has_answer, head_fault
from annulet.wire.amqp091.connection.handler import PENDING, ConnectionHandler
from annulet.wire.amqp091.connection.methods import Method, decode_method
from annulet.wire.amqp091.connection.negotiation import check_limits, negotiated, send_start, send_tune
from annulet.wire.amqp091.connection.notices import Notices
from annulet.wire.amqp091.connection.output import FrameWriter, encode_destination
from annulet.wire.amqp091.connection.replies import Replies
from annulet.wire.amqp091.connection.states import CONNECTION_TRANSITIONS, ConnectionState
from annulet.wire.amqp091.connection.trace import describe_frame
from annulet.wire.amqp091.connection.versions import VERSIONS_BY_HEADER, may_become_header
from annulet.wire.amqp091.types.constants import (
    ACCESS_REFUSED,
    CHANNEL_ERROR,
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
    INITIAL_FRAME_MAX,
    INTERNAL_ERROR,
    MAX_ASSEMBLING_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_UNAUTHENTICATED_BYTES,
    PROTOCOL_HEADER,
    RESOURCE_ERROR,
    SUCCESS,
    UNEXPECTED_FRAME,
    reply_text,
)
from annulet.wire.amqp091.types.errors import ChannelError, ConnectionFault, RemoteProtocolError
from annulet.wire.amqp091.types.values import encode_short_string
from annulet.wire.input_buffer import InputBuffer, Octets, part_of

__all__ = ["ConnectionEngine", "encode_destination", "encode_short_string"]

_START_OK: Final = 10 << 16 | 11
_SECURE_OK: Final = 10 << 16 | 21
_TUNE_OK: Final = 10 << 16 | 31
_OPEN: Final = 10 << 16 | 40
_CLOSE: Final = 10 << 16 | 50
_CLOSE_OK: Final = 10 << 16 | 51
_UPDATE_SECRET: Final = 10 << 16 | 70
_PUBLISH: Final = 60 << 16 | 40
_ACK: Final = 60 << 16 | 80
_CLASS_BASIC_NO_WEIGHT: Final = 60 << 16
_ACK_FRAME_SIZE: Final = 21
_ACK_PAYLOAD_SIZE: Final = 13
HELD_OUTPUT_BYTES: Final = 2097152
"""Octets of output above which input waits until the output is taken: a basic.get of 30 octets may ask for 128 MiB."""


class ConnectionEngine:
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

    ``engine.output.trace`` may be set to a function that takes each frame as a line (``<-`` from the peer, ``->`` to
    it); all frames then take the general path.

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
        check_limits(channel_max, frame_max, heartbeat)
        self.handler = handler
        self.output = FrameWriter()
        self.output.frame_max = frame_max  # ours; the negotiated one after tune-ok
        self.replies = Replies(self.output)
        self.channel_table = ChannelTable(handler, self.output, channel_max, max_message_size, max_assembling_bytes)
        self.limit_hits = self.output.limit_hits
        self.state = ConnectionState.AWAITING_HEADER
        self.closed = False  # no more output follows; close the socket once the output is written
        self.heartbeat_interval = heartbeat  # seconds; ours, the client's after tune-ok
        self.client_properties: dict[str, PropertyValue] = {}
        self.notices = Notices(self.output)
        self.user = ""
        self.virtual_host = ""
        self.mechanism = ""
        self.mechanisms = mechanisms  # offered; the owner may set others until the protocol header arrives
        self.frame_limit = min(INITIAL_FRAME_MAX, frame_max)  # bytes; frame_max after tune-ok
        self.authenticated = False
        self._server_properties = server_properties
        self._locales = locales
        self._serves = True  # input is served: the connection is not closed, and no response is being checked
        self._ended = False  # the handler was notified of the end
        self.received_since_check = False  # set by every receive; the owner clears it when it checks for silence
        self.max_unauthenticated_bytes = max_unauthenticated_bytes
        self._unauthenticated_bytes = 0
        self.holding = False  # input waits for output to be taken
        self.look: Callable[[], int] | None = None
        self.resting = False
        self.unanswered: set[int] = set()  # channels whose next method with an answer waits for that to one before it
        self._steps = 1  # frames to be served before ``look`` is called again
        self._serving = False  # within _serve
        self._input = InputBuffer()
        self._needed = len(PROTOCOL_HEADER)  # bytes needed to continue
        self._body = BodyFrame()  # comes before ``_input``

    # ---- what the owner asks

    @property
    def running(self) -> bool:
        """The connection is open, neither negotiating nor closing."""
        return self.output.running

    @property
    def output_size(self) -> int:
        """Bytes not yet taken by :meth:`take_output`."""
        return self.output.size

    def take_output(self) -> list[bytes]:
        """Return the buffers to be written, in order, and forget them."""
        return self.output.take()

    # ---- calls by the owner

    def authentication_finished(self, user: str | None) -> None:
        """Give the answer that the handler owes: the user's name, or ``None`` to refuse. Input that waited is served.

        Does nothing when no answer is owed any more.

        Raises:
            Exception: other exceptions of the handler than protocol errors, after closing with 541.
        """
        self._checked(user)
        self._go_on()

    def secure(self, challenge: bytes) -> None:
        """Give the answer that the handler owes: one more challenge (§1.4.2.3). Its response goes to ``respond``.

        Does nothing when no answer is owed any more.
        """
        if self.state is ConnectionState.CHECKING:
            self.output.send_on_zero("connection.secure", {"challenge": challenge})
            self._enter(ConnectionState.SECURING)
            self._go_on()

    def close_connection(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        """Close the connection: queue close, release everything, wait for close-ok only if the peer is authenticated.

        ``class_id`` and ``method_id`` name the method to blame, 0 for none. Does nothing once closing.
        """
        if self.state in {ConnectionState.CLOSING, ConnectionState.CLOSED}:
            return
        if self.state is not ConnectionState.AWAITING_HEADER:
            self.output.send_on_zero(
                "connection.close",
                {
                    "reply_code": code,
                    "reply_text": reply_text(code, text),
                    "class_id": class_id,
                    "method_id": method_id,
                },
            )
        # a socket closed before the answer is read resets the connection, and the client may never see the reason
        self._enter(ConnectionState.CLOSING if self.authenticated else ConnectionState.CLOSED)
        self._end(code, text, by_peer=False)

    def connection_lost(self, text: str = "the connection was lost") -> None:
        """Tell the engine that the socket is closed; no effect if everything was closed before.

        Afterwards the engine references neither input nor its handler, so that both are freed without a garbage
        collection.
        """
        try:
            self._enter(ConnectionState.CLOSED)
            self._end(0, text, by_peer=True)
        finally:
            self._input.drop()
            self._body.drop()
            self.handler = self.channel_table.handler = ConnectionHandler()
            self.output.trace = None

    # ---- transitions

    def _enter(self, state: ConnectionState) -> None:
        self.state = state
        self.output.running = state is ConnectionState.OPEN
        self._serves = state is not ConnectionState.CHECKING and state is not ConnectionState.CLOSED
        if state is ConnectionState.CLOSED:
            self.closed = True

    def _end(self, code: int, text: str, *, by_peer: bool) -> None:
        """Release the channels and report the end, once."""
        if self._ended:
            return
        self._ended = True
        self.channel_table.end_all()
        self.handler.connection_closed(code, text, by_peer)

    def _end_after_defect(self, error: Exception) -> None:
        """Close with 541; the caller raises ``error`` again."""
        self.close_connection(INTERNAL_ERROR, f"the broker failed with {type(error).__name__}; see its log")

    # ---- negotiation

    def _start(self) -> None:
        self._enter(ConnectionState.STARTING)
        send_start(self.output, self._server_properties, self.mechanisms, self._locales)

    def _receive_connection_method(self, payload: bytes, identifier: int) -> None:
        closing = self.state is ConnectionState.CLOSING
        identifier = self.output.version.renumbered.get(identifier, identifier)
        target = CONNECTION_TRANSITIONS.get((self.state, identifier))
        if closing and target is None:
            return  # §2.2.4: while closing, everything else is discarded
        method = decode_method(payload, "C", self.output.version.methods)
        if target is None:
            raise ConnectionFault(
                CHANNEL_ERROR,
                f"{method.specification.name} on channel 0 while {self.state.name.lower()}: {self.state.value}",
            )
        if identifier == _CLOSE:
            self._receive_close(method, closing)
        elif identifier == _CLOSE_OK:
            self._enter(target)
        elif identifier == _START_OK:
            self._receive_start_ok(method)
        elif identifier == _SECURE_OK:
            self._enter(target)
            self._checked(self.handler.respond(method.octets("response")))
        elif identifier == _TUNE_OK:
            self._receive_tune_ok(method)
        elif identifier == _OPEN:
            self._receive_open(method)
        elif identifier == _UPDATE_SECRET:
            self.handler.update_secret(method.octets("new_secret"), method.text("reason"))
            if self.output.running:
                self.output.send_on_zero("connection.update-secret-ok", {})

    def _receive_close(self, method: Method, closing: bool) -> None:
        self.output.send_on_zero("connection.close-ok", {})
        self._enter(ConnectionState.CLOSED)
        if not closing:
            self._end(method.integer("reply_code") or SUCCESS, method.text("reply_text"), by_peer=True)

    def _receive_start_ok(self, method: Method) -> None:
        self.client_properties = method.table("client_properties")
        capabilities = self.client_properties.get("capabilities")
        if isinstance(capabilities, dict) and self.output.version.extended_form is not None:
            self.output.version = self.output.version.extended_form
        self.notices.capabilities = (
            capabilities if self.output.version.extended and isinstance(capabilities, dict) else {}
        )
        self.mechanism = method.text("mechanism")
        if self.mechanism not in self.mechanisms.split():
            raise ConnectionFault(
                COMMAND_INVALID, f"unknown authentication mechanism '{self.mechanism}'; use one of {self.mechanisms}"
            )
        self._enter(ConnectionState.CHECKING)
        self._checked(self.handler.authenticate(self.mechanism, method.octets("response"), self.client_properties))

    def _checked(self, user: str | None) -> None:
        """Go on after a check, unless the handler still checks, has answered already or has closed the connection."""
        if user == PENDING or self.state is not ConnectionState.CHECKING:
            return
        if user is None:
            self._refuse_user()
            return
        self.user = user
        self.authenticated = True
        self._enter(ConnectionState.TUNING)
        send_tune(self.output, self.channel_table.channel_max, self.heartbeat_interval)

    def _refuse_user(self) -> None:
        text = f"Login was refused using authentication mechanism {self.mechanism}. See the log of the broker."
        if self.notices.capabilities.get("authentication_failure_close") is True:
            self.close_connection(ACCESS_REFUSED, text)
            return
        # §2.2.4: without the capability a client learns of a refusal by the socket being closed
        self._enter(ConnectionState.CLOSED)
        self._end(ACCESS_REFUSED, text, by_peer=False)

    def _receive_tune_ok(self, method: Method) -> None:
        self.channel_table.channel_max = negotiated(
            "channel_max", method.integer("channel_max"), 1, self.channel_table.channel_max
        )
        self.output.frame_max = negotiated(
            "frame_max", method.integer("frame_max"), FRAME_MIN_SIZE, self.output.frame_max
        )
        self.heartbeat_interval = method.integer("heartbeat")  # §1.4.2.6: the client decides, 0 = none
        self.frame_limit = self.output.frame_max
        self._enter(ConnectionState.OPENING)

    def _receive_open(self, method: Method) -> None:
        name = method.text("virtual_host")
        self.handler.open_virtual_host(name)
        if self.state is not ConnectionState.OPENING:
            return  # the handler closed the connection
        self.virtual_host = name
        self._enter(ConnectionState.OPEN)
        self.output.send_on_zero("connection.open-ok", {})
        self.handler.connection_opened()

    def _blame(self, number: int, identifier: int, error: RemoteProtocolError) -> None:
        """Close the channel or the connection for an error while ``identifier`` was served on channel ``number``."""
        if isinstance(error, ChannelError) and number in self.output.channels:
            self.channel_table.close_channel_with_error(
                number, error.code, error.text, identifier >> 16, identifier & 0xFFFF
            )
        elif self.state is ConnectionState.CLOSING:
            self._enter(ConnectionState.CLOSED)  # a broken close or close-ok: there is nothing left to agree on
        else:
            self.close_connection(error.code, error.text, identifier >> 16, identifier & 0xFFFF)

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
        if self._input.size:
            self._input.add(data)
            if self._input.size < self._needed and self.state is not ConnectionState.AWAITING_HEADER:
                self._check_unauthenticated()
                return
            data = self._input.take()
        self._serve(data)

    def go_on(self) -> None:
        """Serve the input that waited for output to be taken, or rested; nothing while it has to wait.

        Raises:
            Exception: as :meth:`receive`.
        """
        if not self.holding or self.output.size < HELD_OUTPUT_BYTES:
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
            self._input.drop()
            self._body.drop()
            return
        if position < len(data):
            self._input.add(part_of(data, position, len(data)))
        self._check_unauthenticated()

    def _go_on(self) -> None:
        # When answered within the call, the rest is served after it anyway.
        if self._input.size and not self._serving and not self.resting:
            self._serve(self._input.take())

    def _hold(self, data: bytes) -> None:
        """Keep input while a response is checked, or output waits."""
        self._input.add(data)
        self._check_unauthenticated()

    @property
    def unfinished_bytes(self) -> int:
        """Octets of incomplete messages and frames."""
        return self.channel_table.assembling_bytes + self._input.size + self._body.size

    def _is_closed(self) -> bool:
        return self.closed  # asked through a call because serving a frame changes it

    def _check_unauthenticated(self) -> None:
        if self.authenticated or self._is_closed():
            return
        if self._unauthenticated_bytes > self.max_unauthenticated_bytes:
            self.output.count_hit("max_unauthenticated_bytes")
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
            if (
                self.output.running
                and end - position >= _ACK_FRAME_SIZE
                and self.output.trace is None
                and not self._body.missing
            ):
                if data[position + 10] == 40:
                    position = self._receive_publishes(data, position)
                elif data[position + 10] == 80:
                    position = self._receive_acknowledgements(data, position)
                if self._steps <= 0:
                    continue
            if self._body.missing:
                following = self._receive_rest(data, position)
            else:
                following = self._receive_frame(data, position, end)
            if following == position:
                break
            position = following
            self._steps -= 4  # frames that are not read in place take longer, a declaration a hundred times as long
            if self.output.size >= HELD_OUTPUT_BYTES:
                self.holding = True
                self.output.count_hit("held_output_bytes")
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
        if version is None and may_become_header(received):
            return 0
        if self.output.trace is not None:
            self.output.trace(f"<- protocol header {received!r}")
        if version is None:
            self.output.append(PROTOCOL_HEADER)  # §2.2.4: the header of the newest version served, then close
            self._enter(ConnectionState.CLOSED)
            self._end(0, f"not a protocol header of AMQP 0-9-1, 0-9 or 0-8: {received!r}", by_peer=False)
            return 0
        self.output.version = version
        self._start()
        return len(PROTOCOL_HEADER)

    # ---- hot paths; both return where the general path has to go on

    def _receive_publishes(self, data: bytes, start: int) -> int:
        """Serve basic.publish with header and exactly one body frame while complete ones with known routes follow."""
        end: i64 = len(data)  # annotations convert when compiled; calling i64() would be slow when not
        limit: i64 = self.frame_limit
        most: i64 = self.channel_table.max_message_size
        position: i64 = start
        output, channels = self.output, self.output.channels
        routes = self.channel_table.routes
        handler = self.handler
        while position + 40 <= end and output.running and self._steps > 0:
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
        output = self.output
        channels = output.channels
        handler = self.handler
        while position + _ACK_FRAME_SIZE <= end and output.running and self._steps > 0:
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
        fault = head_fault(self.output, kind, number, size, self.frame_limit)
        if fault is None and following > end:
            if kind == FRAME_BODY and self.output.running:
                self._body.begin(number, data, position + FRAME_OVERHEAD - 1, following - end)
                return end
            self._needed = size + FRAME_OVERHEAD
            return position
        if fault is None and data[following - 1] != FRAME_END:
            fault = end_fault(number, data[following - 1])
        if fault is None and number in self.unanswered and has_answer(kind, data, position):
            self.handler.input_waits(number)
            return position
        if fault is not None:
            self._lose_boundaries(fault)
            return following
        self.channel_table.identifier = 0
        payload = data[position + 7 : following - 1]
        self._trace_received(kind, number, [payload])
        try:
            self._serve_frame(kind, number, payload)
        except RemoteProtocolError as error:
            self._blame(number, self.channel_table.identifier, error)
        return following

    def _lose_boundaries(self, fault: str) -> None:
        """Close: where frames begin is not known any more, so that a close-ok could not be found."""
        self.close_connection(FRAME_ERROR, fault)
        self._enter(ConnectionState.CLOSED)

    def _receive_rest(self, data: bytes, position: int) -> int:
        """Take the next part of a body frame, and serve the frame when it is complete."""
        frame = self._body
        following = frame.add(data, position)
        if frame.missing:
            return following
        size, parts = frame.size, frame.take()
        if frame.end != FRAME_END:
            self._lose_boundaries(end_fault(frame.number, frame.end))
            return following
        self._trace_received(FRAME_BODY, frame.number, parts)
        self.channel_table.identifier = 0
        if self.state is not ConnectionState.CLOSING:
            try:
                self.channel_table.receive_body(frame.number, parts, size)
            except RemoteProtocolError as error:
                self._blame(frame.number, self.channel_table.identifier, error)
        return following

    def _trace_received(self, kind: int, number: int, parts: list[Octets]) -> None:
        if self.output.trace is not None:
            payload = b"".join(parts)
            self.output.trace(f"<- {describe_frame(kind, number, payload, 'C', self.output.version.methods)}")

    def _serve_frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind == FRAME_METHOD:
            self.channel_table.identifier = int.from_bytes(payload[:4], "big")
        if self.state is ConnectionState.CLOSING and (number != 0 or kind != FRAME_METHOD):
            return
        if number == 0:
            self._serve_channel_zero(kind, payload)
        elif not self.output.running or kind == FRAME_HEARTBEAT:
            what = "heartbeat" if kind == FRAME_HEARTBEAT else "frame before the connection is open"
            raise ConnectionFault(UNEXPECTED_FRAME, f"{what} on channel {number}; only channel 0 may carry it")
        elif kind == FRAME_METHOD:
            self.channel_table.receive_method(number, payload, self.channel_table.identifier)
        elif kind == FRAME_HEADER:
            self.channel_table.receive_header(number, payload)
        else:
            self.channel_table.receive_body(number, [payload], len(payload))

    def _serve_channel_zero(self, kind: int, payload: bytes) -> None:
        check_channel_zero(kind, payload)
        if kind == FRAME_HEARTBEAT:
            return
        if self.output.running and self.channel_table.identifier >> 16 != CLASS_CONNECTION:
            name = decode_method(payload, "C", self.output.version.methods).specification.name
            raise ConnectionFault(COMMAND_INVALID, f"{name} on channel 0; open a channel for it")
        self._receive_connection_method(payload, self.channel_table.identifier)
