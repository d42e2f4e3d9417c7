"""Times in sessions of any time zone: source, sink, operators, engine, archive, replay, what-if (issue 30, C27)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from annulet.wire.amqp091.messages.properties import VIEW
from tests.spark.conftest import BrokerThread, broker, name  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ZONES = ("Europe/Zurich", "America/New_York", "Asia/Kathmandu")

MOMENTS = (1_792_888_200, 1_792_891_800, 1_793_511_000, 1_793_514_600, 1_700_000_000)
"""Seconds since 1970. The first two are both 02:30 in Zurich, the next two both 01:30 in New York."""


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """The time zone of the session."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


def moments(spark: SparkSession) -> DataFrame:
    rows = [(number, f"m{number}", second) for number, second in enumerate(MOMENTS)]
    return (
        spark.createDataFrame(rows, "id bigint, body string, second bigint")
        .coalesce(1)
        .selectExpr("body", "timestamp_seconds(second) as timestamp")
    )


def stored(broker: BrokerThread, queue: str) -> list[int]:  # noqa: F811
    """The times of a queue's messages as their headers have them, in seconds."""
    return broker.run(
        lambda: [(VIEW.properties(entry.message).timestamp or 0) // 1000 for entry in broker.queue(queue).browse()]
    )


def test_what_is_written_read_and_copied_is_the_same_moment(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
    zone: str,
    tmp_path: Path,
) -> None:
    """C27: a ``timestamp`` column was written only when the session's zone was UTC."""
    name = name.replace("/", "-")
    first, second, third = queues = [f"{name}-{number}" for number in range(3)]
    broker.declare(*queues)
    moments(spark).write.format("annulet").mode("append").options(url=broker.url, address=first).save()
    assert stored(broker, first) == list(MOMENTS)

    read = spark.read.format("annulet").options(url=broker.url, queue=first).load()
    found = read.orderBy("position").selectExpr("unix_seconds(timestamp) as at", "unix_millis(enqueued_at) as came")
    rows = found.collect()
    assert [row.at for row in rows] == list(MOMENTS)

    now = broker.running.broker.clock()
    assert all(now - 600_000 < row.came <= now for row in rows)
    middle = dt.datetime.fromtimestamp(now / 1000, dt.UTC) - dt.timedelta(minutes=30)
    chosen = spark.read.format("annulet").options(url=broker.url, queue=first, pushdown="true").load()
    assert chosen.where(chosen.enqueued_at > middle).count() == len(MOMENTS)
    assert chosen.where(chosen.enqueued_at <= middle).count() == 0

    read.write.format("annulet").mode("append").options(url=broker.url, address=second).save()
    assert sorted(stored(broker, second)) == sorted(MOMENTS)

    query = (
        spark.readStream.format("annulet")
        .options(url=broker.url, queue=first, partitions=1)
        .load()
        .writeStream.format("annulet")
        .options(url=broker.url, address=third, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    assert stored(broker, third) == list(MOMENTS)


def test_operators_and_the_engine_keep_moments(spark: SparkSession, zone: str) -> None:
    """C27: nested times too, and those of a zone whose offset had seconds once (1870 in New York)."""
    from pyspark.sql import functions as F  # noqa: N812

    from annulet.spark.engine import engine
    from annulet.spark.operators import deduplicate

    rows = spark.createDataFrame(
        [(number, second) for number, second in enumerate((*MOMENTS, -3_155_700_123))], "position bigint, second bigint"
    ).selectExpr(
        "position", "'q' as queue", "cast(position as string) as message_id", "second",
        "timestamp_seconds(second) as at", "struct(timestamp_seconds(second) as at) as inner",
        "array(timestamp_seconds(second)) as list",
    )  # fmt: skip
    left = rows.transform(deduplicate(5)).orderBy("position")
    found = left.select(
        "second", F.unix_seconds("at"), F.unix_seconds("inner.at"), F.unix_seconds(F.col("list")[0])
    ).collect()
    assert [set(row) for row in found] == [{second} for second in (*MOMENTS, -3_155_700_123)]

    commands = spark.createDataFrame(
        [("q", number, "send", second) for number, second in enumerate(MOMENTS[:4])],
        "queue string, sequence bigint, command string, second bigint",
    ).selectExpr("queue", "sequence", "command", "timestamp_seconds(second) as at", "encode('x', 'utf-8') as body")
    plain = commands.withColumn("at", F.unix_millis("at"))
    effects = [
        sorted(map(str, made.select("sequence", "effect", F.unix_millis("at")).collect()))
        for made in (engine(commands), engine(plain))
    ]
    assert effects[0] == effects[1] != []


def test_archive_and_replay_keep_moments(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
    zone: str,
    tmp_path: Path,
) -> None:
    """C27: a replay writes the column ``timestamp``."""
    from annulet.spark.archive.archiving import read_archive, start_archive
    from annulet.spark.archive.replay import ReplayRequest, replay
    from annulet.spark.what_if.report import what_happened

    name = name.replace("/", "-")
    source, target = f"{name}-in", f"{name}-out"
    broker.declare(source, target)
    moments(spark).write.format("annulet").mode("append").options(url=broker.url, address=source).save()
    assert start_archive(spark, broker.url, source, tmp_path).awaitTermination(240)
    now = broker.running.broker.clock()
    hour = dt.timedelta(hours=1)
    at = dt.datetime.fromtimestamp(now / 1000, dt.UTC)
    archived = read_archive(spark, tmp_path, since=at - hour, until=at + hour)
    assert [row.at for row in archived.orderBy("position").selectExpr("unix_seconds(timestamp) as at").collect()] == [
        *MOMENTS
    ]
    assert read_archive(spark, tmp_path, since=at + hour).count() == 0
    request = ReplayRequest(tmp_path, broker.url, target, "again", since=at - hour, until=at + hour)
    assert replay(spark, request).done
    assert stored(broker, target) == list(MOMENTS)
    (happened,) = what_happened(archived)
    assert at - hour < happened["first"] <= happened["last"] <= at


def test_times_without_a_zone_are_refused_or_read_as_utc(
    spark: SparkSession,
    broker: BrokerThread,  # noqa: F811
    name: str,  # noqa: F811
    zone: str,
) -> None:
    """C27: a column of type ``timestamp_ntz`` names no moment."""
    name = name.replace("/", "-")
    broker.declare(name)
    rows = spark.sql("select 'a' as body, timestamp_ntz'2026-10-25 02:30:00' as timestamp")
    write = rows.write.format("annulet").mode("append").options(url=broker.url, address=name)
    with pytest.raises(Exception, match=r"timestamp_ntz, which names no time zone.*timestampsWithoutZone=utc"):
        write.save()
    write.option("timestampsWithoutZone", "utc").save()
    assert stored(broker, name) == [1_792_895_400]  # 02:30 UTC
