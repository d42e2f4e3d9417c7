"""One STOMP connection: the engine, its session, its login and its time-outs."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import structlog

from annulet import __version__
from annulet.broker.connections.transport import HEARTBEAT_MISSES_MAX, ClientConnection
from annulet.broker.observing.tracing import frame_trace
from annulet.broker.security.authentication import ANONYMOUS, EXTERNAL, PLAIN
from annulet.broker.security.sasl import SaslExchange, Success
from annulet.broker.stomp.commands import StompCommands
from annulet.broker.stomp.destinations import TemporaryQueues
from annulet.broker.stomp.session import StompSession
from annulet.wire.stomp.constants import LEAST_HEARTBEAT
from annulet.wire.stomp.engine import ConnectionEngine

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from annulet.broker.connections.services import BrokerServices
    from annulet.broker.security.sasl import Step

logger = structlog.get_logger(__name__)

PROTOCOL: Final = "stomp"
DEFAULT_HOST: Final = "/"

ERROR_LATER: Final = "later"
"""Code of an ERROR that is about no frame just read: a write that failed, a time-out. STOMP has no codes; the others
are the command of the frame, or ``frame``."""


class StompConnection(ClientConnection[ConnectionEngine, StompSession]):
    """Handles one client, over a socket or a WebSocket."""

    def __init__(self, broker: BrokerServices) -> None:
        super().__init__(broker)
        self.tls_listener = "stomps"
        self.session_id = secrets.token_hex(8)
        self.session: StompSession | None = None
        self.temporary = TemporaryQueues(self)
        limits = broker.configuration.limits
        self._trace_line = frame_trace(broker.configuration, self)
        self.engine = ConnectionEngine(
            StompCommands(self),
            server=f"Annulet/{__version__}",
            least_heartbeat=LEAST_HEARTBEAT if broker.configuration.heartbeat else 0,
            max_header_bytes=limits.max_header_bytes,
            max_body_bytes=limits.max_message_bytes,
            max_unauthenticated_bytes=limits.max_unauthenticated_bytes,
            trace=None if self._trace_line is None else self._trace,
        )
        self._login: asyncio.Task[None] | None = None
        self._silent_seconds = self._seconds_between_checks = 0.0
        self._heartbeat_bytes = 0  # of that, our heart-beats
        self._expected = False  # the end is the broker's own wish

    @property
    def protocol_name(self) -> str:
        """``STOMP`` and the version."""
        return f"STOMP {self.engine.version}" if self.opened else "STOMP"

    def go_on(self) -> None:
        """Serve the input that rested."""
        self.engine.go_on()

    def trace_frames(self, trace: Callable[[str], None] | None) -> None:
        """Call ``trace`` with each frame as a line from now on; ``None``: as the configuration says."""
        self._trace_line = frame_trace(self.broker.configuration, self) if trace is None else trace
        self.engine.trace = None if self._trace_line is None else self._trace

    def _trace(self, line: str, incoming: bool) -> None:
        if self._trace_line is not None:
            self._trace_line(f"<- {line}" if incoming else f"-> {line}")

    # ------------------------------------------------------------------ login

    def begin_login(self, login: str | None, passcode: str | None, host: str) -> None:
        """Judge a login in a task of its own: hashing takes time, and failed guesses have to wait."""
        if self.refusal:
            self.engine.refuse(self.refusal)
            return
        self._login = self.broker.loop.create_task(self._log_in(login, passcode, host))

    async def _log_in(self, login: str | None, passcode: str | None, host: str) -> None:
        try:
            step = await self._check_login(login, passcode)
        except Exception as error:  # noqa: BLE001 - a defect, or the catalogue: the peer is told and not left waiting
            self._refuse_after(error)
            self.mark_dirty()
            return
        if self.lost or self.engine.closed:  # gave up, or said more than a stranger may
            return
        self.begin_waiting()
        try:
            self._conclude_login(step, host)
        except Exception as error:  # noqa: BLE001 - as above, or in what waited
            self._refuse_after(error)
        self.end_serving()

    def _conclude_login(self, step: Step, host: str) -> None:
        """Answer the login, and serve what waited for it."""
        if not isinstance(step, Success):
            self.engine.refuse(f"login refused: {getattr(step, 'reason', 'the mechanism needs more steps')}")
            return
        self.user = step.user
        refusal = self._enter(step.user.name, host)
        if refusal:
            self.engine.refuse(refusal)
        else:
            self.engine.authenticated(self.session_id)

    def _refuse_after(self, error: Exception) -> None:
        self.note_defect(error)
        self.engine.refuse("login refused: internal error; the broker's log says more")

    async def _check_login(self, login: str | None, passcode: str | None) -> Step:
        exchange = SaslExchange(self.broker.authenticator, PROTOCOL)
        if login is None:
            mechanism = EXTERNAL if self.peer.certificate_name else ANONYMOUS
            return await exchange.begin(mechanism, b"", peer=self.peer)
        response = f"\0{login}\0{passcode or ''}".encode("utf-8", "surrogatepass")
        return await exchange.begin(PLAIN, response, peer=self.peer)

    def _enter(self, user_name: str, host: str) -> str:
        """Enter the virtual host; ``host`` that names none means ``/`` ("CONNECT": it may be the server's DNS name).

        Returns why not, empty when it is entered.
        """
        name = host if host in self.broker.hosts else DEFAULT_HOST
        if not self.broker.authenticator.admits(self.user, name):
            return f"access to vhost '{name}' refused for user '{user_name}'"
        refusal = self.broker.admission.may_have_channel(user_name) or self.log_in(user_name, name)
        if refusal:
            return refusal
        self.enter_host(self.broker.hosts[name], records=True)
        self.session = StompSession(self)
        self.channels[1] = self.session
        return ""

    def note_opened(self) -> None:
        """CONNECTED is queued: heart-beats replace the hand-shake timer."""
        self.opened = True
        self.stop_timer()
        host = self.require_host()
        logger.info(
            "connection opened", peer=self.name, user=self.user_name, vhost=host.name, protocol=self.protocol_name
        )
        self._start_heartbeat()

    # ------------------------------------------------------------------ heart-beats

    def _intervals(self) -> tuple[float, float, float]:
        """Seconds: within which we speak, within which the peer has to, after which it is idle; 0 for never.

        The idle time-out is for peers that promised no heart-beats.
        """
        receiving = self.engine.receiving_interval / 1000
        idle = 0.0 if receiving else self.broker.configuration.limits.idle_timeout
        return self.engine.sending_interval / 1000, receiving, idle

    def _start_heartbeat(self) -> None:
        intervals = [seconds for seconds in self._intervals() if seconds]
        if intervals:
            self._seconds_between_checks = min(intervals) / 2
            self.restart_timer(self._seconds_between_checks, self._heartbeat_due)

    def _heartbeat_due(self) -> None:
        """Twice per interval: say something, and give up a peer that was silent for two intervals, or idle."""
        sending, receiving, idle = self._intervals()
        if self._active(promised=receiving > 0):
            self._silent_seconds = 0.0
        else:
            self._silent_seconds += self._seconds_between_checks
        if receiving and self._silent_seconds > receiving * HEARTBEAT_MISSES_MAX:
            self.broker.admission.note_silent(self.name, receiving)
            self.abort()
            return
        if idle and self._silent_seconds >= idle:
            self.broker.admission.note_idle(self.name, idle)
            self.fail(f"idle for {idle:g} seconds; announce a heart-beat")
            return
        if sending:
            before = self.engine.output_size
            self.engine.heartbeat()
            self._heartbeat_bytes += self.engine.output_size - before
            self.mark_dirty()
        self._start_heartbeat()

    def _active(self, *, promised: bool) -> bool:
        """Return whether there was a sign of life since the last check, from a peer that promised one; else any traffic
        either way."""
        moved = self.bytes_received + self.bytes_sent - self._heartbeat_bytes  # ours are no sign of theirs
        active = self.engine.received_since_check if promised else moved != self._bytes_checked
        self.engine.received_since_check = False
        self._bytes_checked = moved
        return active or self.reading_paused

    # ------------------------------------------------------------------ end

    def fail(self, text: str) -> None:
        """End the connection with an ERROR on the broker's own account."""
        self.engine.close_with_error(text)
        self.mark_dirty()

    def force_close(self, text: str) -> None:
        """End the connection politely, if ERROR can be called so: there is nothing else."""
        self._expected = True
        self.fail(text)

    def close_for_resources(self, text: str) -> None:
        """ERROR."""
        self.engine.close_with_error(text)

    def note_closed(self, text: str, *, by_peer: bool) -> None:
        """The connection is over: its deliveries are returned, its exclusive objects are deleted."""
        code = self.engine.failed or ERROR_LATER
        if self.opened and (not text or self._expected):
            self.broker.protocol_errors.note_ended(self, "", text, by_peer=by_peer)
        elif self.opened:
            self.broker.protocol_errors.note_closed(self, code, text, by_peer=by_peer)
        elif text:
            self.broker.protocol_errors.count(self.protocol_name, code)
            self.broker.admission.note_never_open(self.name, 0, text)
        self._end_session()

    def _end_session(self) -> None:
        session = self.session
        if session is not None and not session.closed:
            session.writable = False
            session.close(self.now)
            session.holders.clear()  # the consumers hold the session
            self.temporary.delete_all(self.now)
            self.require_host().connection_closed(self, self.now)

    def ended(self) -> None:
        """The socket is gone."""
        if self._login is not None:
            self._login.cancel()
            self._login = None  # it ends with an error whose traceback holds us
        self._end_session()
        self.session = None
        self.channels.clear()
        del self.temporary  # it holds the connection
