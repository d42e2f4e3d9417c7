"""Arguments of queues, consumers and exchanges: the names peers use, read into one canonical form.

A queue argument that this broker does not know is refused with the nearest name it knows; one whose policy this version
does not have yet is refused by name, so that nobody believes in a limit that is not there.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, TypeAlias

from annulet.core.errors import InvalidArgument
from annulet.core.message import PropertyValue
from annulet.core.settings import UNLIMITED, QueueSettings

Arguments: TypeAlias = "dict[str, PropertyValue]"

MILLISECONDS_MAX: Final = 4_294_967_295
"""Largest time to live and queue expiry in milliseconds, 49.7 days: RabbitMQ's bound, so definitions move both ways."""

COUNT_MAX: Final = 2**63 - 1
"""Largest count of messages: what a signed 64-bit integer of AMQP 0-9-1 holds."""

ARTEMIS_LAST_VALUE_KEY: Final = "_AMQ_LVQ_NAME"
QPID_LAST_VALUE_KEY: Final = "qpid.LVQ_key"

SETTING_ALIASES: Final = {
    "x-ring-size": "ring-size",
    "ring-size": "ring-size",
    "x-ring-trim": "ring-trim",
    "x-last-value-key": "last-value-key",
    "last-value-key": "last-value-key",
    "qpid.last_value_queue_key": "last-value-key",
    "x-keep-per-key": "keep-per-key",
    "x-message-ttl": "message-ttl",
    "x-expires": "expires",
}
"""Argument name to canonical setting, for arguments whose value is the setting's."""

LAST_VALUE_SWITCHES: Final = {
    "last-value": ARTEMIS_LAST_VALUE_KEY,
    "qpid.last_value_queue": QPID_LAST_VALUE_KEY,
}
"""Switches that make a last-value queue, and the key it has when no other argument names one."""

PEER_CHOICES: Final[dict[str, tuple[PropertyValue, ...]]] = {
    "x-queue-type": ("classic", "quorum"),
    "x-queue-mode": ("default", "lazy"),
    "x-queue-version": (1, 2),
}
"""RabbitMQ's storage choices: accepted without effect, since every queue here is stored the same way."""

PLACEMENT: Final = frozenset(
    {
        "x-ha-policy",
        "x-ha-policy-params",
        "x-queue-leader-locator",
        "x-queue-master-locator",
        "x-quorum-initial-group-size",
    }
)
"""Where a RabbitMQ cluster puts a queue: accepted without effect, since there is one place."""

LATER: Final = {
    "priorities": ("x-priorities", "x-max-priority", "x-qpid-priorities"),
    "sort-key": ("x-sort-key", "qpid.queue_sort_key"),
    "group-key": (
        "x-group-key",
        "x-group-mode",
        "x-group-buckets",
        "x-group-first-key",
        "x-group-rebalance",
        "x-default-group",
        "group-buckets",
        "group-first-key",
        "group-rebalance",
        "group-rebalance-pause-dispatch",
        "qpid.group_header_key",
        "qpid.shared_msg_group",
        "qpid.default-message-group",
    ),
    "non-destructive": ("x-non-destructive", "non-destructive", "qpid.ensure_nondestructive_consumers"),
    "max-length": ("x-max-length", "qpid.max_count"),
    "max-bytes": (
        "x-max-bytes",
        "x-max-length-bytes",
        "qpid.max_size",
        "x-qpid-capacity",
        "x-qpid-flow-resume-capacity",
    ),
    "overflow": ("x-overflow", "qpid.policy_type"),
    "evict": ("x-evict",),
    "limit-counts": ("x-limit-counts",),
    "min-ttl": ("x-min-ttl", "min-expiry-delay"),
    "max-ttl": ("x-max-ttl", "max-expiry-delay"),
    "expiry-address": ("x-expiry-address", "expiry-address"),
    "dead-letter-address": (
        "x-dead-letter-address",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "dead-letter-address",
        "x-qpid-dlq-enabled",
    ),
    "max-delivery-attempts": (
        "x-max-delivery-attempts",
        "x-delivery-limit",
        "max-delivery-attempts",
        "x-qpid-maximum-delivery-count",
    ),
    "redelivery-delay": (
        "x-redelivery-delay",
        "x-redelivery-delay-multiplier",
        "x-max-redelivery-delay",
        "redelivery-delay",
        "redelivery-delay-multiplier",
        "max-redelivery-delay",
    ),
    "single-active-consumer": ("x-single-active-consumer",),
    "max-consumers": ("x-max-consumers", "max-consumers"),
    "consumers-before-dispatch": (
        "x-consumers-before-dispatch",
        "x-delay-before-dispatch",
        "consumers-before-dispatch",
        "delay-before-dispatch",
    ),
    "selector": ("x-selector", "x-filter-jms-selector", "filter"),
    "dropped-address": ("x-dropped-address",),
}
"""Policies of a later version, by canonical name, with every argument that asks for them."""

