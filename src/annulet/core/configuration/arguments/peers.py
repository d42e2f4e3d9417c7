"""Names of RabbitMQ, Artemis and Broker-J whose values need a translation.

Broker-J silently ignores several of its own arguments (a capacity without a policy, a group switch that is not 1, an
alert that looks like a limit). Here each of them has the effect of its name or is refused with the alternative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from annulet.core.base.errors import InvalidArgument
from annulet.core.base.settings import (
    COUNT_ALL,
    GROUP_SHARED,
    OVERFLOW_BLOCK,
    OVERFLOW_NONE,
    OVERFLOW_PAGE,
    OVERFLOW_REJECT,
    OVERFLOW_RING,
    UNLIMITED,
)
from annulet.core.configuration.arguments.combinations import ARTEMIS_LAST_VALUE_KEY
from annulet.core.configuration.arguments.table import BY_FIELD, LEVELS_MAX
from annulet.core.configuration.arguments.values import (
    COUNT_MAX,
    Values,
    read_choice,
    read_integer,
    read_limit,
    read_size,
    read_switch,
    read_text,
)
from annulet.core.message.message import PropertyValue

QPID_LAST_VALUE_KEY: Final = "qpid.LVQ_key"
DEAD_LETTER_SUFFIX: Final = "_DLQ"
"""Broker-J's ``qpid.broker_dead_letter_queue_suffix``."""

BUILT_IN_GROUP_KEYS: Final = frozenset({"jmsxgroupid", "group-id", "group_id"})
"""Names for the group id of the protocol itself, in lower case; as a group key they mean "the built-in one"."""

QPID_POLICIES: Final = {
    "NONE": OVERFLOW_NONE,
    "RING": OVERFLOW_RING,
    "PRODUCER_FLOW_CONTROL": OVERFLOW_BLOCK,
    "FLOW_TO_DISK": OVERFLOW_PAGE,
    "REJECT": OVERFLOW_REJECT,
}


@dataclass(frozen=True, slots=True)
class Alias:
    """A peer's name: ``read`` checks the value and returns the corresponding settings. ``fields`` are those settings.

    ``weak`` are implied values if no argument gives the setting.
    """

    name: str
    peer: str
    fields: tuple[str, ...]
    meaning: str
    read: Callable[[str, PropertyValue], Values]
    weak: tuple[tuple[str, str], ...] = ()


def _plain(field: str, **changed: int) -> Callable[[str, PropertyValue], Values]:
    """Return a reader for a name whose value is the setting's own, in the range the peer has."""

    def read(name: str, value: PropertyValue) -> Values:
        setting = BY_FIELD[field]
        if not changed:
            return {field: setting.read(name, value)}
        least, most = changed["least"], changed["most"]
        return {field: read_limit(name, value, least, most, setting.kind.value, off=False)}

    return read


def _off_below(field: str, least: int) -> Callable[[str, PropertyValue], Values]:
    """Return a reader for Broker-J's limits, where everything below ``least`` means off."""

    def read(name: str, value: PropertyValue) -> Values:
        number = read_integer(name, read_size(name, value))
        if number < least:
            return {field: UNLIMITED}
        most = int(BY_FIELD[field].most)
        return {field: read_limit(name, number, least, most, BY_FIELD[field].kind.value, off=False)}

    return read


def _delivery_limit(name: str, value: PropertyValue) -> Values:
    # RabbitMQ counts the deliveries after the first one
    limit = read_limit(name, value, 0, COUNT_MAX - 1, "redeliveries", off=True)
    return {"max_delivery_attempts": UNLIMITED if limit == UNLIMITED else limit + 1}


def _strategy(name: str, value: PropertyValue) -> Values:
    read_choice(name, value, ("at-most-once", "at-least-once"))
    return {}  # dead letters are always stored before their source is settled: at least once


def _property_key(field: str, **beside: str) -> Callable[[str, PropertyValue], Values]:
    """Return a reader for the name of a property, which settles ``beside`` too."""

    def read(name: str, value: PropertyValue) -> Values:
        return {field: BY_FIELD[field].read(name, value), **beside}

    return read


