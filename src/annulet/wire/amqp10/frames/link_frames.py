"""Transfer, flow and disposition (§2.7.4 to §2.7.6): the frames of running links, read field by field.

Decoding does not use the tables of :mod:`annulet.wire.amqp10.types.composite`; the rules are the same, and the tests
compare.
"""
# ruff: noqa: FBT002, PLR0913, PLR0917 - fields are positional in the order of the standard

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from annulet.wire.amqp10.frames.outcomes import Accepted, DeliveryState
from annulet.wire.amqp10.types.composite import (
    BINARY,
    BOOLEAN,
    COMPOSITE,
    FIELDS,
    UNSIGNED_BYTE,
    UNSIGNED_INT,
    Composite,
    Field,
    decode_nested,
    define,
    list_bounds,
    missing,
    refuse_count,
    refuse_rest,
)
from annulet.wire.amqp10.types.errors import DecodeError
from annulet.wire.amqp10.types.fields import (
    read_binary,
    read_boolean,
    read_fields,
    read_unsigned_byte,
    read_unsigned_int,
)

MAX_DELIVERY_TAG_OCTETS: Final = 32
"""§2.8.7: the longest delivery-tag."""


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
    """The state of deliveries ``first`` to ``last`` (§2.7.6); ``last`` is ``None`` for one delivery."""

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


_STATE: Final = Field("state", COMPOSITE, allowed=(DeliveryState,))
_ACCEPTED: Final = Accepted()  # it has no fields, so one serves all

define(
    "flow",
    0x13,
    Flow,
    (
        Field("next_incoming_id", UNSIGNED_INT),
        Field("incoming_window", UNSIGNED_INT, mandatory=True),
        Field("next_outgoing_id", UNSIGNED_INT, mandatory=True),
        Field("outgoing_window", UNSIGNED_INT, mandatory=True),
        Field("handle", UNSIGNED_INT),
        Field("delivery_count", UNSIGNED_INT),
        Field("link_credit", UNSIGNED_INT),
        Field("available", UNSIGNED_INT),
        Field("drain", BOOLEAN, default=False),
        Field("echo", BOOLEAN, default=False),
        Field("properties", FIELDS),
    ),
)
define(
    "transfer",
    0x14,
    Transfer,
    (
        Field("handle", UNSIGNED_INT, mandatory=True),
        Field("delivery_id", UNSIGNED_INT),
        Field("delivery_tag", BINARY, maximum=MAX_DELIVERY_TAG_OCTETS),
        Field("message_format", UNSIGNED_INT),
        Field("settled", BOOLEAN),
        Field("more", BOOLEAN, default=False),
        Field("rcv_settle_mode", UNSIGNED_BYTE, maximum=1),
        _STATE,
        Field("resume", BOOLEAN, default=False),
        Field("aborted", BOOLEAN, default=False),
        Field("batchable", BOOLEAN, default=False),
    ),
)
define(
    "disposition",
    0x15,
    Disposition,
    (
        Field("role", BOOLEAN, mandatory=True),
        Field("first", UNSIGNED_INT, mandatory=True),
        Field("last", UNSIGNED_INT),
        Field("settled", BOOLEAN, default=False),
        _STATE,
        Field("batchable", BOOLEAN, default=False),
    ),
)


def read_transfer(data: bytes, position: i64, end: i64) -> tuple[Transfer, i64]:  # noqa: C901 - one row a field
    """Return the transfer whose list is at ``position``, and the position behind it.

    Raises:
        DecodeError: a field of the wrong type, a mandatory one missing, one too many.
    """
    count, at, stop = list_bounds(data, position, end, "transfer")
    refuse_count("transfer", count, 11)
    if count == 0:
        raise missing("transfer.handle")
    number, at = read_unsigned_int(data, at, stop, "transfer.handle")
    if number < 0:
        raise missing("transfer.handle")
    transfer = Transfer(int(number))
    if count > 1:
        number, at = read_unsigned_int(data, at, stop, "transfer.delivery-id")
        if number >= 0:
            transfer.delivery_id = int(number)
    if count > 2:
        tag, at = read_binary(data, at, stop, "transfer.delivery-tag")
        if tag is not None and len(tag) > MAX_DELIVERY_TAG_OCTETS:
            raise DecodeError(
                f"transfer.delivery-tag has {len(tag)} octets, at most {MAX_DELIVERY_TAG_OCTETS} are allowed"
            )
        transfer.delivery_tag = tag
    if count > 3:
        number, at = read_unsigned_int(data, at, stop, "transfer.message-format")
        if number >= 0:
            transfer.message_format = int(number)
    if count > 4:
        number, at = read_boolean(data, at, stop, "transfer.settled")
        if number >= 0:
            transfer.settled = number == 1
    if count > 5:
        number, at = read_boolean(data, at, stop, "transfer.more")
        transfer.more = number == 1
    if count > 6:
        at = _read_rest_of_transfer(transfer, count, data, at, stop)
    refuse_rest("transfer", at, stop)
    return transfer, stop


