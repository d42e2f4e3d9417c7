"""The asyncio half of a client's connection: what AMQP 1.0 and STOMP have in common below their engines.

A duck-typed ``asyncio.Protocol``. Input of one read is handled whole; output of one loop turn leaves in one write. The
0-9-1 connection has the same parts grown together with its handler, because it is the one that is compiled as a whole.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from annulet.broker.admission import EXPLANATION_SECONDS
from annulet.broker.input_shares import INPUT_BYTES_FIRST
from annulet.broker.listening import PeerFacts
from annulet.broker.tls import peer_facts

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from annulet.broker.authentication import PermissionKind
    from annulet.broker.broker import Broker
    from annulet.broker.sending import SendingSession
    from annulet.core.session import Session
    from annulet.core.virtual_host import VirtualHost

logger = structlog.get_logger(__name__)

OUTPUT_BYTES_MAX: Final = 1 << 20
"""Bytes waiting to be written above which a connection gets no more deliveries (design: 1 MiB whatever its credit)."""

TURN_DELIVERIES: Final = 1024
"""Deliveries of one turn of the loop, those of all connections together: 5 to 9 ms. The rest of a backlog has to wait
for the next turn, and whatever else became ready comes first."""

SHARE_LEAST: Final = 256
"""Deliveries that a connection gets in one turn however many others get some: what is written at once is to be worth
it, and where many publish to few who take they must not fall behind."""

TURN_SECONDS: Final = 0.006
"""Computing time of a turn's deliveries, and of what else connections have done in it: a connection has the part of it
that its share is of ``TURN_DELIVERIES``, from its first delivery on, and gets no more after that, nor when the time of
the turn is up. Where each message is read from another place of the disk, as of deep sorted queues, 1000 took up to
48 ms, of deep grouped ones up to 30; four connections, each with its part and a read before its first delivery, up to
22 together. With 10 ms turns beside groups took more than 10 ms 5 % of the time, with this 2 to 4."""

DELIVERIES_TIMED: Final = 64
"""Deliveries between two looks at that time: so many each connection gets that has something to get, however long they
take."""

LEAST_SECONDS: Final = 0.001
"""Computing time that a connection has for deliveries however late in a turn: some 256 that take 4 us, 64 that take
long. With 64 of either, 60 consumers beside 60 publishers fell behind, each message cost a quarter more."""

BROWSER_PART: Final = 2
"""A connection that only browses gets one of so many parts of a share: what it is sent is read for it alone, which
costs twice as much as a delivery, and who takes messages is to keep four fifths of his rate beside it."""

NO_SHARE: Final = 1 << 62
"""The share of a connection with a consumer that comes before others by priority: those would get what it may not have
in this turn. ``OUTPUT_BYTES_MAX`` bounds it."""

ANSWER_BYTES_MAX: Final = 2 << 20
"""Bytes by which what waits to be written may grow while the socket takes nothing. Deliveries stop then, answers do not
(to echoes, basic.get, returns, receipts): more of them, and who asks and does not read is not read either."""

UNREAD_LIMIT: Final = "answer_bytes_max"
"""Name under which connections count in ``engine.limit_hits`` how often they were not read because of it."""

CLOSE_GRACE_SECONDS: Final = 5.0
"""How long a peer may take to read our last bytes before the socket is cut."""

CLOSE_ANSWER_SECONDS: Final = 30.0
"""How long a peer may take to answer a close before the socket is cut."""


class ConnectionEngine(Protocol):
    """What the transport needs of a protocol's engine."""

    closed: bool
    received_since_check: bool
    limit_hits: dict[str, int]

    @property
    def output_size(self) -> int:
        """Bytes that :meth:`take_output` would return."""

    def receive(self, data: bytes) -> None:
        """Take what was read and serve everything that is complete."""

    def take_output(self) -> list[bytes]:
        """Return what is to be written, and forget it."""

    def connection_lost(self) -> None:
        """The socket is gone."""


