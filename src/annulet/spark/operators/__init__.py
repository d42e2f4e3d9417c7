"""Queue rules as operators on DataFrames: one function each, for batch and streaming DataFrames alike.

``readings.transform(keep_last(3, "sensor"))`` leaves the messages that a queue with this rule would have. Rules of one
queue are combined with :func:`combine`, in any order of arguments: the queue's own order applies (design §2). All
functions raise :class:`OperatorError`, a ``ValueError``, before anything runs. Imports without pyspark.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from annulet.core.base.settings import EVICTION_RULES, LEAST_IMPORTANT, OVERFLOW_BLOCK, OVERFLOW_NONE, OVERFLOW_PAGE
from annulet.core.host.duplicate_ids import ID_CACHE_SIZE
from annulet.spark.operators.columns import Columns
from annulet.spark.operators.operator import Operator, merge
from annulet.spark.operators.rules import ARRIVAL, CLOCKS, LEVELS_MAX, SHARDS, SHARDS_MAX, OperatorError, Rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = (
    "Columns",
    "Operator",
    "OperatorError",
    "assign_groups",
    "combine",
    "deduplicate",
    "expire",
    "keep_last",
    "last_value",
    "overflow",
    "prioritise",
    "ring",
    "sort_by",
    "survivors",
)

RING: Final = "ring"
REJECT: Final = "reject"
DEFAULT_LEVELS: Final = 10
"""JMS has ten priorities, 0 to 9."""


def keep_last(n: int, key: str, *, columns: Columns | None = None, shards: int = SHARDS) -> Operator:
    """Keep the last ``n`` messages of each value of column ``key``; a message without key (null) is never replaced."""
    return _operator(Rules(key=_name("key", key), keep=_number("n", n, 1)), columns, shards)


def last_value(key: str, *, columns: Columns | None = None, shards: int = SHARDS) -> Operator:
    """Keep the newest message of each value of column ``key``: ``keep_last(1, key)``."""
    return keep_last(1, key, columns=columns, shards=shards)


def ring(n: int, *, evict: str = LEAST_IMPORTANT, columns: Columns | None = None, shards: int = SHARDS) -> Operator:
    """Keep ``n`` messages of each queue; ``evict`` selects the victim, by default the oldest of the lowest level."""
    return _operator(Rules(ring_size=_number("n", n, 1), evict=_eviction(evict)), columns, shards)


def overflow(
    policy: str,
    *,
    max_length: int | None = None,
    max_bytes: int | None = None,
    evict: str = LEAST_IMPORTANT,
    columns: Columns | None = None,
    shards: int = SHARDS,
) -> Operator:
    """Limit each queue in messages and in octets of bodies: ``ring`` evicts, ``reject`` refuses the new message."""
    if policy in (OVERFLOW_BLOCK, OVERFLOW_PAGE, OVERFLOW_NONE):
        raise OperatorError(
            f"overflow policy {policy!r} removes nothing, and a DataFrame has no publisher to hold back; choose 'ring' "
            "or 'reject', or leave the operator out"
        )
    _choice("overflow policy", policy, (RING, REJECT))
    if max_length is None and max_bytes is None:
        raise OperatorError("overflow: no limit is given; give max_length=, max_bytes= or both")
    rules = Rules(
        max_length=_number("max_length", max_length, 0),
        max_bytes=_number("max_bytes", max_bytes, 0),
        refuses=policy == REJECT,
        evict=_eviction(evict),
    )
    return _operator(rules, columns, shards)


def prioritise(
    levels: int | None = None,
    *,
    max_priority: int | None = None,
    age: int | None = None,
    columns: Columns | None = None,
    shards: int = SHARDS,
) -> Operator:
    """Add ``rank``: ascending, then by sequence, is the order of dispatch of a priority queue.

    ``levels`` (10 unless given; fewer keep priority 4 in the middle) or RabbitMQ's ``max_priority``; ``age``:
    milliseconds of waiting that are worth a level.
    """
    if levels is not None and max_priority is not None:
        raise OperatorError("prioritise: levels and max_priority both number the levels; give one of them")
    if levels is None and max_priority is None:
        levels = DEFAULT_LEVELS
    rules = Rules(
        priorities=_number("levels", levels, 1, LEVELS_MAX),
        max_priority=_number("max_priority", max_priority, 0, LEVELS_MAX - 1),
        priority_age=_number("age", age, 1),
    )
    return _operator(rules, columns, shards)


def sort_by(key: str, *, columns: Columns | None = None, shards: int = SHARDS) -> Operator:
    """Add ``rank``: ascending by column ``key``, missing first (null and not-a-number), text by code point."""
    return _operator(Rules(sort_key=_name("key", key)), columns, shards)


def assign_groups(
    key: str = "",
    *,
    buckets: int | None = None,
    default: str = "",
    columns: Columns | None = None,
    shards: int = SHARDS,
) -> Operator:
    """Add ``group``, the name of each message's group, null for none, and with ``buckets`` also ``bucket``, from 0.

    ``key`` names a column instead of ``Columns.group``; ``default`` is the group of messages without one.
    """
    rules = Rules(
        grouped=True, group_key=key, group_buckets=_number("buckets", buckets, 1, 2**31 - 1), default_group=default
    )
    return _operator(rules, columns, shards)


def expire(
    *,
    message_ttl: int | None = None,
    min_ttl: int | None = None,
    max_ttl: int | None = None,
    clock: str = ARRIVAL,
    columns: Columns | None = None,
    shards: int = SHARDS,
) -> Operator:
    """Remove expired messages: column ``Columns.expires_at`` and the queue's times to live in milliseconds.

    ``clock="arrival"``: the time is when the latest message of the queue was accepted, so a run can be repeated;
    ``clock="wall"``: the time of the machine, with a timer in streams.
    """
    rules = Rules(
        expires=True,
        clock=_choice("clock", clock, CLOCKS),
        message_ttl=_number("message_ttl", message_ttl, 0),
        min_ttl=_number("min_ttl", min_ttl, 0),
        max_ttl=_number("max_ttl", max_ttl, 0),
    )
    return _operator(rules, columns, shards)


def deduplicate(
    window: int | None = ID_CACHE_SIZE, *, columns: Columns | None = None, shards: int = SHARDS
) -> Operator:
    """Drop a message whose id is among the latest ``window`` ids accepted by its queue; ``None``: among all of them.

    A message without id (null) is no duplicate.
    """
    return _operator(Rules(deduplicates=True, window=_number("window", window, 1)), columns, shards)


def combine(*operators: Operator, columns: Columns | None = None, shards: int | None = None) -> Operator:
    """Put rules of one queue together; ``columns`` and ``shards`` are for all of them."""
    return merge(operators, columns, None if shards is None else _number("shards", shards, 1, SHARDS_MAX))


def survivors(changes: DataFrame, *, columns: Columns | None = None) -> DataFrame:
    """Return the remaining rows after these changes of a stream, with the stream's own columns (a batch DataFrame)."""
    from annulet.spark.operators.batch import survivors_of  # noqa: PLC0415 - pyspark is optional

    return survivors_of(changes, columns or Columns())


def _operator(rules: Rules, columns: Columns | None, shards: int) -> Operator:
    return Operator(rules, columns or Columns(), _number("shards", shards, 1, SHARDS_MAX))


def _number(name: str, value: Any, least: int, most: int = 2**63 - 1) -> int:
    """Return a number within its bounds, -1 for ``None``."""
    if value is None:
        return -1
    limit = f"at least {least}" if most == 2**63 - 1 else f"{least} to {most}"
    if not isinstance(value, int) or isinstance(value, bool):
        raise OperatorError(f"{name}: {value!r} is not a whole number; give {limit}")
    if not least <= value <= most:
        raise OperatorError(f"{name}: {value} is out of range; give {limit}")
    return value


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise OperatorError(f"{name}: {value!r} is not the name of a column; give one, and add it before if need be")
    return value


def _choice(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise OperatorError(f"{name}: {value!r} is unknown; {hint}choose {', '.join(known)}")
    return str(value)


def _eviction(rule: str) -> str:
    return _choice("evict", rule, EVICTION_RULES)
