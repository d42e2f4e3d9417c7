"""Arguments of a consumer. Unknown names are left alone, as in RabbitMQ; wrong values of known ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import BROWSE_FOLLOW, BROWSE_MODES, BROWSE_OFF, ConsumerSettings
from annulet.core.configuration.arguments.values import (
    MILLISECONDS_MAX,
    Arguments,
    Values,
    read_integer,
    read_limit,
    read_switch,
    read_text,
    shown,
)
from annulet.core.message.message import PropertyValue
from annulet.core.message.selector_names import message_selector

SECOND: Final = 1000
"""Milliseconds; Broker-J counts its replay period in seconds."""

PRIORITY_MOST: Final = 2**63 - 1

REFUSED_CONSUMER_NAMES: Final = {
    "x-stream-offset": "streams are not available; a browser ('x-browse') reads a queue without taking from it",
    "x-multiqueue": "a consumer reads one queue; consume from each, or bind one queue to all sources",
}
"""Unavailable arguments that would change the consumer's messages, with alternatives."""

LATER_CONSUMER: Final = frozenset(
    {"selector", "x-selector", "x-filter-jms-selector", "x-browse", "x-filter-no-consume"}
)


def _priority(name: str, value: PropertyValue) -> int:
    number = read_integer(name, value)
    if abs(number) > PRIORITY_MOST:
        raise InvalidArgument(f"argument '{name}' must be a 64-bit integer, not {number}")
    return number


def _browse(name: str, value: PropertyValue) -> str:
    if isinstance(value, str) and value in BROWSE_MODES:
        return value
    try:
        asked = read_switch(name, value)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"argument '{name}' must be true, false, 'follow' or 'snapshot', not {shown(value)}"
        ) from error
    return BROWSE_FOLLOW if asked else BROWSE_OFF


def _no_consume(name: str, value: PropertyValue) -> str:
    return BROWSE_FOLLOW if read_switch(name, value) else BROWSE_OFF


def _period(name: str, value: PropertyValue) -> int:
    return read_limit(name, value, 0, MILLISECONDS_MAX, "milliseconds", off=True)


def _period_in_seconds(name: str, value: PropertyValue) -> int:
    return read_limit(name, value, 0, MILLISECONDS_MAX // SECOND, "seconds", off=False) * SECOND


CONSUMER_ARGUMENTS: Final[dict[str, tuple[str, Callable[[str, PropertyValue], Any]]]] = {
    "x-priority": ("priority", _priority),
    "selector": ("selector", read_text),
    "x-selector": ("selector", read_text),
    "x-filter-jms-selector": ("selector", read_text),
    "x-browse": ("browse", _browse),
    "x-filter-no-consume": ("browse", _no_consume),
    "x-auto-close": ("auto_close", read_switch),
    "x-filter-auto-close": ("auto_close", read_switch),
    "x-no-local": ("no_local", read_switch),
    "no-local": ("no_local", read_switch),
    "x-consumer-timeout": ("consumer_timeout", _period),
    "x-replay-period": ("replay_period", _period),
    "x-qpid-replay-period": ("replay_period", _period_in_seconds),
}
"""Field of ``ConsumerSettings`` and reader of each argument."""


def parse_consumer_arguments(arguments: Arguments) -> ConsumerSettings:
    """Read the arguments of a consumer.

    Raises :class:`InvalidArgument` for a wrong type, a value out of range, two names of one setting with different
    values, an invalid selector, ``x-auto-close`` of a consumer that does not browse, and unavailable arguments.
    """
    values: Values = {}
    given_as: dict[str, str] = {}
    for name, value in arguments.items():
        reason = REFUSED_CONSUMER_NAMES.get(name)
        if reason is not None:
            raise InvalidArgument(f"consumer argument '{name}' is not available: {reason}")
        known = CONSUMER_ARGUMENTS.get(name)
        if known is None:
            continue
        field, reader = known
        read = reader(name, value)
        if values.setdefault(field, read) != read:
            raise InvalidArgument(
                f"consumer arguments '{given_as[field]}' and '{name}' are the same setting with different values "
                f"({shown(values[field])} and {shown(read)}); give one of them"
            )
        given_as[field] = name
    settings = ConsumerSettings(**values)
    if settings.selector:
        message_selector(settings.selector, f"consumer argument '{given_as['selector']}'")
    if settings.auto_close and settings.browse == BROWSE_OFF:
        raise InvalidArgument(
            f"consumer argument '{given_as['auto_close']}' is for browsers, which have seen everything at the end; add "
            "'x-browse'"
        )
    return settings


def parse_consumer_priority(arguments: Arguments) -> int:
    """Read the arguments of a consumer that can have nothing but a priority; return it, default 0, higher first.

    Raises :class:`InvalidArgument` as :func:`parse_consumer_arguments` does, and for selectors and browsing.
    """
    for name in arguments:
        if name in LATER_CONSUMER:
            raise InvalidArgument(f"{name} is not available here; consume without it")
    return parse_consumer_arguments(arguments).priority
