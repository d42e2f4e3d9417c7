"""Streaming queries over files, batch by batch, measured: what the benchmarks on Spark share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_SECONDS: Final = 600


def stream_rate(
    spark: SparkSession, directory: Path, name: str, rule: Callable[[DataFrame], DataFrame], warm_up_batches: int
) -> float:
    """Run a stream through ``rule`` to its end. Returns the rows a second it took in after the first batches.

    A batch is a Parquet file of ``directory / "in"``, the oldest first; what comes out goes to ``directory / name``.
    Raises :class:`click.ClickException` when it is not done after ``PATIENCE_SECONDS``.
    """
    schema = spark.read.parquet(str(directory / "in")).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory / "in"))
    query = (
        rule(stream)
        .writeStream.format("parquet")
        .option("path", str(directory / name))
        .option("checkpointLocation", str(directory / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if not query.awaitTermination(PATIENCE_SECONDS):
        query.stop()
        raise click.ClickException(f"{name}: not done after {PATIENCE_SECONDS} s")
    counted = [progress for progress in query.recentProgress if progress["numInputRows"]][warm_up_batches:]
    seconds = sum(progress["durationMs"]["triggerExecution"] for progress in counted) / 1000
    return float(sum(progress["numInputRows"] for progress in counted) / seconds)
