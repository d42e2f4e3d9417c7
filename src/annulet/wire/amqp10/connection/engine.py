"""The AMQP 1.0 connection engine of a server: bytes in, calls of a handler out, bytes out.

No socket, no event loop, no clock: the owner feeds :meth:`Amqp10Engine.receive` with whatever it read and writes what
:meth:`Amqp10Engine.take_output` returns. The classes below it, from the bottom: output, transfers, links, sessions,
lifecycle.
"""
# ruff: noqa: PLR0913 - limits are keyword-only

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.connection.lifecycle import ConnectionLifecycle
from annulet.wire.amqp10.connection.session import EngineSession
from annulet.wire.amqp10.connection.states import ConnectionState
from annulet.wire.amqp10.frames.frames import (
    AMQP_HEADER,
    FRAME_AMQP,
    FRAME_HEADER_OCTETS,
    FRAME_SASL,
    MIN_MAX_FRAME_SIZE,
    PROTOCOL_HEADER_OCTETS,
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
    MAX_UNAUTHENTICATED_BYTES,
    MAX_UNSETTLED,
)
from annulet.wire.amqp10.frames.link_frames import read_transfer
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
)
from annulet.wire.amqp10.frames.trace import describe_frame
from annulet.wire.amqp10.types.conditions import CONNECTION_FRAMING_ERROR, ILLEGAL_STATE, RESOURCE_LIMIT_EXCEEDED
from annulet.wire.amqp10.types.errors import ConnectionFault, DecodeError, LocalProtocolError, RemoteProtocolError

_CHUNKS_JOINED: Final = 256  # chunks of an incomplete frame after which they are joined: bounds objects, not octets
_TRANSFER_CODE: Final = 0x14
_HEADER_STATES: Final = (ConnectionState.AWAITING_HEADER, ConnectionState.AWAITING_AMQP_HEADER)
_DISCARDING_STATES: Final = (ConnectionState.CLOSE_SENT, ConnectionState.DISCARDING)


