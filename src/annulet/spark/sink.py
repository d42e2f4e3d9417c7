"""Writing queues: each task stages its rows in the broker, the commit publishes all of them once (spark-notes §4)."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from annulet.bulk.client import BulkClient, connect
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import BulkError, StageInterruptedError, UnavailableError
from annulet.bulk.protocol.schema import READ_ONLY_COLUMNS, WRITE_COLUMNS
from annulet.spark.first_line import FailureMessage, raise_failure, told_first
from annulet.spark.options import OptionError, WriteOptions
from annulet.spark.parcels import Sealed
from annulet.spark.query_ids import QUERY_PROPERTY
from annulet.spark.tables import creation, refuse_read_rows, streamed_to_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

BATCH_PROPERTY: Final = "streaming.sql.batchId"
"""Local property of a task of a streaming query (run on Spark 4.3), beside the id of its query."""

LOG: Final = logging.getLogger(__name__)
"""Spark shows the log of its Python processes among the lines of the driver."""

REPEATED: Final = (
    "writeId %r: batch %s was published before, so this write published nothing. Where a run repeats a batch that is "
    "right; after a start with a new checkpoint give another writeId"
)

WRITE_TYPES: Final = {
    "body": ("binary", "string"),
    "priority": ("tinyint", "smallint", "int", "bigint"),
    "expiration": ("int", "bigint"),
    "timestamp": ("timestamp",),
    "persistent": ("boolean",),
    "properties": ("map<string,string>",),
}
"""Spark's types of the columns of a write; those not named are ``string``."""


class StageMessage(WriterCommitMessage):
    """The message of a task for the commit: the place of its rows. ``stage`` is empty if it had none."""

    def __init__(self, query: str, batch: int, partition: int, stage: str) -> None:
        self.query = query
        self.batch = batch
        self.partition = partition
        self.stage = stage


class _Writer(Sealed):
    """The common part of batch and streaming writers."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_schema(schema, options)
        self._options = options

    def _client(self) -> BulkClient:
        return connect(self._options.url, retry_seconds=self._options.retry_seconds)

    def _stage(self, rows: Iterator[pa.RecordBatch], query: str, batch: int) -> StageMessage:
        context = TaskContext.get()
        assert context is not None, "write runs in a task"
        partition = context.partitionId()
        if self._options.naive_as_utc:
            rows = map(in_utc, rows)
        first = next((part for part in rows if part.num_rows), None)
        if first is None:
            return StageMessage(query, batch, partition, "")
        stage = f"{batch}-{partition}-{context.taskAttemptId()}-{uuid.uuid4().hex}"
        request = protocol.PutStage(virtual_host=self._options.url.virtual_host, query=query, stage=stage)
        self._client().put(request, first.schema, chain((first,), rows))
        return StageMessage(query, batch, partition, stage)

    def _commit(self, messages: Sequence[WriterCommitMessage | None]) -> StageMessage | None:
        """Publish the staged rows of the tasks, in partition order.

        Returns one of the messages, which names query and batch; ``None`` when there was nothing. Warns of a batch of a
        ``writeId`` that was published before.
        """
        staged = _staged(messages)
        if not staged:
            return None
        options = self._options
        answer = self._client().act(
            protocol.CommitPublish(
                virtual_host=options.url.virtual_host,
                query=staged[0].query,
                batch=staged[0].batch,
                stages=[message.stage for message in sorted(staged, key=lambda message: message.partition)],
                address=options.address,
                exchange=options.exchange,
                routing_key=options.routing_key,
                persistent=options.persistent,
                mandatory=options.mandatory,
            )
        )
        if answer["repeated"] and options.write_id is not None:
            LOG.warning(REPEATED, options.write_id, staged[0].batch)
        return staged[0]

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        staged = _staged(messages)
        if staged:
            self._client().act(
                protocol.AbortPublish(
                    virtual_host=self._options.url.virtual_host,
                    query=staged[0].query,
                    stages=[message.stage for message in staged],
                )
            )


@told_first
class AnnuletWriter(_Writer, DataSourceArrowWriter):
    """A batch write: visible at once or not at all. With option ``writeId`` a repeated write publishes nothing."""

    def __init__(self, options: WriteOptions, schema: StructType, *, inserted: bool = False) -> None:
        _Writer.__init__(self, options, schema)
        self._inserted = inserted  # into a table of the catalog, whose options these are
        # Without a writeId this one write still has a name, so that a repeated commit is done once.
        self._query = f"write:{options.write_id}" if options.write_id is not None else f"once:{uuid.uuid4().hex}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StageMessage | FailureMessage:
        """Stage the rows of a task.

        A refusal of the broker, or no answer for ``retrySeconds``, is reported by the commit: another attempt would not
        help. The same applies to a write that is part of the creation of a table.
        """
        refusal = creation()
        if refusal is not None:
            return FailureMessage(refusal)
        try:
            rows = refuse_read_rows(iterator) if self._inserted else iterator
            return self._stage(rows, self._query, self._options.write_batch)
        except StageInterruptedError:
            raise  # another attempt does help, and is Spark's to make
        except BulkError as error:
            return FailureMessage(error)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish all rows. Raises the error of a failed task, and then Spark drops the staged rows."""
        raise_failure(messages)
        published = self._commit(messages)
        if published is None or self._options.write_id is not None:
            return
        forget = protocol.ForgetPublish(virtual_host=self._options.url.virtual_host, query=published.query)
        with suppress(UnavailableError):  # the rows are published: failing now would have them written again
            self._client().act(forget)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop the staged rows."""
        self._abort(messages)


@told_first
class AnnuletStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """A streaming write: exactly once for a checkpoint."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        if options.write_id is not None:
            raise OptionError("option writeId belongs to batch writes; a stream has its checkpoint")
        if options.reject_from is not None:
            raise OptionError(
                "option rejectFrom belongs to batch writes: in foreachBatch write the rows to be rejected with it"
            )
        _Writer.__init__(self, options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StageMessage | FailureMessage:
        """Stage the rows of a task under the query's and batch's ids. The commit tells of ``toTable``."""
        context = TaskContext.get()
        assert context is not None, "write runs in a task"
        refusal = streamed_to_table(context)
        if refusal is not None:
            return FailureMessage(refusal)
        query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
        if query is None or batch is None:
            raise RuntimeError(
                f"this Spark does not tell tasks {QUERY_PROPERTY} and {BATCH_PROPERTY}; annulet needs Spark 4.3"
            )
        return self._stage(iterator, query, int(batch))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish the batch, unless it was published before. Raises what a task refused."""
        raise_failure(messages)
        for message in _staged(messages):
            assert message.batch == batchId, "tasks staged for the batch that is committed"
        self._commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Drop the staged rows."""
        self._abort(messages)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StageMessage]:
    return [message for message in messages if isinstance(message, StageMessage) and message.stage]


