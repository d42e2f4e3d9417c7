"""Reads a mapping of arguments into checked settings, with the argument of each."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import GROUP_STICKY, OVERFLOW_RING, UNLIMITED, QueueSettings
from annulet.core.configuration.arguments.combinations import REFUSED
from annulet.core.configuration.arguments.peers import (
    ALIASES,
    DEAD_LETTER_SUFFIX,
    DEAD_LETTER_SWITCH,
    LAST_VALUE_SWITCHES,
    LIMITS_WITHOUT_POLICY,
    PEER_CHOICES,
    PLACEMENT,
    RABBITMQ,
    REFUSED_NAMES,
)
from annulet.core.configuration.arguments.table import BY_NAME, PREFIX
from annulet.core.configuration.arguments.unknown import COMPARED_MAX, IDLE, REFUSE, WARN, check_unknown
from annulet.core.configuration.arguments.values import Arguments, Values, read_choice, read_switch, shown
from annulet.core.message.message import PropertyValue

KNOWN: Final = sorted(
    {
        *(PREFIX + name for name in BY_NAME),
        *ALIASES,
        *(PREFIX + alias.name for alias in RABBITMQ),
        *LAST_VALUE_SWITCHES,
        DEAD_LETTER_SWITCH,
        *PEER_CHOICES,
        *PLACEMENT,
        *IDLE,
    }
)
"""All names, with which an unknown one is compared."""

PREFIXED: Final = frozenset(PREFIX + alias.name for alias in RABBITMQ)
"""Aliases that are known with the prefix as well."""

GROUP_FIELDS: Final = ("group_first_key", "group_rebalance", "default_group")
"""Settings that require groups: without a mode they imply the sticky one, as in Artemis."""


@dataclass(slots=True)
class Reading:
    """The values of arguments: checked values by field of ``QueueSettings``, and the argument of each.

    ``without_effect`` are names that change nothing here and were taken all the same.
    """

    values: Values = field(default_factory=dict)
    given_as: dict[str, str] = field(default_factory=dict)
    without_effect: list[str] = field(default_factory=list)

    def put(self, name: str, field_name: str, value: Any) -> None:
        """Add the value of argument ``name``.

        Raises :class:`InvalidArgument` if another argument gave a different one.
        """
        if field_name in self.values and self.values[field_name] != value:
            raise InvalidArgument(
                f"arguments '{self.given_as[field_name]}' and '{name}' are the same setting with different values "
                f"({shown(self.values[field_name])} and {shown(value)}); give one of them"
            )
        self.values[field_name] = value
        self.given_as.setdefault(field_name, name)


def read_arguments(arguments: Arguments, queue_name: str = "", *, unknown: str = REFUSE) -> Reading:
    """Read arguments of a queue or the definition of a policy; without defaults for missing ones.

    ``queue_name`` is needed for ``x-qpid-dlq-enabled``. ``unknown``: treatment of unknown names, see
    :mod:`annulet.core.configuration.arguments.unknown`. Raises :class:`InvalidArgument` for an unknown name, a wrong
    type, a value out of range, and two names of one setting with different values.
    """
    reading = Reading()
    weak: dict[str, tuple[str, str]] = {}
    for name, value in arguments.items():
        alias = ALIASES.get(name.removeprefix(PREFIX) if name in PREFIXED else name)
        if alias is not None:
            for field_name, read in alias.read(name, value).items():
                reading.put(name, field_name, read)
            weak.update({field_name: (name, default) for field_name, default in alias.weak})
            continue
        setting = BY_NAME.get(name.removeprefix(PREFIX))
        if setting is not None:
            reading.put(name, setting.field, setting.read(name, value))
            if setting.field == "last_value_key":
                reading.put(name, "last_value_fallback", "")  # or one from an address setting would stay
        elif name not in LAST_VALUE_SWITCHES and name != DEAD_LETTER_SWITCH:
            _check_other(name, value, reading, unknown)
    _apply_last_value_switches(arguments, reading)
    _apply_dead_letter_switch(arguments, reading, queue_name)
    _refuse_limits_without_policy(arguments, reading)
    for field_name, (name, default) in weak.items():
        if field_name not in reading.values:
            reading.put(name, field_name, default)
    return reading


def implied(values: Values) -> Values:
    """Return values implied by the given settings unless set: an overflow policy, a group mode."""
    more: Values = {}
    limited = any(values.get(name, UNLIMITED) != UNLIMITED for name in ("max_length", "max_bytes"))
    if limited and "overflow" not in values:
        more["overflow"] = OVERFLOW_RING
    if "group_mode" not in values and (
        "group_key" in values
        or any(values.get(name) for name in GROUP_FIELDS)
        or values.get("group_buckets", UNLIMITED) > 0
    ):
        more["group_mode"] = GROUP_STICKY
    return more


def build(values: Values) -> QueueSettings:
    """Return settings with these values and defaults for the rest."""
    return dataclasses.replace(QueueSettings(), **values)


def refuse_contradiction_within(values: Values) -> None:
    """Refuse values for many queues that contradict each other whatever a queue declares (:class:`InvalidArgument`).

    One that only lacks settings of the queue is legal: a multiplier without a delay, a threshold without a limit.
    """
    settings = build(values)
    for combination in REFUSED:
        involved = set(combination.involved(settings))
        if combination.holds(settings) and not involved <= set(combination.yields):
            raise InvalidArgument(combination.text(settings))


def _check_other(name: str, value: PropertyValue, reading: Reading, unknown: str) -> None:
    """Check an argument that is no setting."""
    prefixed = name if name.startswith(PREFIX) else PREFIX + name
    if prefixed in PLACEMENT:
        return
    choices = PEER_CHOICES.get(prefixed)
    if choices is not None:
        if prefixed == "x-queue-type" and value == "stream":
            raise InvalidArgument(
                "x-queue-type 'stream' is not available: queues here keep no read positions of many readers; "
                "declare 'classic' or 'quorum'"
            )
        read_choice(name, value, choices)
        return
    reason = REFUSED_NAMES.get(name) or REFUSED_NAMES.get(name.removeprefix(PREFIX)) or REFUSED_NAMES.get(prefixed)
    if reason:
        raise InvalidArgument(f"argument '{name}' {reason}")
    if unknown != WARN or len(reading.without_effect) < COMPARED_MAX:
        check_unknown(name, KNOWN, unknown)
    reading.without_effect.append(name)


def _apply_last_value_switches(arguments: Arguments, reading: Reading) -> None:
    """Let ``last-value`` and its like choose their key where no argument names one."""
    named = reading.values.get("last_value_key", "")
    asked = ""
    for name, key in LAST_VALUE_SWITCHES.items():
        if name not in arguments:
            continue
        if not read_switch(name, arguments[name]):
            if named:
                raise InvalidArgument(
                    f"argument '{name}' is false but a last-value key is given ({named!r}); give one of them"
                )
            if not asked:
                reading.put(name, "last_value_key", "")
                reading.put(name, "last_value_fallback", "")
            continue
        if named:
            continue
        if reading.values.get("last_value_key", key) != key:
            raise InvalidArgument(
                f"arguments '{reading.given_as['last_value_key']}' and '{name}' ask for different last-value keys; "
                "give one of them"
            )
        reading.put(name, "last_value_key", key)
        reading.put(name, "last_value_fallback", "")
        asked = name


def _apply_dead_letter_switch(arguments: Arguments, reading: Reading, queue_name: str) -> None:
    if DEAD_LETTER_SWITCH not in arguments or not read_switch(DEAD_LETTER_SWITCH, arguments[DEAD_LETTER_SWITCH]):
        return
    if not queue_name:
        raise InvalidArgument(
            f"argument '{DEAD_LETTER_SWITCH}' needs a queue with a name of its own; give 'x-dead-letter-address'"
        )
    reading.put(DEAD_LETTER_SWITCH, "dead_letter_address", f"{queue_name}{DEAD_LETTER_SUFFIX}")


def _refuse_limits_without_policy(arguments: Arguments, reading: Reading) -> None:
    """Refuse arguments that Broker-J ignores: a limit of its own kind without a policy."""
    if "overflow" in reading.values:
        return
    for name in LIMITS_WITHOUT_POLICY:
        if name not in arguments:
            continue
        limit = reading.values["max_length" if name in {"qpid.max_count", "maximumQueueDepthMessages"} else "max_bytes"]
        if limit != UNLIMITED:
            raise InvalidArgument(
                f"argument '{name}' ({limit}) limits nothing without a policy; add 'qpid.policy_type', or give "
                "'x-max-length' or 'x-max-bytes', which drop the oldest by default"
            )
