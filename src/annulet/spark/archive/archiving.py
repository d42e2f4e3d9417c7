"""Queues to Parquet, by day and address, each message once; and reading the archive."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from annulet.core.base.uri_texts import why_no_path
from annulet.spark.archive.log import ArchiveError
from annulet.spark.archive.maintenance import DAY_SECONDS, Upkeep, maintain, remove_orphans
from annulet.spark.archive.table import Table
from annulet.spark.options import BYTES_PER_TRIGGER, MESSAGES_PER_TRIGGER
from annulet.spark.query_ids import query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS: Final = ("date", "address")
"""Folders: the day (UTC) on which the broker accepted the message, and the exchange or queue it was sent to."""

ORDER: Final = ("enqueued_at", "queue", "position")
"""Order of the rows of a file, and of a replay."""

DAY: Final = re.compile(r"(?:^|/)date=(\d{4}-\d\d-\d\d)/")


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """How an archive is written.

    ``trigger`` is the shortest interval between two batches; ``None``: the messages present now.
    """

    trigger: str | None = None
    messages_per_trigger: int = MESSAGES_PER_TRIGGER
    bytes_per_trigger: int = BYTES_PER_TRIGGER
    retry_seconds: int = 60
    upkeep: Upkeep = field(default_factory=Upkeep)


def start_archive(
    spark: SparkSession,
    url: str,
    queue: str,
    folder: Path,
    *,
    checkpoint: Path | None = None,
    lease: str | None = None,
    options: ArchiveOptions | None = None,
) -> StreamingQuery:
    """Start the query that moves a queue into an archive. Several queues may share one ``folder``.

    ``checkpoint`` is below the folder unless given, and belongs to this queue; ``lease`` is ``archive.QUEUE``.
    """
    chosen = options or ArchiveOptions()
    wrong = why_no_path(str(checkpoint or ""))
    if wrong:
        raise ArchiveError(f"checkpoint: {wrong}")
    place = str(checkpoint or checkpoint_of(folder, queue))
    remove_orphans(Table(folder))
    stream = (
        spark.readStream.format("annulet")
        .options(url=url, queue=queue, lease=lease or f"archive.{queue}", retrySeconds=chosen.retry_seconds)
        .option("maxMessagesPerTrigger", chosen.messages_per_trigger)
        .option("maxBytesPerTrigger", chosen.bytes_per_trigger)
        .option("checkpointLocation", place)  # damage is reported with a remedy
        .load()
    )
    writer = (
        stream.writeStream.queryName(f"archive {queue}")
        .option("checkpointLocation", place)
        .foreachBatch(_appending(Table(folder), chosen.upkeep))
    )
    if chosen.trigger is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=chosen.trigger).start()


def checkpoint_of(folder: Path, queue: str) -> Path:
    """Return the default folder of a queue's checkpoint."""
    return Table(folder).inside / "checkpoints" / re.sub(r"[^\w.-]|^\.", lambda found: f"@{ord(found[0]):02X}", queue)


def _appending(table: Table, upkeep: Upkeep) -> Callable[[DataFrame, int], None]:
    def append(frame: DataFrame, batch: int) -> None:
        from pyspark.sql import functions  # noqa: PLC0415

        # By arithmetic: Spark's functions of dates give the day in the time zone of the session.
        day = functions.floor(functions.unix_seconds("enqueued_at") / DAY_SECONDS).cast("int")
        rows = frame.withColumn("date", functions.date_from_unix_date(day).cast("string"))
        table.append(rows, query_id(frame.sparkSession), batch, partition_by=PARTITIONS, sort_by=ORDER)
        maintain(frame.sparkSession, table, upkeep)

    return append


def read_archive(
    spark: SparkSession,
    folder: Path,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    addresses: Sequence[str] = (),
    where: str | None = None,
) -> DataFrame:
    """Return the archived messages as of now: those accepted at ``since`` or later and before ``until``.

    The columns are those of a read queue, and ``date``. ``where`` is a condition in SQL. A time without a zone is UTC.
    Raises :class:`ArchiveError` when the folder is no archive.
    """
    from pyspark.sql import functions  # noqa: PLC0415

    since, until = _in_utc(since), _in_utc(until)
    table = Table(folder)
    frame = table.read(spark, paths_within(table.state().files, since, until))
    if "enqueued_at" not in frame.columns:
        raise ArchiveError(f"{folder}: holds other files than archived messages; give a folder of pipeline archive")
    if since is not None:
        frame = frame.where(functions.col("enqueued_at") >= functions.lit(since))
    if until is not None:
        frame = frame.where(functions.col("enqueued_at") < functions.lit(until))
    if addresses:
        frame = frame.where(functions.col("address").isin(list(addresses)))
    return frame if where is None else frame.where(where)


def paths_within(paths: Iterable[str], since: datetime | None, until: datetime | None) -> list[str]:
    """Return the files whose day may hold messages of a time range, by their folders."""
    first = "" if since is None else since.strftime("%Y-%m-%d")
    last = "9" if until is None else (until - timedelta(microseconds=1)).strftime("%Y-%m-%d")
    found = []
    for path in paths:
        day = DAY.search(path)
        if day is None or first <= day[1] <= last:
            found.append(path)
    return found


def _in_utc(moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
