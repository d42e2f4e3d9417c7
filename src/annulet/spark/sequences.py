"""Streaming reads that take nothing: the offset is the queue's sequence number, as with a log (spark-notes §3).

The order of Spark's calls is described in :mod:`annulet.spark.source`; here nothing has to be acknowledged, so the
checkpoint is the complete state of a stream.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from annulet.bulk.client import connect
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.spark.first_line import told_first
from annulet.spark.idling import Idling
from annulet.spark.limits import batch_limits
from annulet.spark.options import OptionError, ReadOptions
from annulet.spark.parcels import Sealed

if TYPE_CHECKING:
    import pyarrow as pa

    from annulet.bulk.client import BulkClient

OFFSET_VERSION: Final = 1

BROKERS_WORDS: Final = ("incarnation", "boot", "safe")
"""The broker's part of an offset, which is sent back to it."""

NAMES_OF_OFFSET: Final = frozenset(("queue", "sequence", "gap"))
POSITION: Final = "position"

Offset = dict[str, Any]


class SequencePartition(Sealed, InputPartition):
    """Messages ``(after, upto]``, ``rows`` of them, of a batch that ends with ``end``; of several shares one.

    ``reader``: under which name the broker keeps the batch's rows. The object that reads is another than planned them.
    """

    def __init__(
        self, reader: str, end: Offset, after: int, upto: int, rows: int, share: int = 0, shares: int = 1
    ) -> None:
        super().__init__((after, upto, rows, share, shares))
        self.reader = reader
        self.end = end
        self.after = after
        self.upto = upto
        self.rows = rows
        self.share = share
        self.shares = shares


@told_first
class AnnuletSequenceReader(Sealed, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read by sequence number.

    ``gap`` of an offset counts the messages that were gone before this checkpoint read them.
    """

    def __init__(self, options: ReadOptions, columns: list[str]) -> None:
        if options.lease is not None:
            raise OptionError(
                f"option lease: {options.lease!r} has no meaning beside nonDestructive=true, which takes nothing; "
                "leave one of them out"
            )
        self._options = options
        self._columns = columns
        self._reader = uuid.uuid4().hex
        self._last_sequence = protocol.ANY  # of the queue when an AvailableNow run began
        self._latest: Offset | None = None
        self._idling = Idling()

    # ------------------------------------------------------------------ offsets

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Begin before the message that is the oldest when the first batch is planned."""
        return {"v": OFFSET_VERSION, "queue": self._options.queue, "sequence": protocol.ANY, "gap": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Rows of a batch; the limit in bytes is applied in ``latestOffset``."""
        return ReadMaxRows(self._options.messages_max)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Plan the batch behind ``start``."""
        self._check(start)
        messages_max, bytes_max = batch_limits(self._options, limit)
        request = protocol.PlanSequences(
            **self._known(start),
            start=start["sequence"],
            messages_max=messages_max,
            bytes_max=bytes_max,
            last_sequence=self._last_sequence,
            wait_milliseconds=0 if self._last_sequence != protocol.ANY else self._idling.wait_milliseconds(),
        )
        answer = self._client().act(request)
        self._idling.answered(empty="rows" not in answer)
        if "rows" in answer:
            gap = start["gap"] + answer.pop("missing")
            start = {"v": OFFSET_VERSION, "queue": self._options.queue, "gap": gap, **answer}
        self._latest = start
        return dict(start)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Tell the highest number of the queue, so that progress shows the backlog."""
        if self._latest is None:
            return None
        return {**self._latest, "sequence": self._highest()}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember where the queue ends now: nothing that arrives later belongs to this run."""
        self._last_sequence = self._highest()

    def commit(self, end: Offset) -> None:
        """Do nothing: the checkpoint is all there is."""

    def stop(self) -> None:
        """Close the connection."""
        self._client().close()

    # ------------------------------------------------------------------ data

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Split a planned batch; after a restart the broker reads it again for that."""
        self._check(end)
        if start == end:
            return []
        shares = self._options.partitions if self._options.by_group else 1
        request = protocol.SplitSequences(
            **self._known(end),
            after=end["after"],
            upto=end["sequence"],
            rows=end["rows"],
            parts=1 if self._options.by_group else self._options.partitions,
        )
        return [
            SequencePartition(self._reader, end, after, upto, rows, share, shares)
            for after, upto, rows in self._client().act(request)["parts"]
            for share in range(shares)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a partition. Runs in a Python worker; repeatable."""
        assert isinstance(partition, SequencePartition)
        added = [] if POSITION in self._columns else [POSITION]  # an interrupted stream continues behind it
        ticket = protocol.SequenceTicket(
            **{**self._known(partition.end), "reader": partition.reader},
            after=partition.after,
            upto=partition.upto,
            rows=partition.rows,
            share=partition.share,
            shares=partition.shares,
            columns=[*self._columns, *added],
        )
        for batch in self._client().get(ticket):
            yield batch.select(self._columns) if added else batch

    # ------------------------------------------------------------------ inside

    def _client(self) -> BulkClient:
        return connect(self._options.url, retry_seconds=self._options.retry_seconds)

    def _known(self, offset: Offset) -> dict[str, Any]:
        """Return the common part of all requests."""
        options = self._options
        return {
            "virtual_host": options.url.virtual_host,
            "queue": options.queue,
            "reader": self._reader,
            "selector": options.selector,
            "fail_on_data_loss": options.fail_on_data_loss,
            **{name: offset[name] for name in BROKERS_WORDS if name in offset},
        }

    def _highest(self) -> int:
        options = self._options
        request = protocol.QueueStatus(virtual_host=options.url.virtual_host, queue=options.queue)
        return int(self._client().act(request)["last_sequence"])

    def _check(self, offset: Offset) -> None:
        """Refuse a checkpoint that is not of this query. Raises :class:`InvalidRequestError`."""
        if offset.get("v") != OFFSET_VERSION or not offset.keys() >= NAMES_OF_OFFSET:
            raise InvalidRequestError(
                f"the checkpoint cannot be read: its offset {offset} is damaged, or was written by another version or "
                "without nonDestructive=true; read as it was begun, restore it from a backup, or use a new checkpoint"
            )
        if offset["queue"] != self._options.queue:
            raise InvalidRequestError(
                f"the checkpoint reads queue {offset['queue']!r}, option queue says {self._options.queue!r}: "
                "correct the option, or use a new checkpoint"
            )
