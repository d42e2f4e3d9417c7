"""Reading queues: batch reads of a point-in-time view, streaming reads through a durable lease.

The order of Spark's calls and its consequences are in spark-notes §2.2. In short: ``start`` of ``latestOffset``
acknowledges, ``commit`` is late and may never be called, ``read`` consumes nothing, ``stop`` releases nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from annulet.bulk.client import BulkClient, connect
from annulet.bulk.protocol import protocol
from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.spark.first_line import told_first
from annulet.spark.idling import Idling
from annulet.spark.limits import batch_limits
from annulet.spark.options import ReadOptions
from annulet.spark.parcels import Sealed
from annulet.spark.pushdown import Pushed, push

if TYPE_CHECKING:
    import pyarrow as pa

OFFSET_VERSION: Final = 1

NOT_STARTED: Final = -1
"""Position of a checkpoint that has no batch yet; ``base`` of its first batch's end is the start of that batch."""

NAMES_OF_OFFSET: Final = frozenset(("lease", "owner", "queue", "pos"))

Offset = dict[str, Any]


class SnapshotPartition(Sealed, InputPartition):
    """Places ``(after, upto]`` of a point-in-time view."""

    def __init__(self, snapshot: str, after: int, upto: int) -> None:
        super().__init__((snapshot, after, upto))
        self.snapshot = snapshot
        self.after = after
        self.upto = upto


class LeasePartition(Sealed, InputPartition):
    """Positions ``(after, upto]`` of a lease; of several shares the rows of one, so that a group is in one task."""

    def __init__(self, lease: str, owner: str, after: int, upto: int, share: int = 0, shares: int = 1) -> None:
        super().__init__((lease, owner, after, upto, share, shares))
        self.lease = lease
        self.owner = owner
        self.after = after
        self.upto = upto
        self.share = share
        self.shares = shares


