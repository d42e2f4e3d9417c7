"""The headers with an effect on the broker: delay, schedule id and its cancellation, duplicate id, further routing
keys, group sequence, the delivery whose timeout is restarted, and the presence of a trail of deaths.

One pass over the header table finds all of them; nothing else in it is decoded. Names: RabbitMQ (``x-delay``, ``CC``,
``BCC``), Artemis (``_AMQ_SCHED_DELIVERY``, ``_AMQ_DUPL_ID``, ``JMSXGroupSeq``), Broker-J (``x-qpid-not-valid-before``).
"""

from __future__ import annotations

from typing import Final

from annulet.core.message.message import PropertyValue
from annulet.wire.amqp091.messages.property_reader import FLAG_HEADERS, PropertyReader
from annulet.wire.amqp091.types.constants import MAX_SHORT_STRING_BYTES, PRECONDITION_FAILED
from annulet.wire.amqp091.types.errors import ChannelError
from annulet.wire.amqp091.types.values import Timestamp, find_content_end, read_short_string, read_value, skip_value

TIME_MAX: Final = 2**53
"""Milliseconds: the largest time and delay. The log has 64 bits for a time, and a float counts in ones up to here."""

GROUP_SEQUENCE_MIN: Final = -(2**31)
GROUP_SEQUENCE_MAX: Final = 2**31 - 1  # JMS 2.0 §3.5.9: JMSXGroupSeq is an int

_DELAY: Final = 1
_DELIVER_AT: Final = 2
_SCHEDULE_ID: Final = 3
_DUPLICATE_ID: Final = 4
_CARBON_COPIES: Final = 5
_BLIND_COPIES: Final = 6
_GROUP_SEQUENCE: Final = 7
_SCHEDULE_CANCEL: Final = 8
_DEATHS: Final = 9
_EXTEND_DELIVERY: Final = 10

_NAMES: Final[dict[bytes, int]] = {
    b"x-delay": _DELAY,
    b"x-deliver-at": _DELIVER_AT,
    b"_AMQ_SCHED_DELIVERY": _DELIVER_AT,
    b"x-qpid-not-valid-before": _DELIVER_AT,
    b"x-schedule-id": _SCHEDULE_ID,
    b"x-schedule-cancel": _SCHEDULE_CANCEL,
    b"_AMQ_DUPL_ID": _DUPLICATE_ID,
    b"x-duplicate-id": _DUPLICATE_ID,
    b"CC": _CARBON_COPIES,
    b"BCC": _BLIND_COPIES,
    b"JMSXGroupSeq": _GROUP_SEQUENCE,
    b"x-group-sequence": _GROUP_SEQUENCE,
    b"x-death": _DEATHS,
    b"x-extend-delivery": _EXTEND_DELIVERY,
}
_FIRST_OCTETS: Final = frozenset(name[0] for name in _NAMES)

SCHEDULE_NAMES: Final = (
    "x-delay",
    "x-deliver-at",
    "_AMQ_SCHED_DELIVERY",
    "x-qpid-not-valid-before",
    "x-schedule-id",
    "x-schedule-cancel",
)
"""Headers removed from a copy, because it would be scheduled again."""


class PublishHeaders:
    """The requests in the headers. Attributes have their defaults if the sender did not set them."""

    __slots__ = (
        "bcc",
        "cancels",
        "cc",
        "deaths_given",
        "delay",
        "deliver_at",
        "duplicate_id",
        "extends",
        "group_sequence",
        "schedule_id",
    )

    def __init__(self) -> None:
        self.deliver_at = 0  # not before this, milliseconds since 1970; of several the latest; 0 = none given
        self.delay = 0  # milliseconds from acceptance; 0 = none
        self.schedule_id = ""
        self.cancels = False  # it cancels the message of its schedule id, and is not routed itself
        self.duplicate_id = ""  # octets as hexadecimal digits
        self.cc: tuple[str, ...] = ()  # further routing keys
        self.bcc: tuple[str, ...] = ()  # further routing keys; the header is not for consumers
        self.group_sequence = 0  # -1 closes the group
        self.extends = 0  # the delivery tag whose timeout is restarted; it is not routed itself
        self.deaths_given = False  # it has a trail of deaths, set by its publisher

    def due_at(self, accepted_at: int) -> int:
        """Return the delivery time of a message accepted at that time (milliseconds since 1970); 0 for at once."""
        if self.delay <= 0:
            return self.deliver_at
        return max(self.deliver_at, accepted_at + self.delay)


NOTHING: Final = PublishHeaders()
"""The requests of a message without any of the names; shared, so never changed."""


