"""Contradictory combinations of settings, as data: all others are legal.

A combination is refused if one of its settings could never have its effect beside the others. Merely unusual ones are
legal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from annulet.core.base.settings import (
    AGEING,
    GROUP_SHARED,
    KEEP_PLACE,
    LEAST_RECENT_KEY,
    OVERFLOW_BLOCK,
    OVERFLOW_PAGE,
    STRICT,
    UNLIMITED,
    WEIGHTED,
    QueueSettings,
)
from annulet.core.configuration.arguments.table import BY_FIELD
from annulet.core.configuration.arguments.values import shown

DEFAULTS: Final = QueueSettings()

ARTEMIS_LAST_VALUE_KEY: Final = "_AMQ_LVQ_NAME"
"""Artemis's key of a last-value queue without a key, and its fallback when the named property is absent."""


@dataclass(frozen=True, slots=True)
class Combination:
    """A contradiction: when ``holds`` is true of the settings they are refused with ``reason``, which has the remedy.

    ``fields`` are the settings involved. ``yields`` are those that give way if none of them was declared with the
    queue: an operator's rule for many queues must not prevent the declaration of one of them.
    """

    identifier: str
    fields: tuple[str, ...]
    yields: tuple[str, ...]
    holds: Callable[[QueueSettings], bool]
    reason: str

    def involved(self, settings: QueueSettings) -> tuple[str, ...]:
        """Return the fields involved that do not have their default value."""
        return tuple(field for field in self.fields if getattr(settings, field) != getattr(DEFAULTS, field))

    def text(self, settings: QueueSettings, origins: Mapping[str, str] | None = None) -> str:
        """Return the refusal: each argument involved with its value and, where known, its origin, then the reason."""
        parts = []
        for field in self.involved(settings):
            origin = "" if origins is None else origins.get(field, "")
            setting = BY_FIELD.get(field)
            name = "last-value-fallback" if setting is None else setting.argument
            value = getattr(settings, field)
            parts.append(
                f"'{name}' ({shown(list(value) if isinstance(value, tuple) else value)}{origin and ', ' + origin})"
            )
        return f"{' with '.join(parts)}: {self.reason}"


def levels(settings: QueueSettings) -> int:
    """Return the number of priority levels, 0 for none."""
    return settings.max_priority + 1 if settings.max_priority >= 0 else settings.priorities


def _grouping_asked(settings: QueueSettings) -> bool:
    return (
        bool(settings.group_key or settings.group_first_key or settings.default_group)
        or settings.group_buckets > 0
        or settings.group_rebalance
        or settings.group_rebalance_pause
    )


def _no_limit(settings: QueueSettings) -> bool:
    return settings.max_length == UNLIMITED and settings.max_bytes == UNLIMITED


_LEVELS: Final = ("priorities", "max_priority")
_DISCIPLINE: Final = ("priority_discipline", "priority_weights", "priority_age")
_GROUP_OPTIONS: Final = (
    "group_key",
    "group_buckets",
    "group_first_key",
    "group_rebalance",
    "group_rebalance_pause",
    "default_group",
)
_RETURNS: Final = (
    "redelivery_delay",
    "redelivery_multiplier",
    "max_redelivery_delay",
    "redelivery_jitter",
    "max_delivery_attempts",
)
_FLIGHT: Final = ("in_flight_per_key", "in_flight_max")

_ORDER: Final = (
    Combination(
        "sort-key-with-priorities",
        ("sort_key", *_LEVELS),
        _LEVELS,
        lambda settings: bool(settings.sort_key) and levels(settings) > 0,
        "a queue has one order; leave out 'x-sort-key', or the priorities",
    ),
    Combination(
        "sort-key-with-discipline",
        ("sort_key", "priority_discipline"),
        ("priority_discipline",),
        lambda settings: bool(settings.sort_key) and settings.priority_discipline != STRICT,
        "a sorted queue has no levels that could share or age; leave out 'x-priority-discipline'",
    ),
    Combination(
        "two-priority-scales",
        _LEVELS,
        ("priorities",),
        lambda settings: settings.priorities > 0 and settings.max_priority >= 0,
        "these number the levels in different ways; give 'x-priorities' (JMS, default 4) or 'x-max-priority' "
        "(RabbitMQ, default 0)",
    ),
    Combination(
        "discipline-without-levels",
        ("priority_discipline",),
        ("priority_discipline",),
        lambda settings: settings.priority_discipline != STRICT and levels(settings) == 0,
        "there are no levels to share or age; add 'x-priorities'",
    ),
    Combination(
        "weights-without-weighted",
        ("priority_weights", "priority_discipline"),
        ("priority_weights",),
        lambda settings: bool(settings.priority_weights) and settings.priority_discipline != WEIGHTED,
        "weights count only with 'x-priority-discipline' 'weighted'; add it or leave out 'x-priority-weights'",
    ),
    Combination(
        "weights-not-one-a-level",
        ("priority_weights", *_LEVELS),
        ("priority_weights",),
        lambda settings: bool(settings.priority_weights) and len(settings.priority_weights) != levels(settings),
        "give one weight for each level from level 0 up ('x-max-priority' N has N + 1 levels)",
    ),
    Combination(
        "age-without-ageing",
        ("priority_age", "priority_discipline"),
        ("priority_age",),
        lambda settings: settings.priority_age != DEFAULTS.priority_age and settings.priority_discipline != AGEING,
        "waiting raises no message without 'x-priority-discipline' 'ageing'; add it or leave out 'x-priority-age'",
    ),
)

