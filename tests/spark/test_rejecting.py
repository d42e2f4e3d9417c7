"""Poison messages of a stream go to the dead-letter target, with their batch and not before it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from annulet.bulk.protocol.errors import InvalidRequestError
from annulet.spark.options import OptionError, WriteOptions
from annulet.spark.rejecting import AnnuletRejecter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.spark.conftest import BrokerThread

URL = "annulet://guest:guest@127.0.0.1:1/"


@pytest.mark.spark
def test_a_stream_by_group_rejects_what_it_cannot_read(
    spark: SparkSession, broker: BrokerThread, name: str, tmp_path: Path
) -> None:
    dead = f"{name}.dead"
    broker.declare(dead)
    broker.declare(name, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    for number in range(40):
        broker.publish(name, [b"%d" % number if number % 10 else b"poison"], headers={"group-id": f"g{number % 5}"})
    seen: list[tuple[str, int]] = []  # group and partition
    good: list[int] = []

    def process(frame: DataFrame, batch: int) -> None:
        from pyspark.sql import functions

        rows = frame.select("group_id", "body", functions.spark_partition_id().alias("part")).collect()
        seen.extend((row.group_id, row.part) for row in rows)
        good.extend(int(row.body) for row in rows if row.body != b"poison")
        bad = frame.where(frame.body == b"poison")
        bad.write.format("annulet").option("url", broker.url).option("rejectFrom", name).mode("append").save()

    stream = spark.readStream.format("annulet").options(url=broker.url, queue=name, lease=name, partitionBy="group")
    query = (
        stream.load()
        .writeStream.foreachBatch(process)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(90)

    assert sorted(good) == [number for number in range(40) if number % 10]
    assert len({group for group, _ in seen}) == len(set(seen)) == 5  # no group in two tasks
    assert len({part for _, part in seen}) == 2
    assert broker.bodies(dead) == [b"poison"] * 4
    assert broker.pending(name) == 0


def rejecter(column: str, type_name: str, **options: str) -> AnnuletRejecter:
    schema = StructType().add(column, type_name)
    return AnnuletRejecter(WriteOptions.parse({"url": URL, "rejectFrom": "lease", **options}), schema)


@pytest.mark.parametrize(
    ("column", "type_name", "found"), [("body", "string", "missing"), ("position", "string", "string")]
)
def test_rows_without_positions_are_refused(column: str, type_name: str, found: str) -> None:
    with pytest.raises(OptionError, match=f"column 'position' is {found}, not bigint"):
        rejecter(column, type_name)


@pytest.mark.parametrize("name", ["address", "exchange", "routingKey", "writeId"])
def test_options_of_publishing_are_refused_beside_it(name: str) -> None:
    with pytest.raises(OptionError, match=f"option {name} has no meaning"):
        rejecter("position", "long", **{name: "x"})


def test_a_row_without_a_position_fails_the_commit() -> None:
    writer = rejecter("position", "long")
    rows = [pa.record_batch({"position": pa.array(positions, pa.int64())}) for positions in ([1], [2, None])]
    with pytest.raises(InvalidRequestError, match="column 'position' is null in a row"):
        writer.commit([writer.write(iter(rows[:1])), writer.write(iter(rows))])