LATER_BY_ARGUMENT: Final = {argument: policy for policy, arguments in LATER.items() for argument in arguments}

LATER_CONSUMER: Final = {
    "selector": "selector",
    "x-selector": "selector",
    "x-filter-jms-selector": "selector",
    "x-browse": "browse",
    "x-filter-no-consume": "browse",
    "x-stream-offset": "streams",
}
"""Consumer arguments that would change what the consumer gets, and the policy of a later version they belong to."""

KNOWN: Final = sorted({*SETTING_ALIASES, *LAST_VALUE_SWITCHES, *PEER_CHOICES, *PLACEMENT, *LATER_BY_ARGUMENT})

TRIM_CHOICES: Final = ("lazy", "now")


def parse_queue_arguments(arguments: Arguments) -> QueueSettings:
    """Read the arguments of a queue declaration.

    Raises :class:`InvalidArgument` for an unknown name, a wrong type, a value out of range, a contradiction between two
    names of one setting, and for policies of later versions.
    """
    settings: Arguments = {}
    given_as: dict[str, str] = {}
    for name, value in arguments.items():
        setting = SETTING_ALIASES.get(name)
        if setting is None:
            _check_other(name, value)
            continue
        checked = _check_value(name, setting, value)
        if setting in settings and settings[setting] != checked:
            raise InvalidArgument(
                f"arguments '{given_as[setting]}' and '{name}' are the same setting with different values "
                f"({settings[setting]!r} and {checked!r}); give one of them"
            )
        settings[setting] = checked
        given_as[setting] = name
    _apply_switches(arguments, settings)
    return _settings(settings, fallback="last-value-key" in arguments)


def describe(settings: QueueSettings) -> dict[str, str | int]:
    """Return the arguments that declare a queue with these settings, canonical names, defaults left out.

    ``parse_queue_arguments(describe(settings)) == settings``: for the catalogue, HTTP and comparison.
    """
    described: dict[str, str | int] = {}
    if settings.ring_size != UNLIMITED:
        described["x-ring-size"] = settings.ring_size
    if settings.ring_trim_now:
        described["x-ring-trim"] = "now"
    if settings.last_value_key:
        # only Artemis's own spelling comes with Artemis's fallback property
        described["last-value-key" if settings.last_value_fallback else "x-last-value-key"] = settings.last_value_key
    if settings.keep_per_key != 1:
        described["x-keep-per-key"] = settings.keep_per_key
    if settings.message_ttl != UNLIMITED:
        described["x-message-ttl"] = settings.message_ttl
    if settings.expires != UNLIMITED:
        described["x-expires"] = settings.expires
    return described


def parse_consumer_priority(arguments: Arguments) -> int:
    """Read the arguments of a consumer; return its priority, default 0, higher first.

    Unknown arguments are left alone as in RabbitMQ. Raises :class:`InvalidArgument` for a priority that is no integer
    and for arguments that would change what the consumer gets and are not available yet.
    """
    for name in arguments:
        policy = LATER_CONSUMER.get(name)
        if policy is not None:
            raise InvalidArgument(f"{name} ({policy}) is not available in this version; consume without it")
    value = arguments.get("x-priority", 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"consumer argument 'x-priority' must be an integer, not {value!r}")
    return value


def parse_alternate_exchange(arguments: Arguments) -> str | None:
    """Read the arguments of an exchange; return its alternate exchange, ``None`` when it has none.

    Other arguments play no part, as in RabbitMQ. Raises :class:`InvalidArgument` when it is not a string, and for
    delayed delivery, which is not available yet.
    """
    if "x-delayed-type" in arguments:
        raise InvalidArgument("x-delayed-type (delayed delivery) is not available in this version; declare without it")
    value = arguments.get("alternate-exchange")
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"exchange argument 'alternate-exchange' must be the name of an exchange, not {value!r}")
    return value