def _read_rest_of_transfer(transfer: Transfer, count: i64, data: bytes, at: i64, stop: i64) -> i64:
    number, at = read_unsigned_byte(data, at, stop, "transfer.rcv-settle-mode")
    if number > 1:
        raise DecodeError(f"transfer.rcv-settle-mode is {number}, allowed are 0 to 1")
    if number >= 0:
        transfer.rcv_settle_mode = int(number)
    if count > 7:
        transfer.state, at = read_state(data, at, stop, "transfer.state")
    if count > 8:
        number, at = read_boolean(data, at, stop, "transfer.resume")
        transfer.resume = number == 1
    if count > 9:
        number, at = read_boolean(data, at, stop, "transfer.aborted")
        transfer.aborted = number == 1
    if count > 10:
        number, at = read_boolean(data, at, stop, "transfer.batchable")
        transfer.batchable = number == 1
    return at


def read_state(data: bytes, position: i64, end: i64, name: str) -> tuple[DeliveryState | None, i64]:
    """Return the delivery state at ``position``, ``None`` for null, and the position behind it.

    Raises:
        DecodeError: there is something else.
    """
    if (
        position + 4 <= end
        and data[position + 2] == 0x24
        and data[position + 3] == 0x45
        and data[position] == 0
        and data[position + 1] == 0x53
    ):
        return _ACCEPTED, position + 4
    return decode_nested(name, _STATE, data, position, end)


def read_disposition(data: bytes, position: i64, end: i64) -> tuple[Disposition, i64]:
    """Return the disposition whose list is at ``position``, and the position behind it.

    Raises:
        DecodeError: a field of the wrong type, a mandatory one missing, one too many.
    """
    count, at, stop = list_bounds(data, position, end, "disposition")
    refuse_count("disposition", count, 6)
    if count == 0:
        raise missing("disposition.role")
    role, at = read_boolean(data, at, stop, "disposition.role")
    if role < 0:
        raise missing("disposition.role")
    if count == 1:
        raise missing("disposition.first")
    number, at = read_unsigned_int(data, at, stop, "disposition.first")
    if number < 0:
        raise missing("disposition.first")
    disposition = Disposition(role == 1, int(number))
    if count > 2:
        number, at = read_unsigned_int(data, at, stop, "disposition.last")
        if number >= 0:
            disposition.last = int(number)
    if count > 3:
        number, at = read_boolean(data, at, stop, "disposition.settled")
        disposition.settled = number == 1
    if count > 4:
        disposition.state, at = read_state(data, at, stop, "disposition.state")
    if count > 5:
        number, at = read_boolean(data, at, stop, "disposition.batchable")
        disposition.batchable = number == 1
    refuse_rest("disposition", at, stop)
    return disposition, stop


def _read_count(data: bytes, position: i64, end: i64, name: str) -> tuple[int | None, i64]:
    number, at = read_unsigned_int(data, position, end, name)
    return (None if number < 0 else int(number)), at


def _read_window(data: bytes, position: i64, end: i64, left: i64, name: str) -> tuple[int, i64]:
    if left <= 0:
        raise missing(name)
    number, at = read_unsigned_int(data, position, end, name)
    if number < 0:
        raise missing(name)
    return int(number), at


def read_flow(data: bytes, position: i64, end: i64) -> tuple[Flow, i64]:
    """Return the flow whose list is at ``position``, and the position behind it.

    Raises:
        DecodeError: a field of the wrong type, a mandatory one missing, one too many.
    """
    count, at, stop = list_bounds(data, position, end, "flow")
    refuse_count("flow", count, 11)
    flow = Flow()
    if count > 0:
        flow.next_incoming_id, at = _read_count(data, at, stop, "flow.next-incoming-id")
    flow.incoming_window, at = _read_window(data, at, stop, count - 1, "flow.incoming-window")
    flow.next_outgoing_id, at = _read_window(data, at, stop, count - 2, "flow.next-outgoing-id")
    flow.outgoing_window, at = _read_window(data, at, stop, count - 3, "flow.outgoing-window")
    if count > 4:
        flow.handle, at = _read_count(data, at, stop, "flow.handle")
    if count > 5:
        flow.delivery_count, at = _read_count(data, at, stop, "flow.delivery-count")
    if count > 6:
        flow.link_credit, at = _read_count(data, at, stop, "flow.link-credit")
    if count > 7:
        flow.available, at = _read_count(data, at, stop, "flow.available")
    if count > 8:
        number, at = read_boolean(data, at, stop, "flow.drain")
        flow.drain = number == 1
    if count > 9:
        number, at = read_boolean(data, at, stop, "flow.echo")
        flow.echo = number == 1
    if count > 10:
        flow.properties, at = read_fields(data, at, stop, "flow.properties")
    refuse_rest("flow", at, stop)
    return flow, stop
