"""Links from attach to detach, and their credit (§2.6)."""

from __future__ import annotations

from typing import Any, Final

from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.connection.link import Link
from annulet.wire.amqp10.connection.output import make_error
from annulet.wire.amqp10.connection.session import EngineSession, unwrap_serial
from annulet.wire.amqp10.connection.states import LinkState
from annulet.wire.amqp10.connection.transfers import TransferEngine
from annulet.wire.amqp10.frames.frames import FRAME_HEADER_OCTETS
from annulet.wire.amqp10.frames.limits import LINK_OVERHEAD_BYTES, MAX_CREDIT
from annulet.wire.amqp10.frames.performatives import (
    RECEIVER_FIRST,
    RECEIVER_SECOND,
    Attach,
    Detach,
    Error,
    Flow,
    encode_performative,
)
from annulet.wire.amqp10.types.conditions import (
    CONNECTION_FRAMING_ERROR,
    INVALID_FIELD,
    LINK_STOLEN,
    LINK_TRANSFER_LIMIT_EXCEEDED,
    NOT_IMPLEMENTED,
    RESOURCE_LIMIT_EXCEEDED,
    SESSION_ERRANT_LINK,
    SESSION_HANDLE_IN_USE,
    SESSION_UNATTACHED_HANDLE,
)
from annulet.wire.amqp10.types.errors import (
    ConnectionFault,
    LinkFault,
    LocalProtocolError,
    RemoteProtocolError,
    SessionFault,
)

TRANSACTION_ID: Final[str] = "txn-id"
"""Flow property that associates the later deliveries of a link with a transaction (§4.4.3)."""


