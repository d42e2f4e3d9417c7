"""Sessions from begin to end (§2.5), links from attach to detach (§2.6), and the scopes that a fault closes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.connection.link import Link
from annulet.wire.amqp10.connection.output import FrameOutput, make_error
from annulet.wire.amqp10.connection.session import EngineSession, unwrap_serial
from annulet.wire.amqp10.connection.states import LinkState, SessionState
from annulet.wire.amqp10.connection.transfers import Transfers
from annulet.wire.amqp10.frames.frames import FRAME_HEADER_OCTETS
from annulet.wire.amqp10.frames.limits import LINK_OVERHEAD_BYTES, OUTGOING_WINDOW
from annulet.wire.amqp10.frames.performatives import (
    RECEIVER_FIRST,
    RECEIVER_SECOND,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Transfer,
    encode_performative,
)
from annulet.wire.amqp10.types.conditions import (
    CONNECTION_FRAMING_ERROR,
    ILLEGAL_STATE,
    INVALID_FIELD,
    LINK_STOLEN,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    SESSION_HANDLE_IN_USE,
    SESSION_WINDOW_VIOLATION,
)
from annulet.wire.amqp10.types.errors import ConnectionFault, LinkFault, RemoteProtocolError, SessionFault


class EndpointLimits:
    """Bounds of the sessions and links of a connection.

    ``max_message_size``: octets; ``handle_max``, ``channel_max``: largest numbers; ``max_link_bytes``: octets of all
    attach frames; ``incoming_window``: transfer frames that a session allows at a time.
    """

    __slots__ = ("channel_max", "handle_max", "incoming_window", "max_link_bytes", "max_message_size")

    def __init__(
        self, max_message_size: int, handle_max: int, channel_max: int, max_link_bytes: int, incoming_window: int
    ) -> None:
        self.max_message_size = max_message_size
        self.handle_max = handle_max
        self.channel_max = channel_max
        self.max_link_bytes = max_link_bytes
        self.incoming_window = incoming_window


def _ignore(condition: str, description: str) -> None:
    """Nothing is left that could be closed."""
    del condition, description


class Endpoints:
    """The sessions of a connection, from begin to end, and their links, from attach to detach.

    Attributes:
        sessions: by the peer's channel.
        link_bytes: octets of the attach frames of all links, with an overhead for each.
        remote_channel_max: the largest channel of ours that the peer takes; of its open.
        closing: called with condition and description of a fault of the connection. Its owner closes the connection.
    """

    def __init__(
        self,
        handler: Amqp10Handler,
        output: FrameOutput,
        transfers: Transfers,
        limits: EndpointLimits,
    ) -> None:
        self.handler = handler
        self.output = output
        self.transfers = transfers
        self.limits = limits
        self.link_bytes = 0
        self.remote_channel_max = 0xFFFF
        self.sessions: dict[int, EngineSession] = {}
        self.closing: Callable[[str, str], None] = _ignore
        self._names: dict[tuple[str, bool], Link] = {}  # links in use by name and direction (§2.6.1)
        self._channels: set[int] = set()  # ours that are in use

    # ---- frames

    def receive(
        self, channel: int, session: EngineSession | None, performative: object, payload: bytes, octets: int
    ) -> None:
        """Serve a frame of ``octets`` octets on a channel of the peer, whose session is ``session`` if there is one."""
        if session is None or isinstance(performative, Begin):
            self.check_channel(channel, type(performative).__name__.lower())
            if not isinstance(performative, Begin):
                raise ConnectionFault(
                    ILLEGAL_STATE,
                    f"{type(performative).__name__.lower()} on channel {channel}, which has no session; "
                    "send begin first",
                )
            self.receive_begin(channel, performative)
        elif isinstance(performative, End):
            self.receive_end(session, performative)
        elif not session.mapped:
            return  # §2.5.5: discarded until the peer's end
        elif isinstance(performative, Transfer):
            self.transfers.receive_transfer(session, performative, payload)
        elif isinstance(performative, Disposition):
            self.transfers.receive_disposition(session, performative)
        elif isinstance(performative, Flow):
            self.receive_flow(session, performative)
        elif isinstance(performative, Attach):
            self.receive_attach(session, performative, octets)
        elif isinstance(performative, Detach):
            self.receive_detach(session, performative)
        else:
            raise ConnectionFault(
                ILLEGAL_STATE, f"{type(performative).__name__.lower()} in an AMQP frame; it belongs to SASL"
            )

    # ---- begin

    def receive_begin(self, channel: int, begin: Begin) -> None:
        """Take a begin frame (§2.5.1) and answer it."""
        if channel in self.sessions:
            raise ConnectionFault(
                ILLEGAL_STATE, f"begin on channel {channel}, which has a session; end it or use another channel"
            )
        if begin.remote_channel is not None:
            raise ConnectionFault(
                NOT_ALLOWED,
                f"begin.remote-channel is {begin.remote_channel}, but no begin of ours awaits an answer; leave it out",
            )
        session = EngineSession(self._take_channel(channel), channel, self.limits.incoming_window)
        session.handle_max = begin.handle_max
        session.properties = begin.properties
        session.next_incoming_id = begin.next_outgoing_id
        session.remote_incoming_window = begin.incoming_window
        session.remote_outgoing_window = begin.outgoing_window
        self.sessions[channel] = session
        self.output.send(
            session.channel, Begin(channel, 0, session.incoming_window, OUTGOING_WINDOW, self.limits.handle_max)
        )
        self.handler.session_began(session, begin)

    def _take_channel(self, wanted: int) -> int:
        """Return a channel of ours: the peer's number when it is free, else the lowest."""
        channel = wanted
        if channel > self.remote_channel_max or channel in self._channels:
            channel = 0
            while channel in self._channels:
                channel += 1
        if channel > self.remote_channel_max:
            self.output.count_hit("channel_max")
            raise ConnectionFault(
                RESOURCE_LIMIT_EXCEEDED,
                f"open.channel-max {self.remote_channel_max} leaves no channel to answer the begin on channel {wanted}",
            )
        self._channels.add(channel)
        return channel

    def check_channel(self, channel: int, what: str) -> None:
        """Check a channel of the peer; ``what`` names the frame. Raises :class:`ConnectionFault`."""
        if channel > self.limits.channel_max:
            self.output.count_hit("channel_max")
            raise ConnectionFault(
                CONNECTION_FRAMING_ERROR, f"{what} on channel {channel}, channel-max is {self.limits.channel_max}"
            )

    # ---- end

    def end_session(self, session: EngineSession, condition: str = "", description: str = "") -> None:
        """End a session (§2.5.2); with a condition it is an error. Does nothing once ending.

        ``handler.detached`` of its links and ``handler.session_ended`` are called before this returns.
        """
        if session.state is not SessionState.MAPPED:
            return
        self.output.flush_dispositions(session)
        error = make_error(condition, description)
        session.state = SessionState.END_SENT if error is None else SessionState.DISCARDING
        session.mapped = False
        self.output.note_error(f"session {session.channel}", condition, description)
        self.output.send(session.channel, End(error))
        self._release_session(session, error, by_peer=False)

    def receive_end(self, session: EngineSession, end: End) -> None:
        """Take an end frame (§2.5.2)."""
        del self.sessions[session.remote_channel]
        before = session.state
        session.state = SessionState.UNMAPPED
        session.mapped = False
        if before is SessionState.MAPPED:
            self.output.flush_dispositions(session)
            self.output.send(session.channel, End())
        self._channels.discard(session.channel)
        self._release_session(session, end.error, by_peer=True)

    def _release_session(self, session: EngineSession, error: Error | None, *, by_peer: bool) -> None:
        self._silence_session(session)
        self._tell_end(session, error, by_peer=by_peer)

    def release_all(self, error: Error | None, *, by_peer: bool) -> None:
        """Release all sessions, then tell the owner of their ends; of each once, whatever the owner does."""
        sessions = list(self.sessions.values())
        for session in sessions:
            self._silence_session(session)
        for session in sessions:
            self._tell_end(session, error, by_peer=by_peer)
        self.sessions.clear()

    def flush_dispositions(self) -> None:
        """Send the collected dispositions of all sessions."""
        for session in self.sessions.values():
            if session.mapped:
                self.output.flush_dispositions(session)

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
        session.serving = None  # it holds the session

    def _tell_end(self, session: EngineSession, error: Error | None, *, by_peer: bool) -> None:
        """Tell the owner of the end of the links, then of the session; of each once, whatever the owner does."""
        while session.leaving:
            link = session.leaving.popleft()
            self._tell_detached(link, False, error, by_peer=by_peer)
        if not session.told:
            session.told = True
            self.handler.session_ended(session)

    # ---- attach

    def receive_attach(self, session: EngineSession, attach: Attach, octets: int) -> None:
        """Take an attach frame of ``octets`` octets (§2.6.3)."""
        if attach.handle > self.limits.handle_max:
            self.output.count_hit("handle_max")
            raise ConnectionFault(
                CONNECTION_FRAMING_ERROR, f"attach.handle is {attach.handle}, handle-max is {self.limits.handle_max}"
            )
        if attach.handle in session.links:
            raise SessionFault(
                SESSION_HANDLE_IN_USE,
                f"attach.handle {attach.handle} for link {attach.name!r} belongs to link "
                f"{session.links[attach.handle].name!r}; use a free one",
            )
        link = Link(session, attach.name, attach.handle, incoming=not attach.role)
        session.links[attach.handle] = link
        session.errant_handles.discard(attach.handle)
        link.attach_bytes = octets + LINK_OVERHEAD_BYTES
        self.link_bytes += link.attach_bytes
        session.serving = link
        if self.link_bytes > self.limits.max_link_bytes:
            self.output.count_hit("max_link_bytes")
            raise LinkFault(
                RESOURCE_LIMIT_EXCEEDED,
                f"attach frames of all links take more than {self.limits.max_link_bytes} octets; detach some first",
            )
        link.source = attach.source
        link.target = attach.target
        link.snd_settle_mode = attach.snd_settle_mode
        link.rcv_settle_mode = attach.rcv_settle_mode
        link.properties = attach.properties
        link.desired_capabilities = attach.desired_capabilities
        link.peer_unsettled = attach.unsettled or {}
        link.incomplete_unsettled = attach.incomplete_unsettled
        link.resuming = bool(attach.unsettled) or attach.incomplete_unsettled
        if link.incoming:
            if attach.initial_delivery_count is None:
                raise LinkFault(INVALID_FIELD, f"attach.initial-delivery-count of sender {attach.name!r} is missing")
            link.delivery_count = attach.initial_delivery_count
            link.limit = link.delivery_count
            link.max_message_size = self.limits.max_message_size
            link.asked_second = attach.rcv_settle_mode == RECEIVER_SECOND
        else:
            link.max_message_size = attach.max_message_size or 0
        key = (link.name, link.incoming)
        other = self._names.get(key)
        if other is not None:
            self.detach(
                other,
                closed=False,
                condition=LINK_STOLEN,
                description=f"link {link.name!r} was attached again on channel {session.remote_channel}",
            )
        if link.state is LinkState.ATTACH_RECEIVED:  # the owner may have ended the session when the other link ended
            self._names[key] = link
            self.handler.attach(link, attach)

    def settle_first(self, link: Link) -> None:
        """Have the answer to a sender's attach say receiver-settle-mode first, which may differ from its wish (§2.8.3).

        Call it before :meth:`accept_attach`.
        """
        if link.incoming:
            link.rcv_settle_mode = RECEIVER_FIRST

    def accept_attach(
        self,
        link: Link,
        *,
        source: object | None,
        target: object | None,
        properties: dict[str, Any] | None = None,
        offered_capabilities: list[str] | None = None,
        max_message_size: int = 0,
        unsettled: dict[bytes, Any] | None = None,
        initial_delivery_count: int = 0,
    ) -> bool:
        """Answer an attach (§2.6.3). Returns False if the link has ended in the meantime: undo the work for it.

        ``max_message_size`` is our limit in octets; 0 and values above the engine's mean the engine's. ``unsettled`` is
        cut to the size of the peer's frames, and marked as incomplete. When the peer granted credit before,
        ``credit_changed`` follows at the end of the turn.
        """
        if link.state is not LinkState.ATTACH_RECEIVED or not self._take_handle(link):
            return False
        attach = self._answer(link, source, target)
        attach.properties = properties or {}
        attach.offered_capabilities = offered_capabilities or []
        attach.unsettled = unsettled
        if link.incoming:
            if 0 < max_message_size < self.limits.max_message_size:
                link.max_message_size = max_message_size
            attach.max_message_size = link.max_message_size
        else:
            attach.initial_delivery_count = initial_delivery_count
            link.initial_delivery_count = initial_delivery_count
            link.delivery_count = initial_delivery_count
        if unsettled:
            self._cut_unsettled(attach, unsettled)
        link.state = LinkState.ATTACHED
        link.attached = True
        self.output.send(link.session.channel, attach)
        if not link.incoming and (link.credit > 0 or link.drain):
            self.output.credited.append(link)
        return link.attached  # not when the attach was too large for the peer

    def _answer(self, link: Link, source: Any, target: Any) -> Attach:
        return Attach(
            link.name,
            link.handle,
            link.incoming,
            link.snd_settle_mode,
            link.rcv_settle_mode,
            source,
            target,
        )

    def _take_handle(self, link: Link) -> bool:
        """Give the link a handle of ours: the peer's number when it is free, else the lowest."""
        session = link.session
        handle = link.remote_handle
        if handle > session.handle_max or handle in session.outgoing_handles:
            handle = 0
            while handle in session.outgoing_handles:
                handle += 1
        if handle > session.handle_max:
            self.end_session(
                session,
                RESOURCE_LIMIT_EXCEEDED,
                f"begin.handle-max {session.handle_max} leaves no handle for an answer",
            )
            return False
        link.handle = handle
        session.outgoing_handles[handle] = link
        return True

    def _cut_unsettled(self, attach: Attach, unsettled: dict[bytes, Any]) -> None:
        """Omit entries for which the peer's frame size has no room (§2.7.3, incomplete-unsettled)."""
        room = self.output.remote_max_frame_size - FRAME_HEADER_OCTETS
        attach.unsettled = None
        room -= len(encode_performative(attach)) + 16  # and the map's own head, and the flag
        kept: dict[bytes, Any] = {}
        for tag, state in unsettled.items():
            room -= len(tag) + 8 + (1 if state is None else len(encode_performative(state)))
            if room < 0:
                attach.incomplete_unsettled = True
                break
            kept[tag] = state
        attach.unsettled = kept

    def refuse_attach(self, link: Link, condition: str, description: str, info: dict[str, Any] | None = None) -> None:
        """Answer an attach with no terminus and a closing detach (§2.6.3). Has no effect when the link has ended."""
        if link.state is not LinkState.ATTACH_RECEIVED or not self._take_handle(link):
            return
        self._send_refusal(link)
        link.state = LinkState.DETACH_SENT
        link.failed = bool(condition)
        self._forget_link(link)
        self.output.note_error(f"link '{link.name}'", condition, description)
        self.output.send(link.session.channel, Detach(link.handle, True, make_error(condition, description, info)))

    def _send_refusal(self, link: Link) -> None:
        source = link.source if link.incoming else None
        target = None if link.incoming else link.target
        attach = self._answer(link, source, target)
        if not link.incoming:
            attach.initial_delivery_count = 0
        if len(encode_performative(attach)) + FRAME_HEADER_OCTETS > self.output.remote_max_frame_size:
            attach.source = attach.target = None
        self.output.send(link.session.channel, attach)

    # ---- detach

    def detach(
        self,
        link: Link,
        *,
        closed: bool,
        condition: str = "",
        description: str = "",
        info: dict[str, Any] | None = None,
    ) -> None:
        """Detach (§2.6.5), permanently when ``closed`` (§2.6.6). Has no effect when the link has ended.

        ``handler.detached`` is called before this returns, with ``by_peer`` False. A link that was not answered yet is
        refused; there is no call then.
        """
        if link.state is LinkState.ATTACH_RECEIVED:
            self.refuse_attach(link, condition, description, info)
        if link.state is not LinkState.ATTACHED:
            return
        session = link.session
        self.output.flush_dispositions(session)
        error = make_error(condition, description, info)
        link.state = LinkState.DETACH_SENT
        link.failed = error is not None
        self.output.note_error(f"link '{link.name}'", condition, description)
        self.output.send(session.channel, Detach(link.handle, closed, error))
        self._release_link(link, closed, error, by_peer=False)

    def receive_detach(self, session: EngineSession, detach: Detach) -> None:
        """Take a detach frame (§2.6.5)."""
        link = session.find_link(detach.handle, "detach")
        del session.links[link.remote_handle]
        self.link_bytes -= link.attach_bytes  # not before: a peer that never answers a detach keeps the link alive
        before = link.state
        link.state = LinkState.DETACHED
        if before is LinkState.ATTACH_RECEIVED:
            if self._take_handle(link):
                self._send_refusal(link)
                self.output.send(session.channel, Detach(link.handle, detach.closed))
                session.outgoing_handles.pop(link.handle, None)
            self._forget_link(link)
            return
        session.outgoing_handles.pop(link.handle, None)
        if before is LinkState.DETACH_SENT:
            if link.failed:
                session.errant_handles.add(link.remote_handle)
            return
        self.output.flush_dispositions(session)
        self.output.send(session.channel, Detach(link.handle, detach.closed))
        self._release_link(link, detach.closed, detach.error, by_peer=True)

    def _release_link(self, link: Link, closed: bool, error: Error | None, *, by_peer: bool) -> None:
        """Release the link's deliveries and notify the owner; called once for each accepted link."""
        if not link.attached:
            return
        link.attached = False
        link.credit = 0
        session = link.session
        self._forget_link(link)
        kept = [delivery for delivery in session.pending if delivery.link is not link]
        if len(kept) < len(session.pending):
            for delivery in session.pending:
                if delivery.link is link:
                    link.unsent.append(delivery.delivery_id)
                    if session.outgoing_unsettled.pop(delivery.delivery_id, None) is not None:
                        link.unsettled_count -= 1
            session.pending.clear()
            session.pending.extend(kept)
        link.pending = 0
        link.drained_due = False
        unsettled = session.incoming_unsettled if link.incoming else session.outgoing_unsettled
        if link.unsettled_count > 0:
            for number in [number for number, delivery in unsettled.items() if delivery.link is link]:
                left = unsettled.pop(number)
                link.unsettled[left.tag] = left.state
            link.unsettled_count = 0
        if session.mapped and not session.writable:
            self.output.touch(session)
        self._tell_detached(link, closed, error, by_peer=by_peer)

    def _tell_detached(self, link: Link, closed: bool, error: Error | None, *, by_peer: bool) -> None:
        try:
            self.handler.detached(link, closed=closed, error=error, by_peer=by_peer)
        except RemoteProtocolError as fault:
            self.blame(link.session, link, fault)

    def _forget_link(self, link: Link) -> None:
        """Release the name and incomplete deliveries; the handle stays in use until both detaches were exchanged."""
        self.transfers.forget_assembly(link)
        key = (link.name, link.incoming)
        if self._names.get(key) is link:
            del self._names[key]

    # ---- flow, §2.5.6

    def receive_flow(self, session: EngineSession, flow: Flow) -> None:
        """Take a flow frame: the state of the session, and of a link that it names."""
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
            self.transfers.send_pending(session)
        if flow.handle is not None:
            self.transfers.credit.receive_flow(session, flow, flow.handle)
        elif flow.echo:
            self.output.send_flow(session, None)

    # ---- end of a turn

    def end_turn(self) -> None:
        """Send the collected frames; report sessions that are writable again, and credit that arrived early."""
        credited = self.output.credited
        self.output.credited = []
        for link in credited:
            if link.attached:
                try:
                    self.handler.credit_changed(link)
                except RemoteProtocolError as error:
                    self.blame(link.session, link, error)
        sessions = self.output.touched
        self.output.touched = []
        for session in sessions:
            if session.mapped and not session.writable and self._has_room(session):
                session.writable = True
                try:
                    self.handler.session_writable(session)
                except RemoteProtocolError as error:
                    self.blame(session, None, error)
            session.touched = False
            if session.mapped:
                self.output.flush_dispositions(session)
                if session.incoming_window * 2 <= session.incoming_window_size:
                    self.output.send_flow(session, None)

    def _has_room(self, session: EngineSession) -> bool:
        return not session.pending and len(session.outgoing_unsettled) < self.transfers.max_unsettled

    # ---- faults

    def detach_owner(self) -> None:
        """Let go of everything that leads to the owner: it is freed without a garbage collection."""
        self.handler = self.transfers.handler = self.transfers.credit.handler = Amqp10Handler()
        self.closing = _ignore
        self.output.detach_owner()

    def blame(self, session: EngineSession | None, link: Link | None, error: RemoteProtocolError) -> None:
        """Close the scope of the fault: link, session or connection."""
        if isinstance(error, LinkFault) and link is not None:
            self.detach(link, closed=True, condition=error.condition, description=error.description)
        elif session is not None and not isinstance(error, ConnectionFault):
            self.end_session(session, error.condition, error.description)
        else:
            self.closing(error.condition, error.description)
