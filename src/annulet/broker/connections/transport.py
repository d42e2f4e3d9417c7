"""The asyncio half of a client's connection: the common part of all protocols below their engines.

A duck-typed ``asyncio.Protocol``: it has the methods but does not inherit, so that it can be compiled. Input of one
read is handled whole; output of one loop turn leaves in one write, but for many bytes of deliveries (``WRITE_BYTES``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

import structlog
from mypy_extensions import mypyc_attr

from annulet.broker.connections.access import Access
from annulet.broker.connections.engine_interface import ConnectionEngine
from annulet.broker.network.large_writes import PIECE_BYTES, pieces_of
from annulet.broker.network.lingering import LINGER_BYTES_MAX, LINGER_SECONDS, STRANGER_BYTES_MAX
from annulet.broker.network.listening import PeerFacts, bound_transport, release_transport
from annulet.broker.network.peer_watch import PEER_ENDED, PEER_GONE, keep_alive, state_of_peer
from annulet.broker.network.unfinished import LIMIT_UNFINISHED
from annulet.broker.paging.spill_pace import SPILL_BEHIND, SPILL_FREE, SPILL_FULL, must_be_heard
from annulet.broker.security.admission import EXPLANATION_SECONDS
from annulet.broker.security.tls import peer_facts
from annulet.broker.turns.delivery_shares import DELIVERIES_TIMED
from annulet.broker.turns.input_turns import PacedInput

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from annulet.broker.connections.client_session import ClientSession
    from annulet.broker.connections.services import BrokerServices
    from annulet.broker.security.authentication import User
    from annulet.core.host.virtual_host import VirtualHost

logger = structlog.get_logger(__name__)

OUTPUT_BYTES_MAX: Final = 1 << 20
"""Bytes of a turn, or waiting to be written, above which a connection gets no more deliveries (design: 1 MiB whatever
its credit)."""

WRITE_BYTES: Final = 256 << 10
"""Bytes of deliveries that are written without waiting for the end of the turn: the processor's caches still have them.
Two brokers in turns, 1 KiB bodies: 0.93 of the processor time a message of a deep queue, 0.97 of a short one. With 128
KiB a consumer acknowledged in smaller parts, and a short queue was drained at 0.97 of the rate."""

ANSWER_BYTES_MAX: Final = 2 << 20
"""Bytes by which waiting output may grow while the socket takes nothing. Deliveries stop then, answers do not (to
echoes, basic.get, returns, receipts): beyond them, a peer that sends requests and does not read is not read either."""

UNREAD_LIMIT: Final = "answer_bytes_max"
"""Name under which connections count in ``engine.limit_hits`` how often they were not read because of it."""

CLOSE_GRACE_SECONDS: Final = 5.0
"""How long a peer may take to read our last bytes before the socket is cut."""

CLOSE_ANSWER_SECONDS: Final = 30.0
"""How long a peer may take to answer a close before the socket is cut."""

HEARTBEAT_MISSES_MAX: Final = 2
"""Intervals a peer may be silent for that promised to say something within each: then it is given up (AMQP 0-9-1
§4.2.7, AMQP 1.0 §2.4.5; STOMP's "Heart-beating" asks for an error margin)."""


EngineT = TypeVar("EngineT", bound=ConnectionEngine)
SessionT = TypeVar("SessionT", bound="ClientSession")


def count_hit(limit_hits: dict[str, int], limit: str) -> None:
    """Count that a connection met a limit."""
    limit_hits[limit] = limit_hits.get(limit, 0) + 1


def _nothing() -> None:
    """Give nothing back: the admission refused the connection, and did not count it."""


AnyConnection: TypeAlias = "ClientConnection[Any, Any]"
"""For code that is independent of the client's protocol."""


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientConnection(Generic[EngineT, SessionT]):
    """One client, whatever it speaks. A subclass brings the engine and overrides the hooks at the end."""

    engine: EngineT

    def __init__(self, broker: BrokerServices) -> None:
        self.broker = broker
        self.tls_listener = "amqps"  # whose ``tls.certificate_name`` says which user a client certificate names
        self.name = ""  # peer address -> our address, as RabbitMQ names connections
        self.user_name = ""
        self.user: User | None = None  # since the login
        self.publisher = ""  # the name in the loss ledger: user@peer
        self.identity: object = object()  # what no-local compares; messages keep it, and so not the whole connection
        self.connected_at = 0
        self.now = broker.clock()
        self.host: VirtualHost | None = None
        self.access: Access | None = None  # the user's operations there
        self.writable = True  # there is room for deliveries
        self.opened = False  # the handshake is over
        self.publishes = False  # has ever published: such connections are not read during the memory alarm
        self.obeys_flow = False  # its publishers stop when they are told, so that they need not be left unread
        self.bytes_received = self.bytes_sent = 0
        self.channels: dict[int, SessionT] = {}
        self.peer = PeerFacts()
        self.waited = 0.0  # seconds of the hand-shake's that were used up before the connection was made
        self.paces_strangers = True  # input before the login is handled in pieces; not if that is done below
        self._paced: PacedInput | None = None
        self.refusal = ""  # why the connection may not come in, to be told as soon as the protocol allows
        self._counted, self._counted_user, self._counted_host = False, "", ""  # by the admission
        self.transport: asyncio.Transport | None = None
        self._dirty = self._transport_paused = False
        self._paused_at = 0  # bytes that waited when the socket took no more
        self._shares, self._inputs = broker.shares, broker.inputs
        self._spill_pace, self._definitions = broker.spill_pace, broker.definitions
        self.definitions_due = False  # the answers wait for declarations to be durable
        self._spill_waits = SPILL_FREE
        self._delivered = self._written = 0  # deliveries of this turn, and bytes written before its end
        self._share = 0  # how many may be, since the first of them
        self._until = 0.0  # how long the loop's thread will have computed when they have taken long enough
        self.blocked_told = self._reading_paused = self._rests = False  # rests: input waits for a turn with time
        self.transacted_bytes = 0  # held by open transactions of its sessions
        self._unfinished = 0  # bytes that the broker's account of unfinished work has of it
        self._works = 0  # work in slices that its input waits for
        self._held: dict[SessionT, None] = {}  # sessions that published into blocked targets
        self._timer: asyncio.TimerHandle | None = None
        self._handshake_until = 0.0  # time of the loop at which the hand-shake has taken too long
        self._silent_checks = 0
        self._bytes_checked = 0  # the traffic either way at the last check for idleness
        self._flushing: dict[SessionT, None] = {}  # sessions with answers to give at the end of this turn
        self.lost, self._turn = False, 0  # turn: which session is served first when there is room again

    # ------------------------------------------------------------------ asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Ask for admission and start the hand-shake timer."""
        self.transport, broker = transport, self.broker
        bound_transport(transport, OUTPUT_BYTES_MAX)
        keep_alive(transport)
        ours = transport.get_extra_info("sockname") or ("?", 0)
        self.peer = peer_facts(transport, broker.configuration, self.tls_listener)
        self.name = f"{self.peer.address or '?'}:{self.peer.port} -> {ours[0]}:{ours[1]}"
        self.connected_at = broker.clock()
        if self.paces_strangers:
            self._paced = PacedInput(broker.input_turns, transport, self._take_piece, self._may_be_read)
        broker.connections.add(self)
        self.refusal = broker.admission.may_connect(self.peer)
        self._counted = not self.refusal
        if self.refusal and not broker.admission.may_explain():
            transport.abort()
            return
        seconds = max(0.0, broker.configuration.handshake_timeout - self.waited)
        if self.refusal:
            seconds = min(EXPLANATION_SECONDS, seconds)
        self._handshake_until = broker.loop.time() + seconds
        self.restart_timer(seconds, self._handshake_expired)

    def _may_be_read(self) -> bool:
        return not self._reading_paused and not self.definitions_due

    def log_in(self, user_name: str, host_name: str = "") -> str:
        """Count the connection to its user and the virtual host it opens. Returns "" or why it may not go on."""
        if self.refusal:
            return self.refusal
        reason = self.broker.admission.may_open(user_name, self.peer, host_name)
        if not reason:
            self._counted_user = self.user_name = user_name
            self._counted_host = host_name
            self.publisher = f"{user_name}@{self.peer}" if self.peer.address else user_name
        return reason

    def data_received(self, data: bytes) -> None:
        """Handle everything that was read."""
        self.now = self.broker.clock()
        self.bytes_received += len(data)
        if self._paced is None:
            self._receive(data)
        else:
            self._paced.received(data)

    def _take_piece(self, data: bytes) -> None:
        """Handle a piece of what a stranger sent. Reads come whole once it is logged in and all of that is handled."""
        self._receive(data)
        if self.opened and self._paced is not None and not self._paced.left:
            self._paced = None

    def _receive(self, data: bytes) -> None:
        inputs, began = self._inputs, self._inputs.begin(self.engine)
        if self.opened and not inputs.has_time():
            self.engine.resting = True
        self.serve(data)
        inputs.handled(self.transport, len(data), began)
        if self.engine.resting and not self._rests:
            self._rest()

    def look(self) -> int:
        """Say how many frames of a client that is logged in may be served now. With 0 the rest waits for its turn."""
        steps = self._inputs.look()
        if not steps and not self._rests:
            self._rest()
        return steps

    def _rest(self) -> None:
        """Read nothing until the input is served."""
        self._inputs.rest(self)
        self._pause_reading()

    def await_work(self) -> None:
        """Serve no further input of the client before work in slices for it is done: see :meth:`work_done`.

        Answers stay in the order of the requests, and nothing is served that the work may change.
        """
        self._works += 1
        if self._works > 0:  # else it was done in the call that asked for it
            self.engine.rest()
            if not self._rests:
                self._pause_reading()

    def work_done(self) -> None:
        """The work is done, or has failed: let the input that waited have its turn."""
        self._works -= 1
        self.now = self.broker.clock()
        if self._works == 0 and not self.lost:
            self._inputs.rest(self)
        self.mark_dirty()

    def _pause_reading(self) -> None:
        self._rests = True
        if self.transport is not None and not self.transport.is_closing():
            self._reading_paused = True
            self.transport.pause_reading()

    def end_rest(self) -> None:
        """Serve what rested, as far as there is time: the connection has its turn."""
        if self._works > 0:  # begun since the turn was asked for
            return
        self._rests = self.engine.resting = False
        if not self.lost:
            self.now = self.broker.clock()
            self._receive(b"")

    def serve(self, data: bytes) -> None:
        """Handle input; without any, what waited until its answers could be written."""
        self._spill_pace.arrived = False  # attributes: a call of another room for each input would cost a message more
        self._definitions.serving = True
        try:
            if data:
                self.engine.receive(data)
            else:
                self.go_on()
        except Exception as error:  # noqa: BLE001 - a defect: the engine has closed with an internal error, and tells the peer
            self.note_defect(error)
        self.end_serving()

    def end_serving(self) -> None:
        """End :meth:`serve` or :meth:`begin_waiting`: the answers wait until the changes of the input are durable."""
        self._definitions.serving = False
        if self._definitions.asked:
            self._definitions.served(self)
        if self.refusal:
            self.explain_refusal()
        if self._spill_pace.arrived:
            self._spill_pace.served(self)
        self._note_unfinished()
        self.mark_dirty()

    def _note_unfinished(self) -> None:
        if (held := self.unfinished_bytes()) != self._unfinished:
            self._unfinished = held
            self.broker.unfinished.note(self, held)

    def begin_waiting(self) -> None:
        """Begin to serve what waited for a login, as input is served, until :meth:`end_serving`."""
        self.now = self.broker.clock()
        self._definitions.serving = True

    def unfinished_bytes(self) -> int:
        """Return bytes held of what the client has begun and not finished: messages on their way, transactions."""
        return self.engine.unfinished_bytes + self.transacted_bytes

    def refuse_unfinished(self, text: str) -> None:
        """End the connection: it has most of the unfinished work, and that is too much."""
        count_hit(self.engine.limit_hits, LIMIT_UNFINISHED)
        self.close_for_resources(text)
        self._unfinished = 0
        self.mark_dirty()

    def note_defect(self, error: Exception, event: str = "defect while serving a connection") -> None:
        """Log a defect of ours, with a traceback when the peer is logged in: strangers cause as many as they like."""
        if self.opened:
            logger.error(event, peer=self.name, protocol=self.protocol_name, exc_info=error)
        else:
            self.broker.admission.note_defect(event, self.name, self.protocol_name, error)

    def eof_received(self) -> bool:
        """The peer will send nothing more: let asyncio close the transport, soon even if the peer reads nothing."""
        # Over TLS the end comes together with the input before it, which is served first.
        if self._rests and self._works <= 0:
            self.engine.look, self._rests, self.engine.resting = None, False, False
            self.serve(b"")
        if self.definitions_due:
            self._definitions.settle()
        if self._dirty:
            self.flush()  # connections waiting for their turn: asyncio closes now, drops later output
        if not self.lost:  # else the flush was the last, and others have the socket
            self.restart_timer(CLOSE_GRACE_SECONDS, self.abort)
        return False

    def connection_lost(self, error: BaseException | None) -> None:  # noqa: ARG002 - asyncio's; logged by no one
        """The socket is gone, or only read to the end: return what the sessions held, and leave no reference cycle."""
        if self.lost:
            return
        self.lost = True
        self.now = self.broker.clock()
        self.stop_timer()
        if self._paced is not None:
            self._paced.end()
            self._paced = None
        if self._counted:
            self._counted = False
            self.broker.admission.closed(self.peer, self._counted_user, self._counted_host)
        self._spill_pace.ended(self)
        self.broker.unfinished.forget(self)
        self.broker.connection_ended(self)
        begun = self._definitions.begin()
        try:
            self.engine.connection_lost()
        finally:  # else a defect would keep deliveries, and exclusive queues, until a restart
            self.ended()
            self.engine.look = None  # it leads back to the connection
            if self.access is not None:
                self.access.connection_ended()
            release_transport(self.transport)
            self.transport = None
            self._definitions.end(begun, None)

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

    def answer_later(self, session: SessionT) -> None:
        """Have ``session.flush_answers`` called at the end of this loop turn, before the output is written."""
        self._flushing[session] = None
        self.mark_dirty()

    def output_added(self, size: int) -> None:
        """A delivery was queued for writing: enough is enough at ``OUTPUT_BYTES_MAX``, or its share of a turn.

        Output of at least ``WRITE_BYTES`` by then is written.

        ``size``: bytes that wait in the engine now. The caller knows the value, so that this costs no look-up.
        """
        self.mark_dirty()
        self._delivered = delivered = self._delivered + 1
        if delivered in (1, self._share) or (self.writable and not delivered % DELIVERIES_TIMED):
            sessions = self.channels.values()
            self._share, self._until = self._shares.look(delivered, self._share, self._until, sessions)
        if self.writable and (self._delivered >= self._share or self._written + size >= OUTPUT_BYTES_MAX):
            self._set_writable(False)
        elif size >= WRITE_BYTES and self.transport is not None and not self.lost and not self._answers_wait():
            self._written += size
            self._write(self.transport, self.take_deliveries(), size)

    def look_soon(self) -> None:
        """A delivery took long: look at the clock before the next frame, and end the deliveries whose time is up."""
        self._inputs.look_soon()
        if self.writable and self._delivered and self._shares.computed() >= self._until:
            self._set_writable(False)
            self.mark_dirty()

    def _answers_wait(self) -> bool:
        """Return whether some of the output answers definitions that are not durable yet."""
        return self.definitions_due or self._definitions.pending

    def wait_for_definitions(self) -> None:
        """Write nothing until :meth:`definitions_written`, so that answers keep their order, and read nothing."""
        self.definitions_due = True
        if self.transport is not None and not self._reading_paused:
            self.transport.pause_reading()

    def definitions_written(self) -> None:
        """The declarations of this connection are durable: its answers may go."""
        self.definitions_due = False
        paced = self._paced is not None and self._paced.paused
        if self.transport is not None and not self._reading_paused and not paced and not self.lost:
            self.transport.resume_reading()
        self.mark_dirty()

    def flush(self) -> None:
        """Write everything queued. Called once per loop turn by the broker."""
        if self.definitions_due and not self.lost:
            self._dirty = False
            return
        while self._flushing:
            flushing, self._flushing = self._flushing, {}
            for session in flushing:
                session.flush_answers()
        self._dirty = False  # not before: the answers leave with this write
        if self._delivered:
            self._shares.served += 1
            self._delivered = self._written = 0
        transport, engine = self.transport, self.engine
        if self.lost or transport is None:
            engine.take_output()
            return
        self._note_unfinished()  # less by now, where a login or a time-out ended some and nothing was read
        if size := engine.output_size:
            self._write(transport, engine.take_output(), size)
        if engine.closed:
            self._close_transport(transport)
            return
        if not self.writable and not self._transport_paused:
            self.now = self.broker.clock()
            self._set_writable(True)
        self._pace_reading(transport)
        if self.holding and not self._reading_paused:
            self.now = self.broker.clock()
            self._receive(b"")

    def _write(self, transport: asyncio.Transport, buffers: list[bytes], size: int) -> None:
        paused = self._transport_paused
        for output in [b"".join(buffers)] if size <= PIECE_BYTES else pieces_of(buffers):
            self.bytes_sent += len(output)
            transport.write(output)
        if self._transport_paused and not paused:  # before the last piece
            self._paused_at = transport.get_write_buffer_size()

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
        """End our half, and have the rest of the input discarded: see ``lingering``. The connection itself ends now."""
        if transport.is_closing():
            return
        loop, admission, user = self.broker.loop, self.broker.admission, self._counted_user
        release: Callable[[], None] = _nothing
        if self._counted:
            release = partial(admission.lingering_ended if user else admission.closed, self.peer)
        seconds = LINGER_SECONDS if user else max(0.0, self._handshake_until - loop.time())
        most = LINGER_BYTES_MAX if user else STRANGER_BYTES_MAX
        if self.broker.lingering.begin(transport, loop, seconds=seconds, most=most, release=release):
            if self._counted and user:
                admission.lingers(user, self._counted_host)
            self._counted = False
            self.transport = None  # it is the lingering socket's now
            self.connection_lost(None)
            return
        transport.close()
        self.restart_timer(CLOSE_GRACE_SECONDS, self.abort)

    # ------------------------------------------------------------------ holding the peer back

    def hold(self, session: SessionT) -> None:
        """A session published into a queue or address that is full and blocks its publishers."""
        self._held[session] = None
        self.mark_dirty()

    def release(self, session: SessionT) -> None:
        """There is room again for what a session publishes."""
        self._held.pop(session, None)
        self.mark_dirty()

    def pace(self, waits: int) -> None:
        """Wait until the disk has caught up with publishing, or there is room; or go on: see ``spill_pace``."""
        self._spill_waits = waits
        self.mark_dirty()

    def _pace_reading(self, transport: asyncio.Transport) -> None:
        """Read nothing from publishers during the memory alarm, nor from peers that do not read our answers, nor from
        those that publish faster than the disk writes.

        Publishers into a full target that blocks them are told, if the protocol can, and so are those whose messages
        find no room in the spill store. A connection that only publishes is not read until there is room, one that also
        consumes is, as its acknowledgements make room: of the store's while it has some to give. A connection that
        closes is read: the peer has to answer. So is one whose open transaction holds messages: only its commit or
        rollback frees them, and its additions are bounded (``broker/network/unfinished.py``).
        """
        alarmed = self.publishes and self.broker.memory_blocked and self.running
        spill_full = self._spill_waits == SPILL_FULL
        held = ((bool(self._held) and not self.obeys_flow) or spill_full) and self.running
        blocked = alarmed or held
        if blocked != self.blocked_told:
            self.blocked_told = blocked
            self.tell_blocked(("low on memory" if alarmed else self._held_reason()) if blocked else "")
        unread = self._transport_paused and transport.get_write_buffer_size() > self._paused_at + ANSWER_BYTES_MAX
        only = held and not must_be_heard(self.channels.values(), idle=not spill_full)
        waits = (alarmed or only) and not self.transacted_bytes
        behind = self._spill_waits == SPILL_BEHIND and self.running
        paused = waits or unread or behind or self._rests
        if paused != self._reading_paused:
            self._reading_paused = paused
            if unread:
                count_hit(self.engine.limit_hits, UNREAD_LIMIT)
            (transport.pause_reading if paused else transport.resume_reading)()

    def look_for_end(self) -> None:
        """Find out whether a peer that is not read has ended or is dead. Input that waits is served before its end."""
        transport = self.transport
        if transport is None or not self._reading_paused or transport.is_closing():
            return
        if (state := state_of_peer(transport)) == PEER_GONE:
            self.broker.admission.note_gone(self.name)
            self.abort()
        elif state == PEER_ENDED and not self._rests and not self.holding:
            transport.resume_reading()

    def _held_reason(self) -> str:
        names = {target.name: None for session in self._held for target in session.held_by}
        if self._spill_waits == SPILL_FULL:
            names["spill store"] = None
        return f"{', '.join(names)} full"

    # ------------------------------------------------------------------ timers

    @property
    def reading_paused(self) -> bool:
        """Return whether the broker itself is not reading: then silence is no sign of a dead peer."""
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

    # ------------------------------------------------------------------ signs of life

    def watch_silence(self) -> None:
        """Look for signs of life from now on: replaces the hand-shake timer, and the last look."""
        seconds, idle = self.seconds_between_looks(), self.broker.configuration.limits.idle_timeout
        self.stop_timer()
        if seconds:
            self.restart_timer(seconds, self._silence_due)
        elif idle:
            self._bytes_checked = self.bytes_received + self.bytes_sent
            self.restart_timer(idle, self._idle_due)

    def _silence_due(self) -> None:
        """Send a sign of life, and give up a peer that was silent for too many of the intervals it has to keep."""
        if self.engine.received_since_check or self._reading_paused:
            self._silent_checks = 0
            self.engine.received_since_check = False
        else:
            self._silent_checks += 1
        promised = self.seconds_promised()
        if promised and self._silent_checks * self.seconds_between_looks() > HEARTBEAT_MISSES_MAX * promised:
            self.broker.admission.note_silent(self.name, promised)
            self.abort()
            return
        self.send_sign_of_life()
        self.mark_dirty()
        self.watch_silence()

    def _idle_due(self) -> None:
        """Close a connection without heart-beats when there was no traffic either way for the idle time-out."""
        seconds = self.broker.configuration.limits.idle_timeout
        if self._bytes_checked == self.bytes_received + self.bytes_sent and not self._reading_paused:
            self.broker.admission.note_idle(self.name, seconds)
            self.force_close(f"idle for {seconds:g} seconds{self.idle_remedy}")
        elif self.running:
            self.watch_silence()

    # ------------------------------------------------------------------ errors

    def note_error(self, where: str, code: str, reason: str) -> None:
        """A channel, session or link was ended with an error."""
        self.broker.protocol_errors.note(self, where, code, reason)

    # ------------------------------------------------------------------ questions of sessions

    def require_host(self) -> VirtualHost:
        """Return the opened virtual host."""
        assert self.host is not None
        return self.host

    def enter_host(self, host: VirtualHost, *, records: bool) -> None:
        """Open a virtual host that the user may enter. ``records``: as :class:`Access` has it."""
        broker = self.broker
        self.host = host
        self.engine.look = self.look
        broker.login_ends.watch(self)
        self.access = Access(
            broker.authenticator, broker.catalogue, host, self.user_name, owner=self, records=records, user=self.user
        )

    def require_access(self) -> Access:
        """Return what the user may do in the opened virtual host."""
        assert self.access is not None
        return self.access

    def abort(self) -> None:
        """Cut the socket."""
        if self.transport is not None:
            self.transport.abort()

    # ------------------------------------------------------------------ what a protocol brings

    @property
    def protocol_name(self) -> str:
        """For people and metrics: "AMQP 1.0", "STOMP 1.2"."""
        raise NotImplementedError

    @property
    def client_name(self) -> str:
        """The name the client gave its connection, for people; empty when it gave none."""
        return ""

    @property
    def running(self) -> bool:
        """Return whether publishers may be left unread: the hand-shake is over, and no answer to a close is awaited."""
        return self.opened

    @property
    def holding(self) -> bool:
        """Return whether the engine keeps input back until its answers were taken."""
        return False

    def go_on(self) -> None:
        """Serve the input that the engine kept back."""

    def explain_refusal(self) -> None:
        """Tell a refused peer the reason, once it can understand."""

    def take_deliveries(self) -> list[bytes]:
        """Take the output before the turn ends. The core is in the middle of a dispatch: nothing may call it."""
        return self.engine.take_output()

    def tell_blocked(self, reason: str) -> None:
        """Tell the client why its publishes have to wait, or with an empty reason that they need not any longer."""

    @property
    def idle_remedy(self) -> str:
        """The advice for a peer closed as idle, behind "idle for 30 seconds"."""
        return ""

    def seconds_between_looks(self) -> float:
        """Return seconds between two looks for a sign of life, 0 for none: then the idle time-out is what counts."""
        return 0.0

    def seconds_promised(self) -> float:
        """Return the seconds within which the peer has to say something, 0 for never."""
        return 0.0

    def send_sign_of_life(self) -> None:
        """Queue what tells the peer that we are there, if it wants to know."""

    def force_close(self, text: str) -> None:
        """End the connection politely, on the broker's own account."""
        raise NotImplementedError

    def trace_frames(self, trace: Callable[[str], None] | None) -> None:
        """Call ``trace`` with each frame as a line from now on; ``None``: as the configuration says."""
        raise NotImplementedError

    def close_for_resources(self, text: str) -> None:
        """End the connection with the protocol's error for a lack of resources."""
        raise NotImplementedError

    def ended(self) -> None:
        """The socket is gone: close what sessions are left and what belongs to the connection."""
        raise NotImplementedError
