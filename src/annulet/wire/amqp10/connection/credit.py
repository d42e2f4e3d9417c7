"""Credit of links (§2.6.7): granted to the peer, granted by it, drained and given back."""

from __future__ import annotations

from typing import Final

from annulet.wire.amqp10.connection.handler import Amqp10Handler
from annulet.wire.amqp10.connection.link import Link
from annulet.wire.amqp10.connection.output import FrameOutput
from annulet.wire.amqp10.connection.session import EngineSession, unwrap_serial
from annulet.wire.amqp10.connection.states import LinkState
from annulet.wire.amqp10.frames.limits import MAX_CREDIT
from annulet.wire.amqp10.frames.performatives import Flow
from annulet.wire.amqp10.types.conditions import INVALID_FIELD, LINK_TRANSFER_LIMIT_EXCEEDED, NOT_IMPLEMENTED
from annulet.wire.amqp10.types.errors import LinkFault, LocalProtocolError

TRANSACTION_ID: Final[str] = "txn-id"
"""Flow property that associates the later deliveries of a link with a transaction (§4.4.3)."""


class LinkCredit:
    """The credit of all links of a connection."""

    def __init__(self, handler: Amqp10Handler, output: FrameOutput) -> None:
        self.handler = handler
        self.output = output

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
        self.output.send_flow(link.session, link)

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
            self.give_back(link)

    def receive_flow(self, session: EngineSession, flow: Flow, handle: int) -> None:
        """Take the state of a link from a flow frame of the peer (§2.7.4)."""
        link = session.find_link(handle, "flow")
        if link.state is LinkState.DETACH_SENT:
            return
        session.serving = link
        if link.incoming:
            self._update_sender(link, flow)
        else:
            self._update_receiver(link, flow)
        if flow.echo and link.attached:
            self.output.send_flow(session, link)

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

    def give_back(self, link: Link) -> None:
        """Use up the credit of an outgoing link without sending (§2.6.7, drain)."""
        link.drained_due = False
        link.drain_due = False
        link.delivery_count += link.credit
        link.credit = 0
        self.output.send_flow(link.session, link)
