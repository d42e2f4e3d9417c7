"""Spark side of Annulet: data source, queue rules as operators, local sessions. Imports without a running broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from annulet.spark.operators import (
    Columns,
    Operator,
    OperatorError,
    assign_groups,
    combine,
    deduplicate,
    expire,
    keep_last,
    last_value,
    overflow,
    prioritise,
    ring,
    sort_by,
    survivors,
)
from annulet.spark.packages import require_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    "register",
    "ring",
    "sort_by",
    "survivors",
)


def register(spark: SparkSession) -> None:
    """Make ``format("annulet")`` known to a session; see :func:`annulet.spark.datasource.register`.

    Raises ``ImportError`` without the packages of ``annulet[spark]``.
    """
    require_packages('format("annulet")')
    from annulet.spark.datasource import register as register_format  # noqa: PLC0415 - pyspark is optional

    register_format(spark)
