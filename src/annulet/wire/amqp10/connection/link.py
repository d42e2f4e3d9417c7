"""A link of a session, and deliveries on their way over it (§2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from annulet.wire.amqp10.connection.states import LinkState
from annulet.wire.amqp10.frames.performatives import RECEIVER_FIRST, SENDER_MIXED, DeliveryState

if TYPE_CHECKING:
    from annulet.wire.amqp10.connection.session import EngineSession


class UnsettledDelivery:
    """The state of a delivery until it is settled (§2.6.12)."""

    __slots__ = ("link", "second", "state", "tag")

    def __init__(self, link: Link, tag: bytes, second: bool) -> None:
        self.link = link
        self.tag = tag
        self.second = second  # incoming: the peer settles, after it has seen our outcome
        self.state: object | None = None  # the last one sent by the receiving side


class IncomingDelivery:
    """A delivery of the peer.

    Attributes:
        link: the link of its arrival.
        delivery_id: its number in the session, unwrapped.
        delivery_tag: the peer's name for it on the link, up to 32 octets (§2.8.7).
        message_format: 0 for the format of §3.2.
        settled: the peer expects no further state of it.
        rcv_settle_mode: ``RECEIVER_FIRST`` or ``RECEIVER_SECOND``; the engine obeys it in ``settle_incoming``.
        state: as the peer gave it: ``None``, ``TransactionalState`` (§4.4.2), or an outcome when resuming.
        payload: all transfers joined.
        resume: it was begun on an earlier attachment of the link (§2.6.13).
    """

    __slots__ = (
        "delivery_id",
        "delivery_tag",
        "link",
        "message_format",
        "payload",
        "rcv_settle_mode",
        "resume",
        "settled",
        "state",
    )

    def __init__(self, link: Link, delivery_id: int, delivery_tag: bytes, message_format: int, settled: bool) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.delivery_tag = delivery_tag
        self.message_format = message_format
        self.settled = settled
        self.rcv_settle_mode = RECEIVER_FIRST
        self.state: object | None = None
        self.payload = b""
        self.resume = False


class OutgoingDelivery:
    """A delivery of ours that waits for the peer's incoming window; ``offset`` octets of it have left."""

    __slots__ = (
        "aborted",
        "delivery_id",
        "delivery_tag",
        "link",
        "message_format",
        "offset",
        "payload",
        "resume",
        "settled",
        "started",
        "state",
    )

    def __init__(
        self, link: Link, delivery_id: int, delivery_tag: bytes, payload: bytes, message_format: int, settled: bool
    ) -> None:
        self.link = link
        self.delivery_id = delivery_id
        self.delivery_tag = delivery_tag
        self.payload = payload
        self.message_format = message_format
        self.settled = settled
        self.state: DeliveryState | None = None
        self.resume = False
        self.aborted = False  # it is aborted by one transfer without payload
        self.offset = 0
        self.started = False


class Link:
    """One link. The owner reads all of it and may set ``owner``; the rest belongs to the engine.

    Attributes:
        name: names the link between the two containers, per direction (§2.6.1).
        handle: our handle; remote_handle: the peer's.
        incoming: True when the peer sends to us.
        source, target: as the peer sent them: ``Source``, ``Target``, ``Coordinator`` or ``None``.
        snd_settle_mode, rcv_settle_mode: in force (§2.8.2, §2.8.3).
        credit: deliveries the receiver still accepts: granted and not used (§2.6.7).
        drain: the receiver requests that the credit is used up or returned at once.
        delivery_count: deliveries sent so far, from the sender's initial count on; unwrapped.
        available: number of waiting deliveries announced by the sender; used on incoming links only.
        properties, desired_capabilities: of the peer's attach.
        max_message_size: octets, 0 without limit; incoming: our limit, outgoing: the peer's limit.
        attached: accepted, and not detached by either side.
        peer_unsettled: delivery tag to state, as sent by the peer in its attach (§2.6.13).
        incomplete_unsettled: that map is incomplete.
        resuming: the peer has unsettled deliveries of an earlier attachment.
        unsettled: delivery tag to last known state; filled when the link is detached, before ``handler.detached``.
        unsent: ids of deliveries passed to ``send_transfer`` that were not sent completely; filled as ``unsettled``.
            The peer cannot have taken any of them, settled or not.
        owner: free for use by the owner of the link.
    """

    __slots__ = (
        "asked_second",
        "assembled",
        "attach_bytes",
        "attached",
        "available",
        "credit",
        "delivery_count",
        "desired_capabilities",
        "drain",
        "drain_due",
        "drained_due",
        "failed",
        "fragments",
        "handle",
        "incoming",
        "incomplete_unsettled",
        "initial_delivery_count",
        "limit",
        "max_message_size",
        "name",
        "owner",
        "parts",
        "peer_unsettled",
        "pending",
        "properties",
        "rcv_settle_mode",
        "receiving",
        "remote_handle",
        "resuming",
        "session",
        "snd_settle_mode",
        "source",
        "state",
        "target",
        "unsent",
        "unsettled",
        "unsettled_count",
    )

    def __init__(self, session: EngineSession, name: str, remote_handle: int, incoming: bool) -> None:
        self.session = session
        self.name = name
        self.handle = -1  # given when the attach is answered
        self.remote_handle = remote_handle
        self.incoming = incoming
        self.state = LinkState.ATTACH_RECEIVED
        self.attached = False
        self.failed = False  # we detached it with an error
        self.attach_bytes = 0  # octets it counts against max_link_bytes
        self.owner: object | None = None
        self.source: object | None = None
        self.target: object | None = None
        self.snd_settle_mode = SENDER_MIXED
        self.rcv_settle_mode = RECEIVER_FIRST
        self.asked_second = False  # incoming: the peer requested the mode second, independent of the answer
        self.properties: dict[str, Any] = {}
        self.desired_capabilities: list[str] = []
        self.max_message_size = 0
        self.peer_unsettled: dict[bytes, Any] = {}
        self.incomplete_unsettled = False
        self.resuming = False
        self.unsettled: dict[bytes, Any] = {}
        self.unsettled_count = 0  # deliveries of it in the session's map
        self.unsent: list[int] = []

        self.credit = 0
        self.drain = False
        self.drain_due = False  # outgoing: requested, and not answered yet
        self.delivery_count = 0
        self.initial_delivery_count = 0
        self.available = 0
        self.limit = 0  # incoming: the delivery count the peer may reach, after all we ever granted
        self.drained_due = False  # outgoing: drained, but deliveries still wait for the window
        self.pending = 0  # outgoing: deliveries handed in of which nothing has left

        self.receiving: IncomingDelivery | None = None  # incoming: more transfers of it follow
        self.parts: list[bytes] = []  # its payload so far
        self.fragments: list[bytes] = []  # the youngest of it, to be joined into a part
        self.assembled = 0  # octets in both
