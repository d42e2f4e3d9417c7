"""Streaming ``keep_last`` beside the same rule written with Spark's state API for each key, in one run.

``python -m benchmarks.spark_operators``: the same files, batch by batch, through both. The first two batches of a query
do not count: workers start, and the JVM has compiled little yet. Both find the same survivors, or the run fails.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from annulet.spark.operators import Columns, keep_last, survivors
from annulet.spark.session import local_session
from benchmarks.spark_streams import stream_rate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = Columns(sequence="number", queue=None)
BODY_BYTES: Final = 100
WARM_UP_BATCHES: Final = 2
"""Batches that do not count. Of 20,000 rows each ours took 2.3 s in the second one, 1.8 s in the fourth, 1.3 s in the
sixth: the JVM compiles what runs often."""


class LastOfOneKey(StatefulProcessor):
    """Keeps the last message of its key: one call and two state calls for each key of a batch."""

    def init(self, handle: Any) -> None:
        """Open the state."""
        self._last = handle.getValueState("last", "number bigint")

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Answer with the newest row and what it replaces."""
        del timerValues
        frame = pd.concat(rows)
        newest = frame.loc[frame["number"].idxmax()]
        before = self._last.get()
        self._last.update((int(newest["number"]),))
        yield pd.DataFrame(
            {
                "change": ["added"] + ["removed"] * (before is not None),
                "number": [newest["number"]] + ([] if before is None else [before[0]]),
                "key": key[0],
                "body": [newest["body"]] + ([] if before is None else [None]),
            }
        )

    def close(self) -> None:
        """Nothing is open."""


def write_input(directory: Path, batches: int, rows: int, keys: int) -> None:
    """Write one file for each batch: numbered rows with a random key and 100 octets."""
    chance = np.random.default_rng(7)
    for batch in range(batches):
        first = batch * rows
        table = pa.table(
            {
                "number": pa.array(range(first, first + rows), pa.int64()),
                "key": pa.array([f"sensor-{key}" for key in chance.integers(keys, size=rows)]),
                "body": pa.array([os.urandom(BODY_BYTES) for _ in range(rows)], pa.binary()),
            }
        )
        path = directory / f"{batch}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + batch, 1_700_000_000 + batch))  # files are taken by age


def survivors_of(spark: SparkSession, directory: Path, name: str) -> set[int]:
    """Return the numbers of what is left by the changes that a stream wrote."""
    changes = spark.read.parquet(str(directory / name))
    if "reason" not in changes.columns:
        changes = changes.selectExpr("*", "cast(null as string) as reason", "cast(null as bigint) as replaced_by")
    return {row.number for row in survivors(changes, columns=COLUMNS).select("number").collect()}


def for_each_key(stream: DataFrame) -> DataFrame:
    """Return the changes, one state per key."""
    return stream.groupBy("key").transformWithStateInPandas(
        LastOfOneKey(), "change string, number bigint, key string, body binary", "append", "none"
    )


@click.command()
@click.option("--keys", default=10_000, show_default=True, help="Distinct keys.")
@click.option("--rows", default=20_000, show_default=True, help="Rows of a batch.")
@click.option(
    "--batches",
    default=6,
    show_default=True,
    type=click.IntRange(min=WARM_UP_BATCHES + 1),
    help=f"Batches; the first {WARM_UP_BATCHES} do not count.",
)
def main(keys: int, rows: int, batches: int) -> None:
    """Compare streaming keep_last with the state API for each key."""
    spark = local_session("operators")
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        (directory / "in").mkdir()
        write_input(directory / "in", batches, rows, keys)
        rule = keep_last(1, "key", columns=COLUMNS, shards=2)
        sharded = stream_rate(spark, directory, "sharded", rule, WARM_UP_BATCHES)
        left = survivors_of(spark, directory, "sharded")
        by_key = stream_rate(spark, directory, "by-key", for_each_key, WARM_UP_BATCHES)
        expected = survivors_of(spark, directory, "by-key")
    spark.stop()
    if left != expected:
        raise click.ClickException(f"the survivors differ: {len(left)} and {len(expected)}")
    counted = batches - WARM_UP_BATCHES
    print(f"keep_last on {keys} keys, {counted} batches of {rows} rows after the warm-up, {len(left)} left in both")
    print(f"  annulet.spark keep_last   {sharded:10,.0f} rows/s")
    print(f"  state API for each key    {by_key:10,.0f} rows/s")
    print(f"  ratio                     {sharded / by_key:10.1f}")


if __name__ == "__main__":
    main()