def _artemis_last_value_key(name: str, value: PropertyValue) -> Values:
    key = BY_FIELD["last_value_key"].read(name, value)
    return {
        "last_value_key": key,
        "last_value_fallback": "" if key == ARTEMIS_LAST_VALUE_KEY else ARTEMIS_LAST_VALUE_KEY,
    }


def _group_key(name: str, value: PropertyValue) -> Values:
    key = BY_FIELD["group_key"].read(name, value)
    if not key:
        raise InvalidArgument(f"argument '{name}' must be the name of a message property, not ''")
    # Broker-J has one spelling of the built-in id here and another in messages; both mean the same
    return {"group_key": "" if key.lower() in BUILT_IN_GROUP_KEYS else key}


def _shared_group(name: str, value: PropertyValue) -> Values:
    return {"group_mode": GROUP_SHARED} if read_switch(name, value) else {}


def _distinct_groups(name: str, value: PropertyValue) -> Values:
    # Broker-J uses the next power of two
    return {"group_buckets": 1 << (read_limit(name, value, 1, 2**30, "groups", off=False) - 1).bit_length()}


def _policy(name: str, value: PropertyValue) -> Values:
    text = read_text(name, value)
    policy = QPID_POLICIES.get(text.upper())
    if policy is None:
        raise InvalidArgument(f"argument '{name}' must be {' or '.join(QPID_POLICIES)}, not {text!r}")
    return {"overflow": policy}


def _resume(name: str, value: PropertyValue) -> Values:
    resume = read_limit(name, read_size(name, value), 0, COUNT_MAX, "bytes", off=False)
    return {"overflow": OVERFLOW_BLOCK, "resume_bytes": resume}


def _exclusivity(name: str, value: PropertyValue) -> Values:
    policy = read_text(name, value).upper()
    if policy == "LINK":
        return {"max_consumers": 1}
    if policy in {"NONE", "SHARED_SUBSCRIPTION"}:
        return {}
    raise InvalidArgument(
        f"argument '{name}' must be 'NONE', 'LINK' or 'SHARED_SUBSCRIPTION', not {policy!r}; for a queue of one "
        "connection declare it exclusive, for one of a user or container restrict it by permissions"
    )


def _lifetime(name: str, value: PropertyValue) -> Values:
    policy = read_text(name, value).upper()
    if policy == "PERMANENT":
        return {}
    raise InvalidArgument(
        f"argument '{name}' must be 'PERMANENT', not {policy!r}; for a queue that goes with its last consumer "
        "declare it auto-delete, with its connection exclusive, when unused give 'x-expires'"
    )


def _durability(name: str, value: PropertyValue) -> Values:
    policy = read_text(name, value).upper()
    if policy == "DEFAULT":
        return {}
    raise InvalidArgument(
        f"argument '{name}' must be 'DEFAULT', not {policy!r}: the sender decides what is stored (delivery-mode); "
        "to store nothing declare a queue that is not durable"
    )


def _description(name: str, value: PropertyValue) -> Values:
    read_text(name, value)
    return {}


def _always_held(name: str, value: PropertyValue) -> Values:
    if read_switch(name, value):
        return {}
    raise InvalidArgument(f"argument '{name}' must be true: every queue keeps scheduled messages until they are due")


_ALL: Final = (("limit_counts", COUNT_ALL),)
_KEY_ONLY: Final = ("last_value_key", "last_value_fallback")

RABBITMQ: Final = (
    Alias(
        "delivery-limit", "RabbitMQ", ("max_delivery_attempts",), "N redeliveries are N + 1 deliveries", _delivery_limit
    ),
    Alias("dead-letter-strategy", "RabbitMQ", (), "accepted; dead letters are always moved at least once", _strategy),
)

ARTEMIS: Final = (
    Alias(
        "last-value-key",
        "Artemis",
        _KEY_ONLY,
        f"without `x-`: brings Artemis's fallback `{ARTEMIS_LAST_VALUE_KEY}`",
        _artemis_last_value_key,
    ),
)

