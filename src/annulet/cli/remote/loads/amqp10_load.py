"""A load client of AMQP 1.0 on a blocking socket, with the codecs of the broker: one session and one link."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from annulet.cli.remote.failures import EXIT_NOT_ALLOWED, EXIT_REFUSED_BY_BROKER, Failure
from annulet.cli.remote.options import Remote
from annulet.cli.remote.stomp_client import listener_of, open_socket, receive
from annulet.wire.amqp10.frames.frames import (
    AMQP_HEADER,
    FRAME_AMQP,
    FRAME_SASL,
    PROTOCOL_HEADER_OCTETS,
    SASL_HEADER,
    encode_frame,
    next_frame,
)
from annulet.wire.amqp10.frames.performatives import (
    ROLE_RECEIVER,
    ROLE_SENDER,
    Accepted,
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Open,
    Rejected,
    SaslInit,
    SaslOutcome,
    Source,
    Target,
    Transfer,
    decode_performative,
    encode_performative,
)
from annulet.wire.amqp10.frames.shortcuts import ACCEPTED_STATE, encode_disposition, encode_transfer_head
from annulet.wire.amqp10.messages.sections import DATA, Header, encode_header, encode_section, split_message
from annulet.wire.amqp10.types import conditions
from annulet.wire.amqp10.types.composite import Composite
from annulet.wire.amqp10.types.errors import ProtocolError
from annulet.wire.amqp10.types.values import decode_value

PROTOCOLS: Final = {"http": "amqp", "https": "amqp/ssl"}
READ_BYTES: Final = 1 << 18
FRAME_MAX: Final = 131_072
HEAD_OCTETS: Final = 128
"""More than the heads of a frame, a transfer and a message."""

WINDOW: Final = 0x7FFFFFFF
"""Transfers that the broker may send: the credit of the link is the bound."""

REFUSED_CONDITIONS: Final = frozenset({conditions.UNAUTHORIZED_ACCESS, conditions.NOT_ALLOWED})
"""Conditions of a permission that is refused."""


class Amqp10Load:
    """One connection. Methods raise :class:`~annulet.cli.remote.failures.Failure`."""

    def __init__(self, remote: Remote) -> None:
        self.confirmed = 0  # messages that the broker has accepted
        self._sent = 0  # messages, each in one transfer
        self._credit_end = 0  # how many the link allows in all
        self._window_end = 0  # and the session
        self._body_max = FRAME_MAX - HEAD_OCTETS
        self._prefetch = 0
        self._received = self._transfers = self._accepted = 0  # whole messages, frames of them, accepted messages
        self._part = b""  # of a message, from the frames before its last
        self._header_due = 0  # protocol headers that have not come yet
        self._input = bytearray()
        self._socket = open_socket(remote, listener_of(remote, PROTOCOLS))
        try:
            self._open(remote)
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Amqp10Load:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Cut the connection, if it is still there."""
        self._socket.close()

    def _open(self, remote: Remote) -> None:
        login = b"\0".join([b"", remote.target.user.encode(), remote.target.password.encode()])
        self._start(SASL_HEADER)
        self._send(SaslInit("PLAIN", login), FRAME_SASL)
        self._wait_for(SaslOutcome)
        self._start(AMQP_HEADER)
        self._send(Open("annulet-bench", f"vhost:{remote.vhost}", FRAME_MAX))
        self._send(Begin(None, 0, WINDOW, WINDOW))
        self._wait_for(Begin)

    def prepare(self, queue: str) -> None:
        """Attach a link that sends to a queue."""
        target = Target(_address(queue))
        self._send(Attach("bench", 0, ROLE_SENDER, source=Source(), target=target, initial_delivery_count=0))
        self._wait_for(Attach)

    def consume(self, queue: str, prefetch: int) -> None:
        """Attach a link that receives; ``prefetch`` messages may be unacknowledged."""
        self._prefetch = prefetch
        source = Source(_address(queue))
        self._send(Attach("bench", 0, ROLE_RECEIVER, source=source, target=Target()))
        self._wait_for(Attach)
        self._grant()

    def room(self, most: int) -> int:
        """Return how many messages may be sent now, with at most ``most`` unconfirmed."""
        return min(most + self.confirmed, self._credit_end, self._window_end) - self._sent

    def publish(self, bodies: list[bytes], *, persistent: bool) -> None:
        """Publish to the queue without waiting, no more messages than there is room for; each fits into one frame."""
        head = encode_header(Header(durable=True)) if persistent else b""
        parts: list[bytes] = []
        for body in bodies:
            if len(body) > self._body_max:
                raise Failure(
                    EXIT_REFUSED_BY_BROKER,
                    f"a body of {len(body)} bytes; the broker's frames take {self._body_max}: give a smaller --size",
                )
            number = self._sent
            transfer = encode_transfer_head(0, number, b"%d" % number, 0, settled=False, more=False)
            parts.append(encode_frame(FRAME_AMQP, 0, transfer + head + encode_section(DATA, body)))
            self._sent += 1
        self._socket.sendall(b"".join(parts))

    def acknowledge(self, number: int) -> None:
        """Accept all deliveries up to this one, and let as many come."""
        body = encode_disposition(ROLE_RECEIVER, self._accepted, number, settled=True, encoded_state=ACCEPTED_STATE)
        self._accepted = number + 1
        self._socket.sendall(encode_frame(FRAME_AMQP, 0, body))
        self._grant()

    def read(self, seconds: float) -> list[tuple[int, bytes]]:
        """Read once, count outcomes, and return deliveries, each its number and its body; empty after ``seconds``."""
        frames = self._frames()  # of one read with an answer
        if not frames:
            self._socket.settimeout(seconds)
            try:
                self._fill()
            except TimeoutError:
                return []
            finally:
                self._socket.settimeout(None)
            frames = self._frames()
        found: list[tuple[int, bytes]] = []
        for performative, payload in frames:
            if isinstance(performative, Transfer):
                found += self._message(performative, payload)
            else:
                self._note(performative)
        return found

    def close(self) -> None:
        """Close in order."""
        self._send(Close())
        self._wait_for(Close)
        self._socket.close()

    def _start(self, header: bytes) -> None:
        self._header_due += 1
        self._socket.sendall(header)

    def _send(self, performative: Composite, kind: int = FRAME_AMQP) -> None:
        self._socket.sendall(encode_frame(kind, 0, encode_performative(performative)))

    def _grant(self) -> None:
        unacknowledged = self._received - self._accepted
        self._send(
            Flow(
                self._transfers,
                WINDOW,
                0,
                WINDOW,
                handle=0,
                delivery_count=self._received,
                link_credit=self._prefetch - unacknowledged,
            )
        )

    def _message(self, transfer: Transfer, payload: bytes) -> list[tuple[int, bytes]]:
        """Return the message that ends with this transfer; none when more of it follows."""
        self._transfers += 1
        self._part += payload
        if transfer.more:
            return []
        whole, self._part = self._part, b""
        number = self._received
        self._received += 1
        body = b"".join(decode_value(whole, one.content, one.end)[0] for one in split_message(whole).body)
        return [(number, body)]

    def _note(self, performative: object) -> None:
        if isinstance(performative, Disposition):
            self._confirm(performative)
        elif isinstance(performative, Flow):
            self._window_end = (performative.next_incoming_id or 0) + performative.incoming_window
            if performative.handle is not None:
                self._credit_end = (performative.delivery_count or 0) + (performative.link_credit or 0)
        elif isinstance(performative, Open):
            self._body_max = min(FRAME_MAX, performative.max_frame_size) - HEAD_OCTETS
        elif isinstance(performative, Begin):
            self._window_end = performative.incoming_window
        elif isinstance(performative, SaslOutcome) and performative.code:
            raise Failure(EXIT_NOT_ALLOWED, "login refused: wrong user or password")
        elif isinstance(performative, Detach | End | Close) and performative.error is not None:
            raise _failure(performative.error)

    def _confirm(self, disposition: Disposition) -> None:
        if not isinstance(disposition.state, Accepted):
            error = disposition.state.error if isinstance(disposition.state, Rejected) else None
            reason = "" if error is None else f": {error.description or error.condition}"
            raise Failure(EXIT_REFUSED_BY_BROKER, f"a message was not accepted{reason}")
        last = disposition.first if disposition.last is None else disposition.last
        self.confirmed += last - disposition.first + 1

    def _wait_for(self, kind: type[Composite]) -> None:
        """Read until a performative comes; frames behind it stay."""
        while True:
            for performative, _ in self._frames(until=kind):
                self._note(performative)
                if isinstance(performative, kind):
                    self._refuse_without_terminus(performative)
                    return
            self._fill()

    def _refuse_without_terminus(self, performative: Composite) -> None:
        """Read why the broker refused a link: its attach names no node, and a detach with the reason follows."""
        if isinstance(performative, Attach) and (
            performative.source is None if performative.role == ROLE_SENDER else performative.target is None
        ):
            self._wait_for(Detach)

    def _fill(self) -> None:
        self._input += receive(self._socket, READ_BYTES)

    def _frames(self, until: type[Composite] | None = None) -> list[tuple[Composite, bytes]]:
        """Take the complete frames out of the input, up to the first performative ``until``."""
        found: list[tuple[Composite, bytes]] = []
        octets, position = bytes(self._input), 0
        try:
            while True:
                if self._header_due and len(octets) - position >= PROTOCOL_HEADER_OCTETS:
                    self._header_due -= 1
                    position += PROTOCOL_HEADER_OCTETS
                frame = None if self._header_due else next_frame(octets, position, len(octets), FRAME_MAX)
                if frame is None:
                    break
                position = frame.end
                if frame.start == frame.end:
                    continue  # a heartbeat
                performative, start = decode_performative(octets, frame.start, frame.end)
                found.append((performative, octets[start : frame.end]))
                if until is not None and isinstance(performative, until):
                    break
        except ProtocolError as error:
            raise Failure(EXIT_REFUSED_BY_BROKER, f"the broker's frame cannot be read: {error}") from error
        del self._input[:position]
        return found


def _address(queue: str) -> str:
    """Return the address of a queue, whatever characters its name has."""
    return f"/queues/{quote(queue, safe='')}"


def _failure(error: Error) -> Failure:
    code = EXIT_NOT_ALLOWED if error.condition in REFUSED_CONDITIONS else EXIT_REFUSED_BY_BROKER
    return Failure(code, error.description or error.condition)
