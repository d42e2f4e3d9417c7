"""The performatives of §2.7, each with the fields of the standard, and the codec of whole frame bodies.

All fields can be given by position in the standard's order or by name. A missing list or map is empty, any other
missing field is ``None``. Numbers are plain ``int``, symbols plain ``str``. The other composite types a frame can
hold are imported from here as well.
"""
# ruff: noqa: FBT002, PLR0913, PLR0917 - fields are positional in the order of the standard

from __future__ import annotations

from typing import Any, Final

from annulet.wire.amqp10.composite import (
    BINARY,
    BOOLEAN,
    COMPOSITE,
    FIELDS,
    STRING,
    SYMBOL,
    SYMBOLS,
    UNSETTLED,
    UNSIGNED_BYTE,
    UNSIGNED_INT,
    UNSIGNED_LONG,
    UNSIGNED_SHORT,
    Composite,
    Field,
    define,
)
from annulet.wire.amqp10.outcomes import (
    Accepted,
    Declare,
    Declared,
    DeliveryState,
    Discharge,
    Error,
    Modified,
    Outcome,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from annulet.wire.amqp10.sasl import SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from annulet.wire.amqp10.terminus import Coordinator, Source, Target

__all__ = [
    "Accepted",
    "Attach",
    "Begin",
    "Close",
    "Coordinator",
    "Declare",
    "Declared",
    "DeliveryState",
    "Detach",
    "Discharge",
    "Disposition",
    "End",
    "Error",
    "Flow",
    "Modified",
    "Open",
    "Outcome",
    "Received",
    "Rejected",
    "Released",
    "SaslChallenge",
    "SaslInit",
    "SaslMechanisms",
    "SaslOutcome",
    "SaslResponse",
    "Source",
    "Target",
    "TransactionalState",
    "Transfer",
]

ROLE_SENDER: Final = False
ROLE_RECEIVER: Final = True

# §2.8.2 sender-settle-mode
SENDER_UNSETTLED: Final = 0
SENDER_SETTLED: Final = 1
SENDER_MIXED: Final = 2

# §2.8.3 receiver-settle-mode
RECEIVER_FIRST: Final = 0
RECEIVER_SECOND: Final = 1

MAX_DELIVERY_TAG_OCTETS: Final = 32
"""§2.8.7: the longest delivery-tag."""

MAX_UNSIGNED_INT: Final = 0xFFFFFFFF
MAX_UNSIGNED_SHORT: Final = 0xFFFF


class Open(Composite):
    """Negotiates a connection (§2.7.1). ``max_frame_size`` is in octets, ``idle_time_out`` in milliseconds."""

    __slots__ = (
        "channel_max",
        "container_id",
        "desired_capabilities",
        "hostname",
        "idle_time_out",
        "incoming_locales",
        "max_frame_size",
        "offered_capabilities",
        "outgoing_locales",
        "properties",
    )

    def __init__(
        self,
        container_id: str,
        hostname: str | None = None,
        max_frame_size: int = MAX_UNSIGNED_INT,
        channel_max: int = MAX_UNSIGNED_SHORT,
        idle_time_out: int | None = None,
        outgoing_locales: list[str] | None = None,
        incoming_locales: list[str] | None = None,
        offered_capabilities: list[str] | None = None,
        desired_capabilities: list[str] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        self.container_id = container_id
        self.hostname = hostname
        self.max_frame_size = max_frame_size
        self.channel_max = channel_max
        self.idle_time_out = idle_time_out
        self.outgoing_locales: list[str] = [] if outgoing_locales is None else outgoing_locales
        self.incoming_locales: list[str] = [] if incoming_locales is None else incoming_locales
        self.offered_capabilities: list[str] = [] if offered_capabilities is None else offered_capabilities
        self.desired_capabilities: list[str] = [] if desired_capabilities is None else desired_capabilities
        self.properties: dict[str, Any] = {} if properties is None else properties


class Begin(Composite):
    """Begins a session on a channel (§2.7.2). Windows are counted in transfer frames."""

    __slots__ = (
        "desired_capabilities",
        "handle_max",
        "incoming_window",
        "next_outgoing_id",
        "offered_capabilities",
        "outgoing_window",
        "properties",
        "remote_channel",
    )

    def __init__(
        self,
        remote_channel: int | None = None,
        next_outgoing_id: int = 0,
        incoming_window: int = 0,
        outgoing_window: int = 0,
        handle_max: int = MAX_UNSIGNED_INT,
        offered_capabilities: list[str] | None = None,
        desired_capabilities: list[str] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        self.remote_channel = remote_channel
        self.next_outgoing_id = next_outgoing_id
        self.incoming_window = incoming_window
        self.outgoing_window = outgoing_window
        self.handle_max = handle_max
        self.offered_capabilities: list[str] = [] if offered_capabilities is None else offered_capabilities
        self.desired_capabilities: list[str] = [] if desired_capabilities is None else desired_capabilities
        self.properties: dict[str, Any] = {} if properties is None else properties


class Attach(Composite):
    """Attaches a link to a session (§2.7.3). ``role`` is that of the peer that sends it, True for receiver.

    ``unsettled`` maps delivery tags to states, ``None`` when the peer keeps none (§2.6.13).
    ``max_message_size`` is in octets; ``None`` and 0 are no limit.
    """

    __slots__ = (
        "desired_capabilities",
        "handle",
        "incomplete_unsettled",
        "initial_delivery_count",
        "max_message_size",
        "name",
        "offered_capabilities",
        "properties",
        "rcv_settle_mode",
        "role",
        "snd_settle_mode",
        "source",
        "target",
        "unsettled",
    )

    def __init__(
        self,
        name: str,
        handle: int,
        role: bool,
        snd_settle_mode: int = SENDER_MIXED,
        rcv_settle_mode: int = RECEIVER_FIRST,
        source: Source | None = None,
        target: Target | Coordinator | None = None,
        unsettled: dict[bytes, DeliveryState | None] | None = None,
        incomplete_unsettled: bool = False,
        initial_delivery_count: int | None = None,
        max_message_size: int | None = None,
        offered_capabilities: list[str] | None = None,
        desired_capabilities: list[str] | None = None,
        properties: dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.handle = handle
        self.role = role
        self.snd_settle_mode = snd_settle_mode
        self.rcv_settle_mode = rcv_settle_mode
        self.source = source
        self.target = target
        self.unsettled = unsettled
        self.incomplete_unsettled = incomplete_unsettled
        self.initial_delivery_count = initial_delivery_count
        self.max_message_size = max_message_size
        self.offered_capabilities: list[str] = [] if offered_capabilities is None else offered_capabilities
        self.desired_capabilities: list[str] = [] if desired_capabilities is None else desired_capabilities
        self.properties: dict[str, Any] = {} if properties is None else properties


class Flow(Composite):
    """Updates the state of a session, and with ``handle`` that of a link (§2.7.4)."""

    __slots__ = (
        "available",
        "delivery_count",
        "drain",
        "echo",
        "handle",
        "incoming_window",
        "link_credit",
        "next_incoming_id",
        "next_outgoing_id",
        "outgoing_window",
        "properties",
    )

    def __init__(
        self,
        next_incoming_id: int | None = None,
        incoming_window: int = 0,
        next_outgoing_id: int = 0,
        outgoing_window: int = 0,
        handle: int | None = None,
        delivery_count: int | None = None,
        link_credit: int | None = None,
        available: int | None = None,
        drain: bool = False,
        echo: bool = False,
        properties: dict[str, Any] | None = None,
    ) -> None:
        self.next_incoming_id = next_incoming_id
        self.incoming_window = incoming_window
        self.next_outgoing_id = next_outgoing_id
        self.outgoing_window = outgoing_window
        self.handle = handle
        self.delivery_count = delivery_count
        self.link_credit = link_credit
        self.available = available
        self.drain = drain
        self.echo = echo
        self.properties: dict[str, Any] = {} if properties is None else properties


class Transfer(Composite):
    """Carries a message or a part of one behind it (§2.7.5). ``settled`` is ``None`` when the peer left it out."""

    __slots__ = (
        "aborted",
        "batchable",
        "delivery_id",
        "delivery_tag",
        "handle",
        "message_format",
        "more",
        "rcv_settle_mode",
        "resume",
        "settled",
        "state",
    )

    def __init__(
        self,
        handle: int,
        delivery_id: int | None = None,
        delivery_tag: bytes | None = None,
        message_format: int | None = None,
        settled: bool | None = None,
        more: bool = False,
        rcv_settle_mode: int | None = None,
        state: DeliveryState | None = None,
        resume: bool = False,
        aborted: bool = False,
        batchable: bool = False,
    ) -> None:
        self.handle = handle
        self.delivery_id = delivery_id
        self.delivery_tag = delivery_tag
        self.message_format = message_format
        self.settled = settled
        self.more = more
        self.rcv_settle_mode = rcv_settle_mode
        self.state = state
        self.resume = resume
        self.aborted = aborted
        self.batchable = batchable


class Disposition(Composite):
    """Tells the state of deliveries ``first`` to ``last`` (§2.7.6); ``last`` is ``None`` for one delivery."""

    __slots__ = ("batchable", "first", "last", "role", "settled", "state")

    def __init__(
        self,
        role: bool,
        first: int,
        last: int | None = None,
        settled: bool = False,
        state: DeliveryState | None = None,
        batchable: bool = False,
    ) -> None:
        self.role = role
        self.first = first
        self.last = last
        self.settled = settled
        self.state = state
        self.batchable = batchable


class Detach(Composite):
    """Detaches a link from its session (§2.7.7), with ``closed`` for good."""

    __slots__ = ("closed", "error", "handle")

    def __init__(self, handle: int, closed: bool = False, error: Error | None = None) -> None:
        self.handle = handle
        self.closed = closed
        self.error = error


class End(Composite):
    """Ends a session (§2.7.8)."""

    __slots__ = ("error",)

    def __init__(self, error: Error | None = None) -> None:
        self.error = error


class Close(Composite):
    """Closes a connection (§2.7.9)."""

    __slots__ = ("error",)

    def __init__(self, error: Error | None = None) -> None:
        self.error = error
