"""The plan of a pipeline as text: sources, transforms, sinks, their columns. Moves no data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.url import parse_url
from annulet.spark.pipeline.checkpoints import inspect
from annulet.spark.pipeline.definition import (
    ConsoleSink,
    ParquetSource,
    Pipeline,
    QueueSink,
    QueueSource,
    Sink,
    Source,
    without_password,
)
from annulet.spark.pipeline.errors import explain
from annulet.spark.pipeline.frames import lease_of, sink_schema
from annulet.spark.pipeline.queries import checkpoint_of, groups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def describe(spark: SparkSession, pipeline: Pipeline, frames: dict[str, DataFrame]) -> Iterator[str]:
    """Yield the plan line by line. Queues are inspected, nothing is taken from them.

    Raises :class:`annulet.spark.pipeline.errors.PipelineError` for expected failures.
    """
    yield f"pipeline {pipeline.name}: {pipeline.file}, trigger {pipeline.trigger}"
    for name, source in pipeline.sources.items():
        yield f"source {name}: {_source(pipeline, name, source)}"
        yield f"  columns {columns(frames[name].schema)}"
    for name, transform in pipeline.transforms.items():
        kind = f"python {transform.python}" if transform.python else "sql"
        yield f"transform {name}: {kind} of {', '.join(pipeline.used_by(name))}"
        yield f"  columns {columns(frames[name].schema)}"
    for group in groups(pipeline):
        checkpoint = inspect(checkpoint_of(pipeline, group))
        goes_on = f"goes on after batch {checkpoint.batch}" if checkpoint.batch >= 0 else "starts anew"
        yield f"query {group.input}: {group.mode}, {goes_on}, checkpoint {checkpoint.folder}"
        for name, sink in group.sinks.items():
            yield f"  sink {name}: {_sink(pipeline, sink)}"
            yield f"    columns {columns(sink_schema(spark, pipeline, name, frames))}"


def columns(schema: StructType) -> str:
    """Return columns and types on one line."""
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)


def _source(pipeline: Pipeline, name: str, source: Source) -> str:
    match source:
        case QueueSource():
            waiting, lag = depth(pipeline, name, source)
            how = how_read(pipeline, name, source)
            since = f", the oldest for {lag / 1000:,.1f} s" if waiting and lag is not None else ""
            return f"queue {source.queue} at {without_password(source.url)}, {how}, {waiting:,} waiting{since}"
        case ParquetSource():
            how = "snapshot" if source.snapshot else "stream"
            return f"parquet {pipeline.resolve(source.path)}, {how}"
        case _:
            return f"rate, {source.rows_per_batch} rows a batch"


def how_read(pipeline: Pipeline, name: str, source: QueueSource) -> str:
    """Return the use of a queue by its source, in the words of the plan."""
    if source.snapshot:
        return "snapshot"
    return (
        "stream that takes nothing" if source.non_destructive else f"stream by lease {lease_of(pipeline, name, source)}"
    )


def depth(pipeline: Pipeline, name: str, source: QueueSource) -> tuple[int, int | None]:
    """Return how many messages wait in a source's queue, and for how many milliseconds the oldest has.

    ``None``: unknown. Raises ``PipelineFileError`` if the broker cannot be reached.
    """
    try:
        url = parse_url(source.url)
        client = BulkClient(url, retry_seconds=source.retry_seconds)
        try:
            status = client.act(protocol.QueueStatus(virtual_host=url.virtual_host, queue=source.queue))
        finally:
            client.close()
    except Exception as error:  # the broker's errors, and those of its address
        raise pipeline.error(("sources", name), explain(error)) from error
    return int(status["pending"]), status.get("lag_milliseconds")


def _sink(pipeline: Pipeline, sink: Sink) -> str:
    match sink:
        case QueueSink():
            place = f"queue or exchange {sink.address}" if sink.address is not None else f"exchange {sink.exchange!r}"
            if sink.address is None and sink.exchange is None:
                place = "what the rows name"
            return f"{place} at {without_password(sink.url)}"
        case ConsoleSink():
            return f"console, {sink.rows} rows"
        case _:
            by = f" by {', '.join(sink.partition_by)}" if sink.partition_by else ""
            return f"parquet {pipeline.resolve(sink.path)}{by}"
