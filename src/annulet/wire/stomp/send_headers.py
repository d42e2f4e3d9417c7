"""The requests in the headers of SEND: durability, priority, time to live, delay, schedule id, duplicate id."""

from __future__ import annotations

from typing import Final

from annulet.core.base.death_trail import GIVEN
from annulet.wire.stomp import names
from annulet.wire.stomp.errors import RemoteProtocolError
from annulet.wire.stomp.header_block import encode_block

TIME_MAX: Final = 2**53
"""Milliseconds: the largest time and delay, as in AMQP 0-9-1 here."""

PRIORITY_MAX: Final = 255
"""RabbitMQ's bound; JMS has 0 to 9."""

IDENTIFIER_BYTES_MAX: Final = 255
"""Of a schedule id or duplicate id, as in AMQP 0-9-1 where they are short strings."""

_SHOWN_CHARACTERS: Final = 60
_DIGITS_MAX: Final = 19


class SendFacts:
    """The facts that publishing needs of a message. Attributes have their defaults if the sender did not set them."""

    __slots__ = (
        "block",
        "cancels",
        "delay",
        "deliver_at",
        "duplicate_id",
        "durable",
        "expires",
        "priority",
        "schedule_id",
        "time_to_live",
        "user_id",
    )

    def __init__(self, block: bytes) -> None:
        self.block = block  # the headers the message keeps
        self.durable = False
        self.priority = -1
        self.time_to_live = 0  # milliseconds; 0 = for ever
        self.expires = 0  # milliseconds since 1970; 0 = never
        self.delay = 0  # milliseconds from acceptance
        self.deliver_at = 0  # milliseconds since 1970, of several the latest; 0 = at once
        self.schedule_id = ""
        self.cancels = False
        self.duplicate_id = ""
        self.user_id = ""

    def due_at(self, accepted_at: int) -> int:
        """Return the delivery time of a message accepted at that time (milliseconds since 1970); 0 for at once."""
        return self.deliver_at if self.delay <= 0 else max(self.deliver_at, accepted_at + self.delay)

    def expires_at(self, accepted_at: int) -> int:
        """Return when a message accepted then expires (milliseconds since 1970); 0 for never.

        With both a lifetime and a time, the earlier of the two.
        """
        if self.time_to_live <= 0:
            return self.expires
        at = accepted_at + self.time_to_live
        return min(at, self.expires) if self.expires else at


def read_send(headers: dict[str, str], without: frozenset[str] = frozenset()) -> SendFacts:
    """Read the headers of a SEND frame and write the block its message keeps: all but those of ``without``.

    Raises:
        RemoteProtocolError: a value that its header does not allow, a cancellation without a schedule id, and
            ActiveMQ's repeated schedules.
    """
    kept: dict[str, str] = {}
    for name, value in headers.items():
        if name == names.MESSAGE_ID:  # on MESSAGE it is the broker's
            kept.setdefault(names.SENDER_MESSAGE_ID_NAMES[0], value)
        elif name not in names.OF_A_DELIVERY and name not in without:
            kept[name] = value
    if names.DEATHS in kept:
        kept[GIVEN] = "true"
    facts = SendFacts(encode_block(kept))
    for name, value in kept.items():
        if name in _READ:
            read_header(facts, name, value)
    if facts.cancels and not facts.schedule_id:
        raise _refused(names.SCHEDULE_CANCEL, "true", f"name the message to take back in '{names.SCHEDULE_ID}'")
    return facts


_READ: Final = frozenset(
    {
        names.PERSISTENT,
        names.PRIORITY,
        names.EXPIRES,
        names.TIME_TO_LIVE,
        *names.SCHEDULE_NAMES,
        *names.REFUSED_SCHEDULE_NAMES,
        *names.DUPLICATE_ID_NAMES,
        *names.USER_ID_NAMES,
        *names.TIMESTAMP_NAMES,
        *names.GROUP_SEQUENCE_NAMES,
    }
)


def read_header(facts: SendFacts, name: str, value: str) -> None:
    """Read one header into ``facts``; one without a meaning for the broker is left alone.

    Raises:
        RemoteProtocolError: the value is none of the header's.
    """
    if name == names.PERSISTENT:
        facts.durable = read_switch(name, value)
    elif name == names.PRIORITY:
        facts.priority = read_number(name, value, "the priority", 0, PRIORITY_MAX)
    elif name == names.EXPIRES:
        facts.expires = read_number(name, value, "milliseconds since 1970, 0 for never", 0, TIME_MAX)
    elif name == names.TIME_TO_LIVE:
        facts.time_to_live = read_number(name, value, "milliseconds, 0 for ever", 0, TIME_MAX)
    elif name in names.USER_ID_NAMES:
        facts.user_id = facts.user_id or value
    elif name in names.TIMESTAMP_NAMES:
        read_number(name, value, "milliseconds since 1970", 0, TIME_MAX)
    elif name in names.GROUP_SEQUENCE_NAMES:
        read_number(name, value, "the place in the group, -1 to close it", -(2**31), 2**32 - 1)
    else:
        _read_schedule(facts, name, value)


def _read_schedule(facts: SendFacts, name: str, value: str) -> None:
    if name in names.DELAY_NAMES:
        facts.delay = max(read_number(name, value, "milliseconds, negative for none", -TIME_MAX, TIME_MAX), 0)
    elif name in names.DELIVER_AT_NAMES:
        at = read_number(name, value, "milliseconds since 1970", 0, TIME_MAX)
        facts.deliver_at = max(facts.deliver_at, at)
    elif name == names.SCHEDULE_ID:
        facts.schedule_id = _identifier(name, value)
    elif name == names.SCHEDULE_CANCEL:
        facts.cancels = read_switch(name, value)
    elif name in names.DUPLICATE_ID_NAMES:
        facts.duplicate_id = facts.duplicate_id or _identifier(name, value)
    elif name in names.REFUSED_SCHEDULE_NAMES:
        raise _refused(name, value, "repeated deliveries are not available; send again, or use AMQ_SCHEDULED_DELAY")


def read_number(name: str, value: str, meaning: str, least: int, most: int) -> int:
    """Return an integer. Raises :class:`RemoteProtocolError` with the allowed values."""
    text = value.strip()
    digits = text[1:] if text[:1] == "-" else text
    if digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX:
        number = int(text)
        if least <= number <= most:
            return number
    raise _refused(name, value, f"give {meaning}, a whole number from {least} to {most}")


def read_switch(name: str, value: str) -> bool:
    """Return a truth value. Raises :class:`RemoteProtocolError`."""
    text = value.strip().lower()
    if text in {"true", "1"}:
        return True
    if text in {"false", "0", ""}:
        return False
    raise _refused(name, value, "give true or false")


def _identifier(name: str, value: str) -> str:
    if len(value.encode("utf-8", "replace")) <= IDENTIFIER_BYTES_MAX:
        return value
    raise _refused(name, value, f"give a text of at most {IDENTIFIER_BYTES_MAX} octets")


def _refused(name: str, value: str, remedy: str) -> RemoteProtocolError:
    shown = value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}..."
    return RemoteProtocolError(f"header '{name}' is {shown!r}; {remedy}")
