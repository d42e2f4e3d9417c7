"""Sessions from begin to end, their flow, and the scopes that a fault closes (§2.5)."""

from __future__ import annotations

from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.connection.link import Link
from annulet.wire.amqp10.connection.links import LinkLifecycle
from annulet.wire.amqp10.connection.output import make_error
from annulet.wire.amqp10.connection.session import EngineSession, unwrap_serial
from annulet.wire.amqp10.connection.states import LinkState, SessionState
from annulet.wire.amqp10.frames.limits import OUTGOING_WINDOW
from annulet.wire.amqp10.frames.performatives import Begin, End, Error, Flow
from annulet.wire.amqp10.types.conditions import (
    CONNECTION_FRAMING_ERROR,
    ILLEGAL_STATE,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    SESSION_WINDOW_VIOLATION,
)
from annulet.wire.amqp10.types.errors import ConnectionFault, LinkFault, RemoteProtocolError, SessionFault


class SessionLifecycle(LinkLifecycle):
    """The sessions of a connection."""

    def __init__(
        self,
        handler: Amqp10Handler,
        limits: tuple[int, int, int, int, int],
        channel_max: int,
        incoming_window: int,
    ) -> None:
        super().__init__(handler, limits)
        self.channel_max = channel_max
        self.incoming_window = incoming_window
        self.remote_channel_max = 0xFFFF  # of the peer's open
        self.sessions: dict[int, EngineSession] = {}  # by the peer's channel
        self._channels: set[int] = set()  # ours that are in use

    # ---- begin

    def _receive_begin(self, channel: int, begin: Begin) -> None:
        if channel in self.sessions:
            raise ConnectionFault(
                ILLEGAL_STATE, f"begin on channel {channel}, which has a session; end it or use another channel"
            )
        if begin.remote_channel is not None:
            raise ConnectionFault(
                NOT_ALLOWED,
                f"begin.remote-channel is {begin.remote_channel}, but no begin of ours awaits an answer; leave it out",
            )
        session = EngineSession(self._take_channel(channel), channel, self.incoming_window)
        session.handle_max = begin.handle_max
        session.properties = begin.properties
        session.next_incoming_id = begin.next_outgoing_id
        session.remote_incoming_window = begin.incoming_window
        session.remote_outgoing_window = begin.outgoing_window
        self.sessions[channel] = session
        self._send(session.channel, Begin(channel, 0, session.incoming_window, OUTGOING_WINDOW, self.handle_max))
        self.handler.session_began(session, begin)

    def _take_channel(self, wanted: int) -> int:
        """Return a channel of ours: the peer's number when it is free, else the lowest."""
        channel = wanted
        if channel > self.remote_channel_max or channel in self._channels:
            channel = 0
            while channel in self._channels:
                channel += 1
        if channel > self.remote_channel_max:
            self._count_hit("channel_max")
            raise ConnectionFault(
                RESOURCE_LIMIT_EXCEEDED,
                f"open.channel-max {self.remote_channel_max} leaves no channel to answer the begin on channel {wanted}",
            )
        self._channels.add(channel)
        return channel

    def _check_channel(self, channel: int, what: str) -> None:
        if channel > self.channel_max:
            self._count_hit("channel_max")
            raise ConnectionFault(
                CONNECTION_FRAMING_ERROR, f"{what} on channel {channel}, channel-max is {self.channel_max}"
            )

    # ---- end

    def end_session(self, session: EngineSession, condition: str = "", description: str = "") -> None:
        """End a session (§2.5.2); with a condition it is an error. Does nothing once ending.

        ``handler.detached`` of its links and ``handler.session_ended`` are called before this returns.
        """
        if session.state is not SessionState.MAPPED:
            return
        self._flush_dispositions(session)
        error = make_error(condition, description)
        session.state = SessionState.END_SENT if error is None else SessionState.DISCARDING
        session.mapped = False
        self._note_error(f"session {session.channel}", condition, description)
        self._send(session.channel, End(error))
        self._release_session(session, error, by_peer=False)

    def _receive_end(self, session: EngineSession, end: End) -> None:
        del self.sessions[session.remote_channel]
        before = session.state
        session.state = SessionState.UNMAPPED
        session.mapped = False
        if before is SessionState.MAPPED:
            self._flush_dispositions(session)
            self._send(session.channel, End())
        self._channels.discard(session.channel)
        self._release_session(session, end.error, by_peer=True)

    def _release_session(self, session: EngineSession, error: Error | None, *, by_peer: bool) -> None:
        self._silence_session(session)
        self._tell_end(session, error, by_peer=by_peer)

    def _silence_session(self, session: EngineSession) -> None:
        """Release the session's links and deliveries; afterwards nothing can be sent over it."""
        if session.released:
            return
        session.released = True
        session.mapped = False
        session.writable = False
        for delivery in session.pending:
            delivery.link.unsent.append(delivery.delivery_id)
            session.outgoing_unsettled.pop(delivery.delivery_id, None)
        session.pending.clear()
        for unsettled in (session.incoming_unsettled, session.outgoing_unsettled):
            for left in unsettled.values():
                left.link.unsettled[left.tag] = left.state
            unsettled.clear()
        for link in session.links.values():
            link.state = LinkState.DETACHED
            link.unsettled_count = 0
            link.pending = 0
            self._forget_link(link)
            self.link_bytes -= link.attach_bytes
            if link.attached:
                link.attached = False
                link.credit = 0
                session.leaving.append(link)
        session.links.clear()
        session.outgoing_handles.clear()

    def _tell_end(self, session: EngineSession, error: Error | None, *, by_peer: bool) -> None:
        """Tell the owner of the end of the links, then of the session; of each once, whatever the owner does."""
        while session.leaving:
            link = session.leaving.popleft()
            self._tell_detached(link, False, error, by_peer=by_peer)
        if not session.told:
            session.told = True
            self.handler.session_ended(session)

    # ---- flow, §2.5.6

    def _receive_flow(self, session: EngineSession, flow: Flow) -> None:
        taken = 0  # §2.5.6: our initial outgoing id, while the peer has not seen our begin
        if flow.next_incoming_id is not None:
            taken = unwrap_serial(flow.next_incoming_id, session.next_outgoing_id)
        if taken > session.next_outgoing_id:
            raise SessionFault(
                SESSION_WINDOW_VIOLATION,
                f"flow.next-incoming-id is {flow.next_incoming_id}, the transfer sent next is "
                f"{session.next_outgoing_id & 0xFFFFFFFF}",
            )
        session.next_incoming_id = unwrap_serial(flow.next_outgoing_id, session.next_incoming_id)
        session.remote_incoming_window = max(0, taken + flow.incoming_window - session.next_outgoing_id)
        session.remote_outgoing_window = flow.outgoing_window
        if session.pending or not session.writable:
            self._send_pending(session)
        if flow.handle is not None:
            self._receive_link_flow(session, flow, flow.handle)
        elif flow.echo:
            self._send_flow(session, None)

    # ---- end of a turn

    def _end_turn(self) -> None:
        """Send the collected frames; report sessions that are writable again, and credit that arrived early."""
        credited = self._credited
        self._credited = []
        for link in credited:
            if link.attached:
                try:
                    self.handler.credit_changed(link)
                except RemoteProtocolError as error:
                    self._blame(link.session, link, error)
        sessions = self._touched
        self._touched = []
        for session in sessions:
            if session.mapped and not session.writable and self._has_room(session):
                session.writable = True
                try:
                    self.handler.session_writable(session)
                except RemoteProtocolError as error:
                    self._blame(session, None, error)
            session.touched = False
            if session.mapped:
                self._flush_dispositions(session)
                if session.incoming_window * 2 <= session.incoming_window_size:
                    self._send_flow(session, None)

    def _has_room(self, session: EngineSession) -> bool:
        return not session.pending and len(session.outgoing_unsettled) < self.max_unsettled

    # ---- faults

    def _blame(self, session: EngineSession | None, link: Link | None, error: RemoteProtocolError) -> None:
        """Close the scope of the fault: link, session or connection."""
        if isinstance(error, LinkFault) and link is not None:
            self.detach(link, closed=True, condition=error.condition, description=error.description)
        elif session is not None and not isinstance(error, ConnectionFault):
            self.end_session(session, error.condition, error.description)
        else:
            self.close(error.condition, error.description)
