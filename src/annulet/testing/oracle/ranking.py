"""Which message is next, which one must go, and until when it lives: the rules about one message and its settings."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from annulet.core.base.settings import (
    AGEING,
    LARGEST,
    LEAST_IMPORTANT,
    LEAST_RECENT_KEY,
    NEWEST,
    OLDEST,
    RETENTION_SETTINGS,
    SOONEST_TO_EXPIRE,
    WEIGHTED,
    QueueSettings,
)
from annulet.core.message.message import DEFAULT_PRIORITY, PropertyValue

if TYPE_CHECKING:
    from annulet.testing.oracle.records import OracleMessage, Rank

CENTRED_LEVELS = 10  # below ten levels Broker-J keeps JMS's 4 in the middle
FIFO, PRIORITY, SORTED = "fifo", "priority", "sorted"


def kind_of_order(settings: QueueSettings) -> str:
    """Return which of the three orders the settings select."""
    if settings.sort_key:
        return SORTED
    return PRIORITY if settings.priorities or settings.max_priority >= 0 else FIFO


def stands_at_head_when_due(settings: QueueSettings) -> bool:
    """Return whether a scheduled message that falls due goes before the backlog of its level (else it just arrives)."""
    order = kind_of_order(settings)
    return order == FIFO or (order == PRIORITY and settings.priority_discipline not in (WEIGHTED, AGEING))


def level_of(settings: QueueSettings, priority: int | None) -> int:
    """Return the level of a priority, 0 is the lowest (qpid §3; RabbitMQ for ``max_priority``)."""
    if kind_of_order(settings) != PRIORITY:
        return 0
    if settings.max_priority >= 0:
        return min(max(0 if priority is None else priority, 0), settings.max_priority)
    levels = settings.priorities
    offset = 5 - (levels + 1) // 2 if levels < CENTRED_LEVELS else 0
    return min(max((DEFAULT_PRIORITY if priority is None else priority) - offset, 0), levels - 1)


def share_of(settings: QueueSettings, level: int) -> int:
    """Return the weight of a level."""
    return settings.priority_weights[level] if settings.priority_weights else level + 1


def sort_rank(value: PropertyValue) -> tuple[int, PropertyValue]:
    """Order of a sort key: missing and NaN, numbers, text by code point, bytes, truth values, the rest as shown."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return 0, 0
    if isinstance(value, bool):
        return 4, value
    for kind, types in ((1, (int, float)), (2, (str,)), (3, (bytes,))):
        if isinstance(value, types):
            return kind, value
    return 5, repr(value)


def fixed_rank(settings: QueueSettings, message: OracleMessage) -> Rank:
    """Return the rank in every order but ``weighted``, whose ranks depend on earlier deliveries."""
    order = kind_of_order(settings)
    if order == SORTED:
        return sort_rank(message.properties.get(settings.sort_key))
    if order == FIFO:
        return ()
    if settings.priority_discipline == AGEING:
        return (message.pending_since - message.level * settings.priority_age,)
    return (-message.level,)


def is_tombstone(settings: QueueSettings, message: OracleMessage) -> bool:
    """Return whether the message deletes its key's value."""
    return settings.tombstone_ttl >= 0 and message.size == 0 and key_of(settings, message) is not None


def expiry_of(settings: QueueSettings, message: OracleMessage) -> int:
    """Return when a message expires, 0 for never: the smaller of its own and the queue's time, then min, then max."""
    lives: list[int] = [message.own_expiry] if message.own_expiry else []
    if settings.message_ttl >= 0:
        lives.append(message.accepted_at + settings.message_ttl)
    if lives and settings.min_ttl >= 0:
        lives = [max(min(lives), message.accepted_at + settings.min_ttl)]
    if settings.max_ttl >= 0:
        lives.append(message.accepted_at + settings.max_ttl)
    if message.arrived and is_tombstone(settings, message):
        lives.append(message.life_from + settings.tombstone_ttl)
    return min(lives, default=0)


def key_of(settings: QueueSettings, message: OracleMessage) -> tuple[str, PropertyValue] | None:
    """Return the last-value key by type and value, ``None`` without one."""
    if not settings.last_value_key:
        return None
    value = message.properties.get(settings.last_value_key)
    if value is None and settings.last_value_fallback:
        value = message.properties.get(settings.last_value_fallback)
    return None if value is None else (type(value).__name__, value)


def superseded_by_key(settings: QueueSettings, message: OracleMessage, newer: list[OracleMessage]) -> bool:
    """Return whether ``keep_per_key`` of the newer messages have its key."""
    key = key_of(settings, message)
    return key is not None and sum(key_of(settings, each) == key for each in newer) >= settings.keep_per_key


SUPERSEDING: dict[str, Callable[[QueueSettings, OracleMessage, list[OracleMessage]], bool]] = {
    "last_value_key": superseded_by_key,
}
"""The retention rules by the settings that ask for them: whether newer arrivals supersede a message.

Each is false where its setting does not ask.
"""

for setting in RETENTION_SETTINGS:
    if setting not in SUPERSEDING:
        raise TypeError(f"retention rule '{setting}': SUPERSEDING in testing/oracle/ranking.py lacks it; add it")


def victim(
    settings: QueueSettings, pending: list[OracleMessage], last_arrival: dict[tuple[str, PropertyValue], int]
) -> OracleMessage:
    """Return the victim by the ``evict`` rule; among equals the oldest. ``last_arrival``: of each key."""

    def importance(message: OracleMessage) -> tuple[float, ...]:
        key = key_of(settings, message)
        expires_at = expiry_of(settings, message)
        measures = {
            LEAST_IMPORTANT: message.level,
            OLDEST: 0,
            NEWEST: 0,
            LARGEST: -message.size,
            SOONEST_TO_EXPIRE: expires_at or math.inf,
            LEAST_RECENT_KEY: 0 if key is None else last_arrival[key],  # without a key before all keys
        }
        return (measures[settings.evict], *message.place)

    if settings.evict == NEWEST:
        return max(pending, key=lambda message: message.place)
    return min(pending, key=importance)
