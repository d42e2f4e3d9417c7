"""The values used by rules, as Spark SQL expressions: the same for batches, replays and streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's name for it

from annulet.core.base.settings import LARGEST
from annulet.spark.operators.columns import BUCKET, GROUP, PREFIX, RANK, Columns
from annulet.spark.operators.rules import Rules

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SEQUENCE: Final = f"{PREFIX}sequence"
QUEUE: Final = f"{PREFIX}queue"
KEY: Final = f"{PREFIX}key"
IDENTIFIER: Final = f"{PREFIX}identifier"
LEVEL: Final = f"{PREFIX}level"
SIZE: Final = f"{PREFIX}size"
ACCEPTED: Final = f"{PREFIX}accepted"
EXPIRES: Final = f"{PREFIX}expires"


def named(name: str) -> Column:
    """Return the column of exactly this name, dots and all."""
    return F.col(f"`{name.replace('`', '``')}`")


def prepare(dataframe: DataFrame, rules: Rules, columns: Columns) -> DataFrame:
    """Add the values used by rules: keys without not-a-number, levels, sizes, times in milliseconds since 1970."""
    types = {field.name: field.dataType.simpleString() for field in dataframe.schema.fields}
    missing = F.raise_error(
        F.lit(
            f"column {columns.sequence!r} (the sequence) is null in a row; filter such rows out, or number them before"
        )
    )
    prepared = {
        SEQUENCE: F.coalesce(named(columns.sequence).cast("bigint"), missing.cast("bigint")),
        QUEUE: F.lit("") if columns.queue is None else _atom(columns.queue, types),
    }
    if rules.key:
        prepared[KEY] = _atom(rules.key, types)
    if rules.deduplicates:
        prepared[IDENTIFIER] = _atom(columns.message_id, types)
    if rules.needs_level:
        prepared[LEVEL] = _level(rules, columns)
    if rules.max_bytes >= 0 or (rules.evicts and rules.evict == LARGEST):
        prepared[SIZE] = F.coalesce(F.octet_length(named(columns.body)), F.lit(0)).cast("bigint")
    if rules.expires:
        prepared[ACCEPTED] = _accepted(rules, columns)
    if rules.needs_expiry:
        prepared[EXPIRES] = _expires(rules, columns)
    return dataframe.withColumns(prepared)


def with_order(dataframe: DataFrame, rules: Rules, columns: Columns) -> DataFrame:
    """Add the columns of rules of order and groups: ``rank``, ``group``, ``bucket``."""
    added: dict[str, Column] = {}
    types = {field.name: field.dataType.simpleString() for field in dataframe.schema.fields}
    if rules.sort_key:
        key = _without_nan(named(rules.sort_key), types[rules.sort_key])
        # Spark puts null first and compares text by octets of UTF-8, which is by code point
        added[RANK] = F.struct(key.alias("key"))
    elif rules.prioritised:
        level = _level(rules, columns)
        if rules.priority_age >= 0:
            key = F.unix_millis(named(columns.accepted_at)) - level.cast("bigint") * rules.priority_age
        else:
            key = -level.cast("bigint")
        added[RANK] = F.struct(key.alias("key"))
    if rules.grouped:
        name = F.coalesce(named(rules.group_key or columns.group).cast("string"), F.lit(""))
        default = F.lit(rules.default_group) if rules.default_group else F.lit(None).cast("string")
        added[GROUP] = F.when(name == "", default).otherwise(name)
        if rules.group_buckets > 0:
            # the default group is no name, so it is no bucket either
            bucket = F.pmod(F.crc32(F.encode(name, "UTF-8")), F.lit(rules.group_buckets)).cast("int")
            added[BUCKET] = F.when(name != "", bucket)
    return dataframe.withColumns(added) if added else dataframe


def _atom(name: str, types: dict[str, str]) -> Column:
    return _without_nan(named(name), types[name])


def _without_nan(column: Column, kind: str) -> Column:
    """Not-a-number equals nothing, so it is no key; minus zero is zero."""
    if kind not in ("float", "double"):
        return column
    return F.when(~F.isnan(column), column + F.lit(0.0).cast(kind))


def _level(rules: Rules, columns: Columns) -> Column:
    priority = F.coalesce(named(columns.priority).cast("bigint"), F.lit(rules.default_priority).cast("bigint"))
    level = F.least(priority - rules.level_offset, F.lit(rules.highest_level).cast("bigint"))
    return F.greatest(level, F.lit(0).cast("bigint")).cast("int")


def _accepted(rules: Rules, columns: Columns) -> Column:
    if max(rules.message_ttl, rules.min_ttl, rules.max_ttl) < 0 and rules.clock == "wall":
        return F.lit(0).cast("bigint")
    missing = F.raise_error(
        F.lit(f"column {columns.accepted_at!r} (the time of acceptance) is null in a row; expire(...) needs it")
    )
    return F.coalesce(F.unix_millis(named(columns.accepted_at)), missing.cast("bigint"))


def _expires(rules: Rules, columns: Columns) -> Column:
    """Return when a message expires, 0 for never: ``core.policies.expiry.expires_at`` without tombstones."""
    at = F.coalesce(F.unix_millis(named(columns.expires_at)), F.lit(0).cast("bigint"))
    accepted = _accepted(rules, columns)
    if rules.min_ttl >= 0:
        at = F.when(at != 0, F.greatest(at, accepted + rules.min_ttl)).otherwise(at)
    for life in (rules.message_ttl, rules.max_ttl):
        if life >= 0:
            ends_at = accepted + life
            at = F.when(at != 0, F.least(at, ends_at)).otherwise(ends_at)
    return at