def read_publish_headers(header: bytes, *, strict: bool = True) -> PublishHeaders:
    """Return the requests of a message; :data:`NOTHING` if it has none.

    Of two fields with one name, and of names that mean the same, the first counts; of several times the latest.
    ``strict=False`` treats a value of the wrong type as absent: for messages already in the broker.

    Raises:
        ChannelError: 406 for a value of the wrong type or range, and for a cancellation that does not say of what.
        RemoteProtocolError: 502 for malformed properties, as far as they were read.
    """
    reader = PropertyReader(header)
    if not reader.flags & FLAG_HEADERS:
        return NOTHING
    reader.to_headers()
    end = find_content_end(header, reader.position, reader.end, 0, "headers")
    position = reader.position + 4
    found: PublishHeaders | None = None
    seen = 0
    while position < end:
        stop = position + 1 + header[position]
        what = 0
        if stop < end and header[position] and header[position + 1] in _FIRST_OCTETS:
            what = _NAMES.get(header[position + 1 : stop], 0)
        elif stop > end:
            read_short_string(header, position, end, "field name")  # raises
        if what == 0:
            position = skip_value(header, stop, end)
            continue
        name = header[position + 1 : stop].decode("ascii")
        if found is None:
            found = PublishHeaders()
        if what == _DEATHS:
            found.deaths_given = True
            position = skip_value(header, stop, end)
            continue
        value, position = read_value(header, stop, end, 0)
        if what != _DELIVER_AT:  # of one name, and of names that mean the same, the first counts
            if seen >> what & 1:
                continue
            seen |= 1 << what
        try:
            _put(found, what, name, value)
        except ChannelError:
            if strict:
                raise
    return NOTHING if found is None else _complete(found, strict=strict)


def _complete(found: PublishHeaders, *, strict: bool) -> PublishHeaders:
    if strict and found.cancels and not found.schedule_id:
        raise _refused("x-schedule-cancel", True, "give the name of the message to take back in 'x-schedule-id'")
    return found


def _put(found: PublishHeaders, what: int, name: str, value: PropertyValue) -> None:
    if what == _DELAY:
        found.delay = max(_number(name, value, "milliseconds, negative for none", -TIME_MAX, TIME_MAX), 0)
    elif what == _DELIVER_AT:
        if isinstance(value, Timestamp):  # a type that counts in seconds
            value = int(value) * 1000
        found.deliver_at = max(found.deliver_at, _number(name, value, "milliseconds since 1970", 0, TIME_MAX))
    elif what == _SCHEDULE_ID:
        found.schedule_id = _identifier(name, value, octets=False)
    elif what == _SCHEDULE_CANCEL:
        if not isinstance(value, bool):
            raise _refused(name, value, "give true to take back what 'x-schedule-id' names, or false")
        found.cancels = value
    elif what == _DUPLICATE_ID:
        found.duplicate_id = _identifier(name, value, octets=True)
    elif what == _CARBON_COPIES:
        found.cc = _routing_keys(name, value)
    elif what == _BLIND_COPIES:
        found.bcc = _routing_keys(name, value)
    elif what == _EXTEND_DELIVERY:
        found.extends = _number(name, value, "the tag of a delivery", 1, TIME_MAX)
    else:
        found.group_sequence = _number(
            name, value, "the place in the group, -1 to close it", GROUP_SEQUENCE_MIN, GROUP_SEQUENCE_MAX
        )


def _refused(name: str, value: PropertyValue, remedy: str) -> ChannelError:
    shown = ascii(value)
    if len(shown) > 60:
        shown = shown[:60] + "..."
    return ChannelError(PRECONDITION_FAILED, f"invalid header '{name}': {shown}; {remedy}")


def _number(name: str, value: PropertyValue, meaning: str, lowest: int, highest: int) -> int:
    """Return a whole number, also from its decimal digits: some clients can send text only."""
    remedy = f"give {meaning}, a whole number from {lowest} to {highest}"
    number = value
    if isinstance(value, str):
        digits = value[1:] if value[:1] == "-" else value
        if digits.isascii() and digits.isdigit() and len(digits) <= 19:
            number = int(value)
    elif isinstance(value, float) and value.is_integer():  # clients of languages without integers
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int) or not lowest <= number <= highest:
        raise _refused(name, value, remedy)
    return int(number)


def _identifier(name: str, value: PropertyValue, *, octets: bool) -> str:
    remedy = f"give a text{' or octets' if octets else ''}, at most {MAX_SHORT_STRING_BYTES} octets"
    if isinstance(value, str):
        if len(value.encode("utf-8")) <= MAX_SHORT_STRING_BYTES:
            return value
    elif octets and isinstance(value, bytes) and len(value) <= MAX_SHORT_STRING_BYTES:
        return value.hex()
    raise _refused(name, value, remedy)


def _routing_keys(name: str, value: PropertyValue) -> tuple[str, ...]:
    keys: list[str] = []
    for key in value if isinstance(value, list) else [None]:
        if not isinstance(key, str) or len(key.encode("utf-8")) > MAX_SHORT_STRING_BYTES:
            raise _refused(
                name, value, f"give an array of routing keys, each a text of at most {MAX_SHORT_STRING_BYTES} octets"
            )
        keys.append(key)
    return tuple(keys)
