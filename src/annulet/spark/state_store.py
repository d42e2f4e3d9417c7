"""The setting of Spark that streams of operators and of the engine need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTING: Final = "spark.sql.streaming.stateStore.providerClass"

ROCKS_DB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

UNFIT: Final = "HDFSBackedStateStoreProvider"
"""Spark's default, which transformWithState refuses only when the query has begun. Providers of others are theirs."""


def why_unfit(spark: SparkSession) -> str:
    """Return why a stream with state cannot run in this session, with the remedy; empty when it can."""
    if not str(spark.conf.get(SETTING, UNFIT)).endswith(UNFIT):
        return ""
    return (
        f"streams keep their state in RocksDB, and this session does not: before the query starts, set "
        f'spark.conf.set("{SETTING}", "{ROCKS_DB}"), as local_session() does'
    )
