"""Operators over a stream, with restarts, beside the broker's core with the same traffic."""

from __future__ import annotations

import os
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.tws_tester import TwsTester

from annulet.spark.operators import (
    Columns,
    Operator,
    assign_groups,
    combine,
    deduplicate,
    expire,
    keep_last,
    last_value,
    overflow,
    prioritise,
    ring,
    shard,
    sort_by,
    survivors,
)
from annulet.spark.operators.columns import CHANGE, REASON, REPLACED_BY
from annulet.spark.operators.expressions import EXPIRES, IDENTIFIER, KEY, QUEUE, SEQUENCE
from annulet.spark.operators.rules import SHARDS_MAX
from annulet.spark.operators.streaming import SHARD, Layout, RuleProcessor, _travelling, shards_schema
from tests.spark.operators.differential import COLUMNS, Sent, core_survivors, table_of, traffic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED = 21
PATIENCE_SECONDS = 140
OPERATORS: dict[str, Operator] = {
    "last value": last_value("key"),
    "all": combine(
        prioritise(3),
        keep_last(2, "key"),
        ring(6),
        overflow("ring", max_bytes=60),
        expire(message_ttl=300),
        deduplicate(20),
    ),
}


class Input:
    """A directory of files, each a batch of a stream."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = 0
        directory.mkdir()

    def add(self, messages: list[Sent]) -> None:
        path = self._directory / f"{self._files}.parquet"
        pq.write_table(table_of(messages), path)
        os.utime(path, (1_700_000_000 + self._files, 1_700_000_000 + self._files))  # files are taken by age
        self._files += 1

    def stream(self, spark: SparkSession) -> DataFrame:
        files = spark.read.parquet(str(self._directory))
        return spark.readStream.schema(files.schema).option("maxFilesPerTrigger", 1).parquet(str(self._directory))


def run(changes: DataFrame, directory: Path, name: str) -> None:
    """Write the changes that are there into a table, and end."""
    query = (
        changes.writeStream.format("parquet")
        .option("path", str(directory / name))
        .option("checkpointLocation", str(directory / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(PATIENCE_SECONDS)
    finally:
        query.stop()


def all_changes(stream: DataFrame, shards: int) -> DataFrame:
    changes = [
        stream.transform(combine(operator, columns=COLUMNS, shards=shards)).selectExpr(
            f"'{name}' as name",
            f"concat('{name} ', queue) as place",
            "change",
            "reason",
            "replaced_by",
            "number",
            "queue",
            "priority",
            "body",
            "expires_at",
        )
        for name, operator in OPERATORS.items()
    ]
    return reduce(lambda some, more: some.union(more), changes)


@pytest.mark.spark
@pytest.mark.timeout(300)  # three queries with new Python workers: half a minute, and some on a crowded machine
def test_what_a_stream_leaves_is_what_the_core_keeps_across_a_restart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = traffic(SEED, 240)
    source = Input(tmp_path / "in")
    by_number = {sent.number: sent for sent in messages}
    for start, end, restart in ((0, 100, False), (100, 130, True), (130, 240, True)):
        source.add(messages[start:end])
        if not restart:
            continue
        if end > 130:  # another environment, another Python worker, which has only Spark's state to go by
            monkeypatch.setitem(spark.sparkContext.environment, "ANNULET_TEST_RUN", "operators")
        run(all_changes(source.stream(spark), 4), tmp_path, "changes")
        changes = spark.read.parquet(str(tmp_path / "changes"))
        left = survivors(changes, columns=Columns(sequence="number", queue="place")).collect()
        for name, operator in OPERATORS.items():
            expected = sorted(
                number for numbers in core_survivors(operator, messages[:end]).values() for number in numbers
            )
            assert sorted(row.number for row in left if row.name == name) == expected, name
        for row in left:
            sent = by_number[row.number]
            assert (row.queue, row.priority, len(row.body)) == (sent.queue, sent.priority, sent.size)
    rows = changes.collect()
    for name in OPERATORS:
        added = {row.number for row in rows if row.name == name and row.change == "added"}
        removed = [row for row in rows if row.name == name and row.change == "removed"]
        assert added | {row.number for row in removed} == set(by_number)  # every message is accounted for
        assert len(removed) == len({row.number for row in removed})
        assert all(row.body is None and row.queue == by_number[row.number].queue for row in removed)
        assert {row.reason for row in removed} <= {
            "replaced-key", "replaced-ring", "duplicate", "overflow", "expired",
        }  # fmt: skip
    source.add(traffic(SEED, 241)[240:])
    with pytest.raises(StreamingQueryException, match="made_with_4_shards"):
        run(all_changes(source.stream(spark), 3), tmp_path, "changes")


@pytest.mark.spark
@pytest.mark.timeout(200)  # one query, on a crowded machine
def test_ranks_and_groups_of_a_stream_are_the_cores_and_those_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    messages = traffic(SEED, 60)
    source = Input(tmp_path / "in")
    source.add(messages[:25])
    source.add(messages[25:])
    ordered = {"by_level": prioritise(4, columns=COLUMNS), "by_key": sort_by("key", columns=COLUMNS)}
    grouped = assign_groups("key", buckets=3, default="none", columns=COLUMNS)

    def added(frame: DataFrame) -> DataFrame:
        for name, operator in ordered.items():
            frame = frame.transform(operator).withColumnRenamed("rank", name)
        return frame.transform(grouped)

    run(added(source.stream(spark)), tmp_path, "out")
    out = spark.read.parquet(str(tmp_path / "out"))
    for name, operator in ordered.items():
        rows = out.orderBy("queue", name, "number").collect()
        assert len(rows) == len(messages)
        for queue, numbers in core_survivors(operator, messages).items():
            assert [row.number for row in rows if row.queue == queue] == numbers, (name, queue)
    batch = added(spark.read.parquet(str(tmp_path / "in")))
    assert {(row.number, row.group, row.bucket) for row in rows} == {
        (row.number, row.group, row.bucket) for row in batch.select("number", "group", "bucket").collect()
    }
    assert len({row.group for row in rows}) > 2


# ------------------------------------------------------------------ the processor alone, without a session


@pytest.mark.spark
def test_columns_may_come_in_another_order_after_a_restart(spark: SparkSession) -> None:
    """Items of the state bring values by place, and a user's select may put columns elsewhere."""
    operator = combine(last_value("key"), columns=COLUMNS)
    names = ["number", "queue", "key", "body"]
    dataframe = spark.createDataFrame([], "number long, queue string, key string, body binary")
    one, other = (
        _travelling(dataframe.select(*order), operator.rules, operator.columns, 2)[1] for order in (names, names[::-1])
    )
    assert one.retained == other.retained == ("key", "number", "queue")
    assert one.purposes == other.purposes == "key string: the key, number bigint: the sequence, queue string: the queue"


