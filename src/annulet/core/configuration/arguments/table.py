"""Every setting of a queue as data: its names, its permitted values, the effect of a change on an existing queue.

The parser, the description of a queue and the page docs/queue-arguments.md are made from this one table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from annulet.core.base import settings as names
from annulet.core.base.errors import InvalidArgument
from annulet.core.configuration.arguments.values import (
    COUNT_MAX,
    MILLISECONDS_MAX,
    read_choice,
    read_factor,
    read_limit,
    read_name,
    read_properties,
    read_size,
    read_switch,
    read_text,
    read_weights,
)
from annulet.core.message.filters import compile_filter
from annulet.core.message.hot_properties import HOT_PROPERTIES_MAX
from annulet.core.message.message import PropertyValue
from annulet.core.message.selector_names import PER_DELIVERY

PREFIX: Final = "x-"
"""The prefix of AMQP 0-9-1 arguments; every name is known with it and without."""

LEVELS_MAX: Final = 256
"""Priority levels: the priority of AMQP 0-9-1 is one octet (§4.2.6.1)."""

WEIGHT_MAX: Final = 1_000_000
"""Largest share of a priority level; far beyond any observable ratio."""

MULTIPLIER_LEAST: Final = 0.01
MULTIPLIER_MOST: Final = 1000.0

NOT_CHANGEABLE: Final = ""


class Kind(Enum):
    """The type of a setting's value."""

    MESSAGES = "messages"
    BYTES = "bytes"
    MILLISECONDS = "milliseconds"
    CONSUMERS = "consumers"
    LEVELS = "levels"
    BUCKETS = "buckets"
    DELIVERIES = "deliveries"
    FACTOR = "number"
    SWITCH = "true or false"
    CHOICE = "choice"
    PROPERTY = "property"
    NAME = "name"
    SELECTOR = "selector"
    WEIGHTS = "list of integers"
    PROPERTIES = "list of properties"


COUNTED: Final = frozenset(
    {
        Kind.MESSAGES,
        Kind.BYTES,
        Kind.MILLISECONDS,
        Kind.CONSUMERS,
        Kind.LEVELS,
        Kind.BUCKETS,
        Kind.DELIVERIES,
    }
)
"""Kinds whose value is an integer; the kind is its unit."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. ``field`` is its name in ``QueueSettings``; ``also`` are plain further names for it.

    ``changed`` says what a change does to a queue that lives; empty: it cannot be changed.
    """

    field: str
    kind: Kind
    meaning: str
    least: float = 0
    most: float = COUNT_MAX
    off: bool = False
    choices: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    also: tuple[str, ...] = ()
    changed: str = NOT_CHANGEABLE
    title: str = ""

    @property
    def name(self) -> str:
        """The canonical name, without ``x-``."""
        return self.title or self.field.replace("_", "-")

    @property
    def argument(self) -> str:
        """The canonical name as an argument, with ``x-``."""
        return PREFIX + self.name

    def read(self, name: str, value: PropertyValue) -> Any:
        """Return a checked value as ``QueueSettings`` holds it. Raises :class:`InvalidArgument` that names ``name``."""
        kind = self.kind
        if kind in COUNTED:
            if kind is Kind.BYTES:
                value = read_size(name, value)
            # RabbitMQ refuses -1 under its own names of these, and so do we; the names without x- may say "off"
            off = self.off and not (self.field in NEVER_OFF_IN_RABBITMQ and name.startswith(PREFIX))
            return read_limit(name, value, int(self.least), int(self.most), kind.value, off=off)
        if kind is Kind.SWITCH:
            return read_switch(name, value)
        if kind is Kind.CHOICE:
            return self._read_choice(name, value)
        if kind is Kind.FACTOR:
            return read_factor(name, value, self.least, self.most)
        if kind is Kind.WEIGHTS:
            return read_weights(name, value, LEVELS_MAX, WEIGHT_MAX)
        if kind is Kind.PROPERTIES:
            return read_hot_properties(name, value)
        if kind is Kind.SELECTOR:
            text = read_text(name, value)
            compile_filter(text, f"argument '{name}'")  # a policy for many queues must fail before it reaches them
            return text
        what = "a message property" if kind is Kind.PROPERTY else "a node"
        return read_name(name, value, what, empty=self.field not in NEVER_EMPTY)

    def _read_choice(self, name: str, value: PropertyValue) -> Any:
        translated = dict(self.values)
        choice = read_choice(name, value, (*self.choices, *translated))
        assert isinstance(choice, str)
        canonical = translated.get(choice, choice)
        if self.field == "ring_trim_now":
            return canonical == TRIM_NOW
        return names.GROUP_OFF if self.field == "group_mode" and canonical == OFF else canonical


