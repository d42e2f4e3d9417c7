"""The performatives of §2.7, each with the fields of the standard, and the codec of whole frame bodies.

All fields can be given by position in the standard's order or by name. A missing list or map is empty, any other
missing field is ``None``. Numbers are plain ``int``, symbols plain ``str``. The other composite types of frames can be
imported from here as well.
"""
# ruff: noqa: FBT002, PLR0913, PLR0917 - fields are positional in the order of the standard

from __future__ import annotations

from typing import Any, Final

from annulet.wire.amqp10.frames.link_frames import (
    MAX_DELIVERY_TAG_OCTETS,
    Disposition,
    Flow,
    Transfer,
    read_disposition,
    read_flow,
    read_transfer,
)
from annulet.wire.amqp10.frames.outcomes import (
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
from annulet.wire.amqp10.frames.sasl import SaslChallenge, SaslInit, SaslMechanisms, SaslOutcome, SaslResponse
from annulet.wire.amqp10.frames.shortcuts import encode_flow
from annulet.wire.amqp10.frames.terminus import Coordinator, Source, Target
from annulet.wire.amqp10.types.composite import (
    BOOLEAN,
    COMPOSITE,
    FIELDS,
    STRING,
    SYMBOLS,
    UNSETTLED,
    UNSIGNED_BYTE,
    UNSIGNED_INT,
    UNSIGNED_LONG,
    UNSIGNED_SHORT,
    Composite,
    CompositeType,
    Field,
    decode_fields,
    define,
    definition_by_code,
    read_descriptor,
    unknown_type,
)
from annulet.wire.amqp10.types.composite_encoding import encode_composite
from annulet.wire.amqp10.types.errors import LocalProtocolError

__all__ = [
    "MAX_DELIVERY_TAG_OCTETS",
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


_HANDLE: Final = Field("handle", UNSIGNED_INT, mandatory=True)
_CAPABILITIES_AND_PROPERTIES: Final = (
    Field("offered_capabilities", SYMBOLS),
    Field("desired_capabilities", SYMBOLS),
    Field("properties", FIELDS),
)
_ERROR: Final = Field("error", COMPOSITE, allowed=(Error,))
_ROLE: Final = Field("role", BOOLEAN, mandatory=True)

define(
    "open",
    0x10,
    Open,
    (
        Field("container_id", STRING, mandatory=True),
        Field("hostname", STRING),
        Field("max_frame_size", UNSIGNED_INT, default=MAX_UNSIGNED_INT),
        Field("channel_max", UNSIGNED_SHORT, default=MAX_UNSIGNED_SHORT),
        Field("idle_time_out", UNSIGNED_INT),
        Field("outgoing_locales", SYMBOLS),
        Field("incoming_locales", SYMBOLS),
        *_CAPABILITIES_AND_PROPERTIES,
    ),
)
define(
    "begin",
    0x11,
    Begin,
    (
        Field("remote_channel", UNSIGNED_SHORT),
        Field("next_outgoing_id", UNSIGNED_INT, mandatory=True),
        Field("incoming_window", UNSIGNED_INT, mandatory=True),
        Field("outgoing_window", UNSIGNED_INT, mandatory=True),
        Field("handle_max", UNSIGNED_INT, default=MAX_UNSIGNED_INT),
        *_CAPABILITIES_AND_PROPERTIES,
    ),
)
define(
    "attach",
    0x12,
    Attach,
    (
        Field("name", STRING, mandatory=True),
        _HANDLE,
        _ROLE,
        Field("snd_settle_mode", UNSIGNED_BYTE, default=SENDER_MIXED, maximum=SENDER_MIXED),
        Field("rcv_settle_mode", UNSIGNED_BYTE, default=RECEIVER_FIRST, maximum=RECEIVER_SECOND),
        Field("source", COMPOSITE, allowed=(Source,)),
        Field("target", COMPOSITE, allowed=(Target, Coordinator)),
        Field("unsettled", UNSETTLED, allowed=(DeliveryState,)),
        Field("incomplete_unsettled", BOOLEAN, default=False),
        Field("initial_delivery_count", UNSIGNED_INT),
        Field("max_message_size", UNSIGNED_LONG),
        *_CAPABILITIES_AND_PROPERTIES,
    ),
)
define("detach", 0x16, Detach, (_HANDLE, Field("closed", BOOLEAN, default=False), _ERROR))
define("end", 0x17, End, (_ERROR,))
define("close", 0x18, Close, (_ERROR,))


def decode_performative(data: bytes, position: int, end: int) -> tuple[Composite, int]:
    """Return the performative of a frame body, AMQP or SASL, and the position of the payload behind it.

    Raises:
        DecodeError: an unknown descriptor, a field of the wrong type, a mandatory one missing, one too many.
    """
    code, start = read_descriptor(data, position, end, "frame body")
    if code == 0x14:
        return read_transfer(data, start, end)
    if code == 0x15:
        return read_disposition(data, start, end)
    if code == 0x13:
        return read_flow(data, start, end)
    definition: CompositeType | None = definition_by_code(int(code))
    if definition is None or not (0x10 <= code <= 0x18 or 0x40 <= code <= 0x44):
        raise unknown_type("frame body", int(code), position)
    return decode_fields(definition, data, int(start), end)


def encode_performative(performative: object) -> bytes:
    """Encode a performative, or any other composite value, with all its fields.

    Raises:
        LocalProtocolError: a mandatory field is missing, or one has a value its type does not allow.
    """
    if isinstance(performative, Flow) and not performative.properties:
        return encode_flow(performative)
    if not isinstance(performative, Composite):
        raise LocalProtocolError(f"a {type(performative).__name__} was given, needed is a performative")
    return encode_composite(performative)
