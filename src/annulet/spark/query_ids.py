"""The id of a streaming query: Spark keeps it for its checkpoint, so a repeated batch is known by it and its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY_PROPERTY: Final = "sql.streaming.queryId"
"""Local property of Spark with the id, on the driver and in tasks."""


def query_id(spark: SparkSession) -> str:
    """Return the id of the query whose batch runs on this thread."""
    found = spark.sparkContext.getLocalProperty(QUERY_PROPERTY)
    if found is None:
        raise RuntimeError(f"this Spark does not tell {QUERY_PROPERTY}; annulet needs Spark 4.3")
    return found