def read_hot_properties(name: str, value: PropertyValue) -> tuple[str, ...]:
    """Return names of properties of messages. Raises :class:`InvalidArgument` for one that deliveries have."""
    properties = read_properties(name, value, HOT_PROPERTIES_MAX)
    for item in properties:
        if item in PER_DELIVERY:
            raise InvalidArgument(
                f"argument '{name}' must name properties of messages, not {item!r}, which differs from delivery to "
                f"delivery; leave it out"
            )
    return properties


NEVER_OFF_IN_RABBITMQ: Final = frozenset({"message_ttl", "expires", "max_priority"})
NEVER_EMPTY: Final = frozenset({"last_value_key", "sort_key", "fair_key"})
TRIM_NOW: Final = "now"
OFF: Final = "off"

LATER_ARRIVALS: Final = "applies to later arrivals"
AT_ONCE: Final = "applies at once"
TIMES: Final = "applies at once, also to waiting messages"
NEXT_DELIVERY: Final = "applies to the next delivery"
NEXT_RETURN: Final = "applies to the next return"
NEXT_REMOVAL: Final = "applies to later removals"

ORDER: Final = (
    Setting("priorities", Kind.LEVELS, "priority levels, higher first; 0 is first in, first out", 0, LEVELS_MAX),
    Setting(
        "max_priority", Kind.LEVELS, "levels 0 to N as in RabbitMQ; none given counts as 0", 0, LEVELS_MAX - 1, off=True
    ),
    Setting(
        "priority_discipline",
        Kind.CHOICE,
        "how levels share the consumers",
        choices=names.PRIORITY_DISCIPLINES,
    ),
    Setting(
        "priority_weights", Kind.WEIGHTS, "shares of each level from level 0 up; empty is 1, 2, 3 …", 1, WEIGHT_MAX
    ),
    Setting("priority_age", Kind.MILLISECONDS, "waiting time that counts as one level", 1, MILLISECONDS_MAX),
    Setting("sort_key", Kind.PROPERTY, "property to sort by, ascending"),
)

RETENTION: Final = (
    Setting("ring_size", Kind.MESSAGES, "pending messages kept", 1, off=True, changed="as `ring-trim` says"),
    Setting(
        "ring_trim_now",
        Kind.CHOICE,
        "whether a smaller ring drops the excess at once",
        choices=("lazy", TRIM_NOW),
        changed="applies to the change of size it is given with",
        title="ring-trim",
    ),
    Setting("last_value_key", Kind.PROPERTY, "property whose last messages are kept, for each value"),
    Setting("keep_per_key", Kind.MESSAGES, "messages kept for each value of the key", 1),
    Setting("last_value_place", Kind.CHOICE, "place of a replacement", choices=names.LAST_VALUE_PLACES),
    Setting(
        "tombstone_ttl",
        Kind.MILLISECONDS,
        "time to live of a message with key and empty body",
        0,
        MILLISECONDS_MAX,
        off=True,
        changed=TIMES,
    ),
    Setting("max_length", Kind.MESSAGES, "limit in messages", off=True, changed=AT_ONCE),
    Setting("max_bytes", Kind.BYTES, "limit in bytes of bodies", off=True, also=("max-length-bytes",), changed=AT_ONCE),
    Setting(
        "overflow",
        Kind.CHOICE,
        "what happens at a limit; `ring` if a limit is given",
        choices=names.OVERFLOW_POLICIES,
        values=(
            ("drop-head", names.OVERFLOW_RING),
            ("reject-publish", names.OVERFLOW_REJECT),
            ("reject-publish-dlx", names.OVERFLOW_REJECT),
            ("producer_flow_control", names.OVERFLOW_BLOCK),
            ("flow_to_disk", names.OVERFLOW_PAGE),
        ),
        changed=AT_ONCE,
    ),
    Setting("limit_counts", Kind.CHOICE, "messages that the limits count", choices=names.LIMIT_COUNTS, changed=AT_ONCE),
    Setting("resume_length", Kind.MESSAGES, "publishers are unblocked at this amount", off=True, changed=AT_ONCE),
    Setting("resume_bytes", Kind.BYTES, "publishers are unblocked at this amount", off=True, changed=AT_ONCE),
    Setting("evict", Kind.CHOICE, "which message is evicted first", choices=names.EVICTION_RULES, changed=NEXT_REMOVAL),
    Setting("dropped_address", Kind.NAME, "where dropped messages are sent", changed=NEXT_REMOVAL),
)