QPID: Final = (
    Alias("x-qpid-priorities", "Broker-J", ("priorities",), "", _plain("priorities", least=1, most=LEVELS_MAX)),
    Alias("qpid.queue_sort_key", "Broker-J", ("sort_key",), "", _plain("sort_key")),
    Alias("sortKey", "Broker-J", ("sort_key",), "", _plain("sort_key")),
    Alias(
        "qpid.last_value_queue_key", "Broker-J", _KEY_ONLY, "", _property_key("last_value_key", last_value_fallback="")
    ),
    Alias("lvqKey", "Broker-J", _KEY_ONLY, "", _property_key("last_value_key", last_value_fallback="")),
    Alias(
        "qpid.group_header_key",
        "Broker-J",
        ("group_key",),
        "`JMSXGroupID` in any spelling is the protocol's group id",
        _group_key,
    ),
    Alias("messageGroupKeyOverride", "Broker-J", ("group_key",), "the same", _group_key),
    Alias("qpid.shared_msg_group", "Broker-J", ("group_mode",), "true or 1: `shared`; false or 0: not", _shared_group),
    Alias("qpid.default-message-group", "Broker-J", ("default_group",), "", _plain("default_group")),
    Alias("messageGroupDefaultGroup", "Broker-J", ("default_group",), "", _plain("default_group")),
    Alias("maximumDistinctGroups", "Broker-J", ("group_buckets",), "the next power of two", _distinct_groups),
    Alias("qpid.ensure_nondestructive_consumers", "Broker-J", ("non_destructive",), "", _plain("non_destructive")),
    Alias("ensureNondestructiveConsumers", "Broker-J", ("non_destructive",), "", _plain("non_destructive")),
    Alias("qpid.policy_type", "Broker-J", ("overflow",), "`RING`, `REJECT` …, any case", _policy, _ALL),
    Alias("overflowPolicy", "Broker-J", ("overflow",), "the same", _policy, _ALL),
    Alias(
        "qpid.max_count",
        "Broker-J",
        ("max_length",),
        "negative is off; needs a policy",
        _off_below("max_length", 0),
        _ALL,
    ),
    Alias("maximumQueueDepthMessages", "Broker-J", ("max_length",), "the same", _off_below("max_length", 0), _ALL),
    Alias(
        "qpid.max_size", "Broker-J", ("max_bytes",), "negative is off; needs a policy", _off_below("max_bytes", 0), _ALL
    ),
    Alias("maximumQueueDepthBytes", "Broker-J", ("max_bytes",), "the same", _off_below("max_bytes", 0), _ALL),
    Alias(
        "x-qpid-capacity",
        "Broker-J",
        ("max_bytes",),
        "negative is off; needs a policy",
        _off_below("max_bytes", 0),
        _ALL,
    ),
    Alias(
        "x-qpid-flow-resume-capacity",
        "Broker-J",
        ("overflow", "resume_bytes"),
        "bytes; sets `overflow` `block`",
        _resume,
        _ALL,
    ),
    Alias(
        "x-qpid-maximum-delivery-count",
        "Broker-J",
        ("max_delivery_attempts",),
        "0 and below: off",
        _off_below("max_delivery_attempts", 1),
    ),
    Alias(
        "maximumDeliveryAttempts",
        "Broker-J",
        ("max_delivery_attempts",),
        "the same",
        _off_below("max_delivery_attempts", 1),
    ),
    Alias("minimumMessageTtl", "Broker-J", ("min_ttl",), "0 and below: off", _off_below("min_ttl", 1)),
    Alias("maximumMessageTtl", "Broker-J", ("max_ttl",), "0 and below: off", _off_below("max_ttl", 1)),
    Alias(
        "maximumLiveConsumers",
        "Broker-J",
        ("live_consumers_max",),
        "0 and below: off",
        _off_below("live_consumers_max", 1),
    ),
    Alias("noLocal", "Broker-J", ("no_local",), "", _plain("no_local")),
    Alias("qpid.exclusivity_policy", "Broker-J", ("max_consumers",), "`LINK` is one consumer; `NONE`", _exclusivity),
    Alias("qpid.lifetime_policy", "Broker-J", (), "`PERMANENT`; others by the flags of the declaration", _lifetime),
    Alias("qpid.message_durability", "Broker-J", (), "`DEFAULT`", _durability),
    Alias("x-qpid-description", "Broker-J", (), "accepted without effect", _description),
    Alias("holdOnPublishEnabled", "Broker-J", (), "true: every queue keeps scheduled messages", _always_held),
)

