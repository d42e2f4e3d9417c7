"""The data frames of a pipeline: sources, transforms, and the columns each sink needs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from annulet.bulk.protocol.errors import BulkError
from annulet.spark.archive.table import INSIDE, Table
from annulet.spark.options import OptionError, WriteOptions
from annulet.spark.pipeline.definition import (
    ParquetSink,
    ParquetSource,
    Pipeline,
    QueueSink,
    QueueSource,
    RateSource,
    Source,
    Transform,
)
from annulet.spark.pipeline.errors import explain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

BATCH_VIEW = "batch"
"""The view that the ``sql`` of a sink reads."""


def build_frames(spark: SparkSession, pipeline: Pipeline) -> dict[str, DataFrame]:
    """Return the data frame of each source and transform, by name; each is a temporary view of the session too.

    Raises :class:`annulet.spark.pipeline.errors.PipelineFileError` for the first that cannot be built.
    """
    frames: dict[str, DataFrame] = {}
    for name, source in pipeline.sources.items():
        frames[name] = _guarded(pipeline, ("sources", name), partial(read, spark, pipeline, name, source))
        frames[name].createOrReplaceTempView(name)
    for name, transform in pipeline.transforms.items():
        frames[name] = _transformed(spark, pipeline, name, transform, frames)
        frames[name].createOrReplaceTempView(name)
    return frames


def _guarded(pipeline: Pipeline, path: tuple[str, ...], work: Callable[[], DataFrame]) -> DataFrame:
    try:
        return work()
    except Exception as error:  # Spark, the file system and the user's code each have their own
        raise pipeline.error(path, explain(error)) from error


def read(spark: SparkSession, pipeline: Pipeline, name: str, source: Source) -> DataFrame:
    """Return the data frame of one source."""
    match source:
        case QueueSource():
            return _read_queue(spark, pipeline, name, source)
        case ParquetSource():
            return _read_parquet(spark, pipeline, source)
        case RateSource():
            reader = spark.readStream.format("rate-micro-batch")
            return reader.option("rowsPerBatch", source.rows_per_batch).load()


def _read_queue(spark: SparkSession, pipeline: Pipeline, name: str, source: QueueSource) -> DataFrame:
    from pyspark.sql import functions  # noqa: PLC0415 - files are checked without Spark

    common: dict[str, Any] = {
        "url": source.url,
        "queue": source.queue,
        "partitions": source.partitions,
        "retrySeconds": source.retry_seconds,
    }
    if source.selector:
        common["selector"] = source.selector
    if source.snapshot:
        frame = spark.read.format("annulet").options(**common).load()
    else:
        frame = spark.readStream.format("annulet").options(**common, **_stream_options(pipeline, name, source)).load()
    if source.json_schema:
        body = functions.col("body").cast("string")
        frame = frame.withColumn("json", functions.from_json(body, source.json_schema))
    return frame


def _stream_options(pipeline: Pipeline, name: str, source: QueueSource) -> dict[str, Any]:
    options: dict[str, Any] = {
        "maxMessagesPerTrigger": source.messages_per_trigger,
        "maxBytesPerTrigger": source.bytes_per_trigger,
        "failOnDataLoss": source.fail_on_data_loss,
    }
    if not source.non_destructive:
        lease = lease_of(pipeline, name, source)
        return {**options, "lease": lease, "onExistingLease": source.on_existing_lease}
    if source.lease:
        raise OptionError(f"lease {source.lease!r} has no meaning beside non_destructive = true; leave one of them out")
    return {**options, "nonDestructive": True}


def lease_of(pipeline: Pipeline, name: str, source: QueueSource) -> str:
    """Return the name of a source's lease."""
    return source.lease or f"{pipeline.name}.{name}"


def _read_parquet(spark: SparkSession, pipeline: Pipeline, source: ParquetSource) -> DataFrame:
    folder = pipeline.resolve(source.path)
    if (folder / INSIDE).is_dir():
        if source.snapshot:
            return Table(folder).read(spark)
        raise OptionError(
            f"{folder} is written by annulet and may be compacted: a stream would read rows twice; set snapshot = true"
        )
    snapshot = spark.read.parquet(str(folder))
    if source.snapshot:
        return snapshot
    reader = spark.readStream.schema(snapshot.schema).option("maxFilesPerTrigger", source.files_per_trigger)
    return reader.parquet(str(folder))


def _transformed(
    spark: SparkSession, pipeline: Pipeline, name: str, transform: Transform, frames: dict[str, DataFrame]
) -> DataFrame:
    if transform.sql:
        return _guarded(pipeline, ("transforms", name, "sql"), lambda: spark.sql(transform.sql))
    from pyspark.sql import DataFrame  # noqa: PLC0415

    path = ("transforms", name, "python")
    function = _function(pipeline, path, transform.python)
    inputs = [frames[view] for view in transform.inputs]
    made: Any = _guarded(pipeline, path, lambda: function(*inputs, **transform.options))
    if not isinstance(made, DataFrame):
        raise pipeline.error(path, f"returned {type(made).__name__}; return a DataFrame")
    return made


def _function(pipeline: Pipeline, path: tuple[str, ...], text: str) -> Callable[..., Any]:
    """Find ``module:function``; modules beside the file are found first."""
    module_name, _, function_name = text.partition(":")
    folder = str(pipeline.file.parent.absolute())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        function = getattr(importlib.import_module(module_name), function_name, None)
    except Exception as error:  # the user's module may fail in any way
        raise pipeline.error(path, f"module {module_name!r} cannot be imported: {explain(error)}") from error
    if not callable(function):
        raise pipeline.error(path, f"module {module_name!r} has no function {function_name!r}")
    found: Callable[..., Any] = function
    return found


def sink_schema(spark: SparkSession, pipeline: Pipeline, name: str, frames: dict[str, DataFrame]) -> StructType:
    """Return the columns that reach a sink, after its ``sql``. Raises when the sink cannot take them."""
    sink = pipeline.sinks[name]
    schema = frames[sink.input].schema
    if sink.sql:
        spark.createDataFrame([], schema).createOrReplaceTempView(BATCH_VIEW)
        schema = _guarded(pipeline, ("sinks", name, "sql"), lambda: spark.sql(sink.sql)).schema
    if isinstance(sink, QueueSink):
        from annulet.spark.sink import check_schema  # noqa: PLC0415 - needs pyspark

        try:
            check_schema(schema, WriteOptions.parse(queue_options(sink)))
        except BulkError as error:
            raise pipeline.error(("sinks", name), str(error)) from error
    if isinstance(sink, ParquetSink):
        for column in sink.partition_by:
            if column not in schema.names:
                raise pipeline.error(
                    ("sinks", name, "partition_by"), f"no column {column!r}; there are {', '.join(schema.names)}"
                )
    return schema


def queue_options(sink: QueueSink) -> dict[str, str]:
    """Return the options of ``format("annulet")`` for a sink."""
    options: dict[str, Any] = {
        "url": sink.url,
        "address": sink.address,
        "exchange": sink.exchange,
        "routingKey": sink.routing_key,
        "persistent": str(sink.persistent).lower(),
        "mandatory": str(sink.mandatory).lower(),
        "retrySeconds": str(sink.retry_seconds),
    }
    return {name: value for name, value in options.items() if value is not None}
