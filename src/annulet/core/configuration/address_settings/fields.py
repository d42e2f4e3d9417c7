"""The names of address settings: Artemis's, and every setting of a queue with the prefix ``default-``.

Values with ``default-`` are copied into a queue when it is created; the others of a queue are live: a change
reaches the queues that exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import UNLIMITED
from annulet.core.configuration.address_limits import DROP, FAIL, FULL_POLICIES, NO_POLICY
from annulet.core.configuration.arguments.combinations import ARTEMIS_LAST_VALUE_KEY
from annulet.core.configuration.arguments.reading import refuse_contradiction_within
from annulet.core.configuration.arguments.table import BY_FIELD, BY_NAME, TRIM_NOW, Kind, Setting
from annulet.core.configuration.arguments.values import (
    MILLISECONDS_MAX,
    Arguments,
    Values,
    read_integer,
    read_switch,
    shown,
)
from annulet.core.message.message import PropertyValue

DEFAULT_PREFIX: Final = "default-"

PAGE_FULL_POLICIES: Final = (NO_POLICY, DROP, FAIL)

ANYCAST: Final = "anycast"
MULTICAST: Final = "multicast"
ROUTING_TYPES: Final = (ANYCAST, MULTICAST)

ID_CACHE_MAX: Final = 10_000_000
"""Largest duplicate-id cache of an address; about 1 GB of ids."""

LIVE: Final = frozenset(
    {
        "dead_letter_address",
        "dead_letter_exchange",
        "dead_letter_routing_key",
        "dropped_address",
        "expiry_address",
        "max_delivery_attempts",
        "max_redelivery_delay",
        "max_ttl",
        "message_ttl",
        "min_ttl",
        "redelivery_delay",
        "redelivery_jitter",
        "redelivery_multiplier",
    }
)
"""Settings of queues that follow their address setting at once (Artemis refreshes the same ones)."""

ADDRESS_SETTINGS: Final = (
    Setting("max_size_bytes", Kind.BYTES, "limit of bodies in the address, each counted once", off=True),
    Setting("max_size_messages", Kind.MESSAGES, "limit of messages in the address, each counted once", off=True),
    Setting("address_full_policy", Kind.CHOICE, "what happens to messages beyond these limits", choices=FULL_POLICIES),
    Setting("max_size_bytes_reject_threshold", Kind.BYTES, "with `block`: publishers are refused above this", off=True),
    Setting("page_limit_bytes", Kind.BYTES, "with `page`: bodies beyond `max-size-*`", off=True),
    Setting("page_limit_messages", Kind.MESSAGES, "with `page`: messages beyond `max-size-*`", off=True),
    Setting(
        "page_full_policy",
        Kind.CHOICE,
        "what happens to messages beyond the page limits; `none`: they have no effect",
        choices=PAGE_FULL_POLICIES,
    ),
    Setting("auto_create_queues", Kind.SWITCH, "a queue is created when a client asks for it"),
    Setting("auto_create_addresses", Kind.SWITCH, "an address is created when a client asks for it"),
    Setting("auto_delete_queues", Kind.SWITCH, "delete automatically created queues when unused"),
    Setting("auto_delete_addresses", Kind.SWITCH, "delete automatically created addresses with their last queue"),
    Setting("auto_delete_created_queues", Kind.SWITCH, "delete declared queues when unused as well"),
    Setting("auto_delete_queues_delay", Kind.MILLISECONDS, "time unused before deletion", 0, MILLISECONDS_MAX),
    Setting(
        "auto_delete_queues_message_count", Kind.MESSAGES, "delete with at most this many messages; -1: any", off=True
    ),
    Setting("auto_delete_queues_skip_usage_check", Kind.SWITCH, "delete even if never used"),
    Setting(
        "auto_delete_addresses_delay", Kind.MILLISECONDS, "time without a queue before deletion", 0, MILLISECONDS_MAX
    ),
    Setting("auto_delete_addresses_skip_usage_check", Kind.SWITCH, "delete even if never used"),
    Setting("auto_create_dead_letter_resources", Kind.SWITCH, "a dead-letter queue for each address"),
    Setting("dead_letter_queue_prefix", Kind.NAME, "its name begins with this", also=("dead-letter-prefix",)),
    Setting("dead_letter_queue_suffix", Kind.NAME, "its name ends with this"),
    Setting("auto_create_expiry_resources", Kind.SWITCH, "an expiry queue for each address"),
    Setting("expiry_queue_prefix", Kind.NAME, "its name begins with this"),
    Setting("expiry_queue_suffix", Kind.NAME, "its name ends with this"),
    Setting("send_to_dla_on_no_route", Kind.SWITCH, "messages that no queue takes are dead-lettered"),
    Setting("retroactive_message_count", Kind.MESSAGES, "messages kept for queues bound later"),
    Setting("default_queue_routing_type", Kind.CHOICE, "of automatically created queues", choices=ROUTING_TYPES),
    Setting("default_address_routing_type", Kind.CHOICE, "of automatically created addresses", choices=ROUTING_TYPES),
    Setting("id_cache_size", Kind.MESSAGES, "duplicate ids remembered; 0 switches detection off", 0, ID_CACHE_MAX),
    Setting("persist_id_cache", Kind.SWITCH, "they survive a restart"),
    Setting("no_expiry", Kind.SWITCH, "messages lose the time to live their sender gave them"),
)
"""Settings of the address itself; all of them are live."""

ADDRESS_FIELDS: Final = frozenset(setting.field for setting in ADDRESS_SETTINGS)

ADDRESS_BY_NAME: Final = {name: setting for setting in ADDRESS_SETTINGS for name in (setting.name, *setting.also)}

WITHOUT_EFFECT: Final = frozenset(
    {
        "default-consumer-window-size",
        "management-browse-page-size",
        "management-message-attribute-size-limit",
        "max-read-page-bytes",
        "max-read-page-messages",
        "max-redelivery-records",
        "message-counter-history-day-limit",
        "page-max-cache-size",
        "page-size-bytes",
        "prefetch-page-bytes",
        "prefetch-page-messages",
        "slow-consumer-check-period",
        "slow-consumer-policy",
    }
)
"""Names that tune how Artemis works inside: accepted, so that its configuration can be taken over."""

ONLY_DEFAULT: Final = {
    "redistribution-delay": ("-1", "there is no cluster to redistribute in"),
    "slow-consumer-threshold": ("-1", "slow consumers are not cut; limit what they may hold by their prefetch"),
    "config-delete-queues": ("off", "a queue is deleted by its owner or by an operator"),
    "config-delete-addresses": ("off", "an address is deleted by its owner or by an operator"),
    "config-delete-diverts": ("off", "a divert is deleted by its owner or by an operator"),
    "enable-metrics": ("true", "there are metrics of every queue"),
    "enable-ingress-timestamp": ("false", "messages are delivered with the properties they came with"),
}
"""Names of Artemis that are not available: their default is accepted, for the same reason, and nothing else."""


def setting_name(field_name: str) -> str:
    """Return the canonical name of a field, of the address or of its queues, as an address setting."""
    if field_name in BY_FIELD:
        name = BY_FIELD[field_name].name
        return name if field_name in LIVE else DEFAULT_PREFIX + name
    return field_name.replace("_", "-")


QUEUE_BY_NAME: Final = {
    (name if setting.field in LIVE else DEFAULT_PREFIX + name): setting
    for name, setting in BY_NAME.items()
    if name != "last-value-key"
}
"""Settings of queues by every name they have as an address setting."""

LAST_VALUE_KEY: Final = "default-last-value-key"
LAST_VALUE_SWITCH: Final = "default-last-value-queue"
EXCLUSIVE: Final = "default-exclusive-queue"

KNOWN: Final = sorted(
    {*ADDRESS_BY_NAME, *QUEUE_BY_NAME, *WITHOUT_EFFECT, *ONLY_DEFAULT, LAST_VALUE_KEY, LAST_VALUE_SWITCH, EXCLUSIVE}
)


@dataclass(frozen=True, slots=True)
class AddressSettings:
    """The checked values of one pattern by field of ``ResolvedSettings`` or ``QueueSettings``.

    Missing ones are left to less specific patterns; an empty text is a value and ends the search.
    """

    values: Mapping[str, Any] = field(default_factory=dict)


def parse_address_settings(given: Mapping[str, PropertyValue]) -> AddressSettings:
    """Read address settings by Artemis's names or ours; ``_`` and ``-`` are the same in names.

    Raises :class:`InvalidArgument` for an unknown name, a wrong type, a value out of range, and two names of one
    setting with different values, and values that contradict each other.
    """
    values: Values = {}
    given_as: dict[str, str] = {}
    for written, value in given.items():
        name = written.replace("_", "-")
        for field_name, read in _read(name, value).items():
            if values.setdefault(field_name, read) != read:
                raise InvalidArgument(
                    f"address settings '{given_as[field_name]}' and '{name}' are the same setting with different "
                    f"values ({shown(values[field_name])} and {shown(read)}); give one of them"
                )
            given_as.setdefault(field_name, name)
    refuse_contradiction_within({name: value for name, value in values.items() if name not in ADDRESS_FIELDS})
    return AddressSettings(values)


def describe_address_settings(settings: AddressSettings) -> Arguments:
    """Return canonical names and values: ``parse_address_settings`` of the result gives the same settings."""
    described: Arguments = {}
    for field_name, value in settings.values.items():
        if field_name == "last_value_fallback":
            continue  # implied by the key
        if field_name == "last_value_key" and not value:
            described[LAST_VALUE_SWITCH] = False
        elif field_name == "ring_trim_now":
            described[setting_name(field_name)] = TRIM_NOW if value else "lazy"
        elif field_name == "group_mode":
            described[setting_name(field_name)] = value or "off"
        else:
            described[setting_name(field_name)] = list(value) if isinstance(value, tuple) else value
    return described


def _read(name: str, value: PropertyValue) -> Values:
    try:
        return _read_value(name, value)
    except InvalidArgument as error:
        # the readers speak of arguments, which these are not
        raise InvalidArgument(str(error).replace("argument '", "address setting '", 1)) from error


def _read_value(name: str, value: PropertyValue) -> Values:
    if name == LAST_VALUE_KEY:
        key = BY_FIELD["last_value_key"].read(name, value)
        return {
            "last_value_key": key,
            "last_value_fallback": "" if key == ARTEMIS_LAST_VALUE_KEY else ARTEMIS_LAST_VALUE_KEY,
        }
    if name == LAST_VALUE_SWITCH:
        switched = read_switch(name, value)
        return {"last_value_key": ARTEMIS_LAST_VALUE_KEY if switched else "", "last_value_fallback": ""}
    if name == EXCLUSIVE:
        return {"exclusive_consumer": read_switch(name, value)}
    setting = ADDRESS_BY_NAME.get(name) or QUEUE_BY_NAME.get(name)
    if setting is not None:
        if setting.kind is Kind.CHOICE and isinstance(value, str):
            value = value.lower()  # Artemis writes them in capitals
        if setting.field == "max_delivery_attempts" and read_integer(name, value) <= 0:
            value = UNLIMITED  # Artemis: 0 and below
        return {setting.field: setting.read(name, value)}
    if name in WITHOUT_EFFECT:
        return {}
    if name in ONLY_DEFAULT:
        allowed, reason = ONLY_DEFAULT[name]
        if str(value).lower() != allowed:
            raise InvalidArgument(f"argument '{name}' must be {allowed}, not {shown(value)}: {reason}")
        return {}
    raise InvalidArgument(_unknown(name))


def _unknown(name: str) -> str:
    other = name.removeprefix(DEFAULT_PREFIX) if name.startswith(DEFAULT_PREFIX) else DEFAULT_PREFIX + name
    near = [other] if other in KNOWN else get_close_matches(name, KNOWN, n=1) or get_close_matches(other, KNOWN, n=1)
    hint = f"did you mean '{near[0]}'?" if near else "leave it out"
    return f"unknown address setting {shown(name)}; {hint}"
