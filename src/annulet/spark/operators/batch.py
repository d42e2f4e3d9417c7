"""Rules over a batch DataFrame: window functions where ranks decide, a replay where the course of events does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the field's name for it

from annulet.core.base.settings import LARGEST, NEWEST, SOONEST_TO_EXPIRE
from annulet.core.policies.eviction import LATEST_EXPIRY
from annulet.spark.operators.columns import CHANGE, PREFIX, REASON, REPLACED_BY, Columns
from annulet.spark.operators.expressions import (
    ACCEPTED,
    EXPIRES,
    IDENTIFIER,
    KEY,
    LEVEL,
    QUEUE,
    SEQUENCE,
    SIZE,
    named,
    prepare,
    with_order,
)
from annulet.spark.operators.rules import ARRIVAL, OperatorError, Rules, path_dependence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PLACE = f"{PREFIX}place"
TIE = f"{PREFIX}tie"
CLOCK = f"{PREFIX}clock"


def apply_to_batch(dataframe: DataFrame, rules: Rules, columns: Columns, shards: int) -> DataFrame:
    """Return the rows that are left, with the columns of order and groups. Of a stream: rules without memory only."""
    if not rules.stateful:
        return with_order(dataframe, rules, columns)
    if path_dependence(rules):
        from annulet.spark.operators.streaming import replay  # noqa: PLC0415 - only here

        left = replay(dataframe, rules, columns, shards)
    else:
        left = _choose(prepare(dataframe, rules, columns), rules, columns)
    return with_order(left.select(*(named(name) for name in dataframe.columns)), rules, columns)


def _choose(rows: DataFrame, rules: Rules, columns: Columns) -> DataFrame:
    """Apply the rules one after the other, in the order in which a queue does."""
    newest = F.col(SEQUENCE).desc()
    evicts_bytes = rules.evicts and rules.max_bytes >= 0
    if rules.expires:  # before removals: messages replaced or dropped later also determine the time
        rows = rows.withColumn(CLOCK, _clock(rules))
    if rules.deduplicates:
        rows = _first(rows, 1, [QUEUE, IDENTIFIER], [F.col(SEQUENCE)], columns, unless=F.col(IDENTIFIER).isNull())
    if evicts_bytes:
        rows = rows.where(F.col(SIZE) <= rules.max_bytes)
    if rules.key:
        rows = _first(rows, rules.keep, [QUEUE, KEY], [newest], columns, unless=F.col(KEY).isNull())
    if rules.expires:
        rows = rows.where((F.col(EXPIRES) == 0) | (F.col(EXPIRES) > F.col(CLOCK)))
    limits = [limit for limit in (rules.ring_size, rules.max_length) if limit >= 0]
    if limits:
        order = [F.col(SEQUENCE)] if rules.refuses else _importance(rules)
        rows = _first(rows, min(limits), [QUEUE], order, columns)
    if evicts_bytes:
        window = Window.partitionBy(QUEUE).orderBy(newest).rowsBetween(Window.unboundedPreceding, 0)
        rows = rows.withColumn(PLACE, F.sum(SIZE).over(window)).where(F.col(PLACE) <= rules.max_bytes)
    return rows


def _first(
    rows: DataFrame,
    count: int,
    partition: list[str],
    order: list[Column],
    columns: Columns,
    unless: Column | None = None,
) -> DataFrame:
    """Keep the first ``count`` rows of each partition, and those ``unless``. A repeated sequence fails."""
    window = Window.partitionBy(*partition).orderBy(*order)
    tie = F.raise_error(
        F.concat(
            F.lit(f"column {columns.sequence!r} (the sequence) has a value twice in one queue: "),
            F.col(SEQUENCE).cast("string"),
            F.lit("; nothing says which is newer. Number the rows uniquely before"),
        )
    ).cast("int")
    fits = F.col(PLACE) <= count
    if unless is not None:
        fits = unless | fits
    # without a key the order cannot be ambiguous, so null partitions are not checked
    tied = F.lag(SEQUENCE).over(window) == F.col(SEQUENCE)
    if unless is not None:
        tied = ~unless & tied
    placed = rows.withColumns({PLACE: F.row_number().over(window), TIE: tied})
    return placed.where(F.when(F.col(TIE), tie == 0).otherwise(fits)).drop(PLACE, TIE)


def _importance(rules: Rules) -> list[Column]:
    """Return the order whose last rows are evicted first; the older of equals is evicted first
    (``core.policies.eviction``).
    """
    newest = F.col(SEQUENCE).desc()
    if rules.evict == NEWEST:
        return [F.col(SEQUENCE).asc()]
    if rules.evict == LARGEST:
        return [F.col(SIZE).asc(), newest]
    if rules.evict == SOONEST_TO_EXPIRE:
        return [F.when(F.col(EXPIRES) == 0, F.lit(LATEST_EXPIRY)).otherwise(F.col(EXPIRES)).desc(), newest]
    if rules.needs_level:
        return [F.col(LEVEL).desc(), newest]
    return [newest]


def _clock(rules: Rules) -> Column:
    """Return the latest time a message saw: that of any later arrival, or that of the machine."""
    if rules.clock == ARRIVAL:
        return F.max(ACCEPTED).over(
            Window.partitionBy(QUEUE).orderBy(SEQUENCE).rowsBetween(0, Window.unboundedFollowing)
        )
    return F.unix_millis(F.current_timestamp())


def survivors_of(changes: DataFrame, columns: Columns) -> DataFrame:
    """Return the rows that were added and not removed."""
    if changes.isStreaming:
        raise OperatorError("survivors: the changes are a stream; write them to a table, and read that as a batch")
    for name in (CHANGE, REASON, REPLACED_BY, columns.sequence):
        if name not in changes.columns:
            raise OperatorError(f"survivors: column {name!r} is missing; give what an operator made of a stream")
    identity = [columns.sequence] if columns.queue is None else [columns.queue, columns.sequence]
    added = changes.where(F.col(CHANGE) == "added").drop(CHANGE, REASON, REPLACED_BY)
    removed = changes.where(F.col(CHANGE) == "removed").select(
        *(named(name).alias(f"{PREFIX}{name}") for name in identity)
    )
    same = F.lit(True)
    for name in identity:
        same = same & named(name).eqNullSafe(named(f"{PREFIX}{name}"))
    return added.join(removed, same, "left_anti")
