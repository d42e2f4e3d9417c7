"""Deliveries and their settlement, in both directions: transfers and dispositions (§2.6.12, §2.7.5, §2.7.6)."""
# ruff: noqa: FBT002 - settled is the usual case and given by position

from __future__ import annotations

from typing import Final

from annulet.wire.amqp10.connection.credit import LinkCredit
from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.connection.link import IncomingDelivery, Link, OutgoingDelivery, UnsettledDelivery
from annulet.wire.amqp10.connection.output import FrameOutput, encode_state
from annulet.wire.amqp10.connection.session import EngineSession, unwrap_serial
from annulet.wire.amqp10.connection.states import LinkState
from annulet.wire.amqp10.frames.frames import FRAME_HEADER_OCTETS
from annulet.wire.amqp10.frames.limits import FRAGMENTS_PER_PART
from annulet.wire.amqp10.frames.link_frames import MAX_DELIVERY_TAG_OCTETS
from annulet.wire.amqp10.frames.performatives import (
    RECEIVER_FIRST,
    RECEIVER_SECOND,
    SENDER_SETTLED,
    SENDER_UNSETTLED,
    DeliveryState,
    Disposition,
    Transfer,
    encode_performative,
)
from annulet.wire.amqp10.frames.shortcuts import encode_transfer_head
from annulet.wire.amqp10.types.conditions import (
    INVALID_FIELD,
    LINK_MESSAGE_SIZE_EXCEEDED,
    LINK_TRANSFER_LIMIT_EXCEEDED,
    NOT_ALLOWED,
    RESOURCE_LIMIT_EXCEEDED,
    SESSION_WINDOW_VIOLATION,
)
from annulet.wire.amqp10.types.errors import LinkFault, LocalProtocolError, SessionFault

_SERIAL_MASK: Final = 0xFFFFFFFF