def split(after: int, upto: int, parts: int) -> list[tuple[int, int]]:
    """Cut ``(after, upto]`` into at most ``parts`` ranges of almost equal size, none of them empty."""
    size = upto - after
    parts = min(parts, size)
    bounds = [after + size * index // parts for index in range(parts)] + [upto] if parts > 0 else []
    return list(pairwise(bounds))


@told_first
class AnnuletReader(Sealed, DataSourceReader):
    """A batch read: everything that was in the queue when the read was planned, without taking anything."""

    def __init__(self, options: ReadOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._pushed = Pushed()

    def partitions(self) -> Sequence[InputPartition]:
        """Take the view and split it."""
        options, pushed = self._options, self._pushed
        request = protocol.OpenBrowse(
            virtual_host=options.url.virtual_host,
            queue=options.queue,
            selector=pushed.selector_with(options.selector),
            first=pushed.first,
            last=pushed.last,
            accepted_from=pushed.accepted_from,
            accepted_upto=pushed.accepted_upto,
        )
        answer = _client(options).act(request)
        ranges = split(answer["after"], answer["upto"], options.partitions)
        # Without rows one empty range keeps Spark from asking a reader without partitions for its data.
        return [SnapshotPartition(answer["snapshot"], after, upto) for after, upto in ranges or [(0, 0)]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a partition. Runs in a Python worker; repeatable."""
        assert isinstance(partition, SnapshotPartition)
        ticket = protocol.BrowseTicket(
            virtual_host=self._options.url.virtual_host,
            snapshot=partition.snapshot,
            after=partition.after,
            upto=partition.upto,
            columns=self._columns,
        )
        yield from _client(self._options).get(ticket)


@told_first
class AnnuletFilteringReader(AnnuletReader):
    """A batch read that passes Spark's filters to the broker. Spark refuses it unless its setting allows that."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Collect the filters the broker can evaluate; Spark applies all filters to the result."""
        self._pushed = push(filters)
        return filters


@told_first
class AnnuletStreamReader(Sealed, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read.

    Lives in the source process of one query run, but for ``read``, which runs on a copy in workers.
    """

    def __init__(self, options: ReadOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._initial: Offset | None = None  # Spark calls it twice
        self._generation = 0  # this run's fencing token; 0 = not opened yet
        self._base = 0  # where a new checkpoint starts; known once its lease is open
        self._latest: Offset | None = None
        self._last_sequence = protocol.ANY  # of the queue when an AvailableNow run began
        self._idling = Idling()

    # ------------------------------------------------------------------ offsets

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Mint an identity for a new checkpoint. Nothing is opened yet.

        Spark also calls this when it repeats a first batch after a crash; then the valid identity is in the batch's end
        offset, and this one is never used.
        """
        if self._initial is None:
            owner = uuid.uuid4().hex
            name = self._options.lease or f"spark-{owner}"
            self._initial = {
                "v": OFFSET_VERSION,
                "lease": name,
                "owner": owner,
                "queue": self._options.queue,
                "pos": NOT_STARTED,
            }
        return dict(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Rows of a batch; the limit in bytes is applied in ``latestOffset``."""
        return ReadMaxRows(self._options.messages_max)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Acknowledge up to ``start``, and plan the next batch."""
        self._check(start)
        position = self._start_of(start)
        options = self._options
        messages_max, bytes_max = batch_limits(options, limit)
        request = protocol.ExtendLease(
            virtual_host=options.url.virtual_host,
            lease=start["lease"],
            generation=self._generation,
            start=position,
            messages_max=messages_max,
            bytes_max=bytes_max,
            last_sequence=self._last_sequence,
            selector=options.selector,
            fail_on_data_loss=options.fail_on_data_loss,
            wait_milliseconds=0 if self._last_sequence != protocol.ANY else self._idling.wait_milliseconds(),
        )
        answer = self._client().act(request)
        # A run over the available messages ends with an empty batch, so it has to detect that there are none.
        while answer["position"] == position and answer["looking"] and self._last_sequence != protocol.ANY:
            answer = self._client().act(request)
        self._idling.answered(empty=answer["position"] == position and not answer["looking"])
        if answer["position"] == position:
            self._latest = start
        else:
            self._latest = {"base": position, **start, "pos": answer["position"]}
        return dict(self._latest)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the position that the lease would have after taking all pending messages, so that progress shows the
        backlog.

        And ``lagMs``, for how long the oldest of that has waited: Python sources have no metrics in Spark 4.3.
        """
        if self._latest is None:
            return None
        status = self._client().act(
            protocol.LeaseStatus(virtual_host=self._options.url.virtual_host, lease=self._latest["lease"])
        )
        reported = {"base": status["acknowledged"], **self._latest, "pos": status["last"] + status["pending"]}
        lag = status.get("lag_milliseconds")  # missing in the answer of an older broker
        return reported if lag is None else {**reported, "lagMs": lag}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember where the queue ends now: nothing that arrives later belongs to this run."""
        status = self._client().act(
            protocol.QueueStatus(virtual_host=self._options.url.virtual_host, queue=self._options.queue)
        )
        self._last_sequence = status["last_sequence"]

    def commit(self, end: Offset) -> None:
        """Acknowledge a batch. Late by design of Spark, and repeatable."""
        self._check(end)
        if end["pos"] == NOT_STARTED:
            return
        self._ensure_open(end)
        self._client().act(
            protocol.AcknowledgeLease(
                virtual_host=self._options.url.virtual_host,
                lease=end["lease"],
                generation=self._generation,
                upto=end["pos"],
            )
        )

    def stop(self) -> None:
        """Close the connection only: the checkpoint still owns the leased messages."""
        self._client().close()

    # ------------------------------------------------------------------ data

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Split a planned batch."""
        self._check(end)
        if end["pos"] == NOT_STARTED:
            return []
        self._ensure_open(end)
        after = end["base"] if start["pos"] == NOT_STARTED else start["pos"]
        parts = self._options.partitions
        if self._options.by_group and end["pos"] > after:
            shares = [(after, end["pos"], share, parts) for share in range(parts)]
        else:
            shares = [(first, last, 0, 1) for first, last in split(after, end["pos"], parts)]
        return [LeasePartition(end["lease"], end["owner"], *share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a partition. Runs in a Python worker; repeatable."""
        assert isinstance(partition, LeasePartition)
        ticket = protocol.FetchTicket(
            virtual_host=self._options.url.virtual_host,
            lease=partition.lease,
            owner=partition.owner,
            after=partition.after,
            upto=partition.upto,
            share=partition.share,
            shares=partition.shares,
            columns=self._columns,
            fail_on_data_loss=self._options.fail_on_data_loss,
        )
        yield from _client(self._options).get(ticket)

    # ------------------------------------------------------------------ inside

    def _client(self) -> BulkClient:
        return _client(self._options)

    def _start_of(self, start: Offset) -> int:
        """Return the position a batch starts behind.

        Opens the lease of a new checkpoint, or finds that of an old one.
        """
        if start["pos"] != NOT_STARTED:
            self._ensure_open(start)
            return int(start["pos"])
        if self._generation == 0:
            self._base = self._open(start["lease"], start["owner"], position=0, fresh=True)["position"]
        return self._base

    def _check(self, offset: Offset) -> None:
        """Refuse a checkpoint that is not of this query. Raises :class:`InvalidRequestError`."""
        if offset.get("v") != OFFSET_VERSION or not offset.keys() >= NAMES_OF_OFFSET:
            raise InvalidRequestError(
                f"the checkpoint cannot be read: its offset {offset} is damaged, or was written by another version or "
                "with nonDestructive=true; read as it was begun, restore it from a backup, or use a new checkpoint"
            )
        if self._options.lease not in (None, offset["lease"]):
            raise InvalidRequestError(
                f"the checkpoint reads through lease {offset['lease']!r}, option lease says {self._options.lease!r}: "
                "correct the option, or use a new checkpoint"
            )
        if offset["queue"] != self._options.queue:
            raise InvalidRequestError(
                f"the checkpoint reads queue {offset['queue']!r}, option queue says {self._options.queue!r}: "
                "correct the option, or use a new checkpoint"
            )

    def _ensure_open(self, offset: Offset) -> None:
        """After a restart the first call has an offset of the checkpoint: find its lease again."""
        if self._generation == 0:
            self._open(offset["lease"], offset["owner"], position=offset["pos"], fresh=False)

    def _open(self, name: str, owner: str, *, position: int, fresh: bool) -> dict[str, Any]:
        options = self._options
        answer = self._client().act(
            protocol.OpenLease(
                virtual_host=options.url.virtual_host,
                queue=options.queue,
                lease=name,
                owner=owner,
                fresh=fresh,
                position=position,
                generated=options.lease is None,
                on_existing=options.on_existing,  # type: ignore[arg-type] # checked by the options
                fail_on_data_loss=options.fail_on_data_loss,
            )
        )
        self._generation = answer["generation"]
        return answer


def _client(options: ReadOptions) -> BulkClient:
    return connect(options.url, retry_seconds=options.retry_seconds)