class DeliveryShares:
    """How many deliveries a connection may get in one turn: its part of ``TURN_DELIVERIES``, ``SHARE_LEAST`` at least,
    as long as the turn's time is not up.

    The parts are those of the connections that got deliveries in the round before, in which all were written to; after
    one in which none did all begin with the least, as many may come at once. A round takes several turns where one
    would be too long. Belongs to the event loop.
    """

    def __init__(self) -> None:
        self.share = SHARE_LEAST
        self.computed = time.thread_time  # seconds the loop's thread has computed
        self.served = 0  # connections that got deliveries, of this round
        self.used_up = 0  # times a connection had to wait for the next turn because it had its share, or long enough
        self.used_up_by_browsers = 0  # of these, connections that only browse
        self.rounds_cut = 0  # turns whose time was up before all connections were written to
        self._turn_until = math.inf  # how long the loop's thread will have computed then

    def after(self, delivered: int, sessions: Iterable[Session]) -> int:
        """Return the share of a connection with these sessions after its first delivery, or its last of a turn."""
        if delivered == 1:
            return self.share // BROWSER_PART if only_browse(sessions) else self.share
        if any(session.outranks for session in sessions):
            return NO_SHARE
        self.used_up += 1
        self.used_up_by_browsers += only_browse(sessions)
        return delivered

    def look(self, delivered: int, share: int, until: float, sessions: Iterable[Session]) -> tuple[int, float]:
        """Return the share of a connection, and how long the loop's thread will have computed when that took long
        enough. To be asked after its first delivery of a turn, its last, and every ``DELIVERIES_TIMED``.
        """
        if delivered == 1:
            share = self.after(1, sessions)
            now = self.computed()
            return share, min(now + TURN_SECONDS * share / TURN_DELIVERIES, max(self._turn_until, now + LEAST_SECONDS))
        if delivered == share or self.computed() >= until:
            share = self.after(delivered, sessions)
        return share, until

    def turn_began(self) -> None:
        """Connections are written to, and then what they sent is handled."""
        self._turn_until = self.computed() + TURN_SECONDS

    def over(self) -> bool:
        """Say whether the turn's time is up, before all connections were written to."""
        over = self.computed() >= self._turn_until
        self.rounds_cut += over
        return over

    def round_ended(self) -> None:
        """All connections have written what they had."""
        self.share = max(SHARE_LEAST, TURN_DELIVERIES // self.served) if self.served else SHARE_LEAST
        self.served = 0


def only_browse(sessions: Iterable[Session]) -> bool:
    """Say whether there are consumers, and none of them takes anything; as a rule the first one does."""
    browses = False
    for session in sessions:
        for consumer in session.consumers.values():
            if not consumer.settings.browse:
                return False
            browses = True
    return browses


def note_unread(limit_hits: dict[str, int]) -> None:
    """Count that a connection is not read because it does not read its answers."""
    limit_hits[UNREAD_LIMIT] = limit_hits.get(UNREAD_LIMIT, 0) + 1


def bound_transport(transport: asyncio.Transport) -> None:
    """Set how much a connection may have waiting to be written, and how much is read of it in one turn at first.

    The latter where asyncio reads the socket for us; through TLS it is what asyncio decrypts at once.
    """
    transport.set_write_buffer_limits(high=OUTPUT_BYTES_MAX)
    if hasattr(transport, "max_size"):  # of its selector transports; there is no method to set it
        transport.max_size = INPUT_BYTES_FIRST


class ClientConnection:
    """One client, whatever it speaks. A subclass brings the engine and overrides the hooks at the end."""

    protocol_name: str = ""
    """For people and metrics: "AMQP 1.0", "STOMP 1.2"."""

    tls_listener: str = "amqps"
    """Whose ``tls.certificate_name`` says which user a client certificate names."""

    engine: ConnectionEngine

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.name = ""  # peer address -> our address, as RabbitMQ names connections
        self.user_name = ""
        self.publisher = ""  # what the loss ledger names: user@peer
        self.identity: object = object()  # what no-local compares; messages keep it, and so not the whole connection
        self.connected_at = 0
        self.now = broker.clock()
        self.host: VirtualHost | None = None
        self.writable = True  # there is room for deliveries
        self.opened = False  # the handshake is over
        self.publishes = False  # has ever published: such connections are not read during the memory alarm
        self.bytes_received = 0
        self.bytes_sent = 0
        self.channels: dict[int, SendingSession] = {}
        self.peer = PeerFacts()
        self.waited = 0.0  # seconds of the hand-shake's that were used up before the connection was made
        self.refusal = ""  # why the connection may not come in, to be told as soon as the protocol allows
        self._counted = False  # by the admission
        self._counted_user = ""
        self.transport: asyncio.Transport | None = None
        self._dirty = False
        self._transport_paused = False
        self._paused_at = 0  # bytes that waited when the socket took no more
        self._delivered = 0  # deliveries that wait to be written
        self._share = 0  # how many may be, since the first of them
        self._until = 0.0  # how long the loop's thread will have computed when they have taken long enough
        self._reading_paused = False
        self._timer: asyncio.TimerHandle | None = None
        self._flushing: dict[SendingSession, None] = {}  # sessions with answers to give at the end of this turn
        self.lost = False
        self._turn = 0  # which session is served first when there is room again

    # ------------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Ask for admission and start the hand-shake timer."""
        broker = self.broker
        self.transport = transport
        bound_transport(transport)
        ours = transport.get_extra_info("sockname") or ("?", 0)
        self.peer = peer_facts(transport, broker.configuration, self.tls_listener)
        self.name = f"{self.peer.address or '?'}:{self.peer.port} -> {ours[0]}:{ours[1]}"
        self.connected_at = broker.clock()
        broker.connections.add(self)
        self.refusal = broker.admission.may_connect(self.peer)
        self._counted = not self.refusal
        if self.refusal and not broker.admission.may_explain():
            transport.abort()
            return
        seconds = max(0.0, broker.configuration.handshake_timeout - self.waited)
        self.restart_timer(min(EXPLANATION_SECONDS, seconds) if self.refusal else seconds, self._handshake_expired)

    def log_in(self, user_name: str) -> str:
        """Note who it is, and count it to the user. Returns "" or why it may not go on."""
        if self.refusal:
            return self.refusal
        reason = self.broker.admission.may_open(user_name)
        if not reason:
            self._counted_user = self.user_name = user_name
            self.publisher = f"{user_name}@{self.peer}" if self.peer.address else user_name
        return reason

    def data_received(self, data: bytes) -> None:
        """Handle everything that was read."""
        self.now = self.broker.clock()
        self.bytes_received += len(data)
        began = self.broker.inputs.computed()
        self.serve(data)
        self.broker.inputs.handled(self.transport, len(data), began)

    def serve(self, data: bytes) -> None:
        """Handle input; without any, what waited until its answers could be written."""
        try:
            if data:
                self.engine.receive(data)
            else:
                self.go_on()
        except Exception:  # a defect of ours: the engine has closed with an internal error, and the peer is told
            logger.exception("defect while serving a connection", peer=self.name, protocol=self.protocol_name)
        self.mark_dirty()

    def eof_received(self) -> bool:
        """The peer will send nothing more: let asyncio close the transport, soon even if the peer reads nothing."""
        if self._dirty:
            self.flush()  # who still waits for his turn: asyncio closes the transport now, and drops what comes later
        self.restart_timer(CLOSE_GRACE_SECONDS, self.abort)
        return False

    def connection_lost(self, error: BaseException | None) -> None:  # noqa: ARG002 - asyncio's; logged by no one
        """The socket is gone: return what the sessions held."""
        self.lost = True
        self.now = self.broker.clock()
        self.stop_timer()
        if self._counted:
            self._counted = False
            self.broker.admission.closed(self.peer, self._counted_user)
        self.broker.connection_ended(self)
        self.engine.connection_lost()
        self.ended()

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._transport_paused = True
        self._paused_at = 0 if self.transport is None else self.transport.get_write_buffer_size()
        self._set_writable(False)

    def resume_writing(self) -> None:
        """The socket has room again: serve the consumers of this connection."""
        self._transport_paused = False
        self.now = self.broker.clock()
        self._set_writable(True)
        self.mark_dirty()

    # ------------------------------------------------------------------ output

    def mark_dirty(self) -> None:
        """Have the output written at the end of this loop turn."""
        if not self._dirty:
            self._dirty = True
            self.broker.flush_later(self)

    def answer_later(self, session: SendingSession) -> None:
        """Have ``session.flush_answers`` called at the end of this loop turn, before the output is written."""
        self._flushing[session] = None
        self.mark_dirty()

    def output_added(self) -> None:
        """A delivery was queued for writing: enough is enough at ``OUTPUT_BYTES_MAX``, or its share of a turn."""
        self.mark_dirty()
        self._delivered = delivered = self._delivered + 1
        if delivered in (1, self._share) or (self.writable and not delivered % DELIVERIES_TIMED):
            sessions = self.channels.values()
            self._share, self._until = self.broker.shares.look(delivered, self._share, self._until, sessions)
        if self.writable and (self._delivered >= self._share or self.engine.output_size >= OUTPUT_BYTES_MAX):
            self._set_writable(False)

    def flush(self) -> None:
        """Write everything queued. Called once per loop turn by the broker."""
        while self._flushing:
            flushing, self._flushing = self._flushing, {}
            for session in flushing:
                session.flush_answers()
        self._dirty = False  # not before: the answers leave with this write
        self.broker.shares.served += self._delivered > 0
        self._delivered = 0
        transport = self.transport
        engine = self.engine
        if self.lost or transport is None:
            engine.take_output()
            return
        if engine.output_size:
            output = b"".join(engine.take_output())
            self.bytes_sent += len(output)
            transport.write(output)
        if engine.closed:
            self._close_transport(transport)
            return
        if not self.writable and not self._transport_paused:
            self.now = self.broker.clock()
            self._set_writable(True)
        self._pace_reading(transport)
        if self.holding and not self._reading_paused:
            self.now = self.broker.clock()
            self.serve(b"")

    def _set_writable(self, writable: bool) -> None:
        self.writable = writable
        for session in self.channels.values():
            session.connection_writable(writable)
        if writable:
            sessions = list(self.channels.values())
            if len(sessions) > 1:  # each time another one first: a deep backlog would else use up the room for all
                self._turn = (self._turn + 1) % len(sessions)
                sessions = sessions[self._turn :] + sessions[: self._turn]
            for session in sessions:
                session.wake(self.now)

    def _close_transport(self, transport: asyncio.Transport) -> None:
        if not transport.is_closing():
            transport.close()
            self.restart_timer(CLOSE_GRACE_SECONDS, self.abort)

    def _pace_reading(self, transport: asyncio.Transport) -> None:
        """Read nothing from publishers while the memory alarm is on, nor from who does not read our answers.

        Nor from who only publishes into what is full and blocks its publishers: one who also consumes is read, or its
        acknowledgements could never make room.
        """
        sessions = self.channels.values()
        held = any(session.held_by for session in sessions) and not any(
            session.consumers or session.unacknowledged for session in sessions
        )
        unread = self._transport_paused and transport.get_write_buffer_size() > self._paused_at + ANSWER_BYTES_MAX
        paused = self.opened and (
            (self.broker.memory_blocked and self.publishes) or (held and not self.obeys_credit()) or unread
        )
        if paused != self._reading_paused:
            self._reading_paused = paused
            if paused:
                if unread:
                    note_unread(self.engine.limit_hits)
                transport.pause_reading()
            else:
                transport.resume_reading()

    # ------------------------------------------------------------------ timers

    @property
    def reading_paused(self) -> bool:
        """Say whether we are the ones who do not listen: then silence is no sign of a dead peer."""
        return self._reading_paused

    def restart_timer(self, seconds: float, callback: Callable[[], None]) -> None:
        """Replace the connection's one timer."""
        self.stop_timer()
        self._timer = self.broker.loop.call_later(seconds, callback)

    def stop_timer(self) -> None:
        """Let nothing happen by itself."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _handshake_expired(self) -> None:
        if not self.opened:
            if not self.refusal:  # that one is counted
                self.broker.admission.note_timed_out(self.name, self.broker.configuration.handshake_timeout)
            self.abort()

    # ------------------------------------------------------------------ questions of sessions

    def require_host(self) -> VirtualHost:
        """Return the opened virtual host."""
        assert self.host is not None
        return self.host

    def allowed(self, kind: PermissionKind, name: str) -> bool:
        """Say whether the user may configure, write or read ``name``."""
        return self.broker.authenticator.allowed(self.user_name, self.require_host().name, kind, name)

    def accepts_durable(self, size: int, now: int) -> bool:
        """Say whether the message log takes another persistent message of ``size`` bytes."""
        return self.broker.accepts_durable(size, now)

    def abort(self) -> None:
        """Cut the socket."""
        if self.transport is not None:
            self.transport.abort()

    # ------------------------------------------------------------------ what a protocol brings

    @property
    def holding(self) -> bool:
        """Say whether the engine keeps input back until its answers were taken."""
        return False

    def go_on(self) -> None:
        """Serve the input that the engine kept back."""

    def obeys_credit(self) -> bool:
        """Say whether publishers are held back by credit, so that they need not be left unread."""
        return False

    def force_close(self, text: str) -> None:
        """End the connection politely, on the broker's own account."""
        raise NotImplementedError

    def ended(self) -> None:
        """The socket is gone: close what sessions are left and what belongs to the connection."""
        raise NotImplementedError
