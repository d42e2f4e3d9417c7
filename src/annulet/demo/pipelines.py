"""The two Spark queries: departures to Parquet, and delay statistics back into a last-value queue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from annulet.demo.expected import DELAY_COLUMNS, LATE_MINUTES
from annulet.demo.topology import ARCHIVE, DELAYS, SLOT, STATISTICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MESSAGES_PER_TRIGGER: Final = 40_000
"""Messages of one micro-batch: large enough that Spark's cost per batch does not count, some 15 MB in memory."""

TRIGGER: Final = "1 second"
"""Shortest distance between two micro-batches; an earlier one would find few messages and cost as much."""

PROGRESS_KEPT: Final = 10_000
"""Progress reports a query keeps: all of a run, because the reconciliation adds them up."""

MESSAGE_COLUMNS: Final = "message_id,body"
"""The columns used by the queries.

With all columns a row costs the broker four times as much, 59 us instead of 14, because it decodes every property of a
message for them.
"""

FLIGHT_SCHEMA: Final = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, sched_arr_time INT, "
    "arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time INT, "
    "distance INT, hour INT, minute INT, time_hour STRING"
)
"""The body of a departure's message, as Spark reads JSON."""

DELAY_SCHEMA: Final = (
    "origin STRING, hour INT, departures LONG, cancelled LONG, delay_minutes LONG, delay_maximum INT, late LONG"
)
"""The body of a message of ``delays``."""

SETTINGS: Final = {
    "spark.sql.streaming.numRecentProgressUpdates": str(PROGRESS_KEPT),
    # A Java process of two minutes on two cores does not gain from its second compiler.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def register(spark: SparkSession) -> None:
    """Make ``format("annulet")`` known to a session."""
    from annulet.spark.datasource import AnnuletDataSource  # noqa: PLC0415  (only this command needs Spark)

    spark.dataSource.register(AnnuletDataSource)


def flights_of(messages: DataFrame) -> DataFrame:
    """Return the departures in messages: their columns, and ``row``, the message's number in publishing order."""
    from pyspark.sql import functions  # noqa: PLC0415

    body = functions.from_json(functions.col("body").cast("string"), FLIGHT_SCHEMA)
    row = functions.col("message_id").cast("long")
    return messages.select(row.alias("row"), body.alias("flight")).select("row", "flight.*")


def delays_of(flights: DataFrame) -> DataFrame:
    """Return the statistics of each origin and scheduled hour, in the columns of :data:`DELAY_SCHEMA`."""
    from pyspark.sql import functions  # noqa: PLC0415

    delay = functions.col("dep_delay")
    return flights.groupBy("origin", "hour").agg(
        functions.count(delay).alias("departures"),
        functions.count(functions.when(delay.isNull(), 1)).alias("cancelled"),
        functions.coalesce(functions.sum(delay), functions.lit(0)).alias("delay_minutes"),
        functions.max(delay).alias("delay_maximum"),
        functions.count(functions.when(delay >= LATE_MINUTES, 1)).alias("late"),
    )


def delay_messages(delays: DataFrame) -> DataFrame:
    """Return one message per row: the statistics as JSON, the slot as message property and identifier."""
    from pyspark.sql import functions  # noqa: PLC0415

    slot = functions.format_string("%s-%02d", "origin", "hour")
    return delays.select(
        slot.alias("message_id"),
        functions.lit("application/json").alias("content_type"),
        functions.create_map(functions.lit(SLOT), slot).alias("properties"),
        functions.to_json(functions.struct(*DELAY_COLUMNS), {"ignoreNullFields": "false"}).alias("body"),
    )


def _read(spark: SparkSession, url: str, queue: str) -> DataFrame:
    return (
        spark.readStream.format("annulet")
        .option("url", url)
        .option("queue", queue)
        .option("lease", f"demo-{queue}")
        .option("maxMessagesPerTrigger", MESSAGES_PER_TRIGGER)
        .option("columns", MESSAGE_COLUMNS)
        .load()
    )


def start_archive(spark: SparkSession, url: str, parquet: Path, checkpoints: Path) -> StreamingQuery:
    """Start the query that moves ``archive`` to Parquet, partitioned by month and origin, each message exactly once."""
    return (
        flights_of(_read(spark, url, ARCHIVE))
        .writeStream.queryName(ARCHIVE)
        .format("parquet")
        .option("path", str(parquet))
        .option("checkpointLocation", str(checkpoints / ARCHIVE))
        .partitionBy("month", "origin")
        .trigger(processingTime=TRIGGER)
        .start()
    )


def start_statistics(spark: SparkSession, url: str, checkpoints: Path) -> StreamingQuery:
    """Start the query that keeps the delay statistics of every slot current in the last-value queue ``delays``.

    Each batch publishes the slots that changed. Spark allows update mode for a Python sink only through
    ``foreachBatch``; ``writeId`` makes a repeated batch publish nothing twice.
    """
    return (
        delays_of(flights_of(_read(spark, url, STATISTICS)))
        .writeStream.queryName(STATISTICS)
        .outputMode("update")
        .option("checkpointLocation", str(checkpoints / STATISTICS))
        .trigger(processingTime=TRIGGER)
        .foreachBatch(publish_delays(url))
        .start()
    )


def publish_delays(url: str) -> Callable[[DataFrame, int], None]:
    """Return the function that publishes one batch of changed slots into ``delays``."""

    def publish(changed: DataFrame, batch: int) -> None:
        (
            delay_messages(changed)
            .write.format("annulet")
            .option("url", url)
            .option("address", DELAYS)
            .option("writeId", f"demo-{STATISTICS}-{batch}")
            .mode("append")
            .save()
        )

    return publish


def rows_read(query: StreamingQuery) -> int:
    """Return how many messages a query has processed so far, from its progress reports."""
    return sum(progress.numInputRows for progress in query.recentProgress)


def batches_done(query: StreamingQuery) -> int:
    """Return how many micro-batches with messages a query has finished."""
    return sum(progress.numInputRows > 0 for progress in query.recentProgress)


def states_changed(query: StreamingQuery) -> int:
    """Return how many changed slots a query's batches have published, as Spark's state store counted them."""
    return sum(
        operator.numRowsUpdated
        for progress in query.recentProgress
        if progress.numInputRows > 0
        for operator in progress.stateOperators
    )
