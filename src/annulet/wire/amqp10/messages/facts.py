"""The facts the broker needs of an AMQP 1.0 message: header, properties, and the requests in annotations."""

from __future__ import annotations

from typing import Any, Final

from annulet.core.base.errors import InvalidArgument

TIME_MAX: Final = 2**53
"""Milliseconds: the largest time and delay. The log has 64 bits for a time, and a float counts in ones up to here."""

IDENTIFIER_OCTETS_MAX: Final = 255
"""Of a schedule or duplicate id, as in AMQP 0-9-1, where they are short strings."""

_DELAY: Final = 1
_DELIVER_AT: Final = 2
_SCHEDULE_ID: Final = 3
_SCHEDULE_CANCEL: Final = 4
_DUPLICATE_ID: Final = 5
_DEATHS: Final = 6

NAMES: Final[dict[bytes, int]] = {
    b"x-opt-delivery-delay": _DELAY,
    b"x-opt-delivery-time": _DELIVER_AT,
    b"x-opt-schedule-id": _SCHEDULE_ID,
    b"x-opt-schedule-cancel": _SCHEDULE_CANCEL,
    b"x-delay": _DELAY,
    b"x-deliver-at": _DELIVER_AT,
    b"_AMQ_SCHED_DELIVERY": _DELIVER_AT,
    b"x-qpid-not-valid-before": _DELIVER_AT,
    b"x-schedule-id": _SCHEDULE_ID,
    b"x-schedule-cancel": _SCHEDULE_CANCEL,
    b"_AMQ_DUPL_ID": _DUPLICATE_ID,
    b"x-duplicate-id": _DUPLICATE_ID,
    b"x-opt-deaths": _DEATHS,
}
"""Names of requests in annotations or application properties: Artemis's names, then those of 0-9-1."""

SCHEDULE_NAMES: Final = frozenset(name for name, what in NAMES.items() if what not in {_DUPLICATE_ID, _DEATHS})
"""Annotations removed from a copy, because it would be scheduled again."""


class Facts:
    """The facts the broker needs of a message, without any that cost more to read."""

    __slots__ = (
        "absolute_expiry_time",
        "cancels",
        "deaths_given",
        "delay",
        "deliver_at",
        "duplicate_id",
        "durable",
        "priority",
        "schedule_id",
        "subject",
        "time_to_live",
        "to",
        "user_id",
    )

    def __init__(self) -> None:
        self.durable = False
        self.priority = -1  # none given
        self.time_to_live = -1  # milliseconds; none given
        self.absolute_expiry_time = 0  # milliseconds since 1970; 0 = none given
        self.to = ""
        self.subject = ""
        self.user_id = b""
        self.delay = 0  # milliseconds from acceptance; 0 = none
        self.deliver_at = 0  # not before this, milliseconds since 1970; of several the latest; 0 = none given
        self.schedule_id = ""
        self.cancels = False  # it cancels the message of its schedule id, and is not routed itself
        self.duplicate_id = ""  # octets as hexadecimal digits
        self.deaths_given = False  # it has a trail of deaths, set by its publisher

    def due_at(self, accepted_at: int) -> int:
        """Return the delivery time of a message accepted at that time (milliseconds since 1970); 0 for at once.

        A time beats a delay (Artemis §16).
        """
        if self.deliver_at or self.delay <= 0:
            return self.deliver_at
        return accepted_at + self.delay

    def expires_at(self, accepted_at: int) -> int:
        """Return when a message accepted then expires (milliseconds since 1970); 0 for never.

        A time to live of 0 is none. With both a time to live and a time, the earlier of the two.
        """
        if self.time_to_live <= 0:
            return self.absolute_expiry_time
        at = accepted_at + self.time_to_live
        return min(at, self.absolute_expiry_time) if self.absolute_expiry_time else at


def note(facts: Facts, what: int, name: str, value: Any) -> None:
    """Apply the request of one entry of a map; ``what`` is the value of :data:`NAMES` for its name.

    Raises:
        InvalidArgument: a value of the wrong type or range.
    """
    if what == _DELAY:
        if not facts.delay:
            facts.delay = max(_number(name, value, "milliseconds, negative for none", -TIME_MAX, TIME_MAX), 0)
    elif what == _DELIVER_AT:
        facts.deliver_at = max(facts.deliver_at, _number(name, value, "milliseconds since 1970", 0, TIME_MAX))
    elif what == _SCHEDULE_ID:
        facts.schedule_id = facts.schedule_id or _identifier(name, value, octets=False)
    elif what == _DUPLICATE_ID:
        facts.duplicate_id = facts.duplicate_id or _identifier(name, value, octets=True)
    elif what == _DEATHS:
        facts.deaths_given = True
    elif isinstance(value, bool):
        facts.cancels = facts.cancels or value
    else:
        raise refused(name, value, "give true to take back what 'x-schedule-id' names, or false")


def refused(name: str, value: Any, remedy: str) -> InvalidArgument:
    """Return the error for a value that cannot be taken."""
    shown = ascii(value)
    if len(shown) > 60:
        shown = shown[:60] + "..."
    return InvalidArgument(f"message: '{name}' is {shown}; {remedy}")


def _number(name: str, value: Any, meaning: str, lowest: int, highest: int) -> int:
    """Return a whole number, also from its decimal digits: some clients can send text only."""
    number = value
    if isinstance(value, str):
        digits = value.removeprefix("-")
        if digits.isascii() and digits.isdigit() and len(digits) <= 19:
            number = int(value)
    elif isinstance(value, float) and value.is_integer():  # clients of languages without integers
        number = int(value)
    if isinstance(number, bool) or not isinstance(number, int) or not lowest <= number <= highest:
        raise refused(name, value, f"give {meaning}, a whole number from {lowest} to {highest}")
    return int(number)


def _identifier(name: str, value: Any, *, octets: bool) -> str:
    if isinstance(value, str):
        if len(value.encode("utf-8")) <= IDENTIFIER_OCTETS_MAX:
            return str(value)
    elif octets and isinstance(value, bytes) and len(value) <= IDENTIFIER_OCTETS_MAX:
        return value.hex()
    kinds = "a text or octets" if octets else "a text"
    raise refused(name, value, f"give {kinds}, at most {IDENTIFIER_OCTETS_MAX} octets")
