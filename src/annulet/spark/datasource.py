"""``format("annulet")``: queues as DataFrames. Found without registration, since ``pyspark_annulet`` names it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from annulet.spark.first_line import told_first
from annulet.spark.options import OptionError, ReadOptions, WriteOptions
from annulet.spark.rejecting import AnnuletRejecter
from annulet.spark.schema import columns_of, read_schema
from annulet.spark.sequences import AnnuletSequenceReader
from annulet.spark.sink import AnnuletStreamWriter, AnnuletWriter
from annulet.spark.source import AnnuletFilteringReader, AnnuletReader, AnnuletStreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "annulet"


@told_first
class AnnuletDataSource(DataSource):
    """Reads and writes queues of an Annulet broker. Options: ``docs/spark-source.md`` and ``docs/spark-sink.md``."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a read."""
        return read_schema(ReadOptions.parse(self.options).columns)

    def reader(self, schema: StructType) -> AnnuletReader:
        """Plan a batch read."""
        options = ReadOptions.parse(self.options)
        reader = AnnuletFilteringReader if options.pushdown else AnnuletReader
        return reader(options, columns_of(schema))

    def streamReader(self, schema: StructType) -> AnnuletStreamReader | AnnuletSequenceReader:  # noqa: N802 - Spark's
        """Plan a streaming read."""
        options = ReadOptions.parse(self.options)
        reader = AnnuletSequenceReader if options.non_destructive else AnnuletStreamReader
        return reader(options, columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> AnnuletWriter | AnnuletRejecter:
        """Plan a batch write."""
        if overwrite:
            raise OptionError('a queue cannot be overwritten; use .mode("append")')
        options = WriteOptions.parse(self.options)
        return AnnuletWriter(options, schema) if options.reject_from is None else AnnuletRejecter(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> AnnuletStreamWriter:  # noqa: N802
        """Plan a streaming write."""
        if overwrite:
            raise OptionError('a queue cannot be overwritten; use .mode("append") or .outputMode("append")')
        return AnnuletStreamWriter(WriteOptions.parse(self.options), schema)


def register(spark: SparkSession) -> None:
    """Register the format with a session. Only needed where ``pyspark_annulet`` is not importable on its own."""
    spark.dataSource.register(AnnuletDataSource)
