"""From one checkpoint to another: other numbers of shards, other versions, by way of Spark's state reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812 - the field's name for it

from annulet.spark.engine.journal import KINDS
from annulet.spark.engine.portable import HEAD, PIECE_COLUMNS, FrozenState, pieces_of
from annulet.spark.engine.streaming import SHARD, shard_of
from annulet.spark.parcels import sealed_function

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, GroupedData, SparkSession

PIECE_SCHEMA: Final = "queue string, kind string, blob binary"


def checkpoint_state(spark: SparkSession, checkpoint: str, *, portable: bool = False) -> DataFrame:
    """Return the state of an engine's query by queue: ``queue``, ``kind``, ``blob``. The query must not be running.

    ``checkpoint``: its ``checkpointLocation``. ``portable``: as commands that other versions read as well; consumers
    and sessions end, and messages in delivery return as redelivered. A read fails with
    :class:`~annulet.spark.engine.errors.EngineStateError` when another version wrote the checkpoint.
    """

    def state(variable: str) -> DataFrame:
        reader = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", variable)
        return reader.load()

    heads = state(HEAD).select(
        F.col("key.shard").alias(SHARD), F.lit(HEAD).alias("kind"), F.lit(0).cast("bigint").alias("number"),
        F.col("value.document").cast("binary").alias("blob"),
    )  # fmt: skip
    rows = heads
    for kind in KINDS:
        rows = rows.union(
            state(kind).select(
                F.col("key.shard"), F.lit(kind), F.col("user_map_key.number"), F.col("user_map_value.blob")
            )
        )

    def split(frame: pd.DataFrame) -> pd.DataFrame:
        blobs = list(zip(frame["kind"], map(int, frame["number"]), map(bytes, frame["blob"]), strict=True))
        heads = [blob.decode() for kind, _, blob in blobs if kind == HEAD]
        frozen = FrozenState(heads[0], (one for one in blobs if one[0] != HEAD))
        return pd.DataFrame(pieces_of(frozen, portable=portable), columns=PIECE_COLUMNS)

    return rows.groupBy(SHARD).applyInPandas(sealed_function(split), PIECE_SCHEMA)


def initial_state(state: DataFrame, shards: int) -> GroupedData:
    """Return the initial state for ``engine(commands, shards=shards, initial=...)``.

    ``state``: what :func:`checkpoint_state` returned, or a file it was written to. ``shards``: those of the new query.
    """
    everyone = F.sequence(F.lit(0), F.lit(shards - 1))
    placed = F.explode(F.when(F.col("queue").isNull(), everyone).otherwise(F.array(shard_of("queue", shards))))
    return state.select(placed.alias(SHARD), "queue", "kind", "blob").groupBy(SHARD)