class Transfers:
    """Deliveries of a connection. The state of a delivery ends with its settlement or with its link.

    Attributes:
        max_assembling_bytes: octets of deliveries that are still arriving, all links together.
        max_unsettled: unsettled deliveries of a session in one direction.
        assembling_bytes: octets of deliveries that are still arriving now.
    """

    def __init__(
        self,
        handler: Amqp10Handler,
        output: FrameOutput,
        credit: LinkCredit,
        max_assembling_bytes: int,
        max_unsettled: int,
    ) -> None:
        self.handler = handler
        self.output = output
        self.credit = credit
        self.max_assembling_bytes = max_assembling_bytes
        self.max_unsettled = max_unsettled
        self.assembling_bytes = 0

    # ---- deliveries of the peer

    def receive_transfer(self, session: EngineSession, transfer: Transfer, payload: bytes) -> None:
        """Take a transfer frame (§2.7.5); the last one of a delivery goes to the handler."""
        if session.incoming_window <= 0:
            self.output.count_hit("incoming_window")
            raise SessionFault(
                SESSION_WINDOW_VIOLATION,
                f"more than {session.incoming_window_size} transfer frames; wait for a flow with a new incoming-window",
            )
        session.incoming_window -= 1
        session.next_incoming_id += 1
        if session.incoming_window * 2 <= session.incoming_window_size:
            self.output.touch(session)
        link = session.find_link(transfer.handle, "transfer")
        if link.state is LinkState.DETACH_SENT:
            self._skip_delivery(session, transfer)  # §2.6.5: still in transit when we detached
            return
        session.serving = link
        delivery = link.receiving
        if delivery is None:
            delivery = self._begin_delivery(session, link, transfer)
        else:
            self._continue_delivery(delivery, transfer)
        if transfer.aborted:
            self._abort_delivery(link)
            return
        size = link.assembled + len(payload)
        if size > link.max_message_size > 0:
            self.output.count_hit("max_message_size")
            raise LinkFault(
                LINK_MESSAGE_SIZE_EXCEEDED,
                f"message of {size} octets or more, max-message-size is {link.max_message_size}",
            )
        if transfer.more:
            link.receiving = delivery
            self._add_fragment(link, payload)
            return
        if link.receiving is not None:
            self._add_fragment(link, payload)
            link.fragments.insert(0, b"".join(link.parts))
            payload = b"".join(link.fragments)
            self.forget_assembly(link)
        delivery.payload = payload
        if not delivery.settled:
            self._remember_incoming(session, delivery)
        self.handler.delivery(link, delivery)

    def _begin_delivery(self, session: EngineSession, link: Link, transfer: Transfer) -> IncomingDelivery:
        if transfer.delivery_id is None:
            raise SessionFault(
                INVALID_FIELD, f"transfer.delivery-id is missing in the first transfer of a delivery on {link.name!r}"
            )
        number = self._next_delivery(session, transfer.delivery_id)
        if not link.incoming:
            raise LinkFault(NOT_ALLOWED, f"transfer on link {link.name!r} whose role here is sender")
        tag = transfer.delivery_tag
        if tag is None:
            raise LinkFault(
                INVALID_FIELD, f"transfer.delivery-tag is missing in the first transfer of a delivery on {link.name!r}"
            )
        if link.delivery_count >= link.limit:
            self.output.count_hit("link_credit")
            raise LinkFault(
                LINK_TRANSFER_LIMIT_EXCEEDED, f"delivery on {link.name!r} without link-credit; wait for a flow"
            )
        link.delivery_count += 1
        if link.credit > 0:
            link.credit -= 1
        delivery = IncomingDelivery(link, number, tag, transfer.message_format or 0, transfer.settled is True)
        delivery.resume = transfer.resume
        delivery.state = transfer.state
        mode = transfer.rcv_settle_mode
        if mode is None:
            mode = link.rcv_settle_mode
        elif mode == RECEIVER_SECOND and link.rcv_settle_mode == RECEIVER_FIRST and not delivery.settled:
            if not link.asked_second:
                raise LinkFault(
                    INVALID_FIELD, "transfer.rcv-settle-mode is second, the link's is first; attach with second"
                )
            mode = RECEIVER_FIRST  # it may not have seen our answer yet
        delivery.rcv_settle_mode = mode
        self._check_settled(link, transfer, delivery)
        return delivery

    def _next_delivery(self, session: EngineSession, delivery_id: int) -> int:
        """Unwrap the id of a new delivery; ids increase one by one (§2.8.4)."""
        expected = session.delivery_expected
        if expected < 0:
            expected = delivery_id
        elif delivery_id != expected & _SERIAL_MASK:
            raise SessionFault(
                INVALID_FIELD, f"transfer.delivery-id is {delivery_id}; the next one is {expected & _SERIAL_MASK}"
            )
        session.delivery_expected = expected + 1
        return expected

    def _skip_delivery(self, session: EngineSession, transfer: Transfer) -> None:
        if transfer.delivery_id is None:
            return
        expected = session.delivery_expected
        number = transfer.delivery_id if expected < 0 else unwrap_serial(transfer.delivery_id, expected)
        session.delivery_expected = max(expected, number + 1)

    def _check_settled(self, link: Link, transfer: Transfer, delivery: IncomingDelivery) -> None:
        """Check the sender's settle mode of its attach (§2.8.2, §2.7.5), once the delivery is complete."""
        if delivery.resume:
            return  # the modes say how deliveries are sent at first (§2.8.2)
        if link.snd_settle_mode == SENDER_UNSETTLED and delivery.settled:
            raise LinkFault(INVALID_FIELD, "transfer.settled is true, the link's snd-settle-mode is unsettled")
        complete = not transfer.more and not transfer.aborted
        if link.snd_settle_mode == SENDER_SETTLED and complete and not delivery.settled:
            raise LinkFault(INVALID_FIELD, "transfer.settled is not true, the link's snd-settle-mode is settled")

    def _continue_delivery(self, delivery: IncomingDelivery, transfer: Transfer) -> None:
        """Check the later transfers of a delivery: fields may be left out, not changed (§2.7.5)."""
        number = transfer.delivery_id
        if number is not None and number != delivery.delivery_id & _SERIAL_MASK:
            raise SessionFault(
                INVALID_FIELD,
                f"transfer.delivery-id is {number} while delivery {delivery.delivery_id & _SERIAL_MASK} is incomplete "
                f"on {delivery.link.name!r}; deliveries of one link do not interleave",
            )
        if transfer.delivery_tag is not None and transfer.delivery_tag != delivery.delivery_tag:
            raise LinkFault(INVALID_FIELD, "transfer.delivery-tag differs from that of the delivery's first transfer")
        if transfer.message_format is not None and transfer.message_format != delivery.message_format:
            raise LinkFault(INVALID_FIELD, "transfer.message-format differs from that of the delivery's first transfer")
        if transfer.settled:
            delivery.settled = True  # §2.7.5: settled once, settled for all
        if transfer.state is not None:
            delivery.state = transfer.state
        self._check_settled(delivery.link, transfer, delivery)

    def _abort_delivery(self, link: Link) -> None:
        """Discard a delivery (§2.7.5); the owner is not notified, so the used credit is restored."""
        self.forget_assembly(link)
        link.credit += 1
        link.limit = max(link.limit, link.delivery_count + link.credit)
        self.output.send_flow(link.session, link)

    def _add_fragment(self, link: Link, payload: bytes) -> None:
        size = len(payload)
        if size == 0:
            return
        self.assembling_bytes += size
        link.assembled += size
        if self.assembling_bytes > self.max_assembling_bytes:
            self.output.count_hit("max_assembling_bytes")
            raise LinkFault(
                RESOURCE_LIMIT_EXCEEDED,
                f"more than {self.max_assembling_bytes} octets in incomplete deliveries on this connection; "
                "complete some first",
            )
        link.fragments.append(payload)
        if len(link.fragments) >= FRAGMENTS_PER_PART:
            link.parts.append(b"".join(link.fragments))
            link.fragments = []

    def forget_assembly(self, link: Link) -> None:
        """Discard the delivery that is arriving on a link."""
        self.assembling_bytes -= link.assembled
        link.assembled = 0
        link.parts = []
        link.fragments = []
        link.receiving = None

    def _remember_incoming(self, session: EngineSession, delivery: IncomingDelivery) -> None:
        if len(session.incoming_unsettled) >= self.max_unsettled:
            self.output.count_hit("max_unsettled")
            raise SessionFault(
                RESOURCE_LIMIT_EXCEEDED, f"more than {self.max_unsettled} unsettled deliveries; settle some first"
            )
        second = delivery.rcv_settle_mode == RECEIVER_SECOND
        delivery.link.unsettled_count += 1
        session.incoming_unsettled[delivery.delivery_id] = UnsettledDelivery(
            delivery.link, delivery.delivery_tag, second
        )

    def settle_incoming(
        self, session: EngineSession, first: int, last: int, state: object | None, settled: bool = True
    ) -> None:
        """Send the states of the peer's deliveries (§2.7.6, role receiver). Consecutive ones are sent in one frame.

        Deliveries that are settled or whose link has ended are left out. Under rcv-settle-mode second the state is sent
        unsettled, and the peer settles.
        """
        if not session.mapped:
            return
        unsettled = session.incoming_unsettled
        encoded = encode_state(state)
        for number in range(first, last + 1):
            delivery = unsettled.get(number)
            if delivery is None:
                continue
            if settled and not delivery.second:
                del unsettled[number]
                delivery.link.unsettled_count -= 1
                self.output.collect(session, session.incoming_batch, number, encoded, True)
            else:
                delivery.state = state
                self.output.collect(session, session.incoming_batch, number, encoded, False)

    # ---- deliveries of ours

    def send_transfer(
        self,
        link: Link,
        delivery_tag: bytes,
        payload: bytes,
        *,
        settled: bool,
        state: DeliveryState | None = None,
        message_format: int = 0,
        aborted: bool = False,
        resume: bool = False,
    ) -> int:
        """Hand in a delivery; returns its delivery id, unwrapped.

        It is split at the peer's frame size and kept while the peer's window is closed: stop when
        ``link.session.writable`` becomes False. ``aborted`` ends a delivery that was to be resumed; it has no payload
        and is settled.

        Raises:
            LocalProtocolError: the link is not attached or not outgoing, there is no credit, the tag has more than 32
                octets, the message is larger than ``link.max_message_size``, or ``settled`` breaks the settle mode.
        """
        if not link.attached or link.incoming or link.credit <= 0 or len(delivery_tag) > MAX_DELIVERY_TAG_OCTETS:
            raise LocalProtocolError(
                f"transfer on link {link.name!r}: attached={link.attached}, incoming={link.incoming}, "
                f"credit={link.credit}, tag of {len(delivery_tag)} octets; send over attached outgoing ones in credit"
            )
        if len(payload) > link.max_message_size > 0:
            raise LocalProtocolError(f"message of {len(payload)} octets, the peer takes {link.max_message_size}")
        if not resume and link.snd_settle_mode == (SENDER_UNSETTLED if settled else SENDER_SETTLED):
            raise LocalProtocolError(f"settled={settled} on a link with snd-settle-mode {link.snd_settle_mode}")
        session = link.session
        number = session.next_delivery_id
        session.next_delivery_id = number + 1
        link.credit -= 1
        link.delivery_count += 1
        if not settled and not aborted:
            session.outgoing_unsettled[number] = UnsettledDelivery(link, delivery_tag, False)
            link.unsettled_count += 1
            if len(session.outgoing_unsettled) >= self.max_unsettled:
                session.writable = False
        if session.remote_incoming_window > 0 and not session.pending and state is None and not resume and not aborted:
            head = encode_transfer_head(
                link.handle, number & _SERIAL_MASK, delivery_tag, message_format, settled, False
            )
            if len(head) + len(payload) + FRAME_HEADER_OCTETS <= self.output.remote_max_frame_size:
                self.output.send_transfer_frame(session, head, payload)
                if self.output.trace is not None:
                    transfer = Transfer(link.handle, number & _SERIAL_MASK, delivery_tag, message_format, settled)
                    self.output.trace_transfer(session.channel, transfer, payload)
                return number
        delivery = OutgoingDelivery(link, number, delivery_tag, payload, message_format, settled)
        delivery.state = state
        delivery.resume = resume
        delivery.aborted = aborted
        session.pending.append(delivery)
        link.pending += 1
        self.send_pending(session)
        return number

    def send_pending(self, session: EngineSession) -> None:
        """Send the transfers that the peer's window allows."""
        pending = session.pending
        while pending and session.remote_incoming_window > 0:
            delivery = pending[0]
            if self._send_part(session, delivery):
                pending.popleft()
            link = delivery.link
            if link.drained_due and link.pending == 0:
                self.credit.give_back(link)
        if pending:
            session.writable = False
        elif not session.writable:
            self.output.touch(session)

    def _send_part(self, session: EngineSession, delivery: OutgoingDelivery) -> bool:
        """Send the next transfer of a delivery; returns True when it was the last one."""
        transfer = Transfer(delivery.link.handle, delivery.delivery_id & _SERIAL_MASK, more=True)
        if not delivery.started:
            delivery.started = True
            delivery.link.pending -= 1
            transfer.delivery_tag = delivery.delivery_tag
            transfer.message_format = delivery.message_format
            transfer.settled = delivery.settled
            transfer.state = delivery.state
            transfer.resume = delivery.resume
        head = encode_performative(transfer)
        room = self.output.remote_max_frame_size - FRAME_HEADER_OCTETS - len(head)
        complete = delivery.aborted or len(delivery.payload) - delivery.offset <= room
        payload = b"" if delivery.aborted else delivery.payload[delivery.offset : delivery.offset + room]
        if complete:
            transfer.more = False
            transfer.aborted = delivery.aborted
            head = encode_performative(transfer)
        delivery.offset += len(payload)
        self.output.send_transfer_frame(session, head, payload)
        self.output.trace_transfer(session.channel, transfer, payload)
        return complete

    def settle_outgoing(
        self, session: EngineSession, first: int, last: int, state: object | None, settled: bool = True
    ) -> None:
        """Send the states of our deliveries (§2.7.6, role sender): the answer to an unsettled state.

        Deliveries that are settled or whose link has ended are left out.
        """
        if not session.mapped:
            return
        unsettled = session.outgoing_unsettled
        encoded = encode_state(state)
        for number in range(first, last + 1):
            delivery = unsettled.get(number)
            if delivery is None:
                continue
            if settled:
                del unsettled[number]
                delivery.link.unsettled_count -= 1
            else:
                delivery.state = state
            self.output.collect(session, session.outgoing_batch, number, encoded, settled)  # which touches the session

    # ---- dispositions of the peer

    def receive_disposition(self, session: EngineSession, disposition: Disposition) -> None:
        """Take a disposition frame (§2.7.6)."""
        receiver = disposition.role
        following = session.next_delivery_id if receiver else max(session.delivery_expected, 0)
        first = unwrap_serial(disposition.first, following)
        last = first if disposition.last is None else unwrap_serial(disposition.last, first)
        if last < first or last >= following:
            raise SessionFault(
                INVALID_FIELD,
                f"disposition.first is {disposition.first}, disposition.last {disposition.last}; "
                f"the delivery sent last is {(following - 1) & _SERIAL_MASK}",
            )
        unsettled = session.outgoing_unsettled if receiver else session.incoming_unsettled
        if last - first < 2 * len(unsettled) + 2:
            self._apply_disposition(session, disposition, first, last)
            return
        # A peer may name far more deliveries than exist: the work must not grow with their number.
        known = [number for number in unsettled if first <= number <= last]
        start = 0
        for index in range(1, len(known) + 1):
            if index == len(known) or known[index] != known[index - 1] + 1:
                self._apply_disposition(session, disposition, known[start], known[index - 1])
                start = index

    def _apply_disposition(self, session: EngineSession, disposition: Disposition, first: int, last: int) -> None:
        if not session.mapped:
            return  # an earlier part of the same frame made the owner end the session
        unsettled = session.outgoing_unsettled if disposition.role else session.incoming_unsettled
        state = disposition.state
        settled = disposition.settled
        for number in range(first, last + 1):
            if settled:
                delivery = unsettled.pop(number, None)
                if delivery is not None:
                    delivery.link.unsettled_count -= 1
            elif state is not None:
                delivery = unsettled.get(number)
                if delivery is not None:
                    delivery.state = state
        if disposition.role:
            if not session.writable:
                self.output.touch(session)
            self.handler.disposition(session, first, last, state, settled)
        else:
            self.handler.incoming_disposition(session, first, last, state, settled)