class Amqp10Engine(ConnectionLifecycle):
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
        sessions: by the peer's channel.
        trace: called with each frame as a line.
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
        _check_limit("max_frame_size", max_frame_size, MIN_MAX_FRAME_SIZE, 0x7FFFFFFF)
        _check_limit("channel_max", channel_max, 0, 0xFFFF)
        _check_limit("handle_max", handle_max, 0, 0xFFFFFFFF)
        _check_limit("idle_time_out", idle_time_out, 0, 0xFFFFFFFF)
        _check_limit("max_message_size", max_message_size, 1, 0x7FFFFFFFFFFFFFFF)
        _check_limit("incoming_window", incoming_window, 1, 0x7FFFFFFF)
        for name, value in (
            ("max_assembling_bytes", max_assembling_bytes),
            ("max_unauthenticated_bytes", max_unauthenticated_bytes),
            ("max_unsettled", max_unsettled),
            ("max_link_bytes", max_link_bytes),
        ):
            _check_limit(name, value, 1, 0x7FFFFFFFFFFFFFFF)
        own_open = Open(
            container_id,
            max_frame_size=max_frame_size,
            channel_max=channel_max,
            idle_time_out=idle_time_out or None,
            offered_capabilities=offered_capabilities,
            properties=properties,
        )
        limits = (max_message_size, max_assembling_bytes, max_unsettled, handle_max, max_link_bytes)
        super().__init__(handler, own_open, require_sasl, limits, incoming_window)
        self.max_unauthenticated_bytes = max_unauthenticated_bytes
        self.received_since_check = False
        self.holding = False
        self.look: Callable[[], int] | None = None
        self.resting = False
        self._steps = 1  # frames to be served before ``look`` is called again
        self._unauthenticated_bytes = 0
        self._chunks: list[bytes] = []  # input that does not make a whole frame yet, or waits for a login
        self._waiting = 0  # octets in it
        self._needed = 1  # octets needed to continue

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
        self._chunks.append(data)
        self._waiting += len(data)
        if len(self._chunks) >= _CHUNKS_JOINED:
            self._chunks = [b"".join(self._chunks)]
        if self.resting:
            return
        if self.holding:
            self.go_on()
        elif self._waiting >= self._needed:
            self._go_on()
        if not self.authenticated and self._unauthenticated_bytes > self.max_unauthenticated_bytes:
            self._count_hit("max_unauthenticated_bytes")
            self._abandon(
                RESOURCE_LIMIT_EXCEEDED,
                f"more than {self.max_unauthenticated_bytes} octets before authentication; log in first",
            )

    def go_on(self) -> None:
        """Serve the input that waited for output to be taken, or rested; nothing while it has to wait.

        Raises:
            Exception: as :meth:`receive`.
        """
        if not self.holding or self._output_octets < HELD_OUTPUT_BYTES:
            self.holding = False
            self._go_on()

    def _go_on(self) -> None:
        """Serve the input that waits, unless it is being served already."""
        if self._serving or not self._chunks or self.resting:
            return
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks = []
        self._serving = True
        try:
            position = self._serve(data)
        except Exception as error:
            self._waiting = 0
            self._end_after_defect(error)
            raise
        finally:
            self._serving = False
        self._waiting = 0
        if position < len(data) and not self.closed:
            self._chunks.append(data[position:])
            self._waiting = len(data) - position

    @property
    def unfinished_bytes(self) -> int:
        """Octets of incomplete deliveries and frames."""
        return self.assembling_bytes + self._waiting

    def _drop_input(self) -> None:
        self._chunks = []
        self._waiting = 0

    def _serve(self, data: bytes) -> int:
        """Serve all complete frames and return the position behind them."""
        position = 0
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
            if self._output_octets >= HELD_OUTPUT_BYTES:
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
        sessions = self.sessions
        while position + 12 <= end and self.opened and self.trace is None and self._steps > 0:
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
            self._current_link = None
            self._steps -= 1
            try:
                transfer, payload = read_transfer(data, position + 11, following)
                self._receive_transfer(session, transfer, data[payload:following])
            except RemoteProtocolError as error:
                self._punish(session, error)
            position = following
        return position

    # ---- the general path

    def _take_frame(self, data: bytes, position: int, end: int) -> int:
        """Serve one frame; returns ``position`` again when it is not complete."""
        sasl = self.state in {ConnectionState.AWAITING_SASL_INIT, ConnectionState.AWAITING_SASL_RESPONSE}
        most = MIN_MAX_FRAME_SIZE if sasl else self.max_frame_size
        try:
            frame = next_frame(data, position, end, most)
        except ConnectionFault as error:
            if int.from_bytes(data[position : position + 4], "big") > most:
                self._count_hit("max_frame_size")
            self._abandon(error.condition, error.description)  # frame boundaries are lost
            return end
        if frame is None:
            self._needed = FRAME_HEADER_OCTETS
            if end - position >= FRAME_HEADER_OCTETS:
                self._needed = int.from_bytes(data[position : position + 4], "big")
            return position
        self._current_link = None
        session = self.sessions.get(frame.channel)
        try:
            if frame.kind != (FRAME_SASL if sasl else FRAME_AMQP):
                raise ConnectionFault(
                    CONNECTION_FRAMING_ERROR, f"frame of type {frame.kind} while {self.state.name.lower()}"
                )
            if self.state in _DISCARDING_STATES:
                self._discard(data, frame)
            elif frame.start < frame.end:
                self._serve_frame(data, frame, session)
            elif self.trace is not None:
                self.trace("<- " + describe_frame(frame.kind, frame.channel, None, 0))
        except RemoteProtocolError as error:
            self._punish(session or self.sessions.get(frame.channel), error)
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
            self._serve_session_frame(frame, session, performative, payload)

    def _serve_session_frame(
        self, frame: Frame, session: EngineSession | None, performative: object, payload: bytes
    ) -> None:
        if session is None or isinstance(performative, Begin):
            self._check_channel(frame.channel, type(performative).__name__.lower())
            if not isinstance(performative, Begin):
                raise ConnectionFault(
                    ILLEGAL_STATE,
                    f"{type(performative).__name__.lower()} on channel {frame.channel}, which has no session; "
                    "send begin first",
                )
            self._receive_begin(frame.channel, performative)
        elif isinstance(performative, End):
            self._receive_end(session, performative)
        elif not session.mapped:
            return  # §2.5.5: discarded until the peer's end
        elif isinstance(performative, Transfer):
            self._receive_transfer(session, performative, payload)
        elif isinstance(performative, Disposition):
            self._receive_disposition(session, performative)
        elif isinstance(performative, Flow):
            self._receive_flow(session, performative)
        elif isinstance(performative, Attach):
            self._receive_attach(session, performative, frame.end - frame.start)
        elif isinstance(performative, Detach):
            self._receive_detach(session, performative)
        else:
            raise ConnectionFault(
                ILLEGAL_STATE, f"{type(performative).__name__.lower()} in an AMQP frame; it belongs to SASL"
            )

    def _punish(self, session: EngineSession | None, error: RemoteProtocolError) -> None:
        """Close the scope of a fault in the frame being served."""
        if isinstance(error, ConnectionFault) or session is None or not self.opened:
            self._fail(error.condition, error.description)
        else:
            self._blame(session, self._current_link, error)

    def _trace_received(self, frame: Frame, performative: object, payload: bytes) -> None:
        if self.trace is not None:
            self.trace("<- " + describe_frame(frame.kind, frame.channel, performative, len(payload), payload[:32]))


def _check_limit(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise LocalProtocolError(f"{name} is {value}; give a number from {least} to {most}")
