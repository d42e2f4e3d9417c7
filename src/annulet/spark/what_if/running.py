"""Many settings over one recording, each a task of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa  # at run time: Spark reads the annotations of functions it runs in tasks

from annulet.core.message.message import DEFAULT_PRIORITY
from annulet.spark.what_if.settings import Condition, Setting, WhatIfError
from annulet.spark.what_if.simulation import Result, simulate
from annulet.spark.what_if.traffic import Arrival

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTINGS_MAX: Final = 1000
"""Settings of one call: each gets the whole recording, and its result is returned to the driver."""

MESSAGES_MAX: Final = 5_000_000
"""Messages of a recording: a task has all of them in memory, about 1 KiB each."""

PRIORITY_MAX: Final = 255
"""AMQP 1.0 §3.2.1: a priority is an octet. The core keeps no other number of a message."""

COLUMNS: Final = ("enqueued_at", "queue", "position", "priority", "expires_at", "group_id", "body", "properties")
"""The columns of archived messages that a recording needs."""


def run_settings(messages: DataFrame, settings: Sequence[Setting]) -> list[Result]:
    """Return the result of each setting for ``messages``, in the order of ``settings``.

    ``messages`` has the columns of a read queue or an archive; its messages arrive at one queue, in the order of
    acceptance. Raises :class:`WhatIfError` for none, or too many.
    """
    from pyspark.sql import functions  # noqa: PLC0415 - settings and results are used without Spark

    sized = "size" in messages.columns  # of events, which have no bodies
    missing = [name for name in COLUMNS if name not in messages.columns and not (sized and name == "body")]
    if missing:
        raise WhatIfError(f"the recording has no column {', '.join(missing)}; give archived messages")
    if not 1 <= len(settings) <= SETTINGS_MAX:
        raise WhatIfError(f"{len(settings)} settings are out of range; vary less, at most {SETTINGS_MAX} in all")
    beyond = functions.when(~functions.col("priority").between(0, PRIORITY_MAX), 1)
    ((count, odd),) = messages.agg(functions.count(functions.lit(1)), functions.count(beyond)).collect()
    if not 1 <= count <= MESSAGES_MAX:
        raise WhatIfError(f"{count:,} messages are out of range, 1 to {MESSAGES_MAX:,}; choose by time and address")
    if odd:
        raise WhatIfError(f"priorities of {odd:,} messages are out of range, 0 to {PRIORITY_MAX}; null stands for none")
    spark = messages.sparkSession
    recording = messages.select(
        functions.unix_millis("enqueued_at").alias("at"),
        functions.col("size") if sized else functions.length("body").alias("size"),
        "priority",
        functions.coalesce(functions.unix_millis("expires_at"), functions.lit(0)).alias("expires_at"),
        functions.coalesce("group_id", functions.lit("")).alias("group_id"),
        functions.to_json("properties").alias("properties"),
        "queue",
        "position",
    )
    numbers = spark.range(0, len(settings), 1, 1).withColumnRenamed("id", "setting")
    each = recording.crossJoin(numbers).repartition(len(settings), "setting")
    rows = each.groupBy("setting").applyInArrow(_task(list(settings)), "setting BIGINT, result STRING").collect()
    found = {row["setting"]: msgspec.json.decode(row["result"], type=Result) for row in rows}
    return [found[number] for number in range(len(settings))]


def _task(settings: list[Setting]) -> Callable[[pa.Table], pa.Table]:
    """Return the function of a task for all rows of its setting."""

    def run(table: pa.Table) -> pa.Table:
        number = table.column("setting")[0].as_py()
        ordered = table.sort_by([("at", "ascending"), ("queue", "ascending"), ("position", "ascending")])
        result = simulate(settings[number], arrivals_of(ordered))
        return pa.table({"setting": [number], "result": [msgspec.json.encode(result).decode()]})

    return run


def arrivals_of(table: pa.Table) -> Iterator[Arrival]:
    """Yield the arrivals of a recording's rows."""
    for batch in table.to_batches():
        for row in batch.to_pylist():
            properties: dict[str, Any] = msgspec.json.decode(row["properties"]) if row["properties"] else {}
            yield Arrival(
                at=row["at"],
                size=row["size"] or 0,
                priority=DEFAULT_PRIORITY if row["priority"] is None else row["priority"],
                expires_at=row["expires_at"],
                group_id=row["group_id"],
                properties={name: value for name, value in properties.items() if value is not None},
            )


def smallest(
    settings: Sequence[Setting], results: Sequence[Result], goal: Sequence[Condition]
) -> tuple[Setting, Result] | None:
    """Return the first setting that meets every condition; ``None`` when none does."""
    for setting, result in zip(settings, results, strict=True):
        if all(condition.met(result.metric(condition.metric)) for condition in goal):
            return setting, result
    return None


def moment(milliseconds: int) -> datetime:
    """Return a time of a result."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