_RETENTION: Final = (
    Combination(
        "keep-per-key-without-key",
        ("keep_per_key",),
        ("keep_per_key",),
        lambda settings: settings.keep_per_key != 1 and not settings.last_value_key,
        "this needs 'x-last-value-key'; to keep the last messages whatever their key, use 'x-ring-size'",
    ),
    Combination(
        "place-without-key",
        ("last_value_place",),
        ("last_value_place",),
        lambda settings: settings.last_value_place == KEEP_PLACE and not settings.last_value_key,
        "nothing is replaced without 'x-last-value-key'; add it",
    ),
    Combination(
        "tombstone-without-key",
        ("tombstone_ttl",),
        ("tombstone_ttl",),
        lambda settings: settings.tombstone_ttl != UNLIMITED and not settings.last_value_key,
        "an empty body deletes nothing without 'x-last-value-key'; add it, or use 'x-message-ttl'",
    ),
    Combination(
        "fallback-without-other-key",
        ("last_value_fallback", "last_value_key"),
        ("last_value_fallback",),
        lambda settings: (
            settings.last_value_fallback not in {"", ARTEMIS_LAST_VALUE_KEY}
            or (bool(settings.last_value_fallback) and settings.last_value_key in {"", ARTEMIS_LAST_VALUE_KEY})
        ),
        f"only '{ARTEMIS_LAST_VALUE_KEY}' can be the fallback, and for another key; declare 'last-value-key', which "
        "includes it",
    ),
    Combination(
        "oldest-key-without-key",
        ("evict", "last_value_key"),
        ("evict",),
        lambda settings: settings.evict == LEAST_RECENT_KEY and not settings.last_value_key,
        "there are no keys without 'x-last-value-key'; add it, or evict 'oldest'",
    ),
    Combination(
        "overflow-without-limit",
        ("overflow",),
        ("overflow",),
        # refusing without a limit is RabbitMQ's default form of a queue that must not drop: Celery, NServiceBus
        lambda settings: settings.overflow in {OVERFLOW_BLOCK, OVERFLOW_PAGE} and _no_limit(settings),
        "there is no limit to run over; add 'x-max-length' or 'x-max-bytes'",
    ),
    Combination(
        "resume-without-block",
        ("resume_length", "resume_bytes", "overflow"),
        ("resume_length", "resume_bytes"),
        lambda settings: (
            (settings.resume_length != UNLIMITED or settings.resume_bytes != UNLIMITED)
            and settings.overflow != OVERFLOW_BLOCK
        ),
        "only 'x-overflow' 'block' blocks publishers and resumes them; add it or leave the threshold out",
    ),
    Combination(
        "resume-length-above-limit",
        ("resume_length", "max_length"),
        ("resume_length",),
        lambda settings: settings.resume_length > settings.max_length,
        "publishers resume at or below the limit; give 'x-resume-length' at most 'x-max-length'",
    ),
    Combination(
        "resume-bytes-above-limit",
        ("resume_bytes", "max_bytes"),
        ("resume_bytes",),
        lambda settings: settings.resume_bytes > settings.max_bytes,
        "publishers resume at or below the limit; give 'x-resume-bytes' at most 'x-max-bytes'",
    ),
)

