"""Queues to Parquet on a real Spark with a real broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annulet.spark.archive.archiving import (
    ORDER,
    PARTITIONS,
    ArchiveOptions,
    checkpoint_of,
    paths_within,
    read_archive,
    start_archive,
)
from annulet.spark.archive.log import ArchiveError
from annulet.spark.archive.maintenance import Upkeep
from annulet.spark.archive.replay import ReplayRequest, replay
from annulet.spark.archive.table import Table
from tests.spark.test_source import numbered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import BrokerThread

DAYS = ["date=2026-01-01/address=a/x", "date=2026-01-02/address=a/x", "date=2026-01-03/address=a/x"]


def test_files_are_chosen_by_day() -> None:
    second = datetime(2026, 1, 2, tzinfo=UTC)

    assert paths_within(DAYS, None, None) == DAYS
    assert paths_within(DAYS, second, None) == DAYS[1:]
    assert paths_within(DAYS, None, second) == DAYS[:1]
    assert paths_within(DAYS, second, second + timedelta(days=1)) == DAYS[1:2]


def test_checkpoints_of_queues_are_apart(tmp_path: Path) -> None:
    assert checkpoint_of(tmp_path, "a/b") == tmp_path / "_annulet" / "checkpoints" / "a@2Fb"
    assert checkpoint_of(tmp_path, "..").name == "@2E."


@pytest.mark.spark
def test_two_queues_are_archived_once_merged_and_read_by_time(
    spark: SparkSession, broker: BrokerThread, name: str, tmp_path: Path
) -> None:
    queues = [f"{name}-a", f"{name}-b"]
    broker.declare(*queues)
    merging = ArchiveOptions(messages_per_trigger=30, upkeep=Upkeep(small_files=3, grace_seconds=0))
    for queue, count in zip(queues, (40, 10), strict=True):
        broker.publish(queue, [b"%s %d" % (queue.encode(), number) for number in range(count)])
        query = start_archive(spark, broker.url, queue, tmp_path, options=merging)
        assert query.awaitTermination(90)
    broker.publish(queues[0], [b"late"], message_id="late")
    # A day is one of UTC in any session: this one has another date now, and would write into another folder.
    spark.conf.set("spark.sql.session.timeZone", "+18:00" if datetime.now(UTC).hour >= 12 else "-18:00")
    try:
        assert start_archive(spark, broker.url, queues[0], tmp_path, options=merging).awaitTermination(90)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    rows = read_archive(spark, tmp_path).orderBy("queue", "enqueued_at", "position").collect()
    assert [bytes(row.body) for row in rows] == [
        *[b"%s %d" % (queues[0].encode(), number) for number in range(40)],
        b"late",
        *[b"%s %d" % (queues[1].encode(), number) for number in range(10)],
    ]
    # Three batches of the first queue became one file; the replaced ones are deleted.
    assert sorted(file.rows for file in Table(tmp_path).state().files.values()) == [10, 41]
    assert len(list(tmp_path.glob("date=*/address=*/*.parquet"))) == 2

    late = rows[40]
    accepted = late.enqueued_at.replace(tzinfo=UTC)
    west = accepted.astimezone(timezone(timedelta(hours=-5)))
    assert read_archive(spark, tmp_path, since=west, addresses=[queues[0]]).count() >= 1
    assert read_archive(spark, tmp_path, until=accepted, where="message_id = 'late'").count() == 0
    assert (
        read_archive(spark, tmp_path, until=west + timedelta(milliseconds=1), where="message_id = 'late'").count() == 1
    )


@pytest.mark.spark
def test_an_archive_of_a_version_without_sequences_goes_on(
    spark: SparkSession, broker: BrokerThread, name: str, tmp_path: Path
) -> None:
    broker.declare(name, f"{name}-again")
    broker.publish(name, numbered(3))
    queue = spark.read.format("annulet").options(url=broker.url, queue=name).load()
    assert "sequence" in queue.columns
    old = queue.drop("sequence").selectExpr("*", "cast(to_date(enqueued_at) AS string) AS date")
    Table(tmp_path).append(old, "before", 0, partition_by=PARTITIONS, sort_by=ORDER)
    assert [row.body for row in read_archive(spark, tmp_path).collect()] == numbered(3), "read as it is"

    chosen = ArchiveOptions(upkeep=Upkeep(small_files=2, grace_seconds=0))
    assert start_archive(spark, broker.url, name, tmp_path, options=chosen).awaitTermination(90)
    rows = read_archive(spark, tmp_path)
    assert rows.columns == [*queue.columns, "date"]
    found = [(bytes(row.body), row.sequence) for row in rows.orderBy("sequence", "position").collect()]
    assert found == [(body, None) for body in numbered(3)] + list(zip(numbered(3), (1, 2, 3), strict=True))
    (merged,) = Table(tmp_path).state().files.values()
    assert (merged.rows, "merged-" in merged.path) == (6, True)
    replayed = replay(spark, ReplayRequest(tmp_path, broker.url, f"{name}-again", "r", where="sequence > 1"))
    assert replayed.rows == 2
    assert broker.bodies(f"{name}-again") == numbered(2, 1)


@pytest.mark.spark
def test_a_folder_of_something_else_is_no_archive(spark: SparkSession, tmp_path: Path) -> None:
    Table(tmp_path).append(spark.range(1), "q", 0)
    with pytest.raises(ArchiveError, match="holds other files than archived messages"):
        read_archive(spark, tmp_path)
