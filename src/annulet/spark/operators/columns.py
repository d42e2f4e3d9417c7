"""Which column is what, checked when the query is planned."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from annulet.core.base.settings import LARGEST
from annulet.spark.operators.rules import ARRIVAL, OperatorError, Rules

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
NUMBERS: Final = (*INTEGERS, "float", "double", "decimal")
ATOMS: Final = (*NUMBERS, "string", "binary", "boolean", "date", "timestamp", "timestamp_ntz")
"""Types whose values are equal or not, and have an order. One column has one type, so keys never mix types."""

PREFIX: Final = "__annulet_"
"""Columns of ours that live inside a plan only."""

CHANGE: Final = "change"
REASON: Final = "reason"
REPLACED_BY: Final = "replaced_by"
RANK: Final = "rank"
GROUP: Final = "group"
BUCKET: Final = "bucket"


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns that rules use; the defaults are those of ``format("annulet")``.

    Only columns that a rule needs have to exist. ``sequence`` and ``queue`` are always needed; with ``queue=None`` all
    rows are of one queue.
    """

    sequence: str = "position"
    """Integer, ascending in the order of acceptance and unique within a queue: it decides which message is newer."""
    queue: str | None = "queue"
    message_id: str = "message_id"
    priority: str = "priority"
    accepted_at: str = "enqueued_at"
    expires_at: str = "expires_at"
    body: str = "body"
    """Binary or string; its length in octets is the message's size."""
    group: str = "group_id"


def needed(rules: Rules, columns: Columns) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the columns used by the rules: the purpose of each, and its allowed types."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {columns.sequence: ("the sequence", INTEGERS)}
    if columns.queue is not None:
        found[columns.queue] = ("the queue", ATOMS)
    if rules.key:
        found[rules.key] = ("the key", ATOMS)
    if rules.sort_key:
        found[rules.sort_key] = ("the sort key", ATOMS)
    if rules.prioritised:
        found[columns.priority] = ("the priority", INTEGERS)
    if rules.grouped:
        found[rules.group_key or columns.group] = ("the group", ("string", *INTEGERS))
    if rules.deduplicates:
        found[columns.message_id] = ("the message id", ATOMS)
    if rules.max_bytes >= 0 or (rules.evicts and rules.evict == LARGEST):
        found[columns.body] = ("the body", ("binary", "string"))
    if rules.needs_expiry:
        found[columns.expires_at] = ("the time of expiry", ("timestamp",))
    lives = rules.expires and max(rules.message_ttl, rules.min_ttl, rules.max_ttl) >= 0
    if lives or (rules.expires and rules.clock == ARRIVAL) or rules.priority_age >= 0:
        found[columns.accepted_at] = ("the time of acceptance", ("timestamp",))
    return found


def check(schema: StructType, rules: Rules, columns: Columns, new: tuple[str, ...]) -> None:
    """Raise :class:`OperatorError` for a column that is missing, has a wrong type, or has the name of a new one."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if len(types) != len(schema.fields):
        raise OperatorError(
            f"columns {', '.join(schema.names)}: one name is there twice; rename one with select or alias"
        )
    for name, (purpose, allowed) in needed(rules, columns).items():
        if name not in types:
            near = difflib.get_close_matches(name, types, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(types)}."
            remedy = "name it with columns=Columns(...)"
            if name == columns.queue:
                remedy += ", or say Columns(queue=None) where all rows are of one queue"
            raise OperatorError(f"column {name!r} ({purpose}) is missing; {hint} Add it, or {remedy}")
        if types[name].partition("(")[0] not in allowed:
            raise OperatorError(
                f"column {name!r} ({purpose}) has type {types[name]}; it may be {', '.join(allowed)}: cast it before"
            )
    for name in new:
        if name in types:
            raise OperatorError(
                f"column {name!r} is there already, and the operator adds one of this name; rename yours with "
                f".withColumnRenamed({name!r}, ...). Rules that belong to one queue are put together with combine(...)"
            )
    for name in types:
        if name.startswith(PREFIX):
            raise OperatorError(f"column {name!r}: names that begin with {PREFIX} are the operators' own; rename it")


def order_columns(rules: Rules) -> tuple[str, ...]:
    """Return the columns that rules of order and groups add."""
    names: list[str] = []
    if rules.prioritised or rules.sort_key:
        names.append(RANK)
    if rules.grouped:
        names.append(GROUP)
        if rules.group_buckets > 0:
            names.append(BUCKET)
    return tuple(names)