class LinkLifecycle(TransferEngine):
    """The links of a connection."""

    def __init__(self, handler: Amqp10Handler, limits: tuple[int, int, int, int, int]) -> None:
        max_message_size, max_assembling_bytes, max_unsettled, handle_max, max_link_bytes = limits
        super().__init__(handler, max_assembling_bytes, max_unsettled)
        self.max_message_size = max_message_size
        self.handle_max = handle_max
        self.max_link_bytes = max_link_bytes
        self.link_bytes = 0  # octets of the attach frames of all links, with an overhead for each
        self._names: dict[tuple[str, bool], Link] = {}  # links in use by name and direction (§2.6.1)

    # ---- attach

    def _receive_attach(self, session: EngineSession, attach: Attach, octets: int) -> None:
        """Take an attach frame of ``octets`` octets (§2.6.3)."""
        if attach.handle > self.handle_max:
            self._count_hit("handle_max")
            raise ConnectionFault(
                CONNECTION_FRAMING_ERROR, f"attach.handle is {attach.handle}, handle-max is {self.handle_max}"
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
        self._current_link = link
        if self.link_bytes > self.max_link_bytes:
            self._count_hit("max_link_bytes")
            raise LinkFault(
                RESOURCE_LIMIT_EXCEEDED,
                f"attach frames of all links take more than {self.max_link_bytes} octets; detach some first",
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
            link.max_message_size = self.max_message_size
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
            if 0 < max_message_size < self.max_message_size:
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
        self._send(link.session.channel, attach)
        if not link.incoming and (link.credit > 0 or link.drain):
            self._credited.append(link)
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
        room = self.remote_max_frame_size - FRAME_HEADER_OCTETS
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
        self._note_error(f"link '{link.name}'", condition, description)
        self._send(link.session.channel, Detach(link.handle, True, make_error(condition, description, info)))

    def _send_refusal(self, link: Link) -> None:
        source = link.source if link.incoming else None
        target = None if link.incoming else link.target
        attach = self._answer(link, source, target)
        if not link.incoming:
            attach.initial_delivery_count = 0
        if len(encode_performative(attach)) + FRAME_HEADER_OCTETS > self.remote_max_frame_size:
            attach.source = attach.target = None
        self._send(link.session.channel, attach)

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
        self._flush_dispositions(session)
        error = make_error(condition, description, info)
        link.state = LinkState.DETACH_SENT
        link.failed = error is not None
        self._note_error(f"link '{link.name}'", condition, description)
        self._send(session.channel, Detach(link.handle, closed, error))
        self._release_link(link, closed, error, by_peer=False)

    def _receive_detach(self, session: EngineSession, detach: Detach) -> None:
        link = self._find_link(session, detach.handle, "detach")
        del session.links[link.remote_handle]
        self.link_bytes -= link.attach_bytes  # not before: a peer that never answers a detach keeps the link alive
        before = link.state
        link.state = LinkState.DETACHED
        if before is LinkState.ATTACH_RECEIVED:
            if self._take_handle(link):
                self._send_refusal(link)
                self._send(session.channel, Detach(link.handle, detach.closed))
                session.outgoing_handles.pop(link.handle, None)
            self._forget_link(link)
            return
        session.outgoing_handles.pop(link.handle, None)
        if before is LinkState.DETACH_SENT:
            if link.failed:
                session.errant_handles.add(link.remote_handle)
            return
        self._flush_dispositions(session)
        self._send(session.channel, Detach(link.handle, detach.closed))
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
            self._touch(session)
        self._tell_detached(link, closed, error, by_peer=by_peer)

    def _tell_detached(self, link: Link, closed: bool, error: Error | None, *, by_peer: bool) -> None:
        try:
            self.handler.detached(link, closed=closed, error=error, by_peer=by_peer)
        except RemoteProtocolError as fault:
            self._blame(link.session, link, fault)

    def _forget_link(self, link: Link) -> None:
        """Release the name and incomplete deliveries; the handle stays in use until both detaches were exchanged."""
        self._forget_assembly(link)
        key = (link.name, link.incoming)
        if self._names.get(key) is link:
            del self._names[key]

    def _blame(self, session: EngineSession | None, link: Link | None, error: RemoteProtocolError) -> None:
        raise NotImplementedError  # the life cycle of sessions does it

    def end_session(self, session: EngineSession, condition: str = "", description: str = "") -> None:
        """End a session (§2.5.2)."""
        raise NotImplementedError  # the life cycle of sessions does it

    def _find_link(self, session: EngineSession, handle: int, what: str) -> Link:
        link = session.links.get(handle)
        if link is None:
            if handle in session.errant_handles:
                raise SessionFault(
                    SESSION_ERRANT_LINK,
                    f"{what}.handle {handle} was detached with an error; attach again before using it",
                )
            raise SessionFault(SESSION_UNATTACHED_HANDLE, f"{what}.handle {handle} is not attached; send attach first")
        return link

    # ---- credit, §2.6.7

    def grant_credit(self, link: Link, credit: int, *, drain: bool = False) -> None:
        """Set the credit of an incoming link and send it to the peer (§2.6.7). Has no effect when the link has ended.

        After a reduction, the peer may still use its old credit until it has seen the change.

        Raises:
            LocalProtocolError: the link is outgoing, or ``credit`` is not 0 to 2**31 - 1.
        """
        if not link.incoming or not 0 <= credit <= MAX_CREDIT:
            raise LocalProtocolError(
                f"credit {credit} for link {link.name!r}, incoming={link.incoming}; "
                f"grant 0 to {MAX_CREDIT} on incoming links"
            )
        if not link.attached:
            return
        link.credit = credit
        link.drain = drain
        link.limit = max(link.limit, link.delivery_count + credit)
        self._send_flow(link.session, link)

    def drained(self, link: Link) -> None:
        """Give back the credit of an outgoing link (§2.6.7); leaves after everything handed in before.

        Has no effect unless the peer requested it since the last answer.

        Raises:
            LocalProtocolError: the link is incoming.
        """
        if link.incoming:
            raise LocalProtocolError(f"drained on link {link.name!r}, which is incoming; the sender gives credit back")
        if not link.attached or not link.drain_due:
            return
        if link.pending > 0:
            link.drained_due = True
        else:
            self._give_back_credit(link)

    def _receive_link_flow(self, session: EngineSession, flow: Flow, handle: int) -> None:
        link = self._find_link(session, handle, "flow")
        if link.state is LinkState.DETACH_SENT:
            return
        self._current_link = link
        if link.incoming:
            self._update_sender(link, flow)
        else:
            self._update_receiver(link, flow)
        if flow.echo and link.attached:
            self._send_flow(session, link)

    def _update_sender(self, link: Link, flow: Flow) -> None:
        """Take the peer's flow state as the sender: its delivery count and its waiting deliveries."""
        if flow.available is not None:
            link.available = flow.available
        if flow.delivery_count is None:
            return
        count = unwrap_serial(flow.delivery_count, link.delivery_count)
        if not link.delivery_count <= count <= link.limit:
            raise LinkFault(
                LINK_TRANSFER_LIMIT_EXCEEDED if count > link.limit else INVALID_FIELD,
                f"flow.delivery-count is {flow.delivery_count} on {link.name!r}; sent were {link.delivery_count}, "
                f"allowed {link.limit}",
            )
        link.credit = max(0, link.credit - (count - link.delivery_count))
        link.delivery_count = count

    def _update_receiver(self, link: Link, flow: Flow) -> None:
        """Take the credit the peer grants as the receiver."""
        if TRANSACTION_ID in flow.properties:
            raise LinkFault(
                NOT_IMPLEMENTED,
                f"flow.properties of {link.name!r}: {TRANSACTION_ID} asks for transactional acquisition, which is not "
                "served; give outcomes in the transaction instead",
            )  # §4.4.3
        if flow.link_credit is not None:
            base = link.initial_delivery_count
            if flow.delivery_count is not None and link.attached:
                base = unwrap_serial(flow.delivery_count, link.delivery_count)
            if base > link.delivery_count:
                raise LinkFault(
                    INVALID_FIELD,
                    f"flow.delivery-count is {flow.delivery_count} on {link.name!r}; sent were {link.delivery_count}",
                )
            link.credit = max(0, base + flow.link_credit - link.delivery_count) if link.attached else flow.link_credit
        # A receiver repeats drain in every flow until it grants new credit; answering each would never end.
        link.drain_due = flow.drain and (link.drain_due or not link.drain or link.credit > 0)
        link.drain = flow.drain
        if link.attached:
            self.handler.credit_changed(link)
