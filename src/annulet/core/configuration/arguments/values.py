"""Values of arguments: numbers, sizes, switches, choices and names, as AMQP, TOML, JSON and text headers send them.

A number may be given as decimal text and a boolean as 0, 1 or its name, because STOMP headers, AMQP 1.0 properties and
Qpid's clients send these forms. Everything else is refused, because the intention of a nearly correct value is unclear.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, TypeAlias

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import UNLIMITED
from annulet.core.message.message import PropertyValue

Arguments: TypeAlias = "dict[str, PropertyValue]"

Values: TypeAlias = "dict[str, Any]"
"""Values of settings by field name of ``QueueSettings``, checked."""

MILLISECONDS_MAX: Final = 10 * 365 * 86_400_000
"""Largest time in milliseconds, ten years: RabbitMQ's bound, so definitions move both ways. The delay levels of Celery
and NServiceBus need 2**27 seconds of it."""

COUNT_MAX: Final = 2**63 - 1
"""Largest count of messages or bytes: the range of a signed 64-bit integer of AMQP 0-9-1."""

NAME_BYTES_MAX: Final = 255
"""Largest name in bytes of UTF-8: the length of a short string of AMQP 0-9-1, so a longer one cannot exist."""

DIGITS_MAX: Final = 20
"""Digits of a number in text: those of the largest count and one more, which is out of range for certain."""

UNITS: Final = {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}

_INTEGER: Final = re.compile(rf"[+-]?[0-9]{{1,{DIGITS_MAX}}}")
_SIZE: Final = re.compile(rf"([0-9]{{1,{DIGITS_MAX}}})\s*([A-Za-z]+)")
_TRUTH: Final = {"true": True, "false": False, "1": True, "0": False}


def read_integer(name: str, value: PropertyValue) -> int:
    """Return an integer, given as such or as decimal text. Raises :class:`InvalidArgument`."""
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"argument '{name}' must be an integer, not {shown(value)}")
    return value


def read_limit(name: str, value: PropertyValue, least: int, most: int, unit: str, *, off: bool) -> int:
    """Return an integer from ``least`` to ``most``, or -1 where that means off. Raises :class:`InvalidArgument`."""
    number = read_integer(name, value)
    if off and number == UNLIMITED:
        return number
    if not least <= number <= most:
        allowed = f"at least {least}" if most >= COUNT_MAX and number < least else f"{least} to {most}"
        also = ", or -1 for off" if off else ""
        raise InvalidArgument(f"argument '{name}' must be {allowed} {unit}{also}, not {number}")
    return number


def read_size(name: str, value: PropertyValue) -> PropertyValue:
    """Return bytes for a text like ``10 MiB`` (KiB, MiB, GiB, TiB); any other value unchanged."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        return value
    factor = UNITS.get(match[2].lower())
    if factor is None:
        raise InvalidArgument(
            f"argument '{name}' must be a number of bytes or end in KiB, MiB, GiB or TiB, not {value!r}"
        )
    return int(match[1]) * factor


def read_factor(name: str, value: PropertyValue, least: float, most: float) -> float:
    """Return a decimal number from ``least`` to ``most``. Raises :class:`InvalidArgument`."""
    number = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and len(value) <= DIGITS_MAX:
        try:
            number = float(value)
        except ValueError as error:
            raise InvalidArgument(f"argument '{name}' must be a number, not {shown(value)}") from error
    else:
        raise InvalidArgument(f"argument '{name}' must be a number, not {shown(value)}")
    if not least <= number <= most:  # also refuses not-a-number
        raise InvalidArgument(f"argument '{name}' must be {least:g} to {most:g}, not {number:g}")
    return float(number)


def read_switch(name: str, value: PropertyValue) -> bool:
    """Return a truth value, given as such, as 0 or 1, or as text. Raises :class:`InvalidArgument`."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return value == 1
    if isinstance(value, str) and value.lower() in _TRUTH:
        return _TRUTH[value.lower()]
    raise InvalidArgument(f"argument '{name}' must be true or false, not {shown(value)}")


def read_choice(name: str, value: PropertyValue, choices: tuple[PropertyValue, ...]) -> PropertyValue:
    """Return one of ``choices``. Raises :class:`InvalidArgument`."""
    if isinstance(value, bool) or value not in choices:
        listed = " or ".join(repr(choice) for choice in choices)
        raise InvalidArgument(f"argument '{name}' must be {listed}, not {shown(value)}")
    return value


def read_name(name: str, value: PropertyValue, what: str, *, empty: bool) -> str:
    """Return the name of something, at most 255 bytes. Raises :class:`InvalidArgument`."""
    if not isinstance(value, str) or (not value and not empty):
        raise InvalidArgument(f"argument '{name}' must be the name of {what}, not {shown(value)}")
    length = len(value.encode(errors="surrogatepass"))
    if length > NAME_BYTES_MAX:
        raise InvalidArgument(
            f"argument '{name}' must be the name of {what}, at most {NAME_BYTES_MAX} bytes; it has {length}"
        )
    return value


def refuse_line_breaks(what: str, name: str) -> None:
    """Refuse a name that would end its line in logs, headers of STOMP and lists of names.

    Raises :class:`InvalidArgument`.
    """
    if "\r" in name or "\n" in name:
        raise InvalidArgument(f"{what} name {shown(name)} contains a line break; give one without CR and LF")


def read_properties(name: str, value: PropertyValue, count_most: int) -> tuple[str, ...]:
    """Return names of message properties as a tuple, given as a list or as text with commas.

    Raises :class:`InvalidArgument`.
    """
    if isinstance(value, str):
        given: list[PropertyValue] = [item.strip() for item in value.split(",")] if value.strip() else []
    elif isinstance(value, list):
        given = value
    else:
        raise InvalidArgument(f"argument '{name}' must be a list of names, or names with commas, not {shown(value)}")
    if len(given) > count_most:
        raise InvalidArgument(f"argument '{name}' must have at most {count_most} names; it has {len(given)}")
    names = tuple([read_name(name, item, "a message property", empty=False) for item in given])
    for place, item in enumerate(names):
        if item in names[:place]:
            raise InvalidArgument(f"argument '{name}' must name {item!r} once, not twice")
    return names


def read_text(name: str, value: PropertyValue) -> str:
    """Return any text. Raises :class:`InvalidArgument`."""
    if not isinstance(value, str):
        raise InvalidArgument(f"argument '{name}' must be a text, not {shown(value)}")
    return value


def read_weights(name: str, value: PropertyValue, count_most: int, weight_most: int) -> tuple[int, ...]:
    """Return shares as a tuple, given as a list or as text with commas. Raises :class:`InvalidArgument`."""
    items: list[PropertyValue] = []
    if isinstance(value, str):
        items.extend(value.split(",") if value else [])
    elif isinstance(value, list):
        items = value
    else:
        raise InvalidArgument(f"argument '{name}' must be a list of integers, not {shown(value)}")
    if len(items) > count_most:
        raise InvalidArgument(
            f"argument '{name}' must have at most {count_most} weights, one a level; it has {len(items)}"
        )
    return tuple(read_limit(name, item, 1, weight_most, "shares", off=False) for item in items)


def shown(value: PropertyValue) -> str:
    """Return a value for an error text, which must fit into a short string of AMQP 0-9-1 with the rest."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
