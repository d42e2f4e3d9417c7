"""Streams that take nothing: Spark's checkpoint alone remembers what was read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from annulet.bulk.client import BulkClient
from annulet.bulk.protocol.errors import InvalidRequestError, LeaseGoneError
from annulet.spark.options import OptionError, ReadOptions
from annulet.spark.sequences import AnnuletSequenceReader, SequencePartition
from tests.spark.test_source import numbered, run_available

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.conftest import BrokerThread

pytestmark = pytest.mark.spark


def reader(broker: BrokerThread, queue: str, columns: list[str] | None = None, **options: str) -> AnnuletSequenceReader:
    given = {"url": broker.url, "queue": queue, "nonDestructive": "true", **options}
    return AnnuletSequenceReader(ReadOptions.parse(given), ["body"] if columns is None else columns)


def bodies(reading: AnnuletSequenceReader, start: dict[str, Any], end: dict[str, Any]) -> list[list[bytes]]:
    """What the tasks of a batch read, each in its order."""
    return [
        [body for batch in reading.read(part) for body in batch.column("body").to_pylist()]
        for part in reading.partitions(start, end)
    ]


def test_a_checkpoint_goes_on_where_it_stood(broker: BrokerThread, name: str) -> None:
    broker.declare(name, arguments={"x-ring-size": 5})
    first = reader(broker, name)
    start = first.initialOffset()
    assert first.latestOffset(start, ReadMaxRows(3)) == start
    assert first.reportLatestOffset() == {**start, "sequence": 0}
    broker.publish(name, numbered(5))
    end = first.latestOffset(start, ReadMaxRows(3))
    assert (end["sequence"], end["rows"], end["gap"]) == (3, 3, 0)
    assert bodies(first, start, end) == [numbered(1), numbered(2, 1)]
    assert bodies(first, end, end) == []
    first.commit(end)
    first.stop()

    again = reader(broker, name, partitions="1", failOnDataLoss="false")
    assert bodies(again, start, end) == [numbered(3)]
    broker.publish(name, numbered(5, 5))
    later = again.latestOffset(end, ReadAllAvailable())
    assert (later["sequence"], later["rows"], later["gap"]) == (10, 5, 2)
    assert bodies(again, end, later) == [numbered(5, 5)]
    strict = reader(broker, name)
    with pytest.raises(LeaseGoneError, match="sequence range gone: 2 messages"):
        strict.latestOffset(end, ReadAllAvailable())
    with pytest.raises(LeaseGoneError, match="3 of 3 messages"):
        bodies(strict, start, end)
    assert broker.bodies(name) == numbered(5, 5)


def test_tasks_read_what_the_query_planned(broker: BrokerThread, name: str) -> None:
    broker.declare(name, arguments={"x-ring-size": 3})
    broker.publish(name, numbered(3))
    planning, in_task = reader(broker, name), reader(broker, name)  # Spark makes both, spark-notes §2.2
    start = planning.initialOffset()
    end = planning.latestOffset(start, ReadAllAvailable())
    parts = planning.partitions(start, end)
    broker.publish(name, numbered(3, 3))
    read = [batch.column("body").to_pylist() for part in parts for batch in in_task.read(part)]
    assert [body for bodies_read in read for body in bodies_read] == numbered(3)


def test_groups_stay_together(broker: BrokerThread, name: str) -> None:
    broker.declare(name)
    for number in range(6):
        broker.publish(name, numbered(1, number), headers={"group-id": f"g{number % 2}"})
    reading = reader(broker, name, partitionBy="group", partitions="3", selector="JMSXGroupID <> 'g2'")
    start = reading.initialOffset()
    end = reading.latestOffset(start, ReadAllAvailable())
    shares = bodies(reading, start, end)
    assert len(shares) == 3
    assert sorted(share for share in shares if share) in (
        [numbered(6)],
        [[b"%06d" % number for number in (0, 2, 4)], [b"%06d" % number for number in (1, 3, 5)]],
    )


def test_an_interrupted_read_goes_on_behind_what_it_has(
    broker: BrokerThread, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.declare(name)
    broker.publish(name, [b"%d" % number * 1_000_000 for number in range(4)])
    reading = reader(broker, name, partitions="1")
    start = reading.initialOffset()
    end = reading.latestOffset(start, ReadAllAvailable())
    chunks = BulkClient._chunks
    interrupted = []

    def interrupt(self: BulkClient, stream: Any) -> Any:
        for batch, place in chunks(self, stream):
            yield batch, place
            if not interrupted:
                interrupted.append(batch.num_rows)
                raise self._translate(OSError("connection reset"))

    monkeypatch.setattr(BulkClient, "_chunks", interrupt)
    (read,) = bodies(reading, start, end)
    assert [body[:1] for body in read] == [b"0", b"1", b"2", b"3"]
    assert 0 < interrupted[0] < 4


def test_what_does_not_belong_together_is_refused(broker: BrokerThread, name: str) -> None:
    with pytest.raises(OptionError, match="option lease: 'l' has no meaning beside nonDestructive=true"):
        reader(broker, name, lease="l")
    broker.declare(name)
    reading = reader(broker, name)
    with pytest.raises(InvalidRequestError, match="without nonDestructive=true"):
        reading.latestOffset({"v": 1, "lease": "l", "queue": name, "pos": 4}, ReadAllAvailable())
    with pytest.raises(InvalidRequestError, match="the checkpoint reads queue 'other'"):
        reading.partitions({}, {**reading.initialOffset(), "queue": "other"})


def test_partitions_are_told_apart() -> None:
    assert SequencePartition("r", {}, 0, 2, 2).value != SequencePartition("r", {}, 2, 4, 2).value


def test_a_query_reads_without_taking(spark: SparkSession, broker: BrokerThread, name: str, tmp_path: Path) -> None:
    broker.declare(name, arguments={"x-non-destructive": True})
    broker.publish(name, numbered(250))
    batches, query = run_available(spark, broker, name, tmp_path, nonDestructive="true", maxMessagesPerTrigger=150)
    assert [len(found) for _, found in batches] == [150, 100]
    assert [body for _, found in batches for body in found] == numbered(250)
    assert json.loads(query.lastProgress["sources"][0]["endOffset"])["gap"] == 0
    assert broker.pending(name) == 250
