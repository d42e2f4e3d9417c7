"""A connection from its first octet to its end: headers (§2.2), SASL (§5.3), open and close (§2.4)."""

from __future__ import annotations

from typing import Any, Final

from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.connection.output import make_error
from annulet.wire.amqp10.connection.sessions import SessionLifecycle
from annulet.wire.amqp10.connection.states import CONNECTION_TRANSITIONS, ConnectionState
from annulet.wire.amqp10.frames.frames import AMQP_HEADER, FRAME_HEADER_OCTETS, MIN_MAX_FRAME_SIZE, SASL_HEADER
from annulet.wire.amqp10.frames.limits import MAX_SENT_FRAME_SIZE, MIN_REMOTE_IDLE_TIME_OUT
from annulet.wire.amqp10.frames.performatives import Close, Error, Open, encode_performative
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
from annulet.wire.amqp10.types.conditions import (
    CONNECTION_FRAMING_ERROR,
    DECODE_ERROR,
    FRAME_SIZE_TOO_SMALL,
    ILLEGAL_STATE,
    INTERNAL_ERROR,
    INVALID_FIELD,
    UNAUTHORIZED_ACCESS,
)
from annulet.wire.amqp10.types.errors import ConnectionFault, LocalProtocolError

_SASL_STATES: Final = (
    ConnectionState.AWAITING_SASL_INIT,
    ConnectionState.AUTHENTICATING,
    ConnectionState.AWAITING_SASL_RESPONSE,
)
_CLOSING_STATES: Final = (ConnectionState.CLOSE_SENT, ConnectionState.DISCARDING, ConnectionState.ENDED)


class ConnectionLifecycle(SessionLifecycle):
    """The part of a connection that does not depend on its sessions: user, limits and end."""

    def __init__(
        self,
        handler: Amqp10Handler,
        own_open: Open,
        require_sasl: bool,
        limits: tuple[int, int, int, int, int],
        incoming_window: int,
    ) -> None:
        super().__init__(handler, limits, own_open.channel_max, incoming_window)
        self.state = ConnectionState.AWAITING_HEADER
        self.closed = False  # no more output follows; close the socket once the output is written
        self.authenticated = False
        self.require_sasl = require_sasl
        self.own_open = own_open
        self.max_frame_size = own_open.max_frame_size
        self.remote_open: Open | None = None
        self.hostname = ""
        self.remote_idle_time_out = 0  # milliseconds, 0 for none
        self._mechanisms: tuple[str, ...] = ()
        self._open_sent = False
        self._told = False  # the owner was notified of the end
        self._serving = False  # input is being served, somewhere up the stack

    def _enter(self, state: ConnectionState) -> None:
        self.state = state
        self.opened = state is ConnectionState.OPENED
        if state is ConnectionState.ENDED:
            self.closed = True

    def _go_on(self) -> None:
        raise NotImplementedError  # the engine serves input that waited

    def _drop_input(self) -> None:
        raise NotImplementedError  # the engine has it

    def _transition(self, what: str) -> ConnectionState:
        """Return the state after ``what``; raise if it is not allowed now."""
        target = CONNECTION_TRANSITIONS.get((self.state, what))
        if target is None:
            raise ConnectionFault(ILLEGAL_STATE, f"{what} while {self.state.name.lower()}: {self.state.value}")
        return target

    # ---- protocol headers, §2.2

    def _receive_header(self, header: bytes) -> None:
        """Take a protocol header, 8 octets. A wrong one is answered with the one we want, then the connection ends."""
        if self.trace is not None:
            self.trace(f"<- protocol header {header!r}")
        if header == SASL_HEADER and self.state is ConnectionState.AWAITING_HEADER:
            self._enter(self._transition("sasl header"))
            self._send_header(SASL_HEADER)
            self._mechanisms = self.handler.sasl_mechanisms()
            self._send_sasl(SaslMechanisms(list(self._mechanisms)))
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
        self._append(header)
        if self.trace is not None:
            self.trace(f"-> protocol header {header!r}")

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
        self._send_sasl(SaslChallenge(octets))
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
        self._send_sasl(SaslOutcome(code, additional or None))
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
        self.remote_max_frame_size = min(max(performative.max_frame_size, MIN_MAX_FRAME_SIZE), MAX_SENT_FRAME_SIZE)
        self.remote_channel_max = performative.channel_max
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
        if len(encode_performative(own)) + FRAME_HEADER_OCTETS > self.remote_max_frame_size:
            # §2.4.1 and §2.8.18: parts meant for people only may be left out
            own = Open(own.container_id, None, own.max_frame_size, own.channel_max, own.idle_time_out)
        self._send(0, own)

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
            for session in self.sessions.values():
                if session.mapped:
                    self._flush_dispositions(session)
            error = make_error(condition, description)
            self._enter(ConnectionState.CLOSE_SENT if error is None else ConnectionState.DISCARDING)
            self._send(0, Close(error))
            self._muted = True
        else:
            self._enter(ConnectionState.ENDED)
        self._release(condition, description, by_peer=False)

    def _receive_close(self, performative: Close) -> None:
        before = self.state
        self._enter(self._transition("close"))
        if before is not ConnectionState.OPENED:
            return
        for session in self.sessions.values():
            if session.mapped:
                self._flush_dispositions(session)
        self._send(0, Close())
        self._muted = True
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
            self._muted = True
            self._release("", description, by_peer=True)
        finally:
            self._drop_input()
            self._touched = []
            self._credited = []
            self.handler = Amqp10Handler()
            self.trace = None

    def _abandon(self, condition: str, description: str) -> None:
        """End without waiting for the peer: there is no close before the open, or frame boundaries are lost."""
        if self.state in {ConnectionState.AWAITING_OPEN, ConnectionState.OPENED}:
            self.close(condition, description)
        self._enter(ConnectionState.ENDED)
        self._muted = True
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
        sessions = list(self.sessions.values())
        for session in sessions:
            self._silence_session(session)
        for session in sessions:
            self._tell_end(session, error, by_peer=by_peer)
        self.sessions.clear()
        if not self._told:
            self._told = True
            self.handler.connection_closed(condition, description, by_peer)
