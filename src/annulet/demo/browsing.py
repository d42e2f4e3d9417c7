"""Reads queues and files through Spark, without removing anything, for the reconciliation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from annulet.demo.pipelines import DELAY_SCHEMA, flights_of
from annulet.demo.topology import SLOT

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession


def browse(spark: SparkSession, url: str, queue: str) -> DataFrame:
    """Return a queue's messages at this moment, in queue order by ``position``. Changes nothing in the queue."""
    return spark.read.format("annulet").option("url", url).option("queue", queue).load().orderBy("position")


def browse_flights(spark: SparkSession, url: str, queue: str) -> pd.DataFrame:
    """Return the departures in a queue, oldest first."""
    return flights_of(browse(spark, url, queue)).toPandas()


def browse_delays(spark: SparkSession, url: str, queue: str) -> dict[str, dict[str, Any]]:
    """Return the latest statistics of each slot. Two messages of one slot would be a defect of the queue: an error."""
    from pyspark.sql import functions  # noqa: PLC0415

    body = functions.from_json(functions.col("body").cast("string"), DELAY_SCHEMA)
    rows = browse(spark, url, queue).select(functions.col("properties")[SLOT].alias(SLOT), body.alias("body")).collect()
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row[SLOT] in found:
            raise ValueError(
                f"queue {queue!r} holds two messages with {SLOT} {row[SLOT]!r}; a last-value queue keeps one"
            )
        found[row[SLOT]] = row["body"].asDict()
    return found


def read_archive(spark: SparkSession, parquet: Path) -> pd.DataFrame:
    """Return the archived departures in publishing order."""
    return spark.read.parquet(str(parquet)).orderBy("row").toPandas()


def partition_counts(spark: SparkSession, parquet: Path) -> dict[tuple[int, str], int]:
    """Return the rows of each Parquet partition, counted by Spark from the folders' names."""
    counts = spark.read.parquet(str(parquet)).groupBy("month", "origin").count().collect()
    return {(int(row["month"]), str(row["origin"])): int(row["count"]) for row in counts}