_DISPATCH: Final = (
    Combination(
        "one-active-and-several-live",
        ("exclusive_consumer", "single_active_consumer", "live_consumers_max"),
        ("live_consumers_max",),
        lambda settings: (
            (settings.exclusive_consumer or settings.single_active_consumer) and settings.live_consumers_max > 1
        ),
        "one active consumer and several live ones exclude each other; leave one of the arguments out",
    ),
    Combination(
        "group-options-without-mode",
        (*_GROUP_OPTIONS, "group_mode"),
        _GROUP_OPTIONS,
        lambda settings: not settings.group_mode and _grouping_asked(settings),
        "grouping is off; set 'x-group-mode' to 'sticky' or 'shared'",
    ),
    Combination(
        "default-group-of-sticky",
        ("default_group", "group_mode"),
        ("default_group",),
        lambda settings: bool(settings.default_group and settings.group_mode) and settings.group_mode != GROUP_SHARED,
        "messages without a group go to any consumer here; only 'x-group-mode' 'shared' has a default group",
    ),
    Combination(
        "pause-without-rebalance",
        ("group_rebalance_pause",),
        ("group_rebalance_pause",),
        lambda settings: settings.group_rebalance_pause and not settings.group_rebalance,
        "nothing is rebalanced; add 'x-group-rebalance'",
    ),
    Combination(
        "groups-of-non-destructive",
        ("group_mode", "non_destructive"),
        ("group_mode", *_GROUP_OPTIONS),
        lambda settings: bool(settings.group_mode) and settings.non_destructive,
        "each consumer of a non-destructive queue gets every message, so no consumer owns a group; leave one of them "
        "out",
    ),
    Combination(
        "groups-with-fair-key",
        ("group_mode", "fair_key"),
        ("fair_key",),
        lambda settings: bool(settings.group_mode) and bool(settings.fair_key),
        "fair turns and groups give the same message to different consumers; leave one of them out",
    ),
    Combination(
        "fair-key-of-non-destructive",
        ("fair_key", "non_destructive"),
        ("fair_key",),
        lambda settings: bool(settings.fair_key) and settings.non_destructive,
        "every consumer reads the queue at its own pace, so keys take no turns; leave one of them out",
    ),
    Combination(
        "in-flight-of-non-destructive",
        (*_FLIGHT, "non_destructive"),
        _FLIGHT,
        lambda settings: (
            settings.non_destructive
            and (settings.in_flight_per_key != UNLIMITED or settings.in_flight_max != UNLIMITED)
        ),
        "a non-destructive queue delivers copies, and no reader may delay another; limit the consumers' prefetch",
    ),
    Combination(
        "returns-of-non-destructive",
        (*_RETURNS, "non_destructive"),
        _RETURNS,
        lambda settings: (
            settings.non_destructive and (settings.redelivery_delay > 0 or settings.max_delivery_attempts != UNLIMITED)
        ),
        "no message returns to a non-destructive queue, because none leaves; leave delay and attempts out",
    ),
    Combination(
        "flight-per-key-without-key",
        ("in_flight_per_key",),
        ("in_flight_per_key",),
        lambda settings: settings.in_flight_per_key != UNLIMITED and not settings.fair_key,
        "this needs 'x-fair-key'; to limit the whole queue use 'x-in-flight-max'",
    ),
    Combination(
        "quantum-without-key",
        ("fair_quantum",),
        ("fair_quantum",),
        lambda settings: settings.fair_quantum != 0 and not settings.fair_key,
        "there are no keys to take turns without 'x-fair-key'; add it",
    ),
    Combination(
        "gate-never-opens",
        ("consumers_before_dispatch", "max_consumers"),
        ("consumers_before_dispatch",),
        lambda settings: (
            settings.max_consumers != UNLIMITED
            and settings.consumers_before_dispatch > settings.max_consumers
            and settings.delay_before_dispatch == UNLIMITED
        ),
        "this many consumers can never attach, and no message would be delivered; raise 'x-max-consumers' or add "
        "'x-delay-before-dispatch'",
    ),
    Combination(
        "gate-without-count",
        ("delay_before_dispatch",),
        ("delay_before_dispatch",),
        lambda settings: settings.delay_before_dispatch != UNLIMITED and settings.consumers_before_dispatch == 0,
        "dispatch does not wait, so the delay has no effect; add 'x-consumers-before-dispatch'",
    ),
)

_TIME: Final = (
    Combination(
        "two-dead-letter-targets",
        ("dead_letter_address", "dead_letter_exchange"),
        ("dead_letter_exchange", "dead_letter_routing_key"),
        lambda settings: bool(settings.dead_letter_address) and settings.dead_letter_exchange is not None,
        "a message dies once; give 'x-dead-letter-address' or 'x-dead-letter-exchange'",
    ),
    Combination(
        "routing-key-without-exchange",
        ("dead_letter_routing_key",),
        ("dead_letter_routing_key",),
        lambda settings: settings.dead_letter_routing_key is not None and settings.dead_letter_exchange is None,
        "a key needs 'x-dead-letter-exchange' ('' is the default exchange); add it",
    ),
    Combination(
        "backoff-without-delay",
        ("redelivery_multiplier", "max_redelivery_delay", "redelivery_jitter"),
        ("redelivery_multiplier", "max_redelivery_delay", "redelivery_jitter"),
        lambda settings: (
            settings.redelivery_delay == 0
            and (
                settings.redelivery_multiplier != DEFAULTS.redelivery_multiplier
                or settings.max_redelivery_delay != UNLIMITED
                or settings.redelivery_jitter != DEFAULTS.redelivery_jitter
            )
        ),
        "messages return at once, so there is no delay to change; add 'x-redelivery-delay'",
    ),
)

REFUSED: Final[tuple[Combination, ...]] = (*_ORDER, *_RETENTION, *_DISPATCH, *_TIME)
"""Every combination that is refused. The published matrix of compositions reads its refusals here."""


def refusal_for(settings: QueueSettings) -> Combination | None:
    """Return the first combination that refuses these settings, ``None`` when they are legal."""
    for combination in REFUSED:
        if combination.holds(settings):
            return combination
    return None
