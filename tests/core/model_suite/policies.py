"""The axes of a queue and the policies on each: what the model tests are parametrised from and the matrix prints.

Domains are small (three keys, three groups, limits of a few messages) so that rules collide often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from annulet.core.base.settings import (
    AGEING,
    COUNT_ALL,
    GROUP_SHARED,
    GROUP_STICKY,
    KEEP_PLACE,
    LARGEST,
    LEAST_RECENT_KEY,
    NEWEST,
    OLDEST,
    OVERFLOW_BLOCK,
    OVERFLOW_PAGE,
    OVERFLOW_REJECT,
    OVERFLOW_RING,
    SOONEST_TO_EXPIRE,
    WEIGHTED,
    QueueSettings,
)

EXAMPLES = 10
"""Programs of each composition in ``make test``."""

SORT_KEY, LAST_VALUE_KEY, FAIR_KEY, COLOUR = "sort", "key", "tenant", "colour"

BROWSERS, SELECTORS, LOCAL, PRIORITIES, LIFETIMES, SCHEDULES = (
    "browsers", "selectors", "no-local", "consumer-priority", "lifetimes", "schedules",
)  # fmt: skip

TRAITS = {
    BROWSERS: "some consumers browse",
    SELECTORS: "consumers with selectors",
    LOCAL: "consumers that do not want what their connection published",
    PRIORITIES: "consumers of different priority",
    LIFETIMES: "messages with a time to live",
    SCHEDULES: "messages to be delivered later",
}
"""What a trait means, for the published matrix."""


@dataclass(frozen=True, eq=False)
class Policy:
    """One choice on one axis. ``traits`` are what its messages or consumers do that no queue setting says."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name


def policy(name: str, *traits: str, **settings: Any) -> Policy:
    return Policy(name, settings, frozenset(traits))


KEYED: dict[str, Any] = {"last_value_key": LAST_VALUE_KEY}
DROP_HEAD: dict[str, Any] = {"max_length": 3, "overflow": OVERFLOW_RING}
STICKY: dict[str, Any] = {"group_mode": GROUP_STICKY}
SHARED: dict[str, Any] = {"group_mode": GROUP_SHARED}
FAIR: dict[str, Any] = {"fair_key": FAIR_KEY}

ORDER = (
    policy("FIFO"),
    policy("strict priority", priorities=3),
    policy("x-max-priority", max_priority=2),
    policy("weighted priority", priorities=3, priority_discipline=WEIGHTED),
    policy("ageing priority", priorities=3, priority_discipline=AGEING, priority_age=4),
    policy("sorted", sort_key=SORT_KEY),
)
RETENTION = (
    policy("keep all"),
    policy("ring", ring_size=2),
    policy("last value", **KEYED),
    policy("last 2 per key", **KEYED, keep_per_key=2),
    policy("last value in a ring", **KEYED, ring_size=2),
    policy("keep-place", **KEYED, last_value_place=KEEP_PLACE),
    policy("tombstones", **KEYED, tombstone_ttl=5),
    policy("max-length", **DROP_HEAD),
    policy("max-bytes", max_bytes=8, overflow=OVERFLOW_RING),
    policy("max-length of all", **DROP_HEAD, limit_counts=COUNT_ALL),
    policy("overflow reject", max_length=3, max_bytes=12, overflow=OVERFLOW_REJECT),
    policy("overflow block", max_length=3, max_bytes=10, overflow=OVERFLOW_BLOCK),
    policy("overflow page", max_length=2, overflow=OVERFLOW_PAGE),
    policy("evict oldest", ring_size=2, evict=OLDEST),
    policy("evict newest", **DROP_HEAD, evict=NEWEST),
    policy("evict largest", max_bytes=8, overflow=OVERFLOW_RING, evict=LARGEST),
    policy("evict soonest to expire", LIFETIMES, ring_size=3, evict=SOONEST_TO_EXPIRE),
    policy("evict least recent key", **KEYED, keep_per_key=2, ring_size=3, evict=LEAST_RECENT_KEY),
    policy("dropped-address", ring_size=2, dropped_address="dropped"),
)
DISPATCH = (
    policy("competing"),
    policy("exclusive", exclusive_consumer=True),
    policy("single active", single_active_consumer=True),
    policy("2 live consumers", live_consumers_max=2),
    policy("sticky groups", **STICKY),
    policy("group buckets", **STICKY, group_buckets=2),
    policy("group rebalance", **STICKY, group_rebalance=True),
    policy("group rebalance with pause", **STICKY, group_rebalance=True, group_rebalance_pause=True),
    policy("shared groups", **SHARED),
    policy("shared groups by key", **SHARED, group_key=LAST_VALUE_KEY, default_group="a"),
    policy("non-destructive", non_destructive=True),
    policy("fair", **FAIR),
    policy("fair by bytes", **FAIR, fair_quantum=4),
    policy("fair with cap per key", **FAIR, in_flight_per_key=1),
)
CONSUMERS = (
    policy("plain consumers"),
    policy("consumer priority", PRIORITIES),
    policy("selectors", SELECTORS),
    policy("no-local", LOCAL),
    policy("browsers", BROWSERS),
    policy("selectors and priority", SELECTORS, PRIORITIES),
)
FLOW = (
    policy("no gate"),
    policy("cap per queue", in_flight_max=2),
    policy("dispatch gate", consumers_before_dispatch=2, delay_before_dispatch=6),
    policy("purge on no consumers", purge_on_no_consumers=True),
)
TIME = (
    policy("no time"),
    policy("message TTL", LIFETIMES),
    policy("queue TTL", message_ttl=8),
    policy("TTL bounds", LIFETIMES, min_ttl=3, max_ttl=10),
    policy("expiry address", LIFETIMES, expiry_address="expired"),
    policy("scheduled", SCHEDULES),
    policy("scheduled with TTL", SCHEDULES, LIFETIMES),
)
RETURNS = (
    policy("back at once"),
    policy("redelivery delay", redelivery_delay=3, redelivery_multiplier=2.0),
    policy("max attempts", max_delivery_attempts=2),
    policy("dead-letter address", max_delivery_attempts=2, dead_letter_address="dead"),
    policy("dead-letter exchange", dead_letter_exchange="dead"),
)

AXES: dict[str, tuple[Policy, ...]] = {
    "order": ORDER,
    "retention": RETENTION,
    "dispatch": DISPATCH,
    "consumers": CONSUMERS,
    "flow": FLOW,
    "time": TIME,
    "returns": RETURNS,
}
"""The design's four axes. Dispatch and time are split so that what can be combined within them is combined here."""


def compose(policies: tuple[Policy, ...]) -> QueueSettings:
    """Return the settings of policies of different axes together. No two axes set the same field."""
    settings: dict[str, Any] = {}
    for chosen in policies:
        assert not settings.keys() & chosen.settings.keys(), f"two axes set {settings.keys() & chosen.settings.keys()}"
        settings.update(chosen.settings)
    return QueueSettings(**settings)


def traits_of(policies: tuple[Policy, ...]) -> frozenset[str]:
    """Return what messages and consumers do under these policies."""
    return frozenset().union(*(chosen.traits for chosen in policies))