DISPATCH: Final = (
    Setting("exclusive_consumer", Kind.SWITCH, "one consumer at a time gets everything"),
    Setting("single_active_consumer", Kind.SWITCH, "RabbitMQ's name for the same"),
    Setting("live_consumers_max", Kind.CONSUMERS, "consumers served at a time, the others wait", 1, off=True),
    Setting("max_consumers", Kind.CONSUMERS, "attaching more is refused", off=True, changed="attached consumers stay"),
    Setting(
        "group_mode",
        Kind.CHOICE,
        "how groups stay together; `sticky` if a group argument is given",
        choices=(OFF, *names.GROUP_MODES),
    ),
    Setting("group_key", Kind.PROPERTY, "property that names the group; empty is the protocol's group id"),
    Setting("group_buckets", Kind.BUCKETS, "groups share this many by hash; 0 switches grouping off", 0, off=True),
    Setting("group_first_key", Kind.PROPERTY, "header set to true on the first message after an assignment"),
    Setting("group_rebalance", Kind.SWITCH, "a new consumer ends all assignments", changed="with the next consumer"),
    Setting(
        "group_rebalance_pause",
        Kind.SWITCH,
        "… and dispatch waits until nothing is in delivery",
        also=("group-rebalance-pause-dispatch",),
        changed="with the next consumer",
    ),
    Setting("default_group", Kind.NAME, "group of messages without a group; empty is `qpid.no-group`"),
    Setting("non_destructive", Kind.SWITCH, "every consumer reads every message"),
    Setting(
        "selector",
        Kind.SELECTOR,
        "messages that do not match never enter",
        also=("filter", "filter-string", "filter-jms-selector"),
        changed=TIMES,
    ),
    Setting(
        "no_local",
        Kind.SWITCH,
        "consumers get no messages of their own connection",
        changed="for consumers that attach later",
    ),
    Setting(
        "hot_properties",
        Kind.PROPERTIES,
        "properties by which selectors find messages on disk without reading the others",
        0,
        HOT_PROPERTIES_MAX,
        changed="messages on disk are read once more, by the first selector that needs it",
    ),
    Setting(
        "purge_on_no_consumers",
        Kind.SWITCH,
        "keeps no messages while it has no consumer",
        changed="when the last one detaches",
    ),
    Setting(
        "consumers_before_dispatch",
        Kind.CONSUMERS,
        "dispatch starts with this many",
        changed="a closed gate follows, an open one stays open",
    ),
    Setting(
        "delay_before_dispatch",
        Kind.MILLISECONDS,
        "… or this long after the first",
        0,
        MILLISECONDS_MAX,
        off=True,
        changed="a closed gate follows, an open one stays open",
    ),
    Setting("fair_key", Kind.PROPERTY, "property whose values take turns"),
    Setting("fair_quantum", Kind.BYTES, "bytes of a turn; 0 is one message"),
    Setting(
        "in_flight_per_key",
        Kind.MESSAGES,
        "in delivery for each value of `fair-key`",
        1,
        off=True,
    ),
    Setting("in_flight_max", Kind.MESSAGES, "in delivery for the queue", 1, off=True, changed=NEXT_DELIVERY),
)

