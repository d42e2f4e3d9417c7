"""The AMQP 1.0 connection engine of a server: bytes in, calls of a handler out, bytes out.

No socket, no event loop, no clock: the owner feeds :meth:`Amqp10Engine.receive` with whatever it read and writes what
:meth:`Amqp10Engine.take_output` returns. The engine owns the state of the connection and reads frames. It holds its
parts, each of which uses only those before it: ``output``, ``credit``, ``transfers``, ``endpoints``.
"""
# ruff: noqa: PLR0913 - limits are keyword-only

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from annulet.wire.amqp10.connection.credit import LinkCredit
from annulet.wire.amqp10.connection.endpoints import EndpointLimits, Endpoints
from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.connection.limit_ranges import check_limits
from annulet.wire.amqp10.connection.output import FrameOutput, make_error
from annulet.wire.amqp10.connection.session import EngineSession
from annulet.wire.amqp10.connection.states import CONNECTION_TRANSITIONS, ConnectionState
from annulet.wire.amqp10.connection.transfers import Transfers
from annulet.wire.amqp10.frames.frames import (
    AMQP_HEADER,
    FRAME_AMQP,
    FRAME_HEADER_OCTETS,
    FRAME_SASL,
    MIN_MAX_FRAME_SIZE,
    PROTOCOL_HEADER_OCTETS,
    SASL_HEADER,
    Frame,
    next_frame,
)
from annulet.wire.amqp10.frames.limits import (
    DEFAULT_CHANNEL_MAX,
    DEFAULT_HANDLE_MAX,
    DEFAULT_INCOMING_WINDOW,
    DEFAULT_MAX_FRAME_SIZE,
    HELD_OUTPUT_BYTES,
    MAX_ASSEMBLING_BYTES,
    MAX_LINK_BYTES,
    MAX_MESSAGE_SIZE,
    MAX_SENT_FRAME_SIZE,
    MAX_UNAUTHENTICATED_BYTES,
    MAX_UNSETTLED,
    MIN_REMOTE_IDLE_TIME_OUT,
)
from annulet.wire.amqp10.frames.link_frames import read_transfer
from annulet.wire.amqp10.frames.performatives import (
    Close,
    Error,
    Open,
    Transfer,
    decode_performative,
    encode_performative,
)
from annulet.wire.amqp10.frames.sasl import (
    SASL_AUTHENTICATION_FAILED,
    SASL_OK,
    SASL_TEMPORARY_SYSTEM_ERROR,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from annulet.wire.amqp10.frames.trace import describe_frame
from annulet.wire.amqp10.types.conditions import (
    CONNECTION_FRAMING_ERROR,
    DECODE_ERROR,
    FRAME_SIZE_TOO_SMALL,
    ILLEGAL_STATE,
    INTERNAL_ERROR,
    INVALID_FIELD,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
)
from annulet.wire.amqp10.types.errors import ConnectionFault, DecodeError, LocalProtocolError, RemoteProtocolError
from annulet.wire.input_buffer import InputBuffer, part_of

_SASL_STATES: Final = (
    ConnectionState.AWAITING_SASL_INIT,
    ConnectionState.AUTHENTICATING,
    ConnectionState.AWAITING_SASL_RESPONSE,
)
_CLOSING_STATES: Final = (ConnectionState.CLOSE_SENT, ConnectionState.DISCARDING, ConnectionState.ENDED)
_TRANSFER_CODE: Final = 0x14
_HEADER_STATES: Final = (ConnectionState.AWAITING_HEADER, ConnectionState.AWAITING_AMQP_HEADER)
_DISCARDING_STATES: Final = (ConnectionState.CLOSE_SENT, ConnectionState.DISCARDING)


class Amqp10Engine:
    """One connection. Errors of the peer never raise; they close the scope given by the standard with the right
    condition.

    Args:
        handler: serves the connection.
        container_id: ours, in open (§2.7.1).
        require_sasl: refuse a peer that skips SASL unless ``handler.anonymous_allowed()``.
        max_frame_size: largest frame taken, octets, 512 or more.
        channel_max: largest channel number taken, 0 to 65535.
        handle_max: largest link handle taken, 0 to 2**32 - 1.
        idle_time_out: milliseconds of silence after which we would close, as announced; 0 announces none.
        max_message_size: octets of the largest message taken; announced in every attach.
        max_assembling_bytes: octets of messages still arriving, all links together.
        max_unauthenticated_bytes: octets a peer may send before it is authenticated.
        incoming_window: transfer frames a session may send before its window is renewed, 1 to 2**31 - 1.
        max_unsettled: unsettled deliveries per session and direction.
        max_link_bytes: octets of the attach frames of all links, with 1 KiB more for each.
        offered_capabilities: of the connection (§2.7.1).
        properties: of the connection: product, version.

    Attributes:
        closed: no more output follows; close the socket once the output is written.
        opened: both opens were exchanged and neither close.
        authenticated: SASL succeeded or may be skipped.
        remote_open: the peer's open, ``None`` before it arrives.
        hostname: the peer's: of its open, else of its sasl-init, else empty.
        remote_idle_time_out: milliseconds of silence after which the peer closes, 0 never (§2.4.5).
        received_since_check: set by every receive; the owner clears it when it checks for silence.
        holding: input waits because too much output has not been taken: after ``take_output`` call
            :meth:`go_on`.
        look: may be set to a function that returns how many frames may be served before its next call. When it returns
            0, or when the owner calls :meth:`rest` or sets ``resting`` between reads, input waits until the owner
            clears ``resting`` and calls :meth:`go_on`.
        limit_hits: how often the peer reached a bound that ended something, by the bound's name.

    Raises:
        LocalProtocolError: a limit is out of range.
    """

    def __init__(
        self,
        handler: Amqp10Handler,
        *,
        container_id: str,
        require_sasl: bool = True,
        max_frame_size: int = DEFAULT_MAX_FRAME_SIZE,
        channel_max: int = DEFAULT_CHANNEL_MAX,
        handle_max: int = DEFAULT_HANDLE_MAX,
        idle_time_out: int = 0,
        max_message_size: int = MAX_MESSAGE_SIZE,
        max_assembling_bytes: int = MAX_ASSEMBLING_BYTES,
        max_unauthenticated_bytes: int = MAX_UNAUTHENTICATED_BYTES,
        incoming_window: int = DEFAULT_INCOMING_WINDOW,
        max_unsettled: int = MAX_UNSETTLED,
        max_link_bytes: int = MAX_LINK_BYTES,
        offered_capabilities: list[str] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        check_limits({
            "max_frame_size": max_frame_size, "channel_max": channel_max, "handle_max": handle_max,
            "idle_time_out": idle_time_out, "max_message_size": max_message_size, "incoming_window": incoming_window,
            "max_assembling_bytes": max_assembling_bytes, "max_unauthenticated_bytes": max_unauthenticated_bytes,
            "max_unsettled": max_unsettled, "max_link_bytes": max_link_bytes,
        })  # fmt: skip
        self.handler = handler
        self.output = FrameOutput()
        self.credit = LinkCredit(handler, self.output)
        self.transfers = Transfers(handler, self.output, self.credit, max_assembling_bytes, max_unsettled)
        limits = EndpointLimits(max_message_size, handle_max, channel_max, max_link_bytes, incoming_window)
        self.endpoints = Endpoints(handler, self.output, self.transfers, limits)
        self.output.oversized = self._close_for_size
        self.endpoints.closing = self.close
        self.limit_hits = self.output.limit_hits
        self.state = ConnectionState.AWAITING_HEADER
        self.opened = self.authenticated = False
        self.closed = False  # no more output follows; close the socket once the output is written
        self.require_sasl = require_sasl
        self.own_open = Open(
            container_id,
            max_frame_size=max_frame_size,
            channel_max=channel_max,
            idle_time_out=idle_time_out or None,
            offered_capabilities=offered_capabilities,
            properties=properties,
        )
        self.max_frame_size, self.max_sasl_frame_size = max_frame_size, MIN_MAX_FRAME_SIZE  # §5.3.1: a token has more
        self.remote_open: Open | None = None
        self.hostname = ""
        self.remote_idle_time_out = 0  # milliseconds, 0 for none
        self._mechanisms: tuple[str, ...] = ()
        self._open_sent = self._told = False  # the owner was told of the end
        self._serving = False  # input is being served, somewhere up the stack
        self.max_unauthenticated_bytes = max_unauthenticated_bytes
        self.received_since_check = self.holding = self.resting = False
        self.look: Callable[[], int] | None = None
        self._unauthenticated_bytes = 0
        self._input = InputBuffer()  # what does not make a whole frame yet, or waits for a login
        self._needed = 1  # octets needed to continue
        self._steps = 1  # frames to be served before ``look`` is called again

    # ---- output

    @property
    def output_size(self) -> int:
        """Octets ``take_output`` would return, about; 0 when there is no reason to call it."""
        return self.output.size

    def take_output(self) -> list[bytes]:
        """Return the output in order and clear it.

        Ends the turn: collected dispositions and windows leave now, and ``session_writable`` is called where due.
        """
        if self.output.turn_due:
            self.endpoints.end_turn()
        return self.output.take_frames()

    def heartbeat(self) -> None:
        """Send an empty frame (§2.4.5)."""
        if self.opened:
            self.output.heartbeat()

    def _close_for_size(self, description: str) -> None:
        self.close(FRAME_SIZE_TOO_SMALL, description)

    # ---- states

    def _enter(self, state: ConnectionState) -> None:
        self.state = state
        self.opened = state is ConnectionState.OPENED
        if state is ConnectionState.ENDED:
            self.closed = True

    def _transition(self, what: str) -> ConnectionState:
        """Return the state after ``what``; raise if it is not allowed now."""
        target = CONNECTION_TRANSITIONS.get((self.state, what))
        if target is None:
            raise ConnectionFault(ILLEGAL_STATE, f"{what} while {self.state.name.lower()}: {self.state.value}")
        return target

    # ---- protocol headers, §2.2

    def _receive_header(self, header: bytes) -> None:
        """Take a protocol header, 8 octets. A wrong one is answered with the one we want, then the connection ends."""
        if self.output.trace is not None:
            self.output.trace(f"<- protocol header {header!r}")
        if header == SASL_HEADER and self.state is ConnectionState.AWAITING_HEADER:
            self._enter(self._transition("sasl header"))
            self._send_header(SASL_HEADER)
            self._mechanisms = self.handler.sasl_mechanisms()
            self.output.send_sasl(SaslMechanisms(list(self._mechanisms)))
        elif header == AMQP_HEADER and (
            self.authenticated or not self.require_sasl or self.handler.anonymous_allowed()
        ):
            self.authenticated = True
            self._enter(self._transition("amqp header"))
            self._send_header(AMQP_HEADER)
        else:
            wanted = SASL_HEADER if self.require_sasl and not self.authenticated else AMQP_HEADER
            self._send_header(wanted)
            self._abandon(CONNECTION_FRAMING_ERROR, f"protocol header {header!r} cannot be served, {wanted!r} is")

    def _send_header(self, header: bytes) -> None:
        self.output.append(header)
        if self.output.trace is not None:
            self.output.trace(f"-> protocol header {header!r}")

    # ---- SASL, §5.3

    def _receive_sasl(self, performative: object) -> None:
        if isinstance(performative, SaslInit):
            target = self._transition("sasl-init")
            self._enter(target)
            if performative.mechanism not in self._mechanisms:
                self.sasl_outcome(SASL_AUTHENTICATION_FAILED)  # §5.3.3.2
                return
            self.hostname = performative.hostname or ""
            self.handler.sasl_init(performative.mechanism, performative.initial_response or b"", self.hostname)
        elif isinstance(performative, SaslResponse):
            self._enter(self._transition("sasl-response"))
            self.handler.sasl_response(performative.response)
        else:
            raise ConnectionFault(ILLEGAL_STATE, f"{type(performative).__name__} from a client; only servers send it")

    def sasl_challenge(self, octets: bytes) -> None:
        """Ask the peer for a response (§5.3.3.3). Has no effect when the connection has ended.

        Raises:
            LocalProtocolError: no login waits for an answer.
        """
        if not self._login_waits("sasl_challenge"):
            return
        self.output.send_sasl(SaslChallenge(octets))
        self._enter(ConnectionState.AWAITING_SASL_RESPONSE)
        self._go_on()

    def sasl_outcome(self, code: int, additional: bytes = b"") -> None:
        """End the login (§5.3.3.5): 0 lets the peer in, anything else ends the connection.

        ``additional`` is sent with the outcome, like SCRAM's last message. Has no effect when the connection has ended.

        Raises:
            LocalProtocolError: no login waits for an answer, or ``code`` is not 0 to 4.
        """
        if not SASL_OK <= code <= SASL_TEMPORARY_SYSTEM_ERROR:
            raise LocalProtocolError(f"SASL outcome {code}; give 0 to {SASL_TEMPORARY_SYSTEM_ERROR}")
        if not self._login_waits("sasl_outcome"):
            return
        self.output.send_sasl(SaslOutcome(code, additional or None))
        if code != SASL_OK:
            self._abandon(UNAUTHORIZED_ACCESS, f"the login failed with SASL code {code}")
            return
        self.authenticated = True
        self._enter(ConnectionState.AWAITING_AMQP_HEADER)
        self._go_on()

    def _login_waits(self, call: str) -> bool:
        if self.state is ConnectionState.ENDED:
            return False
        if self.state is not ConnectionState.AUTHENTICATING:
            raise LocalProtocolError(f"{call} while {self.state.name.lower()}; answer each sasl_init or response once")
        return True

    # ---- open, §2.4.1

    def _receive_open(self, performative: Open) -> None:
        target = self._transition("open")
        self.remote_open = performative
        self.hostname = performative.hostname or self.hostname
        self.output.remote_max_frame_size = min(
            max(performative.max_frame_size, MIN_MAX_FRAME_SIZE), MAX_SENT_FRAME_SIZE
        )
        self.endpoints.remote_channel_max = performative.channel_max
        self.remote_idle_time_out = performative.idle_time_out or 0
        self._send_open()
        self._enter(target)
        if performative.max_frame_size < MIN_MAX_FRAME_SIZE:
            raise ConnectionFault(
                FRAME_SIZE_TOO_SMALL,
                f"open.max-frame-size is {performative.max_frame_size}; give {MIN_MAX_FRAME_SIZE} or more",
            )
        if 0 < self.remote_idle_time_out < MIN_REMOTE_IDLE_TIME_OUT:
            raise ConnectionFault(
                INVALID_FIELD,
                f"open.idle-time-out is {self.remote_idle_time_out} ms; give {MIN_REMOTE_IDLE_TIME_OUT} or more, or 0",
            )
        self.handler.connection_opened(performative)

    def _send_open(self) -> None:
        if self._open_sent:
            return
        self._open_sent = True
        own = self.own_open
        if len(encode_performative(own)) + FRAME_HEADER_OCTETS > self.output.remote_max_frame_size:
            # §2.4.1 and §2.8.18: parts meant for people only may be left out
            own = Open(own.container_id, None, own.max_frame_size, own.channel_max, own.idle_time_out)
        self.output.send(0, own)

    # ---- close, §2.4.3

    def close(self, condition: str = "", description: str = "") -> None:
        """Close the connection (§2.4.3); with a condition it is an error. Does nothing once closing.

        Everything is released, and the owner notified, before this returns. Before the AMQP header came, the connection
        ends without a frame: there is none for it (§2.4.6). A socket that is still open long after has to be closed.
        """
        if self.state in _CLOSING_STATES:
            return
        if self.state in {ConnectionState.AWAITING_OPEN, ConnectionState.OPENED}:
            self._send_open()  # §2.4.3: an endpoint must open before it closes
            self.endpoints.flush_dispositions()
            error = make_error(condition, description)
            self._enter(ConnectionState.CLOSE_SENT if error is None else ConnectionState.DISCARDING)
            self.output.send(0, Close(error))
            self.output.muted = True
        else:
            self._enter(ConnectionState.ENDED)
        self._release(condition, description, by_peer=False)

    def _receive_close(self, performative: Close) -> None:
        before = self.state
        self._enter(self._transition("close"))
        if before is not ConnectionState.OPENED:
            return
        self.endpoints.flush_dispositions()
        self.output.send(0, Close())
        self.output.muted = True
        error = performative.error
        if error is None:
            self._release("", "", by_peer=True)
        else:
            self._release(error.condition, error.description or "", by_peer=True)

    def connection_lost(self, description: str = "the connection was lost") -> None:
        """Tell the engine that the socket is closed; no effect if everything was closed before.

        Afterwards the engine references neither input nor its handler, so that both are freed without a garbage
        collection.
        """
        try:
            self._enter(ConnectionState.ENDED)
            self.output.muted = True
            self._release("", description, by_peer=True)
        finally:
            self._input.drop()
            self.endpoints.detach_owner()
            self.handler = Amqp10Handler()

    def _abandon(self, condition: str, description: str) -> None:
        """End without waiting for the peer: there is no close before the open, or frame boundaries are lost."""
        if self.state in {ConnectionState.AWAITING_OPEN, ConnectionState.OPENED}:
            self.close(condition, description)
        self._enter(ConnectionState.ENDED)
        self.output.muted = True
        self._release(condition, description, by_peer=False)

    def _fail(self, condition: str, description: str) -> None:
        """Close for an error of the peer, as the state allows."""
        if (
            self.state in _SASL_STATES
            or condition == CONNECTION_FRAMING_ERROR
            or (condition == DECODE_ERROR and not self.opened)
        ):
            self._abandon(condition, description)
        else:
            self.close(condition, description)

    def _end_after_defect(self, error: Exception) -> None:
        """Close with internal-error; the caller raises ``error`` again."""
        self.close(INTERNAL_ERROR, f"the broker failed with {type(error).__name__}; see its log")
        self._release(INTERNAL_ERROR, "", by_peer=False)  # ends of which a failing owner was not notified yet

    def _release(self, condition: str, description: str, *, by_peer: bool) -> None:
        """Release the sessions, then tell the owner of the end; of each once, whatever the owner does."""
        error: Any = Error(condition, description) if condition else None
        self.endpoints.release_all(error, by_peer=by_peer)
        if not self._told:
            self._told = True
            self.handler.connection_closed(condition, description, by_peer)

    # ---- input

    def receive(self, data: bytes) -> None:
        """Take input from the socket, including protocol headers, and serve all complete frames.

        Raises:
            Exception: other exceptions of the handler than protocol errors, after closing with amqp:internal-error.
        """
        if self.closed or not data:
            return
        self.received_since_check = True
        if not self.authenticated:
            self._unauthenticated_bytes += len(data)
        self._take(data)
        if not self.authenticated and self._unauthenticated_bytes > self.max_unauthenticated_bytes:
            self.output.count_hit("max_unauthenticated_bytes")
            self._abandon(
                RESOURCE_LIMIT_EXCEEDED,
                f"more than {self.max_unauthenticated_bytes} octets before authentication; log in first",
            )

    def _take(self, data: bytes) -> None:
        """Serve input, or keep it behind older input."""
        missing = self._needed - self._input.size
        if 0 < missing < len(data) and self._input.size and not self._must_wait():
            self._input.add(memoryview(data)[:missing])
            self._go_on()  # so that the frame is joined alone, and not all that came with its end
            if self.closed:
                return
            if not self._input.size and not self._must_wait():
                self._serve_from(data, missing)
                return
            data = data[missing:]
        self._input.add(data)
        if self.resting:
            return
        if self.holding:
            self.go_on()
        elif self._input.size >= self._needed:
            self._go_on()

    def _must_wait(self) -> bool:
        return self.resting or self.holding

    def go_on(self) -> None:
        """Serve the input that waited for output to be taken, or rested; nothing while it has to wait.

        Raises:
            Exception: as :meth:`receive`.
        """
        if not self.holding or self.output.frames_octets < HELD_OUTPUT_BYTES:
            self.holding = False
            self._go_on()

    def _go_on(self) -> None:
        """Serve the input that waits, unless it is being served already."""
        if self._serving or not self._input.size or self.resting:
            return
        self._serve_from(self._input.take(), 0)

    def _serve_from(self, data: bytes, start: int) -> None:
        self._serving = True
        try:
            position = self._serve(data, start)
        except Exception as error:
            self._input.drop()
            self._end_after_defect(error)
            raise
        finally:
            self._serving = False
        if position < len(data) and not self.closed:
            self._input.add(part_of(data, position, len(data)))

    @property
    def unfinished_bytes(self) -> int:
        """Octets of incomplete deliveries and frames."""
        return self.transfers.assembling_bytes + self._input.size

    def _serve(self, data: bytes, start: int) -> int:
        """Serve all complete frames from ``start`` on and return the position behind them."""
        position = start
        end = len(data)
        self._needed = 1
        self._steps = 1
        while not self.closed:
            if self._steps <= 0 and position < end and self._must_rest():
                break
            if self.opened:
                position = self._receive_transfers(data, position, end)
                if self._steps <= 0 and position < end:
                    continue
            if self._is_closed() or self.state is ConnectionState.AUTHENTICATING:
                break
            if self.state in _HEADER_STATES:
                following = self._take_header(data, position, end)
            else:
                following = self._take_frame(data, position, end)
            if following == position:
                break
            position = following
            self._steps -= 4  # frames that are not read in place take longer
            if self.output.frames_octets >= HELD_OUTPUT_BYTES:
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

    def _is_closed(self) -> bool:
        return self.closed  # asked through a call because serving changes it

    def _take_header(self, data: bytes, position: int, end: int) -> int:
        if end - position < PROTOCOL_HEADER_OCTETS:
            received = data[position : min(end, position + 4)]
            if AMQP_HEADER[: len(received)] != received:
                self._receive_header(received)  # a wrong frame is refused before the rest of it arrives
            return position
        self._receive_header(data[position : position + PROTOCOL_HEADER_OCTETS])
        return position + PROTOCOL_HEADER_OCTETS

    # ---- the hot path

    def _receive_transfers(self, data: bytes, start: int, finish: int) -> int:
        """Serve transfer frames while complete ones follow; everything else is left to the general path."""
        end: i64 = finish  # annotations convert when compiled; calling i64() would be slow when not
        limit: i64 = self.max_frame_size
        position: i64 = start
        sessions = self.endpoints.sessions
        transfers = self.transfers
        output = self.output
        while position + 12 <= end and self.opened and output.trace is None and self._steps > 0:
            head = read_i64_be(data, position)  # size, data offset 2, type 0, channel
            size = head >> 32
            following = position + size
            if (
                (head >> 16) & 0xFFFF != 0x0200
                or size < 12
                or size > limit
                or following > end
                or data[position + 8] != 0
                or data[position + 9] != 0x53
                or data[position + 10] != _TRANSFER_CODE
            ):
                break
            channel: int = head & 0xFFFF
            session = sessions.get(channel)
            if session is None or not session.mapped:
                break
            session.serving = None
            self._steps -= 1
            try:
                transfer, payload = read_transfer(data, position + 11, following)
                transfers.receive_transfer(session, transfer, data[payload:following])
            except RemoteProtocolError as error:
                self._punish(session, error)
            position = following
        return position

    # ---- the general path

    def _take_frame(self, data: bytes, position: int, end: int) -> int:
        """Serve one frame; returns ``position`` again when it is not complete."""
        sasl = self.state in {ConnectionState.AWAITING_SASL_INIT, ConnectionState.AWAITING_SASL_RESPONSE}
        most = self.max_sasl_frame_size if sasl else self.max_frame_size
        try:
            frame = next_frame(data, position, end, most)
        except ConnectionFault as error:
            if int.from_bytes(data[position : position + 4], "big") > most:
                self.output.count_hit("max_frame_size")
            self._abandon(error.condition, error.description)  # frame boundaries are lost
            return end
        if frame is None:
            self._needed = FRAME_HEADER_OCTETS
            if end - position >= FRAME_HEADER_OCTETS:
                self._needed = int.from_bytes(data[position : position + 4], "big")
            return position
        session = self.endpoints.sessions.get(frame.channel)
        if session is not None:
            session.serving = None
        try:
            if frame.kind != (FRAME_SASL if sasl else FRAME_AMQP):
                raise ConnectionFault(
                    CONNECTION_FRAMING_ERROR, f"frame of type {frame.kind} while {self.state.name.lower()}"
                )
            if self.state in _DISCARDING_STATES:
                self._discard(data, frame)
            elif frame.start < frame.end:
                self._serve_frame(data, frame, session)
            elif self.output.trace is not None:
                self.output.trace("<- " + describe_frame(frame.kind, frame.channel, None, 0))
        except RemoteProtocolError as error:
            self._punish(session or self.endpoints.sessions.get(frame.channel), error)
        return frame.end

    def _discard(self, data: bytes, frame: Frame) -> None:
        """Look only for close (§2.4.6); all other input is ignored, even if it is malformed."""
        try:
            performative, _ = decode_performative(data, frame.start, frame.end)
        except DecodeError:
            return
        if isinstance(performative, Close):
            self._trace_received(frame, performative, b"")
            self._receive_close(performative)

    def _serve_frame(self, data: bytes, frame: Frame, session: EngineSession | None) -> None:
        performative, start = decode_performative(data, frame.start, frame.end)
        payload = data[start : frame.end]
        self._trace_received(frame, performative, payload)
        if payload and not isinstance(performative, Transfer):
            raise DecodeError(
                f"{type(performative).__name__.lower()} has {len(payload)} octets behind it; only transfer has payload"
            )
        if frame.kind == FRAME_SASL:
            self._receive_sasl(performative)
        elif isinstance(performative, Open):
            self._receive_open(performative)
        elif isinstance(performative, Close):
            self._receive_close(performative)
        elif not self.opened:
            name = type(performative).__name__.lower()
            raise ConnectionFault(ILLEGAL_STATE, f"{name} before open; open the connection first")
        else:
            self.endpoints.receive(frame.channel, session, performative, payload, frame.end - frame.start)

    def _punish(self, session: EngineSession | None, error: RemoteProtocolError) -> None:
        """Close the scope of a fault in the frame being served."""
        if isinstance(error, ConnectionFault) or session is None or not self.opened:
            self._fail(error.condition, error.description)
        else:
            self.endpoints.blame(session, session.serving, error)

    def _trace_received(self, frame: Frame, performative: object, payload: bytes) -> None:
        if self.output.trace is not None:
            self.output.trace(
                "<- " + describe_frame(frame.kind, frame.channel, performative, len(payload), payload[:32])
            )