ALIASES: Final = {alias.name: alias for alias in (*RABBITMQ, *ARTEMIS, *QPID)}

LIMITS_WITHOUT_POLICY: Final = (
    "x-qpid-capacity",
    "qpid.max_count",
    "qpid.max_size",
    "maximumQueueDepthMessages",
    "maximumQueueDepthBytes",
)
"""Limits that Broker-J ignores until a policy is named."""

LAST_VALUE_SWITCHES: Final = {
    "last-value": ARTEMIS_LAST_VALUE_KEY,
    "x-last-value": ARTEMIS_LAST_VALUE_KEY,
    "qpid.last_value_queue": QPID_LAST_VALUE_KEY,
}
"""Switches that make a last-value queue, and the key it has when no other argument names one."""

DEAD_LETTER_SWITCH: Final = "x-qpid-dlq-enabled"

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
        "x-quorum-target-group-size",
    }
)
"""Where a RabbitMQ cluster puts a queue: accepted without effect, since there is one place."""

_ALERT: Final = "is an alert in Broker-J and limits nothing; "
_FLAG: Final = "is no argument; declare the queue with the flag "
_ADDRESS: Final = "is no argument of a queue; it is the address setting "

REFUSED_NAMES: Final = {
    "x-qpid-maximum-message-count": f"{_ALERT}to limit the queue give 'x-max-length'",
    "qpid.alert_count": f"{_ALERT}to limit the queue give 'x-max-length'",
    "x-qpid-maximum-queue-depth": f"{_ALERT}to limit the queue give 'x-max-bytes'",
    "qpid.alert_size": f"{_ALERT}to limit the queue give 'x-max-bytes'",
    "x-qpid-maximum-message-size": f"{_ALERT}watch the queue's metrics",
    "x-qpid-maximum-message-age": f"{_ALERT}to limit the age give 'x-max-ttl'",
    "x-qpid-minimum-alert-repeat-gap": "belongs to alerts, which come from metrics here; leave it out",
    "qpid.alert_repeat_gap": "belongs to alerts, which come from metrics here; leave it out",
    "qpid.default_filters": "is not available: give the queue 'x-selector', or each consumer its own",
    "defaultFilters": "is not available: give the queue 'x-selector', or each consumer its own",
    "alternateExchange": "is not available for queues; give 'x-dead-letter-exchange', which expired messages reach too",
    "alternateBinding": "is not available; give 'x-dead-letter-address' or 'x-dead-letter-exchange'",
    "expiryPolicy": "is not available; give 'x-expiry-address', without it expired messages are deleted",
    "messageGroupType": "is not available; give 'x-group-mode' 'sticky' (STANDARD) or 'shared' (SHARED_GROUPS)",
    "exclusive": "means two things; declare the queue with the flag exclusive (one connection) or give "
    "'x-exclusive-consumer' (Artemis: one consumer at a time)",
    "auto-delete": f"{_FLAG}auto-delete",
    "durable": f"{_FLAG}durable",
    "auto-delete-delay": f"{_ADDRESS}'auto-delete-queues-delay'; or give 'x-expires'",
    "auto-delete-message-count": f"{_ADDRESS}'auto-delete-queues-message-count'",
    "routing-type": f"{_ADDRESS}'default-queue-routing-type'",
    "max-size-bytes": f"{_ADDRESS}'max-size-bytes'; to limit the queue give 'x-max-bytes'",
    "address-full-policy": f"{_ADDRESS}'address-full-policy'; for the queue give 'x-overflow'",
    "page-limit-bytes": f"{_ADDRESS}'page-limit-bytes'",
    "page-limit-messages": f"{_ADDRESS}'page-limit-messages'",
    "page-full-policy": f"{_ADDRESS}'page-full-policy'; for the queue give 'x-overflow'",
    "x-delay": "is a header of messages; for returned ones give 'x-redelivery-delay'",
    "x-max-age": "belongs to streams, which are not available; give 'x-max-ttl'",
    "x-priority": "is an argument of consumers; for priority levels give 'x-priorities' or 'x-max-priority'",
}
"""Known names that are not accepted, with alternatives."""
