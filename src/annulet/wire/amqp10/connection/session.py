"""A session of a connection: its two windows, its links, and its unsettled deliveries (§2.5)."""

from __future__ import annotations

from collections import deque
from typing import Final

from annulet.wire.amqp10.connection.link import Link, OutgoingDelivery, UnsettledDelivery
from annulet.wire.amqp10.connection.states import SessionState
from annulet.wire.amqp10.types.conditions import SESSION_ERRANT_LINK, SESSION_UNATTACHED_HANDLE
from annulet.wire.amqp10.types.errors import SessionFault

SERIAL_MODULUS: Final = 1 << 32
_SERIAL_HALF: Final = 1 << 31
_SERIAL_MASK: Final = SERIAL_MODULUS - 1


def unwrap_serial(serial: int, reference: int) -> int:
    """Return the number nearest to ``reference`` that is ``serial`` on the wire (RFC 1982 with 32 bits, §2.8.10)."""
    return reference + ((serial - reference + _SERIAL_HALF) & _SERIAL_MASK) - _SERIAL_HALF


class DispositionBatch:
    """Consecutive deliveries of one state leave as one disposition (§2.7.6). Empty while ``state`` is ``None``."""

    __slots__ = ("first", "last", "settled", "state")

    def __init__(self) -> None:
        self.first = 0
        self.last = -1
        self.settled = False
        self.state: bytes | None = None  # encoded; b"\x40" (null) when there is none to tell


class EngineSession:
    """One session. The owner reads all of it and may set ``owner``; the rest belongs to the engine.

    Delivery ids and transfer ids are unwrapped: they grow for ever, the wire carries their lower 32 bits (§2.8.10).

    Attributes:
        channel: our channel number, outgoing.
        remote_channel: the peer's channel number, incoming.
        handle_max: the largest of our link handles the peer accepts (§2.7.2).
        links: the links by the peer's handle.
        writable: False while transfers wait for the peer's incoming window, or while more deliveries are unsettled
            than ``max_unsettled`` allows; ``handler.session_writable`` is called when it is True again.
        pending: deliveries passed in that were not sent completely.
        owner: free for use by the owner of the session.
    """

    __slots__ = (
        "channel",
        "delivery_expected",
        "errant_handles",
        "handle_max",
        "incoming_batch",
        "incoming_unsettled",
        "incoming_window",
        "incoming_window_size",
        "leaving",
        "links",
        "mapped",
        "next_delivery_id",
        "next_incoming_id",
        "next_outgoing_id",
        "outgoing_batch",
        "outgoing_handles",
        "outgoing_unsettled",
        "owner",
        "pending",
        "properties",
        "released",
        "remote_channel",
        "remote_incoming_window",
        "remote_outgoing_window",
        "serving",
        "state",
        "told",
        "touched",
        "writable",
    )

    def __init__(self, channel: int, remote_channel: int, incoming_window: int) -> None:
        self.channel = channel
        self.remote_channel = remote_channel
        self.state = SessionState.MAPPED
        self.mapped = True  # state is MAPPED, for the hot paths
        self.released = False  # nothing can be sent any more
        self.leaving: deque[Link] = deque()  # links of whose end the owner has still to be notified
        self.told = False  # the owner was notified of its end
        self.handle_max = SERIAL_MODULUS - 1
        self.properties: dict[str, object] = {}  # of the peer's begin
        self.links: dict[int, Link] = {}
        self.outgoing_handles: dict[int, Link] = {}  # by our handle
        self.errant_handles: set[int] = set()  # the peer's, detached with an error of ours (§2.8.17)
        self.owner: object | None = None
        self.writable = True
        self.serving: Link | None = None  # the link that the frame being served is about
        self.touched = False  # the engine has to process it before the output is taken

        self.incoming_window_size = incoming_window  # transfer frames we allow at a time
        self.incoming_window = incoming_window  # of these, not used yet
        self.next_incoming_id = 0  # transfer id expected next
        self.delivery_expected = -1  # delivery id expected next, -1 before the first
        self.incoming_unsettled: dict[int, UnsettledDelivery] = {}  # by delivery id

        self.next_outgoing_id = 0  # transfer id given next; the first is 0
        self.next_delivery_id = 0  # delivery id given next
        self.remote_incoming_window = 0  # transfer frames the peer still accepts
        self.remote_outgoing_window = 0  # as sent by the peer; not used
        self.outgoing_unsettled: dict[int, UnsettledDelivery] = {}  # by delivery id
        self.pending: deque[OutgoingDelivery] = deque()

        self.incoming_batch = DispositionBatch()  # role receiver: deliveries of the peer
        self.outgoing_batch = DispositionBatch()  # role sender: deliveries of ours

    def find_link(self, handle: int, what: str) -> Link:
        """Return the link of a handle of the peer; ``what`` names the frame. Raises :class:`SessionFault`."""
        link = self.links.get(handle)
        if link is None:
            if handle in self.errant_handles:
                raise SessionFault(
                    SESSION_ERRANT_LINK,
                    f"{what}.handle {handle} was detached with an error; attach again before using it",
                )
            raise SessionFault(SESSION_UNATTACHED_HANDLE, f"{what}.handle {handle} is not attached; send attach first")
        return link
