"""The output of a connection: frames into a list of buffers; dispositions and windows leave once per turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from annulet.wire.amqp10.connection.link import Link
from annulet.wire.amqp10.connection.session import DispositionBatch, EngineSession
from annulet.wire.amqp10.frames.frames import (
    FRAME_AMQP,
    FRAME_HEADER_OCTETS,
    FRAME_SASL,
    HEARTBEAT_FRAME,
    MIN_MAX_FRAME_SIZE,
    encode_frame,
)
from annulet.wire.amqp10.frames.limits import MAX_DESCRIPTION_OCTETS, OUTGOING_WINDOW
from annulet.wire.amqp10.frames.performatives import Accepted, Disposition, Error, Flow, Transfer, encode_performative
from annulet.wire.amqp10.frames.shortcuts import ACCEPTED_STATE, NULL_STATE, encode_disposition
from annulet.wire.amqp10.frames.trace import describe_frame
from annulet.wire.amqp10.types.composite import decode_composite

COPY_PAYLOAD_OCTETS: Final = 256
"""Payloads up to this many octets are copied behind their head; longer ones are queued as they are (measured)."""

_TURN_END_OCTETS: Final = 32  # about the output that a touched session adds
_SERIAL_MASK: Final = 0xFFFFFFFF


def make_error(condition: str, description: str, info: dict[str, Any] | None = None) -> Error | None:
    """Return an error that fits the smallest frame, but for ``info``; ``None`` when there is no condition."""
    if not condition:
        return None
    octets = description.encode("utf-8", "replace")[:MAX_DESCRIPTION_OCTETS]
    return Error(condition, octets.decode("utf-8", "ignore"), info)


def encode_state(state: object | None) -> bytes:
    """Encode a delivery state as a field; null when there is none."""
    if state is None:
        return NULL_STATE
    if isinstance(state, Accepted):
        return ACCEPTED_STATE
    return encode_performative(state)


def _ignore(description: str) -> None:
    """Nothing is left that a frame could close."""
    del description


class FrameOutput:
    """The output of a connection, and the output it will add when the turn ends.

    Attributes:
        trace: called with each frame as a line.
        error_sent: called with where, condition and text of each error that is sent.
        limit_hits: how often the peer reached a bound that ended something, by the bound's name.
        remote_max_frame_size: octets of the largest frame sent; of the peer's open, within our bound.
        muted: close was sent: nothing may follow.
        touched: sessions to process when the turn ends.
        credited: links whose credit arrived before they were accepted.
        oversized: called with the reason for a frame that the peer does not take. Its owner closes the connection.
    """

    def __init__(self) -> None:
        self.trace: Callable[[str], None] | None = None
        self.error_sent: Callable[[str, str, str], None] | None = None
        self.limit_hits: dict[str, int] = {}
        self.remote_max_frame_size = MIN_MAX_FRAME_SIZE
        self.muted = False
        self.touched: list[EngineSession] = []
        self.credited: list[Link] = []
        self.oversized: Callable[[str], None] = _ignore
        self.frames_octets = 0  # octets that wait
        self._frames: list[bytes] = []

    @property
    def turn_due(self) -> bool:
        """Return whether the end of the turn adds output."""
        return bool(self.touched or self.credited)

    @property
    def size(self) -> int:
        """Octets that wait or that the end of the turn adds, about; 0 when there is no reason to take output."""
        return self.frames_octets + _TURN_END_OCTETS * (len(self.touched) + len(self.credited))

    def take_frames(self) -> list[bytes]:
        """Return the present frames in order and clear them. The turn continues."""
        frames = self._frames
        self._frames = []
        self.frames_octets = 0
        return frames

    def detach_owner(self) -> None:
        """Let go of everything that leads to the owner: it is freed without a garbage collection."""
        self.touched = []
        self.credited = []
        self.trace = None
        self.oversized = _ignore

    def heartbeat(self) -> None:
        """Send an empty frame (§2.4.5)."""
        self.append(HEARTBEAT_FRAME)
        if self.trace is not None:
            self.trace("-> " + describe_frame(FRAME_AMQP, 0, None, 0))

    def note_error(self, where: str, condition: str, description: str) -> None:
        """Notify the owner of an error that is sent; without a condition there is none."""
        if condition and self.error_sent is not None:
            self.error_sent(where, condition, description)

    def count_hit(self, bound: str) -> None:
        """Count that the peer reached a bound."""
        self.limit_hits[bound] = self.limit_hits.get(bound, 0) + 1

    # ---- frames

    def append(self, octets: bytes) -> None:
        """Queue the octets of a frame or a header, unless nothing may follow."""
        if self.muted:
            return
        self._frames.append(octets)
        self.frames_octets += len(octets)

    def send(self, channel: int, performative: object) -> None:
        """Send a frame without payload; closes the connection if the peer accepts no frame of that size."""
        body = encode_performative(performative)
        if len(body) + FRAME_HEADER_OCTETS > self.remote_max_frame_size:
            name = type(performative).__name__.lower()
            self.oversized(
                f"{name} takes {len(body) + FRAME_HEADER_OCTETS} octets, max-frame-size of the peer is "
                f"{self.remote_max_frame_size}; give a larger one in open",
            )
            return
        self.send_body(channel, body)
        if self.trace is not None:
            self.trace("-> " + describe_frame(FRAME_AMQP, channel, performative, 0))

    def send_body(self, channel: int, body: bytes) -> None:
        """Send an encoded performative."""
        self.append(encode_frame(FRAME_AMQP, channel, body))

    def send_sasl(self, performative: object) -> None:
        """Send a SASL frame (§5.3.1)."""
        self.append(encode_frame(FRAME_SASL, 0, encode_performative(performative)))
        if self.trace is not None:
            self.trace("-> " + describe_frame(FRAME_SASL, 0, performative, 0))

    def send_transfer_frame(self, session: EngineSession, head: bytes, payload: bytes) -> None:
        """Send an encoded transfer with its payload, and use up one of the peer's incoming window."""
        if self.muted:
            return
        octets = len(head) + len(payload) + FRAME_HEADER_OCTETS
        frame_head = (octets << 32 | 0x02000000 | session.channel).to_bytes(FRAME_HEADER_OCTETS, "big")
        if len(payload) <= COPY_PAYLOAD_OCTETS:
            self._frames.append(frame_head + head + payload)
        else:
            self._frames.append(frame_head + head)
            self._frames.append(payload)
        self.frames_octets += octets
        session.next_outgoing_id += 1
        session.remote_incoming_window -= 1

    def trace_transfer(self, channel: int, transfer: Transfer, payload: bytes) -> None:
        """Trace a transfer that was sent."""
        if self.trace is not None:
            self.trace("-> " + describe_frame(FRAME_AMQP, channel, transfer, len(payload), payload[:32]))

    def send_flow(self, session: EngineSession, link: Link | None) -> None:
        """Send the state of the session, and of ``link`` (§2.7.4); renews the incoming window."""
        session.incoming_window = session.incoming_window_size
        flow = Flow(
            next_incoming_id=session.next_incoming_id & _SERIAL_MASK,
            incoming_window=session.incoming_window,
            next_outgoing_id=session.next_outgoing_id & _SERIAL_MASK,
            outgoing_window=OUTGOING_WINDOW,
        )
        if link is not None:
            unstarted = link.pending  # the peer must not count transfers that were not sent
            flow.handle = link.handle
            flow.delivery_count = (link.delivery_count - unstarted) & _SERIAL_MASK
            flow.link_credit = link.credit + unstarted
            flow.drain = link.drain
            if not link.incoming:
                flow.available = unstarted
        self.send(session.channel, flow)

    # ---- end of a turn

    def touch(self, session: EngineSession) -> None:
        """Have a session processed when the turn ends."""
        if not session.touched:
            session.touched = True
            self.touched.append(session)

    def collect(
        self, session: EngineSession, batch: DispositionBatch, number: int, state: bytes, settled: bool
    ) -> None:
        """Add a delivery to a disposition, or begin the next one when it does not go on with the last."""
        if batch.state is not None:
            if batch.last + 1 == number and batch.settled == settled and batch.state == state:
                batch.last = number
                return
            self._flush_batch(session, batch)
        batch.state = state
        batch.settled = settled
        batch.first = number
        batch.last = number
        self.touch(session)

    def _flush_batch(self, session: EngineSession, batch: DispositionBatch) -> None:
        state = batch.state
        if state is None:
            return
        batch.state = None
        receiver = batch is session.incoming_batch
        first = batch.first & _SERIAL_MASK
        last = batch.last & _SERIAL_MASK
        self.send_body(session.channel, encode_disposition(receiver, first, last, batch.settled, state))
        if self.trace is not None:
            told = None if state == NULL_STATE else decode_composite(state, 0, len(state))[0]
            disposition = Disposition(receiver, first, last, batch.settled, told)
            self.trace("-> " + describe_frame(FRAME_AMQP, session.channel, disposition, 0))

    def flush_dispositions(self, session: EngineSession) -> None:
        """Send the dispositions that were collected."""
        self._flush_batch(session, session.incoming_batch)
        self._flush_batch(session, session.outgoing_batch)