def _check_value(name: str, setting: str, value: PropertyValue) -> PropertyValue:
    if setting == "ring-size":
        number = _integer(name, value)
        if number != UNLIMITED and not 1 <= number <= COUNT_MAX:
            raise InvalidArgument(f"argument '{name}' must be at least 1 message, or -1 for no limit, not {number}")
        return number
    if setting == "keep-per-key":
        return _in_range(name, value, 1, COUNT_MAX, "messages")
    if setting == "message-ttl":
        return _in_range(name, value, 0, MILLISECONDS_MAX, "milliseconds")
    if setting == "expires":
        return _in_range(name, value, 1, MILLISECONDS_MAX, "milliseconds")
    if setting == "ring-trim":
        return _choice(name, value, TRIM_CHOICES)
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"argument '{name}' must be the name of a message property, not {value!r}")
    return value


def _check_other(name: str, value: PropertyValue) -> None:
    """Check an argument that is no setting of its own."""
    if name in LAST_VALUE_SWITCHES:
        _switch(name, value)
        return
    if name in PLACEMENT:
        return
    choices = PEER_CHOICES.get(name)
    if choices is not None:
        if name == "x-queue-type" and value == "stream":
            raise InvalidArgument(
                "x-queue-type 'stream' is not available: queues here keep no read positions of many readers; "
                "declare 'classic' or 'quorum'"
            )
        _choice(name, value, choices)
        return
    policy = LATER_BY_ARGUMENT.get(name)
    if policy is not None:
        raise InvalidArgument(f"{name} ({policy}) is not available in this version; declare the queue without it")
    nearest = get_close_matches(name, KNOWN, n=1)
    if not nearest:
        nearest = get_close_matches(f"x-{name}", KNOWN, n=1)
    hint = f"did you mean '{nearest[0]}'?" if nearest else "declare the queue without it"
    raise InvalidArgument(f"unknown queue argument '{name}'; {hint}")


def _apply_switches(arguments: Arguments, settings: Arguments) -> None:
    """Let ``last-value`` and its like choose their key where no argument names one."""
    asked = ""
    for name, key in LAST_VALUE_SWITCHES.items():
        if name not in arguments:
            continue
        if not _switch(name, arguments[name]):
            if "last-value-key" in settings:
                raise InvalidArgument(
                    f"argument '{name}' is false but a last-value key is given ({settings['last-value-key']!r}); "
                    "give one of them"
                )
            continue
        if "last-value-key" in settings and not asked:
            continue
        if asked:
            raise InvalidArgument(
                f"arguments '{asked}' and '{name}' ask for different last-value keys; give one of them"
            )
        settings["last-value-key"] = key
        asked = name


def _settings(settings: Arguments, *, fallback: bool) -> QueueSettings:
    ring_size = settings.get("ring-size", UNLIMITED)
    key = settings.get("last-value-key", "")
    keep = settings.get("keep-per-key", 1)
    message_ttl = settings.get("message-ttl", UNLIMITED)
    expires = settings.get("expires", UNLIMITED)
    assert isinstance(ring_size, int)
    assert isinstance(key, str)
    assert isinstance(keep, int)
    assert isinstance(message_ttl, int)
    assert isinstance(expires, int)
    if "keep-per-key" in settings and not key:
        raise InvalidArgument(
            f"argument 'x-keep-per-key' ({keep}) needs 'x-last-value-key'; to keep the last {keep} messages whatever "
            "their key, use 'x-ring-size'"
        )
    return QueueSettings(
        ring_size=ring_size,
        ring_trim_now=settings.get("ring-trim") == "now",
        last_value_key=key,
        keep_per_key=keep,
        last_value_fallback=ARTEMIS_LAST_VALUE_KEY if fallback and key != ARTEMIS_LAST_VALUE_KEY else "",
        message_ttl=message_ttl,
        expires=expires,
    )


def _integer(name: str, value: PropertyValue) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(f"argument '{name}' must be an integer, not {value!r}")
    return value


def _in_range(name: str, value: PropertyValue, least: int, most: int, unit: str) -> int:
    number = _integer(name, value)
    if not least <= number <= most:
        raise InvalidArgument(f"argument '{name}' must be {least} to {most} {unit}, not {number}")
    return number


def _choice(name: str, value: PropertyValue, choices: tuple[PropertyValue, ...]) -> PropertyValue:
    if isinstance(value, bool) or value not in choices:
        listed = " or ".join(repr(choice) for choice in choices)
        raise InvalidArgument(f"argument '{name}' must be {listed}, not {value!r}")
    return value


def _switch(name: str, value: PropertyValue) -> bool:
    """Read a switch: a truth value, or 0 and 1 as Qpid's clients send them."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return value == 1
    raise InvalidArgument(f"argument '{name}' must be true or false, not {value!r}")