LAYOUT = Layout(("my number", "class"), ("my number",), (SEQUENCE, QUEUE, EXPIRES))


@pytest.fixture
def wall() -> TwsTester:
    shard.REMEMBERED.forget()
    rules = combine(expire(clock="wall"), ring(2)).rules
    return TwsTester(RuleProcessor(rules, 8, LAYOUT), timeMode="processingTime")


def as_spark_hands_over(rows: list[dict[str, Any]], layout: Layout) -> pd.DataFrame:
    """Rows by the names they have on their way, made of named tuples, as Spark's worker makes them."""
    travelling = {name: short for short, name in layout.names.items()}
    given = pd.DataFrame([{SHARD: 0, **{travelling[name]: value for name, value in row.items()}} for row in rows])
    return pd.DataFrame(list(given.itertuples(index=False)))


def frame(*rows: tuple[int, int]) -> pd.DataFrame:
    return as_spark_hands_over(
        [
            {SEQUENCE: number, QUEUE: "q", EXPIRES: expires, "my number": str(number), "class": b"x"}
            for number, expires in rows
        ],
        LAYOUT,
    )


def shown(changes: Any) -> list[tuple[Any, ...]]:
    """Changes as tuples, missing values as None."""
    return [
        tuple(None if pd.isna(row[name]) else row[name] for name in (CHANGE, REASON, REPLACED_BY, "my number", "class"))
        for _, row in changes.iterrows()
    ]


def test_a_timer_removes_what_expires_between_batches(wall: TwsTester) -> None:
    wall.setProcessingTime(1_000)
    assert shown(wall.testInPandas(0, frame((1, 5_000), (2, 0)))) == [
        ("added", None, None, "1", b"x"),
        ("added", None, None, "2", b"x"),
    ]
    assert shown(wall.setProcessingTime(5_000)) == [("removed", "expired", None, "1", None)]
    assert len(wall.setProcessingTime(9_000)) == 0
    assert shown(wall.testInPandas(0, frame((3, 0), (4, 0)))) == [
        ("added", None, None, "3", b"x"),
        ("added", None, None, "4", b"x"),
        ("removed", "replaced-ring", 4, "2", None),
    ]


def test_what_comes_and_goes_within_a_batch_is_only_removed(wall: TwsTester) -> None:
    assert shown(wall.testInPandas(0, frame((1, 0), (2, 0), (3, 0)))) == [
        ("added", None, None, "2", b"x"),
        ("added", None, None, "3", b"x"),
        ("removed", "replaced-ring", 3, "1", None),
    ]


def test_every_number_of_shards_has_a_type_of_its_own() -> None:
    schemas = {shards_schema(shards).partition(" ")[2] for shards in range(1, SHARDS_MAX + 1)}
    assert len(schemas) == SHARDS_MAX
    assert shards_schema(8) == "made_with_8_shards decimal(1, 0), rest decimal(8, 0)"
    assert shards_schema(SHARDS_MAX) == "made_with_1024_shards decimal(27, 0), rest decimal(36, 0)"


@pytest.mark.parametrize("seed", range(3))
def test_workers_that_remember_nothing_find_everything_in_the_state(seed: int) -> None:
    """Random traffic through the processor, its memory emptied between batches: what is left is the core's."""
    operator = combine(keep_last(2, "key"), ring(5), deduplicate(20))
    layout = Layout(("number", "queue", "body"), ("number", "queue"), (SEQUENCE, QUEUE, KEY, IDENTIFIER))
    tester = TwsTester(RuleProcessor(operator.rules, 8, layout))
    messages = traffic(seed, 200)
    left: set[int] = set()
    for start in range(0, 200, 40):
        rows = [
            {
                SEQUENCE: sent.number, QUEUE: sent.queue, KEY: sent.key, IDENTIFIER: sent.identifier,
                "number": str(sent.number), "queue": sent.queue, "body": bytes(sent.size),
            }
            for sent in messages[start : start + 40]
        ]  # fmt: skip
        changes = tester.testInPandas(0, as_spark_hands_over(rows, layout))
        left |= {int(number) for number in changes[changes[CHANGE] == "added"]["number"]}
        left -= {int(number) for number in changes[changes[CHANGE] == "removed"]["number"]}
        shard.REMEMBERED.forget()
        expected = core_survivors(operator, messages[: start + 40])
        assert left == {number for numbers in expected.values() for number in numbers}
