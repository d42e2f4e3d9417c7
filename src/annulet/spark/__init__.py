"""Spark side of Annulet: the data source, and a helper for local sessions. Imports without a running broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make ``format("annulet")`` known to a session; see :func:`annulet.spark.datasource.register`."""
    from annulet.spark.datasource import register as register_format  # noqa: PLC0415 - pyspark is optional

    register_format(spark)
