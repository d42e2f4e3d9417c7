"""The settings of a queue and a consumer, by canonical name (design §5). Plain data: no rule is applied here.

:mod:`annulet.core.configuration.arguments` reads these from the names peers use and refuses contradictions;
:mod:`annulet.core.configuration.address_settings` fills in what a declaration leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNLIMITED: Final = -1
"""The one spelling of "off" for every limit (design: "off" is -1)."""

DEFAULT_RESUME_PERCENT: Final = 80
"""A blocked queue lets publishers go on at this share of its limits (Broker-J's ``queue.queueFlowResumeLimit``)."""

STRICT: Final = "strict"
WEIGHTED: Final = "weighted"
AGEING: Final = "ageing"
PRIORITY_DISCIPLINES: Final = (STRICT, WEIGHTED, AGEING)

MOVE_TO_TAIL: Final = "move-to-tail"
KEEP_PLACE: Final = "keep-place"
LAST_VALUE_PLACES: Final = (MOVE_TO_TAIL, KEEP_PLACE)

RETENTION_SETTINGS: Final = ("last_value_key",)
"""The fields that ask for a retention with state of its own; each has a rule in
:mod:`annulet.core.policies.retention_rules`."""

OVERFLOW_NONE: Final = "none"
OVERFLOW_RING: Final = "ring"
OVERFLOW_REJECT: Final = "reject"
OVERFLOW_BLOCK: Final = "block"
OVERFLOW_PAGE: Final = "page"
OVERFLOW_POLICIES: Final = (OVERFLOW_NONE, OVERFLOW_RING, OVERFLOW_REJECT, OVERFLOW_BLOCK, OVERFLOW_PAGE)

COUNT_READY: Final = "ready"
COUNT_ALL: Final = "all"
LIMIT_COUNTS: Final = (COUNT_READY, COUNT_ALL)

LEAST_IMPORTANT: Final = "least-important"
OLDEST: Final = "oldest"
NEWEST: Final = "newest"
LARGEST: Final = "largest"
SOONEST_TO_EXPIRE: Final = "soonest-to-expire"
LEAST_RECENT_KEY: Final = "least-recent-key"
EVICTION_RULES: Final = (LEAST_IMPORTANT, OLDEST, NEWEST, LARGEST, SOONEST_TO_EXPIRE, LEAST_RECENT_KEY)

GROUP_OFF: Final = ""
GROUP_STICKY: Final = "sticky"
GROUP_SHARED: Final = "shared"
GROUP_MODES: Final = (GROUP_STICKY, GROUP_SHARED)

BROWSE_OFF: Final = ""
BROWSE_FOLLOW: Final = "follow"
BROWSE_SNAPSHOT: Final = "snapshot"
BROWSE_MODES: Final = (BROWSE_FOLLOW, BROWSE_SNAPSHOT)


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The policies of one queue. Times are milliseconds, sizes body bytes, -1 means off unless said otherwise."""

    # order ------------------------------------------------------------------------------------------------------
    priorities: int = 0
    """Levels, 1 to 256, numbered from 0; higher first; 0 = FIFO. Below ten Broker-J's mapping centres JMS's 4."""
    max_priority: int = UNLIMITED
    """RabbitMQ's ``x-max-priority`` n: levels 0..n, priorities above n count as n, none given counts as 0."""
    priority_discipline: str = STRICT
    """``strict``; ``weighted``: level l gets ``l + 1`` shares (or ``priority_weights``); ``ageing``: waiting raises."""
    priority_weights: tuple[int, ...] = ()
    """Shares of each level from level 0 up, for ``weighted``; empty = 1, 2, 3 ..."""
    priority_age: int = 1000
    """Milliseconds of waiting that are worth one level, for ``ageing``."""
    sort_key: str = ""
    """Property to sort by, ascending: missing first, numbers by value, then text by code point; ties by arrival."""

    # retention --------------------------------------------------------------------------------------------------
    ring_size: int = UNLIMITED
    """Pending messages kept; counts pending only and never takes one in delivery."""
    ring_trim_now: bool = False
    """Lowering ``ring_size`` drops the excess at once instead of growing out of it."""
    last_value_key: str = ""
    """Property whose last ``keep_per_key`` messages are kept, per value."""
    keep_per_key: int = 1
    last_value_fallback: str = ""
    """Property looked at when the key is absent; only Artemis's alias sets it."""
    last_value_place: str = MOVE_TO_TAIL
    """Where a replacement stands: at the tail, or (``keep-place``) where the pending message it replaces stood."""
    tombstone_ttl: int = UNLIMITED
    """A message with key and empty body is a tombstone: it replaces the key's value and expires after this long; 0 =
    shown to the consumers that are waiting and gone. -1: an empty body is a value like any other."""
    max_length: int = UNLIMITED
    max_bytes: int = UNLIMITED
    overflow: str = OVERFLOW_NONE
    """The effect of reaching ``max_length`` or ``max_bytes``; ``none`` ignores both. Arguments default it to ``ring``
    when a limit is given."""
    limit_counts: str = COUNT_READY
    """``all`` counts messages in delivery and scheduled ones too; they are never taken all the same."""
    resume_length: int = UNLIMITED
    """``block``: publishers go on at or below this many messages; -1 = 80 % of ``max_length``, rounded up."""
    resume_bytes: int = UNLIMITED
    """``block``: the same in bytes; -1 = 80 % of ``max_bytes``, rounded up."""
    evict: str = LEAST_IMPORTANT
    dropped_address: str = ""
    """Where what ring, key and overflow drop is sent; empty = nowhere."""

    # dispatch ---------------------------------------------------------------------------------------------------
    exclusive_consumer: bool = False
    """Artemis ``exclusive``: one consumer at a time gets everything, the others wait for its end."""
    single_active_consumer: bool = False
    """RabbitMQ's name for the same: the first consumer (highest priority, then oldest) is active."""
    live_consumers_max: int = UNLIMITED
    """Broker-J ``maximumLiveConsumers``: how many consumers are served; the two above are 1."""
    max_consumers: int = UNLIMITED
    """Attaching more is refused."""
    group_mode: str = GROUP_OFF
    group_key: str = ""
    """Property that names the group; empty = ``group-id``/``JMSXGroupID``."""
    group_buckets: int = UNLIMITED
    """-1 = every group by its name; 0 = grouping off; N = groups share N buckets by hash."""
    group_first_key: str = ""
    """Header set to true on the first message after each assignment."""
    group_rebalance: bool = False
    """A new consumer ends all assignments."""
    group_rebalance_pause: bool = False
    """... and dispatch waits until everything in delivery is settled or back."""
    default_group: str = ""
    """``shared``: the group of messages that name none; empty = ``qpid.no-group``."""
    non_destructive: bool = False
    """Every consumer reads every message; acknowledging removes nothing."""
    selector: str = ""
    """JMS selector; messages that do not match never enter the queue."""
    no_local: bool = False
    """Consumers do not get what their own connection published."""
    hot_properties: tuple[str, ...] = ()
    """Properties, at most 8, whose values are noted of messages on disk: selectors that demand one find it at once."""
    purge_on_no_consumers: bool = False
    consumers_before_dispatch: int = 0
    delay_before_dispatch: int = UNLIMITED
    """Dispatch starts this long after the first consumer even if ``consumers_before_dispatch`` is not reached."""
    fair_key: str = ""
    """Property whose values take turns (deficit round robin)."""
    fair_quantum: int = 0
    """Body bytes a value may send per turn; 0 = one message."""
    in_flight_per_key: int = UNLIMITED
    """Messages in delivery per value of ``fair_key``."""
    in_flight_max: int = UNLIMITED
    """Messages in delivery per queue."""

    # time -------------------------------------------------------------------------------------------------------
    consumer_timeout: int = UNLIMITED
    """A delivery that is not settled within this ends its consumer; 0 = never, -1 = the server's setting."""
    message_ttl: int = UNLIMITED
    min_ttl: int = UNLIMITED
    """A shorter life of a message is lengthened to this; it gives no life to a message without one."""
    max_ttl: int = UNLIMITED
    """A longer or unlimited life is shortened to this; wins over ``min_ttl``."""
    expires: int = UNLIMITED
    """The queue goes when unused for this long."""
    expiry_address: str = ""
    """Where expired messages are sent; empty = the dead-letter exchange if there is one, else nowhere."""
    redelivery_delay: int = 0
    redelivery_multiplier: float = 1.0
    max_redelivery_delay: int = UNLIMITED
    """-1 = ten times ``redelivery_delay`` (Artemis §3.2)."""
    redelivery_jitter: float = 0.0
    """Artemis's collision avoidance factor, 0 to 1: the delay varies by up to this share of itself."""
    max_delivery_attempts: int = UNLIMITED
    """Deliveries before a returned message is dead-lettered; RabbitMQ's ``x-delivery-limit`` N is N + 1."""
    dead_letter_address: str = ""
    dead_letter_exchange: str | None = None
    """RabbitMQ's form; "" is the default exchange. Expired messages and overflow victims go there as well."""
    dead_letter_routing_key: str | None = None
    """``None`` = the message's own routing key."""


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The settings of one consumer beside its credit."""

    priority: int = 0
    selector: str = ""
    browse: str = BROWSE_OFF
    """``follow``: the messages present at attach, then all arrivals; ``snapshot``: only the messages present at attach.
    A browser takes nothing away and acknowledges nothing."""
    auto_close: bool = False
    """A browser is cancelled when it has seen everything (Broker-J ``x-filter-auto-close``)."""
    no_local: bool = False
    replay_period: int = UNLIMITED
    """Broker-J ``x-qpid-replay-period`` in milliseconds: only messages accepted at most this long before the attach;
    0 = only those that arrive later."""
    consumer_timeout: int = UNLIMITED
    """A delivery that is not settled within this ends the consumer; 0 = never, -1 = the queue's setting."""

    @property
    def looks_at_all(self) -> bool:
        """Whether such a consumer looks at every message of its queue, not only at the next one."""
        return bool(self.browse or self.selector or self.no_local or self.replay_period >= 0)
