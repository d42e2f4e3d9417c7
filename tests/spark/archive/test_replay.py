"""Archived messages back into queues, each once."""

from __future__ import annotations

import dataclasses
import fcntl
from itertools import count
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from annulet.spark.archive.log import ArchiveError
from annulet.spark.archive.replay import ReplayRequest, _copy, replay
from annulet.spark.archive.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import BrokerThread


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"name": "a b"}, "replay name 'a b': use 1 to 100 letters"),
        ({"name": ".."}, "no dot or dash first"),
        ({"rate": 0}, "rate 0 is out of range"),
    ],
)
def test_impossible_requests_are_refused(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    request = ReplayRequest(**{"folder": tmp_path, "url": "", "address": "", "name": "n", **changes})
    with pytest.raises(ArchiveError, match=text):
        replay(None, request)  # type: ignore[arg-type]


def test_a_second_process_does_not_take_part(tmp_path: Path) -> None:
    request = ReplayRequest(tmp_path, "", "", "again")
    locks = tmp_path / "_annulet" / "replays"
    locks.mkdir(parents=True)
    with (locks / ".again").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ArchiveError, match="replay 'again' is under way in another process"):
            replay(None, request)  # type: ignore[arg-type]
    with pytest.raises(ArchiveError, match="holds no batch of annulet"):
        replay(None, request)  # type: ignore[arg-type]


def test_a_damaged_plan_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "_annulet" / "replays" / "again"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{")
    with pytest.raises(ArchiveError, match=r"again/plan\.json: damaged: .*; restore the file"):
        replay(None, ReplayRequest(tmp_path, "", "", "again"))  # type: ignore[arg-type]


def archive_of(spark: SparkSession, folder: Path) -> None:
    """Write what archiving writes: fifty messages, in two files, the later ones in the first."""
    frame = spark.sql(
        "SELECT id AS position, concat('m-', id) AS message_id, 'q' AS queue, 'q' AS address, 'k' AS routing_key, "
        "encode(cast(id AS string), 'utf-8') AS body, cast(id % 10 AS int) AS priority, id % 2 = 0 AS durable, "
        "timestamp_millis(1700000000000 + id) AS enqueued_at, map('n', cast(id AS string)) AS properties, "
        "'2023-11-14' AS date FROM range(50)"
    )
    table = Table(folder)
    table.append(frame.where("id >= 25"), "w", 0, partition_by=["date", "address"])
    table.append(frame.where("id < 25"), "w", 1, partition_by=["date", "address"])


@pytest.mark.spark
def test_batches_are_bounded_in_rows_and_in_bytes(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql(
        "SELECT timestamp_millis(id) AS enqueued_at, 'q' AS queue, id AS position, true AS durable, "
        "encode(repeat('x', if(id = 4, 100, 10)), 'utf-8') AS body FROM range(9)"
    )

    assert _copy(frame, tmp_path / "rows", 4, 100) == 4

    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("row").collect()
    assert [(row.row, row.batch) for row in rows] == list(enumerate([0, 0, 0, 0, 1, 2, 2, 2, 3]))


@pytest.mark.spark
def test_a_replay_goes_on_where_it_ended_and_is_done_once(
    spark: SparkSession, broker: BrokerThread, name: str, tmp_path: Path
) -> None:
    broker.declare(name)
    archive_of(spark, tmp_path)
    request = ReplayRequest(tmp_path, broker.url, name, "again", where="priority <> 3", rate=30)
    stop, reports = Event(), []

    def report(published: int, total: int) -> None:
        reports.append((published, total))
        stop.set()

    first = replay(spark, request, stop=stop, report=report)
    assert (first.rows, first.total, first.done, reports) == (30, 45, False, [(30, 45)])
    plan_file = tmp_path / "_annulet" / "replays" / "again" / "plan.json"
    plan = msgspec.json.decode(plan_file.read_bytes())
    plan_file.write_bytes(
        msgspec.json.encode({**plan, "published": 0, "published_rows": 0})
    )  # as a crash after the publish leaves it
    Table(tmp_path).append(Table(tmp_path).read(spark).limit(5), "w", 2, partition_by=["date", "address"])

    second = replay(spark, request, clock=count(0, 1000).__next__)
    assert (second.total, second.done) == (45, True)
    assert replay(spark, request).rows == 0
    assert broker.bodies(name) == [b"%d" % number for number in range(50) if number % 10 != 3]
    row = spark.read.format("annulet").options(url=broker.url, queue=name).load().orderBy("position").first()
    assert row is not None
    assert (row.message_id, row.priority, row.durable, row.properties) == ("m-0", 0, True, {"n": "0"})
    assert not (plan_file.parent / "rows").exists()
    with pytest.raises(ArchiveError, match=r"was begun with other settings \(where\); repeat them, or choose another"):
        replay(spark, ReplayRequest(tmp_path, broker.url, name, "again"))
    elsewhere = dataclasses.replace(request, url="annulet://another.example/")
    with pytest.raises(ArchiveError, match=r"was begun with other settings \(broker\)"):
        replay(spark, elsewhere)
