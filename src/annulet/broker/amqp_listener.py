"""The AMQP port: AMQP 1.0 and 0-x share it and are told apart by the first eight octets.

AMQP 0-9-1 §4.2.2 and AMQP 1.0 §2.2: a client begins with a protocol header; one that is not served is answered with one
that is, and the connection closes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, cast

from annulet.broker.amqp091.connection import AmqpConnection
from annulet.broker.amqp10.connection import Amqp10Connection
from annulet.broker.network.lingering import LINGER_SECONDS, STRANGER_BYTES_MAX
from annulet.broker.network.listening import PeerFacts, release_transport
from annulet.wire.amqp091.connection.versions import VERSIONS_BY_HEADER

if TYPE_CHECKING:
    import asyncio

    from annulet.broker.amqp10.services import Amqp10Services
    from annulet.broker.connections.transport import AnyConnection

HEADER_BYTES: Final = 8
PREFIX: Final = b"AMQP"
NEWEST: Final = b"AMQP\x00\x01\x00\x00"
"""The header of the newest version served: AMQP 1.0. The answer to octets that are no header is the same."""

VERSIONS_1_0: Final = (b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00")
"""AMQP 1.0 without and with a SASL layer before it (§2.2, §5.3.1)."""

VERSIONS_0_X: Final = tuple(VERSIONS_BY_HEADER)


class AmqpListenerProtocol:
    """Lives until the header is there, then hands the transport on. A duck-typed ``asyncio.Protocol``."""

    def __init__(self, broker: Amqp10Services) -> None:
        self._broker = broker
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._timer: asyncio.TimerHandle | None = None
        self._facts = PeerFacts()
        self._successor: AnyConnection | None = None  # the protocol that has the transport now
        self._began = 0.0  # time of the loop when the socket was accepted

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Wait for the header, not for ever."""
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._facts = PeerFacts(str(peer[0]), int(peer[1])) if peer else PeerFacts()
        if not self._broker.admission.handshake_began(self._facts):
            transport.abort()
            return
        self._broker.undecided.add(self)
        self._began = self._broker.loop.time()
        seconds = self._broker.configuration.handshake_timeout
        self._timer = self._broker.loop.call_later(seconds, self._expired)

    def data_received(self, data: bytes) -> None:
        """Decide as soon as the header is whole, or cannot become one that is served."""
        transport = self._transport
        assert transport is not None
        received = self._received + data
        header = received[:HEADER_BYTES]
        if header in VERSIONS_1_0:
            self._hand_over(transport, Amqp10Connection(self._broker), received)
        elif header in VERSIONS_0_X:
            self._hand_over(transport, AmqpConnection(self._broker), received)
        elif any(known.startswith(header) for known in (*VERSIONS_1_0, *VERSIONS_0_X)):
            self._received = received
        else:
            self._broker.protocol_errors.count("AMQP", "header")
            self._broker.admission.note_never_open(self._peer(), 0, f"{header!r} is no protocol header that is served")
            transport.write(NEWEST)
            self._close(transport)

    def eof_received(self) -> bool:
        """The peer gave up, or said all it had to say, which is for the protocol that has the transport now."""
        return self._successor is not None and self._successor.eof_received()

    def connection_lost(self, error: BaseException | None) -> None:
        """The peer left before it named its protocol, or a moment later: asyncio's TLS has chosen us by then."""
        if self._successor is not None:
            self._successor.connection_lost(error)
            return
        self._end()
        release_transport(self._transport)
        self._transport = None

    def pause_writing(self) -> None:
        """Nothing is written here but one header."""

    def resume_writing(self) -> None:
        """As above."""

    def abort(self) -> None:
        """Cut the socket."""
        if self._transport is not None:
            self._transport.abort()

    def _hand_over(self, transport: asyncio.Transport, connection: AnyConnection, received: bytes) -> None:
        self._end()
        self._successor = connection
        connection.waited = self._broker.loop.time() - self._began  # one deadline for the header and all that follows
        # The connections have the methods of asyncio.Protocol; inheriting from it would keep them from being compiled.
        transport.set_protocol(cast("asyncio.BaseProtocol", connection))
        connection.connection_made(transport)
        connection.data_received(received)

    def _close(self, transport: asyncio.Transport) -> None:
        """Close once the peer has; it is counted until then, and no longer than its hand-shake may take."""
        broker = self._broker
        self._stop_timer()
        elapsed = broker.loop.time() - self._began
        if broker.lingering.begin(
            transport,
            broker.loop,
            seconds=max(0.0, broker.configuration.handshake_timeout - elapsed),
            most=STRANGER_BYTES_MAX,
            release=partial(broker.admission.handshake_ended, self._facts),
        ):
            broker.undecided.remove(self)
            return
        transport.close()
        self._timer = broker.loop.call_later(LINGER_SECONDS, self.abort)

    def _end(self) -> None:
        if self in self._broker.undecided:
            self._broker.undecided.remove(self)
            self._broker.admission.handshake_ended(self._facts)
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        seconds = self._broker.configuration.handshake_timeout
        self._broker.admission.note_timed_out(self._peer(), seconds)
        self.abort()

    def _peer(self) -> str:
        return str(self._facts) if self._facts.address else "?"
