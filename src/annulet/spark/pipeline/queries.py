"""The queries of a pipeline: one for each input of a sink, so that no two take from the same queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annulet.spark.archive.table import Table
from annulet.spark.pipeline.definition import (
    ConsoleSink,
    ParquetSink,
    ParquetSource,
    Pipeline,
    QueueSink,
    QueueSource,
    Sink,
    streams,
)
from annulet.spark.pipeline.frames import BATCH_VIEW, queue_options
from annulet.spark.pipeline.triggers import AVAILABLE_NOW
from annulet.spark.query_ids import query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

Show = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Group:
    """The sinks of one input: one query, one checkpoint."""

    input: str
    sinks: dict[str, Sink]
    mode: str

    @property
    def staged(self) -> QueueSink | None:
        """The one sink that Spark's own streaming write can serve: a queue that gets all rows unchanged."""
        (first, *more) = self.sinks.values()
        if not more and isinstance(first, QueueSink) and not first.sql and first.mode == "append":
            return first
        return None


def groups(pipeline: Pipeline) -> list[Group]:
    """Return the queries a pipeline needs, in the order of its sinks."""
    found: dict[str, dict[str, Sink]] = {}
    for name, sink in pipeline.sinks.items():
        found.setdefault(sink.input, {})[name] = sink
    return [Group(view, sinks, next(iter(sinks.values())).mode) for view, sinks in found.items()]


def checkpoint_of(pipeline: Pipeline, group: Group) -> Path:
    """Return the folder of a query's checkpoint."""
    return pipeline.checkpoints / group.input


def inputs_of(pipeline: Pipeline, group: Group) -> dict[str, Any]:
    """Return the streaming sources of a query, for its checkpoint."""
    inputs = {}
    for name, source in pipeline.feeders(group.input).items():
        if not streams(source):
            continue
        match source:
            case QueueSource():
                inputs[name] = f"queue {source.queue}"
            case ParquetSource():
                inputs[name] = f"parquet {pipeline.resolve(source.path)}"
            case _:
                inputs[name] = "rate"
    return inputs


def start(pipeline: Pipeline, group: Group, frame: DataFrame, show: Show) -> StreamingQuery:
    """Start the query of a group. ``show`` prints the output of a console sink."""
    writer = (
        frame.writeStream.queryName(f"{pipeline.name}.{group.input}")
        .outputMode(group.mode)
        .option("checkpointLocation", str(checkpoint_of(pipeline, group)))
    )
    available_now = pipeline.trigger == AVAILABLE_NOW
    writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime=pipeline.trigger)
    if group.staged is not None:
        return writer.format("annulet").options(**queue_options(group.staged)).start()
    return writer.foreachBatch(_Fan(pipeline, group, show)).start()


class _Fan:
    """Gives each batch to every sink of a group. Each of them applies a repeated batch once, except the console."""

    def __init__(self, pipeline: Pipeline, group: Group, show: Show) -> None:
        self._sinks = group.sinks
        self._show = show
        self._tables = {
            name: Table(pipeline.resolve(sink.path))
            for name, sink in group.sinks.items()
            if isinstance(sink, ParquetSink)
        }

    def __call__(self, frame: DataFrame, batch: int) -> None:
        query = query_id(frame.sparkSession)
        if len(self._sinks) > 1:
            frame.persist()
        try:
            frame.createOrReplaceTempView(BATCH_VIEW)
            for name, sink in self._sinks.items():
                rows = frame.sparkSession.sql(sink.sql) if sink.sql else frame
                self._write(name, sink, rows, query, batch)
        finally:
            if len(self._sinks) > 1:
                frame.unpersist()

    def _write(self, name: str, sink: Sink, rows: DataFrame, query: str, batch: int) -> None:
        match sink:
            case QueueSink():
                writer = rows.write.format("annulet").mode("append").options(**queue_options(sink))
                writer.option("writeId", f"{query}.{name}").option("writeBatch", batch).save()
            case ParquetSink():
                self._tables[name].append(
                    rows, query, batch, partition_by=sink.partition_by, files=sink.files_per_batch
                )
            case ConsoleSink():
                # Spark's show() prints; this is the same table as text.
                shown: Any = rows.limit(sink.rows).toPandas()
                self._show(f"{name}: batch {batch}\n{shown.to_string(index=False) if len(shown) else '(no rows)'}")
