"""``format("annulet")``: queues as DataFrames. Found without registration, since ``pyspark_annulet`` names it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from annulet.bulk.protocol.errors import BulkError
from annulet.spark import tables
from annulet.spark.checkpoints import inspect, local_folder
from annulet.spark.first_line import told_first
from annulet.spark.options import OptionError, ReadOptions, WriteOptions
from annulet.spark.parcels import Sealed
from annulet.spark.rejecting import AnnuletRejecter
from annulet.spark.schema import columns_of, read_schema
from annulet.spark.sequences import AnnuletSequenceReader
from annulet.spark.sink import AnnuletStreamWriter, AnnuletWriter
from annulet.spark.source import AnnuletFilteringReader, AnnuletReader, AnnuletStreamReader
from pyspark_annulet import source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

FORMAT = "annulet"


@told_first
class AnnuletDataSource(Sealed, DataSource):
    """Reads and writes queues of an Annulet broker. Options: ``docs/spark-source.md`` and ``docs/spark-sink.md``."""

    def __init__(self, options: dict[str, str]) -> None:
        """Check the checkpoint named in the options of a read, if any.

        Spark creates the source of a stream when that is loaded, or, with a schema of the user, when its query is
        started, and reads the logs of the checkpoint later. It creates a sink too late for a check. Raises
        :class:`~annulet.spark.checkpoints.DamagedCheckpointError`.
        """
        super().__init__(options)
        given = {name.lower(): value for name, value in options.items()}
        location = given.get("checkpointlocation")
        folder = local_folder(location) if location and "queue" in given else None
        if folder is not None:
            inspect(folder)

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> StructType | str:
        """Return the columns of a read, with its options where a table is created."""
        table = tables.created(self.options)
        if table is None:
            return read_schema(ReadOptions.parse(self.options).columns)
        WriteOptions.parse(tables.for_writing(table))
        return tables.schema_with(ReadOptions.parse(tables.for_reading(table)).columns, table)

    def reader(self, schema: StructType) -> AnnuletReader:
        """Plan a batch read."""
        options = ReadOptions.parse(self._reading(schema))
        reader = AnnuletFilteringReader if options.pushdown else AnnuletReader
        return reader(options, columns_of(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Plan a streaming read. Errors are raised by the first call of the reader, see :class:`RefusedReader`."""
        try:
            options = ReadOptions.parse(self._reading(schema))
            reader = AnnuletSequenceReader if options.non_destructive else AnnuletStreamReader
            return reader(options, columns_of(schema))
        except BulkError as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> AnnuletWriter | AnnuletRejecter:
        """Plan a batch write."""
        if overwrite:
            raise OptionError('a queue cannot be overwritten; use .mode("append")')
        table = self._table(schema)
        if table is not None:
            options = WriteOptions.parse({**tables.for_writing(table), **self.options})
            return AnnuletWriter(options, schema, inserted=True)
        if not self.options:
            raise OptionError(tables.INSERT_REMEDY)
        options = WriteOptions.parse(self.options)
        return AnnuletWriter(options, schema) if options.reject_from is None else AnnuletRejecter(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> AnnuletStreamWriter:  # noqa: N802
        """Plan a streaming write."""
        if overwrite:
            raise OptionError('a queue cannot be overwritten; use .mode("append") or .outputMode("append")')
        return AnnuletStreamWriter(WriteOptions.parse(self.options), schema)

    def _table(self, schema: StructType) -> dict[str, str] | None:
        """Return the options of the table that is read or written, unless the statement has options."""
        return None if any(name.lower() == "url" for name in self.options) else tables.carried(schema)

    def _reading(self, schema: StructType) -> dict[str, str]:
        table = self._table(schema)
        return dict(self.options) if table is None else {**tables.for_reading(table), **self.options}


@told_first
class RefusedReader(DataSourceStreamReader):
    """Replaces a reader that cannot be created: PySpark 4.3 would stop the missing reader, and report only that.

    Only a stream with a schema of the user gets here. Without one the options are checked when it is loaded.
    """

    def __init__(self, error: BulkError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Raise the error."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """Raise the error."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raise the error."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:  # noqa: ARG002
        """Raise the error. Never called, since nothing is planned."""
        raise self._error

    def commit(self, end: dict[str, Any]) -> None:  # noqa: ARG002
        """Raise the error."""
        raise self._error

    def stop(self) -> None:
        """Nothing was begun."""


def register(spark: SparkSession) -> None:
    """Register the format with a session: needed where Spark's Python does not find ``pyspark_annulet`` on its own.

    The class is sent by value, so that a Python without ``annulet`` can report the missing package and the place.
    """
    cloudpickle.register_pickle_by_value(source)  # type: ignore[no-untyped-call]
    try:
        spark.dataSource.register(source.DefaultSource)
    finally:
        cloudpickle.unregister_pickle_by_value(source)  # type: ignore[no-untyped-call]