def in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose column ``timestamp`` is in UTC if it has no time zone."""
    import pyarrow as pa  # noqa: PLC0415 - workers import what they use

    place = batch.schema.get_field_index("timestamp")
    if place < 0 or batch.schema.types[place].tz is not None:
        return batch
    return batch.set_column(place, "timestamp", batch.column(place).cast(pa.timestamp("us", tz="UTC")))


def check_schema(schema: StructType, options: WriteOptions) -> None:
    """Refuse a data frame whose columns cannot be written, before any task starts. Raises :class:`OptionError`."""
    types: dict[str, Any] = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "body" not in types:
        raise OptionError(
            "column 'body' is missing: the content to send, binary or string; e.g. .select(to_json(...).alias('body'))"
        )
    for name, given in types.items():
        if name in READ_ONLY_COLUMNS:
            continue
        if name not in WRITE_COLUMNS:
            raise OptionError(
                f"column {name!r} cannot be written; the columns of a write are {', '.join(WRITE_COLUMNS)}"
            )
        wanted = WRITE_TYPES.get(name, ("string",))
        if given == "timestamp_ntz" and "timestamp" in wanted and not options.naive_as_utc:
            raise OptionError(
                f"column {name!r} has type timestamp_ntz, which names no time zone, so it is no moment: cast it to "
                "timestamp (in the time zone of the session), or set option timestampsWithoutZone=utc"
            )
        if given not in wanted and not (given == "timestamp_ntz" and "timestamp" in wanted):
            raise OptionError(f"column {name!r} has type {given}, not {' or '.join(wanted)}; cast it")
    by_column = {"address", "exchange", "routing_key"} & types.keys()
    if options.address is None and options.exchange is None and options.routing_key is None and not by_column:
        raise OptionError(
            "no destination: set option address, or exchange and routingKey, or give the data frame such a column"
        )
