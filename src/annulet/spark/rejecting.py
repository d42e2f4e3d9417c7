"""The sink for poison messages: rows of a stream's batch, by position, are rejected instead of acknowledged.

They leave the queue as a consumer's rejected message does, to the dead-letter target if there is one, once their batch
is in Spark's commit log. A batch that Spark repeats before reads them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from annulet.bulk.client import connect
from annulet.bulk.protocol import protocol
from annulet.spark.first_line import FailureMessage, raise_failure, told_first
from annulet.spark.options import OptionError, WriteOptions
from annulet.spark.parcels import Sealed
from annulet.spark.tables import creation

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

POSITION: Final = "position"
POSITIONS_AT_ONCE: Final = 100_000
"""Positions of one request: at most 2 MB of JSON, half of the broker's limit."""

OF_MESSAGES: Final = {
    "address": "address", "exchange": "exchange", "routing_key": "routingKey", "write_id": "writeId",
}  # fmt: skip
"""Options of a write that publishes, by their fields."""


class PositionsMessage(WriterCommitMessage):
    """The message of a task for the commit."""

    def __init__(self, positions: list[int]) -> None:
        self.positions = positions


@told_first
class AnnuletRejecter(Sealed, DataSourceArrowWriter):
    """Rejects the positions of its rows when all tasks are done: all of a request or none."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        check_schema(schema)
        for field, name in OF_MESSAGES.items():
            if getattr(options, field) is not None:
                raise OptionError(
                    f"option rejectFrom publishes nothing, so option {name} has no meaning beside it: "
                    "leave one of them out"
                )
        assert options.reject_from is not None
        self._options = options
        self._lease = options.reject_from

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PositionsMessage | FailureMessage:
        """Collect the positions of a task; the commit reports a row without one, and the creation of a table."""
        refusal = creation()
        if refusal is not None:
            return FailureMessage(refusal)
        positions: list[int] = []
        for batch in iterator:
            column = batch.column(batch.schema.get_field_index(POSITION))
            if column.null_count:
                error = OptionError("column 'position' is null in a row; reject rows as the stream gave them")
                return FailureMessage(error)
            positions += column.to_pylist()
        return PositionsMessage(positions)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Mark them in the broker. Raises the error of a failed task."""
        raise_failure(messages)
        positions = [
            position for message in messages if isinstance(message, PositionsMessage) for position in message.positions
        ]
        options = self._options
        client = connect(options.url, retry_seconds=options.retry_seconds)
        for first in range(0, len(positions), POSITIONS_AT_ONCE):
            client.act(
                protocol.RejectPositions(
                    virtual_host=options.url.virtual_host,
                    lease=self._lease,
                    positions=positions[first : first + POSITIONS_AT_ONCE],
                )
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing was marked."""


def check_schema(schema: StructType) -> None:
    """Refuse a data frame without positions. Raises :class:`OptionError`."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if types.get(POSITION) != "bigint":
        raise OptionError(
            f"column 'position' is {types.get(POSITION, 'missing')}, not bigint: with option rejectFrom the rows are "
            "those of the lease's stream that are to be rejected, by their position"
        )