TIME: Final = (
    Setting(
        "consumer_timeout",
        Kind.MILLISECONDS,
        "a delivery unsettled for this time ends its consumer; 0: never, -1: as the server",
        0,
        MILLISECONDS_MAX,
        off=True,
        changed="applies at once, also to messages in delivery",
    ),
    Setting(
        "message_ttl",
        Kind.MILLISECONDS,
        "time to live of a message; the smaller of this and its own applies",
        0,
        MILLISECONDS_MAX,
        off=True,
        also=("expiry-delay",),
        changed=LATER_ARRIVALS,
    ),
    Setting(
        "min_ttl",
        Kind.MILLISECONDS,
        "a shorter time to live is raised to this",
        0,
        MILLISECONDS_MAX,
        off=True,
        also=("min-expiry-delay",),
        changed=TIMES,
    ),
    Setting(
        "max_ttl",
        Kind.MILLISECONDS,
        "a longer or unlimited time to live is lowered to this; wins over `min-ttl`",
        0,
        MILLISECONDS_MAX,
        off=True,
        also=("max-expiry-delay",),
        changed=TIMES,
    ),
    Setting(
        "expires",
        Kind.MILLISECONDS,
        "the queue is deleted when unused for this time",
        1,
        MILLISECONDS_MAX,
        off=True,
        changed=AT_ONCE,
    ),
    Setting("expiry_address", Kind.NAME, "where expired messages are sent", changed=NEXT_REMOVAL),
    Setting(
        "redelivery_delay", Kind.MILLISECONDS, "wait of a returned message", 0, MILLISECONDS_MAX, changed=NEXT_RETURN
    ),
    Setting(
        "redelivery_multiplier",
        Kind.FACTOR,
        "the wait grows by this with each return",
        MULTIPLIER_LEAST,
        MULTIPLIER_MOST,
        also=("redelivery-delay-multiplier",),
        changed=NEXT_RETURN,
    ),
    Setting(
        "max_redelivery_delay",
        Kind.MILLISECONDS,
        "longest wait; -1 is ten times `redelivery-delay`",
        0,
        MILLISECONDS_MAX,
        off=True,
        changed=NEXT_RETURN,
    ),
    Setting(
        "redelivery_jitter",
        Kind.FACTOR,
        "share by which the wait varies",
        0.0,
        1.0,
        also=("redelivery-collision-avoidance-factor",),
        changed=NEXT_RETURN,
    ),
    Setting("max_delivery_attempts", Kind.DELIVERIES, "deliveries of one message", 1, off=True, changed=NEXT_RETURN),
    Setting(
        "dead_letter_address", Kind.NAME, "where rejected and undeliverable messages are sent", changed=NEXT_REMOVAL
    ),
    Setting(
        "dead_letter_exchange",
        Kind.NAME,
        "the same as RabbitMQ's exchange, which also gets expired messages and overflow victims",
        changed=NEXT_REMOVAL,
    ),
    Setting(
        "dead_letter_routing_key", Kind.NAME, "key for it; the message's own if none is given", changed=NEXT_REMOVAL
    ),
)

AXES: Final = {"Order": ORDER, "Retention": RETENTION, "Dispatch": DISPATCH, "Time": TIME}
"""The settings by the four questions a queue answers."""

SETTINGS: Final = (*ORDER, *RETENTION, *DISPATCH, *TIME)

BY_FIELD: Final = {setting.field: setting for setting in SETTINGS}

BY_NAME: Final = {name: setting for setting in SETTINGS for name in (setting.name, *setting.also)}
"""Settings by every plain name, without ``x-``."""

CHANGEABLE: Final = frozenset(setting.field for setting in SETTINGS if setting.changed)
"""Fields of ``QueueSettings`` that may change while a queue lives.

The others decide the place or the owner of a message; a change would leave messages at places that no rule explains.
Declare another queue and move.
"""


def argument_of(field: str) -> str:
    """Return the canonical argument of a field of ``QueueSettings``."""
    return BY_FIELD[field].argument
